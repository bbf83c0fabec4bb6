# SPDX-License-Identifier: Apache-2.0
"""What each choice of the frame format costs, on the blocks of real tensors.

    python docs/decisions/study.py CHECKPOINT... [--cast TYPE] [--tensors PATTERN] [--resident OLD]

Prints compressed / original for the format and for what it was chosen over, one row a variant, one
column a file. The sizes are exact: nothing is encoded, but the length of a frame follows from the
symbol counts of its block, and the row `format` is compared with what the Numba engine writes.
With `--resident`, reference mode against an older checkpoint of the same names is costed instead.

All tensors of the commonest float type of a file are put together and cut into whole blocks of
4,096 bytes; what remains is left out, so no head, tail or partial beat occurs.
"""

import argparse
import fnmatch
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codec.bench import CASTS
from codec.checkpoint import read_checkpoint
from codec.elements import ElementType
from codec.engine import get_engine
from codec.format import Coder as FormatCoder
from codec.format import Mode
from codec.header import parse_header

I64 = NDArray[np.int64]
BLOCK = 4096
CHUNK = 1 << 24
NEVER = 1 << 40  # a size that is never the smallest

# A coder is the length of the unary code of each rank, escape last, and its low bits.
RANKS = 64


@dataclass(frozen=True)
class Coder:
    low_bits: int
    unary_bits: tuple[int, ...]

    @property
    def ranks(self) -> int:
        return len(self.unary_bits) - 1


def _rice(k: int, ranks: int) -> Coder:
    return Coder(k, tuple((rank >> k) + 1 for rank in range(ranks + 1)))


def _fixed(k: int, ranks: int) -> Coder:
    """`k` low bits hold min(rank, 2^k - 1); the ranks from there on have a unary code."""
    first = (1 << k) - 1
    return Coder(k, tuple(max(0, rank - first + 1) for rank in range(ranks + 1)))


CODERS = {
    "R0": _rice(0, 15),
    "R1": _rice(1, 15),
    "R2": _rice(2, 31),
    "F2": _fixed(2, 15),
    "R3": _rice(3, 63),
    "F3": _fixed(3, 22),
}


@dataclass(frozen=True)
class Variant:
    """A format to be costed; the defaults are version 1.

    Attributes:
        order: `path`, `window` (exact order of 0 and the 15 exponents below the largest, in 8
            bytes) or `ideal` (exact order of all, for nothing).
        coders: names of the coders to choose from.
        values_per_escape: one escape is allowed for so many values.
        sample: the order and the coder are chosen by one value in so many.
        block_bytes: of a block.
        align: sections are padded to so many bytes.
        bitmap, sign, planes: leave out zero beats, a constant sign, constant byte planes.
        low_bits: leave out the low remainder bits that are zero in all carriers, at no cost for
            saying how many.
        bare: which zeros have no remainder: `none`, `pure` (those of a block whose symbol 0 stands
            for nothing but zero) or `all` (at no cost for telling zeros and subnormals apart).
        header_bytes: of a coded frame, the order in it.
        frame_bytes: added to every frame, raw and constant ones too.
    """

    order: str = "path"
    coders: Sequence[str] = ("R0", "R1", "R2", "F2")
    values_per_escape: int = 32
    sample: int = 1
    block_bytes: int = BLOCK
    align: int = 16
    bitmap: bool = True
    sign: bool = True
    planes: bool = True
    low_bits: bool = False
    bare: str = "pure"
    header_bytes: int = 16
    frame_bytes: int = 0


