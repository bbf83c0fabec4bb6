# SPDX-License-Identifier: Apache-2.0
"""Runs a function on several ranks: real processes, real sockets, one group of backend `wirezip`.

The processes are forked from a server that has imported torch and the backend once, so that a run
costs a fraction of a second to start.
"""

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import nic_emul.autoload
import nic_emul.backend  # the server imports it, so that the ranks need not
from codec.errors import EngineUnavailable

assert nic_emul.backend


def _find_engines() -> list[str]:
    """The engines that work here, each ready to run: the ranks inherit what it has compiled."""
    names = []
    for name in ("null", "reference", "numba"):
        try:
            nic_emul.Nic(nic_emul.NicConfig(engine=name))
        except EngineUnavailable:
            continue
        names.append(name)
    return names


ENGINES = _find_engines()

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.nic_emul.ranks", "tests.nic_emul.parallel"])
_END_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """How one rank ended.

    Attributes:
        exit_code: of the process; negative for a signal.
        value: what the function returned, None if it did not.
        error: name of the exception it raised, empty if it did not.
        stderr: everything the process wrote there.
    """

    exit_code: int
    value: Any
    error: str
    stderr: str


def start_ranks(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    environment: dict[str, str] | None = None,
    join: bool = True,
    stopped: int | None = None,
    end_s: float = _END_S,
) -> list[Outcome]:
    """Run `function(*args)` on `size` ranks and wait for all of them; see how each ended.

    Args:
        environment: `WIREZIP_*` and other variables of the ranks; with `WIREZIP_REPLACES` they
            ask for that backend.
        join: make a group of the ranks first, and destroy it afterwards.
        stopped: a rank that stops itself, and is killed after the others have ended.
        end_s: seconds that a rank may take.

    Raises:
        TimeoutError: a rank is still running then.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    variables = {"WIREZIP_ENGINE": "null", "WIREZIP_TIMEOUT_S": "30", **(environment or {})}
    processes, pipes = [], []
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / f"stderr-{rank}" for rank in range(size)]
        for rank in range(size):
            ours, theirs = _CONTEXT.Pipe(duplex=False)
            place = (rank, size, store.port, join, str(logs[rank]))
            process = _CONTEXT.Process(
                target=_run_rank, args=(place, variables, theirs, function, args)
            )
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        ends: dict[int, Outcome] = {}
        for rank in sorted(range(size), key=lambda rank: rank == stopped):
            if rank == stopped:
                processes[rank].kill()
            ends[rank] = _outcome(processes[rank], pipes[rank], logs[rank], end_s)
        outcomes = [ends[rank] for rank in range(size)]
    late = [rank for rank, outcome in enumerate(outcomes) if outcome.error == "still running"]
    if late:
        raise TimeoutError(f"ranks {late} did not end: {[o.stderr for o in outcomes]}")
    return outcomes


def run_ranks(
    function: Callable[..., Any],
    size: int,
    *args: Any,
    environment: dict[str, str] | None = None,
    join: bool = True,
    end_s: float = _END_S,
) -> list[Any]:
    """What `function(*args)` returns on each of `size` ranks, all of which must succeed."""
    outcomes = start_ranks(function, size, *args, environment=environment, join=join, end_s=end_s)
    for rank, outcome in enumerate(outcomes):
        assert outcome.exit_code == 0, f"rank {rank}: {outcome.error}\n{outcome.stderr}"
    return [outcome.value for outcome in outcomes]


def _outcome(process: Any, pipe: Connection, log: Path, end_s: float) -> Outcome:
    value, error = None, ""
    # Large values do not fit the pipe: read before joining.
    try:
        if pipe.poll(end_s):
            value, error = pipe.recv()
    except EOFError:
        error = "ended without a word"
    process.join(_END_S)
    if process.exitcode is None:
        process.kill()
        process.join()
        error = "still running"
    stderr = log.read_text() if log.exists() else ""
    return Outcome(process.exitcode, value, error, stderr)


def _run_rank(
    place: tuple[int, int, int, bool, str],
    environment: dict[str, str],
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    rank, size, port, join, log = place
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
        if not join:
            pipe.send((function(rank, size, store, *args), ""))
            return
        # The server imported torch without these variables.
        nic_emul.autoload.load()
        asked = environment.get("WIREZIP_REPLACES", "wirezip")
        dist.init_process_group(
            asked, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=60)
        )
        assert dist.get_backend() == "wirezip"
        value = function(*args)
        dist.destroy_process_group()
        pipe.send((value, ""))
    except BaseException as error:
        traceback.print_exc()
        pipe.send((None, type(error).__name__))
        # Peers must see the end of this process, not a goodbye.
        sys.exit(1)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll `condition` for a while; fail with `what` if it stays false."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
