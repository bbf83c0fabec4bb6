# SPDX-License-Identifier: Apache-2.0
"""Blocks that bring an encoder's first pass to every decision that it can make."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder, Mode
from tests.rtl import plans
from tests.rtl.dut import Integers
from tests.rtl.plans import Plan

ALL_TYPES = 0b111111


@dataclass(frozen=True)
class Block:
    """What a packet brings to the encoder."""

    data: bytes
    element: ElementType
    phase: int = 0
    code: bool = True

    @property
    def user(self) -> int:
        """`block_user_t`."""
        return self.code << 5 | self.phase << 3 | self.element

    def as_built(self, types: int) -> "Block":
        """As an engine takes it that has only these types."""
        if types >> self.element & 1:
            return self
        tag = next(tag for tag in ElementType if types >> tag & 1)
        return Block(self.data, tag, self.phase % tag.width_bytes, code=False)

    def plan(self, *, bare: bool = False, min_bytes: int = 0) -> Plan:
        """What the encoder must decide."""
        if not self.code or len(self.data) < min_bytes:
            return plans.bare_plan(self.data, self.element, self.phase)
        return plans.plan(self.data, self.element, self.phase, bare=bare)

    @property
    def values(self) -> bytes:
        """The bytes of the values, without head and tail."""
        shape = reference._shape(len(self.data), self.element, self.phase)
        return self.data[shape.head : len(self.data) - shape.tail]


def packets(blocks: Sequence[Block]) -> dict[str, Integers]:
    """Fields of a `Source` that sends the blocks; bytes outside a packet are random."""
    counts = [-(-len(block.data) // f.BEAT_BYTES) for block in blocks]
    ends = np.cumsum(counts)
    data = np.random.default_rng(5).integers(0, 256, (ends[-1], f.BEAT_BYTES), np.uint8)
    keep = np.full(ends[-1], 2**f.BEAT_BYTES - 1, np.uint64)
    user = np.zeros(ends[-1], np.uint8)
    for block, end, count in zip(blocks, ends, counts, strict=True):
        data[end - count : end].reshape(-1)[: len(block.data)] = np.frombuffer(block.data, np.uint8)
        last = len(block.data) - f.BEAT_BYTES * (count - 1)
        keep[end - 1] = 2**last - 1
        user[end - count : end] = block.user
    last_flags = np.zeros(ends[-1], np.uint8)
    last_flags[ends - 1] = 1
    return {"tdata": data, "tkeep": keep, "tlast": last_flags, "tuser": user}


def symbols(values: bytes, element: ElementType) -> NDArray[np.int64]:
    """The symbol of each value."""
    numbers = np.frombuffer(values, f"<u{element.width_bytes}").astype(np.int64)
    layout = element.layout
    return numbers >> layout.mantissa_bits & (1 << layout.exponent_bits) - 1


def with_symbols(symbol: NDArray[np.int64], element: ElementType, seed: int = 1) -> bytes:
    """Values of these symbols, otherwise random."""
    layout = element.layout
    noise = np.random.default_rng(seed).integers(0, 1 << 8 * element.width_bytes, symbol.size)
    mask = (1 << layout.exponent_bits) - 1 << layout.mantissa_bits
    numbers = noise & ~mask | symbol << layout.mantissa_bits
    return numbers.astype(f"<u{element.width_bytes}").tobytes()


def blocks(element: ElementType, count: int, seed: int, *, longest: int = 4096) -> list[Block]:
    """Blocks of all kinds and lengths, deterministic."""
    random = Random(1000 * seed + element)
    out = []
    for _ in range(count):
        size = random.choice((longest, random.randint(1, longest), random.randint(1, 200)))
        size = min(size, longest)
        phase = random.randrange(element.width_bytes)
        data = random.randbytes(phase) + _values(random, element, size // element.width_bytes + 1)
        out.append(Block(data[:size], element, phase, random.random() > 0.05))
    return out


_KINDS = (
    "gauss gauss gauss gauss uniform noise constant constant wide modes decay edge tie few".split()
)


def _values(random: Random, element: ElementType, count: int) -> bytes:
    layout = element.layout
    width = element.width_bytes
    rng = np.random.default_rng(random.getrandbits(32))
    kind = random.choice(_KINDS)
    if kind == "noise":
        numbers = rng.integers(0, 1 << 8 * width, count, np.int64)
    else:
        symbol = _symbols(random, rng, kind, (1 << layout.exponent_bits) - 1, count)
        mantissa = rng.integers(0, 1 << layout.mantissa_bits, count, np.int64)
        sign = rng.integers(0, 2, count, np.int64)
        if random.random() < 0.3 or (kind == "constant" and random.random() < 0.5):
            sign[:] = random.randint(0, 1)
        if kind == "constant" and random.random() < 0.5:
            mantissa[:] = mantissa[0]
        if random.random() < 0.3:  # some bits of the mantissa are the same everywhere
            fixed = random.getrandbits(layout.mantissa_bits)
            mantissa = mantissa & ~fixed | random.getrandbits(layout.mantissa_bits) & fixed
        numbers = symbol << layout.mantissa_bits | mantissa
        if layout.signed:
            numbers |= sign << 8 * width - 1
    if random.random() < 0.4:
        numbers[rng.random(count) < random.choice((0.01, 0.2, 0.7, 0.99))] = 0
    if random.random() < 0.3:
        per_beat = f.BEAT_BYTES // width
        for at in range(0, count, per_beat):
            if random.random() < 0.3:
                numbers[at : at + per_beat] = 0
    if random.random() < 0.05:
        numbers[:] = 0
    return numbers.astype(f"<u{width}").tobytes()


def _symbols(
    random: Random, rng: np.random.Generator, kind: str, highest: int, count: int
) -> NDArray[np.int64]:
    center = random.randint(0, highest)
    drawn = {
        "gauss": lambda: np.rint(rng.normal(center, random.choice((0.5, 1, 2, 4, 10)), count)),
        "uniform": lambda: rng.integers(0, highest + 1, count),
        "constant": lambda: np.full(count, center),
        "wide": lambda: center + rng.integers(-20, 20, count),
        "modes": lambda: (
            rng.choice(rng.integers(0, highest + 1, 3), count) + rng.integers(-2, 3, count)
        ),
        "decay": lambda: center - rng.geometric(random.uniform(0.1, 0.9), count),
        "edge": lambda: rng.choice([0, 1, highest - 1, highest], count),
        "tie": lambda: np.arange(count) // 4 % random.randint(1, 40) + center,
        "few": lambda: rng.choice(rng.integers(0, highest + 1, random.randint(1, 6)), count),
    }[kind]()
    symbol = np.clip(drawn, 0, highest).astype(np.int64)
    if random.random() < 0.2:
        strays = max(1, count // random.choice((16, 32, 33, 64, 500)))
        symbol[rng.integers(0, count, strays)] = rng.integers(0, highest + 1, strays)
    return symbol


def kinds(wanted: Sequence[Plan]) -> Counter[str]:
    """How often each kind of plan occurs; a test should see all that can."""
    found: Counter[str] = Counter()
    for fields in (plan.fields for plan in wanted):
        if fields["mode"] != Mode.CODED:
            found[Mode(fields["mode"]).name if fields["coded"] else "BARE"] += 1
            continue
        found[Coder(fields["coder"]).name] += 1
        for name in ("bitmap", "sign_flag", "plane_flags", "bare_zeros", "escapes"):
            found[name] += fields[name] != 0
        found["unranked zeros"] += fields["zero_rank"] == 0
    return found