VARIANTS = {
    "format": Variant(),
    "order: window of 16, 8 bytes": Variant(order="window", header_bytes=24),
    "order: ideal, free": Variant(order="ideal"),
    "statistics: 1 value in 2": Variant(sample=2),
    "statistics: 1 value in 4": Variant(sample=4),
    "coders: R1": Variant(coders=("R1",)),
    "coders: R0 R1": Variant(coders=("R0", "R1")),
    "coders: R0 R1 R2": Variant(coders=("R0", "R1", "R2")),
    "coders: R0 R1 F2": Variant(coders=("R0", "R1", "F2")),
    "coders: and R3": Variant(coders=("R0", "R1", "R2", "F2", "R3")),
    "coders: and F3": Variant(coders=("R0", "R1", "R2", "F2", "F3")),
    "coders: and R3 F3": Variant(coders=("R0", "R1", "R2", "F2", "R3", "F3")),
    "escapes: any number": Variant(values_per_escape=1),
    "escapes: m/16": Variant(values_per_escape=16),
    "escapes: m/64": Variant(values_per_escape=64),
    "sections: aligned to 1 byte": Variant(align=1),
    "sections: aligned to 64 bytes": Variant(align=64),
    "no zero-beat bitmap": Variant(bitmap=False),
    "no constant sign": Variant(sign=False),
    "no constant planes": Variant(planes=False),
    "low zero bits left out, free": Variant(low_bits=True),
    "bare zeros: none": Variant(bare="none"),
    "bare zeros: all, free": Variant(bare="all"),
    "length index: 2 bytes a frame": Variant(frame_bytes=2),
    "unary: 3 entry points, 4 bytes": Variant(header_bytes=20),
    "unary: 64 beat lengths, 56 bytes": Variant(header_bytes=72),
    "unary: 32 lanes, 45 bytes": Variant(header_bytes=61),
    "blocks of 1,024 bytes": Variant(block_bytes=1024),
}


@dataclass(frozen=True)
class Blocks:
    """What the cost of a block follows from; first axis blocks.

    Attributes:
        counts: (blocks, 256) stored values of each symbol.
        sampled: (blocks, 256) the same of the sampled values.
        values: stored values.
        remainder_bytes: of the remainders section, unpadded.
        extras_bytes: of the extras section, unpadded.
        constant: whether all elements are equal.
    """

    counts: I64
    sampled: I64
    values: I64
    remainder_bytes: I64
    extras_bytes: I64
    constant: NDArray[np.bool_]


def read_values(
    path: Path, cast: str | None, pattern: str
) -> tuple[ElementType, NDArray[np.unsignedinteger]]:
    """Element type and values of the tensors of `path` whose names match `pattern`."""
    parts: dict[ElementType, list[NDArray[np.uint8]]] = {}
    for tensor in read_checkpoint(path):
        if not fnmatch.fnmatchcase(tensor.name, pattern):
            continue
        tensor = CASTS[cast](tensor) if cast else tensor
        if tensor.element != ElementType.RAW:
            parts.setdefault(tensor.element, []).append(tensor.data)
    if not parts:
        sys.exit(f"{path}: expected tensors of a float type; found none")
    element = max(parts, key=lambda e: sum(part.size for part in parts[e]))
    return element, np.concatenate(parts[element]).view(f"<u{element.width_bytes}")


