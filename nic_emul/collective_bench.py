# SPDX-License-Identifier: Apache-2.0
"""How long collectives take on the emulated NIC, paired with gloo: same ranks, same tensors, turns.

Each rank is a process with a group of either backend. A turn is one collective on one of them,
behind a barrier of gloo's; its time is that of the rank that took longest. The two take turns, and
which goes first alternates, so that what else the machine does meets both alike. Beside the time
that passes stands processor time, of all threads of all ranks, which other processes disturb less.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist

from codec.environment import cpu_name
from codec.errors import InvalidInput
from nic_emul.errors import NicError

CollectiveName = Literal["all_reduce", "all_gather", "reduce_scatter"]
COLLECTIVES: tuple[CollectiveName, ...] = get_args(CollectiveName)
OURS, THEIRS = "wirezip", "gloo"
# A turn in which nothing is done, which tells what the barriers around a turn take.
_NOTHING = "nothing"
_WARM_UP_TURNS = 2
_POLL_S = 0.2
_TIMEOUT_S = 600
# ProcessGroupGloo's own default, stated with the results.
GLOO_THREADS = 2
TORCH_THREADS = 1


class BenchError(NicError, RuntimeError):
    """A rank of a benchmark failed."""


@dataclass(frozen=True)
class BenchOptions:
    """What to measure.

    Attributes:
        ranks: processes.
        sizes: bytes of FP32 that a rank's whole tensor has: what all-reduce reduces, reduce-scatter
            takes, and all-gather makes.
        turns: of each backend, for each collective and size; the median counts.
        engine: of the NIC.
        collectives: which.
    """

    ranks: int = 4
    sizes: Sequence[int] = (4096, 1 << 20, 1 << 23, 1 << 25)
    turns: int = 15
    engine: str = "null"
    collectives: Sequence[CollectiveName] = COLLECTIVES

    def check(self) -> None:
        """Raise `InvalidInput` unless this can be measured."""
        if self.ranks < 2:
            raise InvalidInput(f"ranks: expected at least 2; found {self.ranks}")
        if self.turns < 1:
            raise InvalidInput(f"turns: expected at least 1; found {self.turns}")
        for size in self.sizes:
            if size < 4 * self.ranks or size % (4 * self.ranks):
                raise InvalidInput(
                    f"sizes: expected multiples of {4 * self.ranks} bytes, an FP32 a rank; "
                    f"found {size}"
                )


@dataclass(frozen=True)
class BenchRow:
    """One collective of one size.

    Attributes:
        collective, size_bytes: what.
        turns: of each backend.
        wirezip_s, gloo_s: median seconds, of the rank that took longest.
        time_ratio: median over turns of wirezip's time by gloo's.
        wirezip_cpu_s, gloo_cpu_s: mean processor seconds of a turn, of all ranks together, less
            those of a turn in which nothing is done.
        wirezip_gb_per_s, gloo_gb_per_s: size by median time (algbw of nccl-tests), 10^9 bytes.
    """

    collective: str
    size_bytes: int
    turns: int
    wirezip_s: float
    gloo_s: float
    time_ratio: float
    wirezip_cpu_s: float
    gloo_cpu_s: float
    wirezip_gb_per_s: float
    gloo_gb_per_s: float


def measure(options: BenchOptions) -> list[BenchRow]:
    """Start the ranks and measure.

    Raises:
        InvalidInput: the options mean nothing.
        BenchError: a rank failed.
    """
    options.check()
    context = multiprocessing.get_context("spawn")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    ours, theirs = context.Pipe(duplex=False)
    ranks = [
        context.Process(
            target=_run_rank,
            args=(rank, store.port, options, theirs if rank == 0 else None),
            daemon=True,
        )
        for rank in range(options.ranks)
    ]
    try:
        for process in ranks:
            process.start()
        while not ours.poll(_POLL_S):
            for rank, process in enumerate(ranks):
                if process.exitcode:
                    raise BenchError(f"rank {rank} exited with status {process.exitcode}")
        rows: list[BenchRow] = ours.recv()
        for process in ranks:
            process.join()
        return rows
    finally:
        for process in ranks:
            if process.is_alive():
                process.kill()
                process.join()
        theirs.close()
        ours.close()


def environment(options: BenchOptions) -> dict[str, object]:
    """What the figures may depend on, as JSON types."""
    return {
        "ranks": options.ranks,
        "engine": options.engine,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "torch": torch.__version__,
        "torch_threads": TORCH_THREADS,
        "gloo_threads": GLOO_THREADS,
        # The group's worker, the sender to the next rank, the monitor.
        "wirezip_threads": 3,
    }


def _run_rank(rank: int, port: int, options: BenchOptions, pipe: Connection | None) -> None:
    os.environ["WIREZIP_ENGINE"] = options.engine
    torch.set_num_threads(TORCH_THREADS)
    timeout = timedelta(seconds=_TIMEOUT_S)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group(
        THEIRS, store=store, rank=rank, world_size=options.ranks, timeout=timeout
    )
    groups = {OURS: dist.new_group(backend=OURS, timeout=timeout), THEIRS: dist.group.WORLD}
    rows = [
        _measure(groups, collective, size, options.turns)
        for collective in options.collectives
        for size in options.sizes
    ]
    if pipe is not None:
        pipe.send(rows)
    dist.destroy_process_group()


def _measure(groups: dict[str, Any], collective: CollectiveName, size: int, turns: int) -> BenchRow:
    calls = {name: _call(collective, group, size) for name, group in groups.items()}
    calls[_NOTHING] = lambda: None
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    processor: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(_WARM_UP_TURNS + turns):
        for name in (OURS, THEIRS, _NOTHING) if turn % 2 else (THEIRS, _NOTHING, OURS):
            dist.barrier()
            busy, start = time.process_time(), time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
            # What the collective leaves to other threads of a rank is done behind this barrier.
            dist.barrier()
            processor[name].append(time.process_time() - busy)
    ours, theirs = (
        _over_ranks(seconds[name][_WARM_UP_TURNS:], dist.ReduceOp.MAX) for name in (OURS, THEIRS)
    )
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    our_cpu_s, their_cpu_s, nothing_s = (
        statistics.mean(_over_ranks(processor[name][_WARM_UP_TURNS:], dist.ReduceOp.SUM))
        for name in (OURS, THEIRS, _NOTHING)
    )
    wirezip_s, gloo_s = statistics.median(ours), statistics.median(theirs)
    return BenchRow(
        collective=collective,
        size_bytes=size,
        turns=turns,
        wirezip_s=wirezip_s,
        gloo_s=gloo_s,
        time_ratio=statistics.median(ratios),
        wirezip_cpu_s=our_cpu_s - nothing_s,
        gloo_cpu_s=their_cpu_s - nothing_s,
        wirezip_gb_per_s=size / wirezip_s / 1e9,
        gloo_gb_per_s=size / gloo_s / 1e9,
    )


def _over_ranks(seconds: list[float], op: dist.ReduceOp.RedOpType) -> list[float]:
    """`seconds` of each turn, reduced over ranks."""
    times = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(times, op=op)
    found: list[float] = times.tolist()
    return found


def _call(collective: CollectiveName, group: Any, size: int) -> Callable[[], object]:
    """The collective on tensors of its own, with the numbers that a backend may not confuse."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.full((size // 4,), float(rank))
    part = torch.full((size // 4 // ranks,), float(rank))
    if collective == "all_reduce":
        return lambda: dist.all_reduce(whole, group=group)
    if collective == "all_gather":
        return lambda: dist.all_gather_single(whole, part, group=group)
    return lambda: dist.reduce_scatter_single(part, whole, group=group)
