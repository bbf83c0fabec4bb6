# SPDX-License-Identifier: Apache-2.0
"""Numba against RTL: `make rtl-soak BLOCKS=100000`.

Usage: python -m tests.sim.soak RUN --blocks N --seed S. Half of the blocks are of the tensors that
the run in folder RUN left, in every element type that they can be rounded to; the other half are
drawn. Both engines must write the same bytes and restore the blocks from them, and of frames that
were damaged they must restore the same or raise the same error. The first difference ends it.
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codec.checkpoint import Tensor, cast_bf16, cast_fp8, cast_fp16, read_checkpoint
from codec.elements import ElementType
from codec.engine import U8, Engine, Packets, get_engine
from codec.errors import FrameError, ReferenceMismatch, UnsupportedFrame
from codec.format import BLOCK_BYTES_MAX, Mode

BUFFER_BYTES = 1 << 18
# So many frames of each buffer are damaged and offered again.
DAMAGED = 8


class Difference(Exception):
    """The engines do not agree."""


@dataclass(frozen=True)
class Case:
    """A buffer, and what the engines are told of it."""

    data: U8
    element: ElementType
    block_bytes: int
    phase: int
    bare: bool

    def __str__(self) -> str:
        return (
            f"{self.data.size} bytes of {self.element.name}, blocks of {self.block_bytes}, "
            f"phase {self.phase}, {'packets' if self.bare else 'frames'}"
        )


def real_cases(folder: Path, rng: np.random.Generator) -> Iterator[Case]:
    """Ranges of the run's tensors, for ever."""
    tensors = [t for path in sorted(folder.glob("tensors/*")) for t in read_checkpoint(path)]
    sizes = np.array([tensor.data.size for tensor in tensors], np.float64)
    while True:
        tensor = _cast(tensors[rng.choice(len(tensors), p=sizes / sizes.sum())], rng)
        data = np.ascontiguousarray(tensor.data)
        start = int(rng.integers(max(1, data.size - BUFFER_BYTES)))
        part = data[start : start + BUFFER_BYTES]
        block_bytes = int(rng.choice([BLOCK_BYTES_MAX, BLOCK_BYTES_MAX, 1024, 256]))
        phase = -start % tensor.element.width_bytes
        yield Case(part, tensor.element, block_bytes, phase, bool(rng.integers(2)))


