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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from codec.engine import EngineName, SimulatedEngine, get_engine
from training.capture import capturing
from training.config import RunConfig, to_toml
from training.errors import ConfigError, RunError
from training.machines import ThisMachine
from training.manifest import read_manifest
from training.processes import GRACE_SECONDS, end_all, how_it_ended
from training.records import Run, StepFollower, StepRecord, claim_folder, read_run, write_atomically
from training.switch import switching

POLL_SECONDS = 0.1
# Errors that only say that some other process is gone.
CONSEQUENCES = ("PeerLost", "JobFailed", "SwitchLost")


@dataclass(frozen=True)
class _Exit:
    """A process that ended.

    Attributes:
        name: what to call it.
        status: as `subprocess` gives it.
        log: what it printed.
        last_line: of the log.
        is_rank: whether it is a rank; else it is the switch.
    """

    name: str
    status: int
    log: Path
    last_line: str
    is_rank: bool

    @property
    def failed(self) -> bool:
        """Whether it should not have ended, or not so."""
        return bool(self.status) or not self.is_rank

    @property
    def reason(self) -> str:
        how = how_it_ended(self.status)
        return how if self.status < 0 else f"{how}: {self.last_line or 'it logged nothing'}"


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
        CheckpointError: `resume` is no complete checkpoint.
        ConfigError: frames are to be captured, and scapy is missing; or a switch is asked for where
            the ranks are not on this machine.
    """
    if machines is not None and config.network.switched:
        raise ConfigError("network.switch: expected none between machines of a testbed; found one")
    if resume is not None:
        read_manifest(resume)
    claim_folder(folder)
    write_atomically(folder / "config.toml", to_toml(config))
    exits: queue.Queue[_Exit] = queue.Queue()
    follower = StepFollower(folder)
    where = machines or ThisMachine()
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    with (
        stop_on_sigterm(),
        capturing(pcap) as variables,
        _switch(config, logs / "switch.log", exits, variables) as found,
        _ranks(config, folder, exits, variables | found, resume, where),
    ):
        running = config.world_size
        while running:
            try:
                ended = exits.get(timeout=POLL_SECONDS)
            except queue.Empty:
                pass
            else:
                running -= 1
                if ended.failed:
                    raise _failure(ended, exits, running)
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
def _switch(
    config: RunConfig, log: Path, exits: "queue.Queue[_Exit]", variables: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """What ranks need to know of the switch, watched by a thread; empty if there is none."""
    network = config.network
    settings = {
        "WIREZIP_ENGINE": network.engine,
        "WIREZIP_MTU": str(network.mtu),
        "WIREZIP_ELEMENT": network.element,
    }
    with switching(network.switched, settings | dict(variables), log=log) as switch:
        if switch is None:
            yield {}
            return
        _watch("the switch", switch.process, log, exits, is_rank=False)
        yield switch.variables


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
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        with machines.listen() as store:
            for rank in range(config.world_size):
                ranks.append(_start(rank, config, folder, store, variables, resume, machines))
        for rank, process in enumerate(ranks):
            _watch(f"rank {rank}", process, logs / f"rank{rank}.log", exits)
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
    name: str,
    process: "subprocess.Popen[bytes]",
    log: Path,
    exits: "queue.Queue[_Exit]",
    *,
    is_rank: bool = True,
) -> None:
    """Put the end of `process` into `exits`, whenever it comes."""

    def wait() -> None:
        status = process.wait()
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        last_line = next((line for line in reversed(lines) if line.strip()), "")
        exits.put(_Exit(name, status, log, last_line, is_rank))

    threading.Thread(target=wait, daemon=True).start()


def _failure(first: _Exit, exits: "queue.Queue[_Exit]", running: int) -> RunError:
    """The error to raise: about the process that failed, not about those that lost it."""
    failures = [first]
    deadline = time.monotonic() + GRACE_SECONDS
    while running and (left := deadline - time.monotonic()) > 0:
        try:
            ended = exits.get(timeout=left)
        except queue.Empty:
            break
        running -= 1
        if ended.failed:
            failures.append(ended)
    culprit = next((f for f in failures if not _is_consequence(f)), first)
    return RunError(f"{culprit.name} {culprit.reason} (log: {culprit.log})")


def _is_consequence(failure: _Exit) -> bool:
    return (
        failure.is_rank
        and failure.status > 0
        and any(name in failure.last_line for name in CONSEQUENCES)
    )


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
