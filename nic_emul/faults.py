# SPDX-License-Identifier: Apache-2.0
"""A wire that loses, damages, repeats, reorders and delays packets, as its seed has it.

`WIREZIP_FAULTS="loss=1e-3,corrupt=1e-3,duplicate=1e-3,reorder=1e-3,delay=1e-3:2ms,seed=1"` puts
one behind every link between NICs (`queue_pair.py`). Each packet meets each fault on its own, with
the probability given, acknowledgements included. The n-th packet that an end of a link puts on the
wire meets the same fate in every run; which packet that is depends on when timers fire.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from nic_emul.errors import ConfigError
from nic_emul.link_counters import LinkCounters

# How long a packet waits for another one to overtake it.
_HOLD_S = 0.005
_FLIPS_MAX = 3
_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often what happens to a packet.

    Attributes:
        loss, corrupt, duplicate, reorder, delay: probabilities, 0 up to but not 1.
        delay_s: seconds for which a delayed packet is late.
        seed: of all that is drawn.
    """

    loss: float = 0.0
    corrupt: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay: float = 0.0
    delay_s: float = 0.0
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Read `name=value` pairs, with commas between them; delay is `probability:time`.

        Raises:
            ConfigError: a pair means nothing; the message names it.
        """
        found: dict[str, float] = {}
        for pair in text.split(","):
            name, _, value = (part.strip() for part in pair.partition("="))
            if name not in _READERS:
                raise ConfigError(
                    f"WIREZIP_FAULTS: expected one of {', '.join(_READERS)}; found {name!r}"
                )
            if name in found:
                raise ConfigError(f"WIREZIP_FAULTS: expected {name} once; found it again")
            found |= _READERS[name](name, value)
        return cls(**found)  # type: ignore[arg-type]

    def __str__(self) -> str:
        rates = [
            f"{name}={getattr(self, name):g}"
            for name in ("loss", "corrupt", "duplicate", "reorder")
            if getattr(self, name)
        ]
        if self.delay:
            rates.append(f"delay={self.delay:g}:{self.delay_s * 1e3:g}ms")
        return ",".join([*rates, f"seed={self.seed}"])


def _rate(name: str, text: str) -> dict[str, float]:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise ConfigError(f"WIREZIP_FAULTS: {name}: expected 0 up to but not 1; found {text!r}")
    return {name: value}


def _delay(name: str, text: str) -> dict[str, float]:
    rate, _, time = text.partition(":")
    unit = next((unit for unit in _UNITS_S if time.endswith(unit)), "")
    try:
        seconds = float(time.removesuffix(unit)) * _UNITS_S[unit]
    except (KeyError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(
            f"WIREZIP_FAULTS: {name}: expected a probability and a time, as 1e-3:2ms; "
            f"found {text!r}"
        )
    return {**_rate(name, rate), "delay_s": seconds}


def _seed(name: str, text: str) -> dict[str, float]:
    try:
        return {name: int(text)}
    except ValueError as error:
        raise ConfigError(f"WIREZIP_FAULTS: {name}: expected an integer; found {text!r}") from error


_READERS: dict[str, Callable[[str, str], dict[str, float]]] = {
    "loss": _rate,
    "corrupt": _rate,
    "duplicate": _rate,
    "reorder": _rate,
    "delay": _delay,
    "seed": _seed,
}


class FaultyWire:
    """One direction of a link: packets go in, and come out as the faults have it."""

    def __init__(self, faults: Faults, name: str, counters: LinkCounters) -> None:
        """`name` tells the wire from all others of the job."""
        self._faults = faults
        self._counters = counters
        self._random = Random(f"{faults.seed}/{name}")
        self._ready: list[bytes] = []
        # Packets that wait to be overtaken, and until when; delayed ones in a heap.
        self._held: list[tuple[float, bytes]] = []
        self._late: list[tuple[float, int, bytes]] = []
        self._number = 0

    def put(self, packet: bytes, now: float) -> None:
        """Put `packet` on the wire at `now`, in seconds."""
        faults, counters, draw = self._faults, self._counters, self._random.random
        # All are drawn for every packet, so that one fate does not depend on another.
        lost, corrupt, twice = draw(), draw(), draw()
        reordered, delayed = draw() < faults.reorder, draw() < faults.delay
        if lost < faults.loss:
            counters.lost += 1
            return
        copies = 1 + (twice < faults.duplicate)
        counters.duplicated += copies - 1
        if corrupt < faults.corrupt:
            packet = self._flip(packet)
            counters.corrupted += copies
        if delayed:
            counters.delayed += copies
            for _ in range(copies):
                self._number += 1
                heapq.heappush(self._late, (now + faults.delay_s, self._number, packet))
            return
        if reordered and not self._held:
            counters.reordered += copies
            self._held = [(now + _HOLD_S, packet)] * copies
            return
        self._ready += [packet] * copies
        self._release()

    def take(self, now: float) -> list[bytes]:
        """The packets that have come out of the wire by `now`, in order."""
        if self._held and self._held[0][0] <= now:
            self._release()
        while self._late and self._late[0][0] <= now:
            self._ready.append(heapq.heappop(self._late)[2])
        ready, self._ready = self._ready, []
        return ready

    def deadline(self) -> float:
        """When the next packet comes out if none is put in; infinity if there is none."""
        due = [self._held[0][0]] if self._held else []
        due += [self._late[0][0]] if self._late else []
        return min(due, default=math.inf)

    def empty(self) -> bool:
        """Whether there is no packet on the wire."""
        return not (self._ready or self._held or self._late)

    def _release(self) -> None:
        self._ready += [packet for _, packet in self._held]
        self._held = []

    def _flip(self, packet: bytes) -> bytes:
        changed = bytearray(packet)
        bits = self._random.sample(range(8 * len(packet)), self._random.randint(1, _FLIPS_MAX))
        for bit in bits:
            changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)