def drawn_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Buffers of stretches of every structure that the format knows, for ever."""
    while True:
        element = ElementType(rng.integers(len(ElementType)))
        size = int(rng.integers(1, BUFFER_BYTES))
        stretches, left = [], size
        while left > 0:
            length = int(min(left, rng.integers(1, rng.choice([64, 1000, 20_000]) + 1)))
            stretches.append(_stretch(element, length, rng))
            left -= length
        block_bytes = int(rng.choice([BLOCK_BYTES_MAX, 1024, rng.integers(1, BLOCK_BYTES_MAX + 1)]))
        # Small blocks are many: a few of those are enough.
        limit = max(1, min(size, 400 * block_bytes))
        yield Case(
            np.concatenate(stretches)[:limit],
            element,
            block_bytes,
            int(rng.integers(element.width_bytes)),
            bool(rng.integers(2)),
        )


def compare(case: Case, numba: Engine, rtl: Engine, rng: np.random.Generator) -> int:
    """How many blocks were compared.

    Raises:
        Difference: the engines do not agree; the message says where.
    """
    options = {"phase": case.phase, "bare": case.bare}
    expected = numba.encode(case.data, case.element, case.block_bytes, **options)
    found = rtl.encode(case.data, case.element, case.block_bytes, **options)
    _require_same_packets(found, expected)
    out = np.full_like(case.data, 0xA5)
    rtl.decode(expected, case.element, case.block_bytes, out, **options)
    if not np.array_equal(out, case.data):
        place = int(np.flatnonzero(out != case.data)[0])
        raise Difference(f"block {place // case.block_bytes} is decoded to other bytes")
    for block in rng.integers(expected.lengths.size, size=DAMAGED):
        _compare_damaged(case, int(block), _packet(expected, int(block)), numba, rtl, rng)
    return int(expected.lengths.size) + DAMAGED


def _compare_damaged(
    case: Case, block: int, frame: U8, numba: Engine, rtl: Engine, rng: np.random.Generator
) -> None:
    start = block * case.block_bytes
    size = min(case.block_bytes, case.data.size - start)
    damaged = frame.copy()
    # Headers decide what is read, so most damage goes there.
    limit = min(16 if rng.random() < 0.6 else damaged.size, damaged.size)
    for _ in range(rng.integers(1, 3)):
        damaged[rng.integers(limit)] ^= 1 << rng.integers(8)
    if rng.random() < 0.2:
        damaged = damaged[: rng.integers(1, damaged.size + 1)]
    packets = Packets(damaged, np.array([damaged.size], np.int32), np.array([Mode.CODED], np.uint8))
    outcomes = []
    for engine in (numba, rtl):
        out = np.zeros(size, np.uint8)
        try:
            engine.decode(
                packets,
                case.element,
                size,
                out,
                phase=(case.phase - start) % case.element.width_bytes,
                bare=case.bare,
            )
        except ReferenceMismatch:
            # The hardware has no reference mode.
            outcomes.append(UnsupportedFrame.__name__)
        except FrameError as error:
            outcomes.append(type(error).__name__)
        else:
            outcomes.append(f"a block with hash {hashlib.sha256(out).hexdigest()[:8]}")
    if outcomes[0] != outcomes[1]:
        raise Difference(
            f"block {block}, damaged to {damaged.size} bytes that begin with "
            f"{damaged[:32].tobytes().hex()}: {outcomes[0]} by numba, {outcomes[1]} by rtl"
        )


def _require_same_packets(found: Packets, expected: Packets) -> None:
    for name in ("lengths", "modes"):
        if np.any(differs := getattr(found, name) != getattr(expected, name)):
            block = int(np.flatnonzero(differs)[0])
            raise Difference(
                f"block {block}: {name[:-1]} {getattr(expected, name)[block]} by numba, "
                f"{getattr(found, name)[block]} by rtl"
            )
    if not np.array_equal(found.payload, expected.payload):
        place = int(np.flatnonzero(found.payload != expected.payload)[0])
        ends = expected.lengths.cumsum(dtype=np.int64)
        block = int(np.searchsorted(ends, place, side="right"))
        offset = place - int(ends[block] - expected.lengths[block])
        raise Difference(f"block {block}: byte {offset} of its payload differs")


def _packet(packets: Packets, block: int) -> U8:
    end = int(packets.lengths[: block + 1].sum(dtype=np.int64))
    return packets.payload[end - int(packets.lengths[block]) : end]


def _cast(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    kind = rng.integers(6)
    if kind == 0:
        return cast_bf16(tensor)
    if kind == 1:
        return cast_fp16(tensor)
    if kind in (2, 3):
        return cast_fp8(tensor, ElementType.E4M3 if kind == 2 else ElementType.E5M2)
    return tensor


def _stretch(element: ElementType, size: int, rng: np.random.Generator) -> U8:
    """`size` bytes of one structure: noise, a pattern, or values with drawn exponents."""
    kind = rng.integers(8)
    if kind == 0 or (element == ElementType.RAW and kind > 1):
        return rng.integers(0, rng.choice([2, 256]), size, np.uint8)
    width = element.width_bytes
    if kind == 1:
        pattern = rng.integers(0, 256, width, np.uint8) * np.uint8(rng.random() < 0.5)
        return np.resize(pattern, size)
    count = -(-size // width)
    layout = element.layout
    last = (1 << layout.exponent_bits) - 1
    symbols = _symbols(count, last, rng)
    mantissas = rng.integers(0, 1 << layout.mantissa_bits, count, np.uint64)
    if rng.random() < 0.3:
        mantissas &= ~np.uint64(rng.choice([0xFF, 0xFFFF, 0xFFFFFF]))
    signs = rng.integers(0, 2, count, np.uint64) * np.uint64(rng.random() < 0.8)
    values = signs << np.uint64(layout.exponent_bits) | symbols
    values = values << np.uint64(layout.mantissa_bits) | mantissas
    if rng.random() < 0.5:
        values[rng.random(count) < rng.choice([0.02, 0.4, 0.95])] = 0
    return values.astype(f"<u{width}").view(np.uint8)[:size]


def _symbols(count: int, last: int, rng: np.random.Generator) -> np.ndarray:
    """Exponents: of normal numbers, falling by half, equally frequent, or with outliers."""
    base = int(rng.integers(last + 1))
    kind = rng.integers(4)
    if kind == 0:
        steps = -np.log2(np.abs(rng.standard_normal(count)) + 1e-12)
    elif kind == 1:
        steps = rng.geometric(rng.uniform(0.2, 0.9), count)
    elif kind == 2:
        steps = rng.integers(0, rng.choice([2, 5, 16, 40]), count)
    else:
        steps = np.where(
            rng.random(count) < rng.choice([0.002, 0.03, 0.1]), rng.integers(-last, last, count), 0
        )
    direction = rng.choice([-1, 1])
    return np.clip(base + direction * np.floor(steps), 0, last).astype(np.uint64)


def soak(folder: Path, blocks: int, seed: int, *, show: bool) -> int:
    """Compare so many blocks; how many there were.

    Raises:
        Difference: the engines do not agree.
    """
    rng = np.random.default_rng(seed)
    numba, rtl = get_engine("numba"), get_engine("rtl")
    sources = [real_cases(folder, rng), drawn_cases(rng)]
    done = [0, 0]
    started = time.monotonic()
    while sum(done) < blocks:
        which = int(done[1] <= done[0])
        case = next(sources[which])
        try:
            done[which] += compare(case, numba, rtl, rng)
        except Difference as difference:
            raise Difference(
                f"seed {seed}, after {sum(done)} blocks: {case}: {difference}"
            ) from None
        if show:
            seconds = time.monotonic() - started
            sys.stderr.write(
                f"\r{sum(done)} of {blocks} blocks, {seconds:.0f} s, no difference \x1b[K"
            )
    if show:
        sys.stderr.write("\n")
    print(f"{done[0]} real and {done[1]} drawn blocks: no difference")
    return sum(done)


def main() -> int:
    """1 if the engines differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run that dumped tensors")
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        soak(arguments.run, arguments.blocks, arguments.seed, show=sys.stderr.isatty())
    except Difference as difference:
        sys.stderr.write(f"\ndifference: {difference}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