def summarise(values: NDArray[np.unsignedinteger], element: ElementType, v: Variant) -> Blocks:
    """The blocks of `values`, whose number must be a multiple of those of a block."""
    layout = element.layout
    rows = values.reshape(-1, v.block_bytes // element.width_bytes)
    beats = rows.reshape(len(rows), v.block_bytes // 64, -1)
    stored = beats.any(axis=2) if v.bitmap else np.ones(beats.shape[:2], np.bool_)
    per_beat = beats.shape[2]
    here = np.repeat(stored, per_beat, axis=1)
    symbols = (rows >> layout.mantissa_bits) & ((1 << layout.exponent_bits) - 1)

    def histogram(mask: NDArray[np.bool_]) -> I64:
        flat = symbols.astype(np.int64) + 256 * np.arange(len(rows))[:, None]
        return np.bincount(flat[mask], minlength=256 * len(rows)).reshape(-1, 256)

    # Neighbouring lanes differ from one group of 32 values to the next: data may alternate.
    place = np.arange(rows.shape[1])
    taken = (place + (place >> 5)) % v.sample == 0
    m = stored.sum(axis=1) * per_beat
    carries = here & ~_bare_zeros(rows, symbols, here, v.bare)
    carriers = carries.sum(axis=1)

    def equal(part: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        low = np.where(carries, part, part.max()).min(axis=1)
        return (carriers > 0) & (low == np.where(carries, part, 0).max(axis=1))

    sign = rows >> (layout.mantissa_bits + layout.exponent_bits)
    same_sign = equal(sign) if v.sign else np.zeros(len(rows), np.bool_)
    remainder = rows & ((1 << layout.mantissa_bits) - 1) | sign << layout.mantissa_bits
    bits = layout.remainder_bits - same_sign.astype(np.int64)
    planes, extras = bits // 8, np.zeros(len(rows), np.int64)
    kept = planes.copy()
    for plane in range(layout.remainder_bits // 8):
        part = (remainder >> 8 * plane) & 0xFF
        same = equal(part) & (plane < planes) if v.planes else np.zeros(len(rows), np.bool_)
        kept -= same
        extras += same
    remainder_bytes = carriers * kept - (-carriers * (bits % 8) // 8)
    if v.low_bits:
        used = np.bitwise_or.reduce(np.where(carries, remainder, 0).astype(np.int64), axis=1)
        zeros = np.minimum(sum((used & (1 << b) - 1) == 0 for b in range(1, 25)), bits)
        left = bits - zeros
        whole = carriers * (left // 8) - (-carriers * (left % 8) // 8)
        extras = np.where(whole < remainder_bytes, 0, extras)
        remainder_bytes = np.minimum(whole, remainder_bytes)
    return Blocks(
        counts=histogram(here),
        sampled=histogram(here & taken),
        values=m,
        remainder_bytes=remainder_bytes,
        extras_bytes=extras + 8 * ~stored.all(axis=1),
        constant=(rows == rows[:, :1]).all(axis=1),
    )


def _bare_zeros(
    rows: NDArray[np.unsignedinteger],
    symbols: NDArray[np.unsignedinteger],
    here: NDArray[np.bool_],
    kind: str,
) -> NDArray[np.bool_]:
    """Which values have no remainder."""
    zeros = rows == 0
    if kind == "pure":
        mixed = (here & ~zeros & (symbols == 0)).any(axis=1)
        return zeros & ~mixed[:, None]
    return zeros & (kind == "all")


def order_of(counts: I64, symbol_max: int, kind: str) -> I64:
    """(blocks, RANKS) the symbol of each rank; -1 where there is none."""
    blocks = np.arange(len(counts))
    if kind != "path":
        return _exact_order(counts, symbol_max, 15 if kind == "window" else symbol_max)
    base = counts[:, 1 : symbol_max + 1].argmax(axis=1) + 1
    left, right = base - 1, base + 1
    order = np.full((len(counts), RANKS), -1, np.int64)
    order[:, 0] = base
    padded = np.pad(counts, ((0, 0), (0, 2)))
    for step in range(RANKS - 1):
        can_left, can_right = left >= 1, right <= symbol_max
        falls = padded[blocks, left] >= padded[blocks, np.minimum(right, 256)]
        wants = falls if step < 14 else np.full(len(counts), step % 2 == 0)
        go_left = can_left & (wants | ~can_right)
        go = can_left | can_right
        order[:, step + 1] = np.where(go, np.where(go_left, left, right), -1)
        left = left - (go & go_left)
        right = right + (go & ~go_left)
    return _insert_zero(order, counts, limit=15)


def _exact_order(counts: I64, symbol_max: int, window: int) -> I64:
    top = symbol_max - (counts[:, 1 : symbol_max + 1] > 0)[:, ::-1].argmax(axis=1)
    symbols = np.arange(256)
    inside = (symbols >= 1) & (symbols <= top[:, None]) & (symbols > top[:, None] - window)
    order = np.where(inside, -counts, 1).argsort(axis=1, kind="stable")
    ranks = np.arange(256)
    order = np.where(ranks < inside.sum(axis=1)[:, None], order, -1)[:, :RANKS]
    return _insert_zero(order, counts, limit=RANKS - 1)


def _insert_zero(order: I64, counts: I64, limit: int) -> I64:
    """The order with symbol 0 before the first rarer symbol, if that is among `limit` ranks."""
    by_rank = np.where(order < 0, -1, np.take_along_axis(counts, np.maximum(order, 0), axis=1))
    zeros = counts[:, :1]
    rank = (by_rank[:, :limit] >= zeros).sum(axis=1)
    rank = np.where((zeros[:, 0] > 0) & (rank < limit), rank, RANKS)
    place = np.arange(RANKS)
    moved = np.take_along_axis(order, np.maximum(place - (place > rank[:, None]), 0), axis=1)
    return np.where(place == rank[:, None], 0, moved)


def code_bytes(counts: I64, order: I64, values: I64, coder: Coder, v: Variant) -> I64:
    """Low bits, unary and escapes; NEVER where a limit is broken."""
    by_rank = np.where(order < 0, 0, np.take_along_axis(counts, np.maximum(order, 0), axis=1))
    by_rank = by_rank[:, : coder.ranks]
    escapes = values - by_rank.sum(axis=1)
    lengths = np.array(coder.unary_bits)
    unary = by_rank @ lengths[:-1][: by_rank.shape[1]] + escapes * lengths[-1]
    low = _pad(-(-values * coder.low_bits // 8), v.align)
    allowed = np.minimum(-(-values // v.values_per_escape), 255)
    fits = (unary <= 3 * values) & (escapes <= allowed)
    return np.where(fits, low - (-unary // 8) + escapes, NEVER)


def frame_bytes(blocks: Blocks, element: ElementType, v: Variant) -> I64:
    """The length of each frame."""
    symbol_max = (1 << element.layout.exponent_bits) - 1
    order = order_of(blocks.sampled, symbol_max, v.order)
    coders = [CODERS[name] for name in v.coders]
    real = np.stack([code_bytes(blocks.counts, order, blocks.values, c, v) for c in coders])
    estimate = real
    if v.sample > 1:
        sampled = blocks.sampled.sum(axis=1)
        estimate = np.stack([code_bytes(blocks.sampled, order, sampled, c, v) for c in coders])
    code = np.take_along_axis(real, estimate.argmin(axis=0)[None], axis=0)[0]
    code = np.where(blocks.values > 0, code, 0)
    coded = (
        v.header_bytes
        + _pad(blocks.extras_bytes, v.align)
        + _pad(blocks.remainder_bytes, v.align)
        + code
    )
    short = np.where(blocks.constant, 8 + element.width_bytes, 8 + v.block_bytes)
    return np.minimum(coded, short) + v.frame_bytes


def _pad(size: I64, multiple: int) -> I64:
    return -(-size // multiple) * multiple


def ratio(values: NDArray[np.unsignedinteger], element: ElementType, v: Variant) -> float:
    """Compressed / original of all blocks."""
    total = 0
    for part in _chunks(values):
        total += int(frame_bytes(summarise(part, element, v), element, v).sum())
    return total / values.nbytes


def _chunks(values: NDArray[np.unsignedinteger]) -> Iterator[NDArray[np.unsignedinteger]]:
    step = CHUNK // values.itemsize
    return (values[i : i + step] for i in range(0, values.size, step))


def bound(values: NDArray[np.unsignedinteger], element: ElementType) -> float:
    """Order-0 entropy of the symbols of each block, remainders as they are, no headers."""
    bits = 0.0
    plain = replace(Variant(), bitmap=False)
    for part in _chunks(values):
        counts = summarise(part, element, plain).counts
        n = counts.sum(axis=1, keepdims=True)
        share = np.where(counts > 0, counts / n, 1)
        bits += float(-(counts * np.log2(share)).sum()) + element.layout.remainder_bits * part.size
    return bits / 8 / values.nbytes


def bounds_of_parts(values: NDArray[np.unsignedinteger], element: ElementType) -> dict[str, float]:
    """What an ideal coder of each block would reach that takes in more than the symbols."""
    layout, width_bits = element.layout, 8 * element.width_bytes
    symbol_bits = joint_bits = single_bits = whole_bits = 0.0
    for part in _chunks(values):
        rows = part.reshape(-1, BLOCK // element.width_bytes).astype(np.int64)
        symbols = rows >> layout.mantissa_bits & (1 << layout.exponent_bits) - 1
        symbol_bits += _entropy_bits(symbols, 1 << layout.exponent_bits)
        signed = rows >> layout.mantissa_bits
        joint_bits += _entropy_bits(signed, 2 << layout.exponent_bits)
        for bit in range(layout.mantissa_bits):
            single_bits += _entropy_bits(rows >> bit & 1, 2)
        if width_bits == 8:
            whole_bits += _entropy_bits(rows, 256)
    size = values.size * width_bits
    rest = layout.mantissa_bits * values.size
    found = {
        "bound: and signs, by symbol": (joint_bits + rest) / size,
        "bound: and each mantissa bit": (joint_bits + single_bits) / size,
    }
    return found | ({"bound: of whole elements": whole_bits / size} if width_bits == 8 else {})


def _entropy_bits(numbers: I64, kinds: int) -> float:
    """The order-0 entropy of each row of `numbers`, which are below `kinds`, added up."""
    flat = numbers + kinds * np.arange(len(numbers))[:, None]
    counts = np.bincount(flat.ravel(), minlength=kinds * len(numbers)).reshape(-1, kinds)
    share = np.where(counts > 0, counts / numbers.shape[1], 1)
    return float(-(counts * np.log2(share)).sum())


def encoded_rows(values: NDArray[np.unsignedinteger], element: ElementType) -> dict[str, float]:
    """What the Numba engine writes: first the ratio, then what its frames are made up of."""
    packets = get_engine("numba").encode(values.view(np.uint8), element, BLOCK)
    starts = np.cumsum(packets.lengths) - packets.lengths
    heads = [packets.payload[at : at + 16].tobytes() for at in starts]
    headers = [parse_header(head[: 16 if head[0] >> 3 & 2 else 8]) for head in heads]
    coded = [h for h in headers if h.mode == Mode.CODED]
    escapes = [h.escapes for h in coded]
    rows = {"encoded": packets.payload.size / values.nbytes, "blocks": len(headers)}
    rows |= {f"{m.name.lower()} frames": int((packets.modes == m).sum()) for m in list(Mode)[:3]}
    for coder in FormatCoder:
        share = sum(h.coder == coder for h in coded) / len(coded)
        rows[f"coded with {coder.name}, %"] = 100 * share
    rows["coded with a bitmap"] = sum(h.bitmap for h in coded)
    rows["coded with a constant sign"] = sum(h.sign_flag for h in coded)
    rows["coded with bare zeros"] = sum(h.bare_zeros > 0 for h in coded)
    rows["unary bytes, mean"] = float(np.mean([h.unary_bytes for h in coded]))
    rows["unary bytes, largest"] = max(h.unary_bytes for h in coded)
    rows["escapes, mean"] = float(np.mean(escapes))
    rows["escapes, largest"] = max(escapes)
    return rows


# Reference mode


def zigzag(new: NDArray[np.unsignedinteger], old: NDArray[np.unsignedinteger], width: int) -> I64:
    """The distances of two arrays in numeric order, folded (section 9 of the format)."""
    bits = 8 * width

    def key(x: NDArray[np.unsignedinteger]) -> I64:
        x = x.astype(np.int64)
        return np.where(x >> (bits - 1), (1 << bits) - 1 - x, x + (1 << bits - 1))

    half = 1 << (bits - 1)
    d = (key(new) - key(old) + half) % (1 << bits) - half
    return np.where(d >= 0, 2 * d, -2 * d - 1)


def shifted_bytes(numbers: I64, escape_bytes: int, shifts: int) -> tuple[int, int, int, int]:
    """Low bits, unary bits, escapes and shift of one sequence at its best shift."""
    best = (NEVER, 0, 0, 0, 0)
    for k in range(shifts):
        q = np.minimum(numbers >> k, 15)
        unary, escapes = int(q.sum()) + q.size, int((q == 15).sum())
        total = k * q.size + unary + 8 * escape_bytes * escapes
        best = min(best, (total, k, k * q.size, unary, escapes))
    _, k, low, unary, escapes = best
    return low, unary, escapes, k


def dense_bytes(z: I64, width: int, *, bitmap: bool = True) -> int:
    beats = z.reshape(BLOCK // 64, -1)
    stored = beats.any(axis=1) if bitmap else np.ones(len(beats), np.bool_)
    numbers = beats[stored].ravel()
    low, unary, escapes, _ = shifted_bytes(numbers, width, min(8 * width, 16))
    if unary > 3 * numbers.size or escapes > -(-numbers.size // 32):
        return NEVER
    extras = 0 if stored.all() else 16
    return 16 + extras + _pad16(-(-low // 8)) - (-unary // 8) + width * escapes


def gap_bytes(z: I64, width: int) -> int:
    places = np.flatnonzero(z)
    gaps = np.diff(places, prepend=-1) - 1
    shifts = min(8 * width, 16)
    low, unary, escapes, _ = shifted_bytes(gaps, 2, shifts)
    low_values, unary_values, escapes_values, _ = shifted_bytes(z[places] - 1, width, shifts)
    if unary + unary_values > 3 * z.size or escapes + escapes_values > -(-z.size // 32):
        return NEVER
    low_bytes = _pad16(-(-(low + low_values) // 8))
    return 16 + low_bytes - (-(unary + unary_values) // 8) + 2 * escapes + width * escapes_values


def _pad16(size: int) -> int:
    return -(-size // 16) * 16


def resident_rows(path: Path, old_path: Path, cast: str | None, pattern: str) -> dict[str, float]:
    """Ratios of reference mode, per variant."""
    element, new = read_values(path, cast, pattern)
    _, old = read_values(old_path, cast, pattern)
    width = element.width_bytes
    size = new.size - new.size % (BLOCK // width)
    new, old = new[:size], old[:size]
    z = zigzag(new, old, width).reshape(-1, BLOCK // width)
    coded = np.concatenate(
        [frame_bytes(summarise(p, element, Variant()), element, Variant()) for p in _chunks(new)]
    )
    dense = np.array([dense_bytes(row, width) for row in z])
    plain = np.array([dense_bytes(row, width, bitmap=False) for row in z])
    gaps = np.array([gap_bytes(row, width) for row in z])
    share = 1 / new.nbytes
    return {
        "unchanged values": float((z == 0).mean()),
        "coded alone": float(coded.sum()) * share,
        "no gaps, no bitmap": float(np.minimum(coded, plain).sum()) * share,
        "no gaps": float(np.minimum(coded, dense).sum()) * share,
        "gaps only": float(np.minimum(coded, gaps).sum()) * share,
        "format: no gaps or gaps": float(np.minimum(coded, np.minimum(dense, gaps)).sum()) * share,
    }


def coded_rows(path: Path, cast: str | None, pattern: str) -> dict[str, float]:
    """Ratios of every variant, after the bounds."""
    element, values = read_values(path, cast, pattern)
    values = values[: values.size - values.size % (BLOCK // element.width_bytes)]
    rows = {"bound": bound(values, element)} | bounds_of_parts(values, element)
    rows |= {name: ratio(values, element, v) for name, v in VARIANTS.items()}
    written = encoded_rows(values, element)
    if written["encoded"] != rows["format"]:
        sys.exit(f"{path}: expected {written['encoded']} as encoded; found {rows['format']}")
    return rows | written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--cast", choices=CASTS, help="round wider tensors to this type first")
    parser.add_argument("--tensors", default="*", help="a pattern of the names to take")
    parser.add_argument("--resident", type=Path, help="an older checkpoint of the same tensors")
    options = parser.parse_args()
    columns = {}
    for path in options.paths:
        if options.resident:
            rows = resident_rows(path, options.resident, options.cast, options.tensors)
        else:
            rows = coded_rows(path, options.cast, options.tensors)
        columns[path.name] = rows
    print(f"{'compressed / original':34}", *(f"{name[:20]:>20}" for name in columns))
    for name in rows:
        cells = (column[name] for column in columns.values())
        print(f"{name:34}", *(f"{x:20}" if isinstance(x, int) else f"{x:20.4f}" for x in cells))


if __name__ == "__main__":
    main()
