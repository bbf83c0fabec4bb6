# SPDX-License-Identifier: Apache-2.0
"""Start the ranks of a run on this machine, watch them, and end them all when one fails.

Ranks are `python -m training.run`, each with a log file in the run folder. They meet on a socket
that is opened here and inherited by rank 0, so that no port has to be free twice. `torchrun` does
the same for runs over several machines.
"""

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from codec.engine import EngineName, SimulatedEngine, get_engine
from training.capture import capturing
from training.config import RunConfig, to_toml
from training.errors import RunError
from training.machines import ThisMachine
from training.records import Run, StepFollower, StepRecord, claim_folder, read_run, write_atomically

POLL_SECONDS = 0.1
# How long other ranks may take to notice a failure and stop, and to stop when told to.
GRACE_SECONDS = 3.0
# Errors that only say that some other rank is gone.
CONSEQUENCES = ("PeerLost", "JobFailed")


@dataclass(frozen=True)
class _Exit:
    """A rank that ended: its status as `subprocess` gives it, and the last line that it logged."""

    rank: int
    status: int
    last_line: str

    @property
    def reason(self) -> str:
        if self.status < 0:
            return f"was killed by {signal.Signals(-self.status).name}"
        return f"exited with status {self.status}: {self.last_line or 'it logged nothing'}"


def launch(
    config: RunConfig,
    folder: Path,
    *,
    on_step: Callable[[StepRecord], None],
    pcap: Path | None = None,
    resume: Path | None = None,
    machines: ThisMachine | None = None,
) -> Run:
    """Run `config` with all ranks from here and read the result back from `folder`.

    Args:
        on_step: called with each step as it is recorded.
        pcap: where to write the frames of the emulated wire.
        resume: a checkpoint to go on from.
        machines: where the ranks are; this machine if nothing is said.

    Raises:
        RunError: a rank stopped early; the message names it and says why.
        RecordError: `folder` already holds a run.
        ConfigError: frames are to be captured, and scapy is missing.
    """
    claim_folder(folder)
    write_atomically(folder / "config.toml", to_toml(config))
    exits: queue.Queue[_Exit] = queue.Queue()
    follower = StepFollower(folder)
    where = machines or ThisMachine()
    with (
        stop_on_sigterm(),
        capturing(pcap) as variables,
        _ranks(config, folder, exits, variables, resume, where),
    ):
        running = config.world_size
        while running:
            try:
                ended = exits.get(timeout=POLL_SECONDS)
            except queue.Empty:
                pass
            else:
                running -= 1
                if ended.status:
                    raise _failure(ended, exits, running, folder)
            for record in follower.new():
                on_step(record)
    return read_run(folder)


def compile_codec(engine: EngineName, *, announce: Callable[[], None]) -> None:
    """Compile the codec if this was never done, so that ranks find it compiled.

    Args:
        announce: called before it is compiled, which takes long enough to be told.

    Raises:
        EngineUnavailable: what is needed to compile it is missing.
    """
    if engine == "rtl":
        made = get_engine(engine)
        if isinstance(made, SimulatedEngine) and not made.is_built():
            announce()
            made.build()
    if engine != "numba":
        return
    from codec.numba_engine import compile_kernels, kernels_are_cached

    if not kernels_are_cached():
        announce()
        compile_kernels()


@contextmanager
def _ranks(
    config: RunConfig,
    folder: Path,
    exits: "queue.Queue[_Exit]",
    variables: Mapping[str, str],
    resume: Path | None,
    machines: ThisMachine,
) -> Iterator[None]:
    """All ranks, each watched by a thread; none of them outlives the block."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        with machines.listen() as store:
            for rank in range(config.world_size):
                ranks.append(_start(rank, config, folder, store, variables, resume, machines))
        for rank, process in enumerate(ranks):
            log = logs / f"rank{rank}.log"
            threading.Thread(target=_watch, args=(rank, process, log, exits), daemon=True).start()
        yield
    finally:
        end_all(ranks)


def _start(
    rank: int,
    config: RunConfig,
    folder: Path,
    store: socket.socket,
    variables: Mapping[str, str],
    resume: Path | None,
    machines: ThisMachine,
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "training.run"]
    command += ["--preset", str(folder / "config.toml"), "--out", str(folder)]
    command += ["--resume", str(resume)] if resume else []
    place = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(config.world_size),
        "MASTER_ADDR": store.getsockname()[0],
        "MASTER_PORT": str(store.getsockname()[1]),
        "WIREZIP_STORE_FD": str(store.fileno()),
    }
    with (folder / "logs" / f"rank{rank}.log").open("wb") as log:
        return subprocess.Popen(
            machines.command(rank, command),
            env=os.environ | variables | place | dict(machines.variables(rank)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=((store.fileno(),) if rank == 0 else ()) + machines.descriptors(rank),
        )


def _watch(
    rank: int, process: "subprocess.Popen[bytes]", log: Path, exits: "queue.Queue[_Exit]"
) -> None:
    status = process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    exits.put(_Exit(rank, status, next((line for line in reversed(lines) if line.strip()), "")))


def _failure(first: _Exit, exits: "queue.Queue[_Exit]", running: int, folder: Path) -> RunError:
    """The error to raise: about the rank that failed, not about those that lost it."""
    failures = [first]
    deadline = time.monotonic() + GRACE_SECONDS
    while running and (left := deadline - time.monotonic()) > 0:
        try:
            ended = exits.get(timeout=left)
        except queue.Empty:
            break
        running -= 1
        if ended.status:
            failures.append(ended)
    culprit = next((f for f in failures if not _is_consequence(f)), first)
    log = folder / "logs" / f"rank{culprit.rank}.log"
    return RunError(f"rank {culprit.rank} {culprit.reason} (log: {log})")


def _is_consequence(failure: _Exit) -> bool:
    return failure.status > 0 and any(name in failure.last_line for name in CONSEQUENCES)


def end_all(ranks: "Sequence[subprocess.Popen[bytes]]") -> None:
    """End every rank that still runs, first politely."""
    for process in ranks:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in ranks:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that ranks end with the launcher."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
