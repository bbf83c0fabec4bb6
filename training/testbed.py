# SPDX-License-Identifier: Apache-2.0
"""Train over links that are really slow: a sandbox with a node for each rank.

One run visits every condition in turn, step by step: no limit and then each rate, with compression
off and then on. Whatever else the machine does, all conditions see it alike. The steps without a
limit are recorded and replayed at each rate (`nic_emul/replay.py`): that is the prediction beside
the measurement (`training/testbed_report.py`).

    python -m training.testbed FOLDER

is the inside: it runs as root of a sandbox, with `testbed.json` and `config.toml` in FOLDER, and
ends with its standard input.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nic_emul.netns import Star, entered, inside, sandboxed
from training import config as configuration
from training.config import RunConfig, to_toml
from training.errors import ConfigError, RunError
from training.launch import launch, stop_on_sigterm
from training.machines import ThisMachine
from training.pacing import NOBODY, VARIABLE
from training.records import (
    Run,
    StepFollower,
    StepRecord,
    claim_folder,
    read_run,
    write_atomically,
    write_json,
)

# A token bucket that nothing here can empty; its counters serve all conditions alike.
UNLIMITED = 100e9
POLL_SECONDS = 0.2
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True)
class RatePlan:
    """How fast links are, and when.

    Attributes:
        rates: of the links, in bits a second, each direction.
        rounds: steps that are measured in each condition; one more comes first and is dropped.
        mtu: of the links.
    """

    rates: tuple[float, ...]
    rounds: int = 20
    mtu: int = 1500

    def __post_init__(self) -> None:
        if not self.rates:
            raise ConfigError("rate: expected at least one; found none")
        if self.rounds < 1:
            raise ConfigError(f"rounds: expected at least 1; found {self.rounds}")
        if not 576 <= self.mtu <= 9000:
            raise ConfigError(f"mtu: expected 576 to 9000; found {self.mtu}")

    @property
    def links(self) -> tuple[float, ...]:
        """The rates in the order in which they are visited."""
        return (UNLIMITED, *self.rates)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return 2 * len(self.links) * (self.rounds + 1)

    def rate_of(self, step: int) -> float:
        """The rate of the links in `step`."""
        return self.links[step // 2 % len(self.links)]

    def measured(self, step: int) -> bool:
        """Whether `step` counts: the first of each condition does not."""
        return step >= 2 * len(self.links)


def parse_rates(text: str) -> tuple[float, ...]:
    """The rates in a list such as `100mbit,1gbit`, in bits a second.

    Raises:
        ConfigError: one is none.
    """
    return tuple(_parse_rate(item.strip().lower()) for item in text.split(","))


def _parse_rate(text: str) -> float:
    for unit, factor in _UNITS.items():
        number = text.removesuffix(unit)
        if number != text:
            try:
                rate = float(number) * factor
            except ValueError:
                break
            if 1e6 <= rate < UNLIMITED:
                return rate
    raise ConfigError(f"rate: expected 1mbit to 99gbit, such as 100mbit; found {text!r}")


def run_testbed(
    config: RunConfig,
    testbed: RatePlan,
    folder: Path,
    *,
    on_step: Callable[[StepRecord], None],
) -> Run:
    """Run `config` on a testbed; what was recorded is in `folder`, the run itself in `folder/run`.

    Args:
        on_step: called with each step as it is recorded.

    Raises:
        NamespaceError: this machine cannot be a testbed; the message says what is missing.
        RunError: the run failed.
    """
    command = sandboxed([sys.executable, "-m", "training.testbed", str(folder.resolve())])
    claim_folder(folder)
    long = configuration.override(config, steps=testbed.steps)
    write_atomically(folder / "config.toml", to_toml(long))
    write_json(folder / "testbed.json", asdict(testbed))
    follower = StepFollower(folder / "run")
    log = folder / "testbed.log"
    # Its own session: an interrupt from the terminal comes here alone. It ends with its input.
    with stop_on_sigterm(), log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                for record in follower.new():
                    on_step(record)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise RunError(f"testbed: {lines[-1]} (log: {log})")
    return read_run(folder / "run")


class Nodes(ThisMachine):
    """Ranks on the nodes of a star, `ranks_per_node` on each."""

    def __init__(
        self, star: Star, *, ranks_per_node: int, pace: socket.socket, trace: Path
    ) -> None:
        """`pace` is rank 0's end of the conductor's socket; traces go to the folder `trace`."""
        self._star = star
        self._ranks_per_node = ranks_per_node
        self._pace = pace
        self._trace = trace

    def listen(self) -> socket.socket:
        with entered(self._star.names[0]):
            return socket.create_server((self._star.addresses[0], 0))

    def command(self, rank: int, command: Sequence[str]) -> list[str]:
        return inside(self._star.names[rank // self._ranks_per_node], command)

    def variables(self, rank: int) -> Mapping[str, str]:
        return {
            "WIREZIP_HOST": self._star.addresses[rank // self._ranks_per_node],
            "WIREZIP_TRACE": str(self._trace),
            VARIABLE: NOBODY if rank else str(self._pace.fileno()),
        }

    def descriptors(self, rank: int) -> tuple[int, ...]:
        return () if rank else (self._pace.fileno(),)


class Conductor:
    """Sets the links before each step, and notes what had been sent before it, and after all."""

    def __init__(self, star: Star, testbed: RatePlan, sock: socket.socket) -> None:
        self.sent_bytes: list[int] = []
        self._star = star
        self._testbed = testbed
        self._sock = sock
        self._rate = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        step = 0
        while self._sock.recv(1):
            rate = self._testbed.rate_of(step)
            if rate != self._rate:
                self._star.limit(rate)
                self._rate = rate
            self.sent_bytes.append(sum(self._star.sent_bytes()))
            self._sock.sendall(b"!")
            step += 1


def main() -> int:
    """The inside of a sandbox."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    folder = Path(sys.argv[1])
    config = configuration.load(str(folder / "config.toml"))
    fields = json.loads((folder / "testbed.json").read_text())
    testbed = RatePlan(**fields | {"rates": tuple(fields["rates"])})
    per_node = config.network.ranks_per_node
    star = Star(config.world_size // per_node, mtu=testbed.mtu)
    mine, theirs = socket.socketpair()
    conductor = Conductor(star, testbed, mine)
    nodes = Nodes(star, ranks_per_node=per_node, pace=theirs, trace=folder / "trace")
    launch(config, folder / "run", on_step=lambda _: None, machines=nodes)
    write_json(folder / "sent.json", conductor.sent_bytes)
    return 0


def _end_with_input() -> None:
    # The first process of a sandbox takes all others with it. Nothing is ever written to the input.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
