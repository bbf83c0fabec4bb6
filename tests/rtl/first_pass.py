# SPDX-License-Identifier: Apache-2.0
"""What the parts of the encoder's first pass find in a block, by the reference codec's rules."""

from collections import Counter

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder
from tests.rtl.blocks import Block, symbols

# Packed structs of wz_analyze_pkg, highest bits first.
SHAPE = {"ranked": 1, "element": 3, "values": 13, "left_out": 13}
TRAITS = {
    "code": 1,
    "walked": 1,
    "element": 3,
    "phase": 2,
    "block_bytes": 13,
    "head_bytes": 2,
    "tail_bytes": 2,
    "head": 24,
    "tail": 24,
    "values": 13,
    "bitmap": 1,
    "stored_beats": 64,
    "stored_values": 13,
    "bare": 1,
    "sign_flag": 1,
    "sign_value": 1,
    "plane_flags": 2,
    "plane_bytes": 16,
    "constant": 1,
    "pattern": 32,
}
ORDER = {
    "bank": 2,
    "base": 8,
    "path": 14,
    "zero_rank": 4,
    "zeros": 13,
    "bits_f2": 17,
    "bits_r2": 17,
    "bits_r1": 17,
    "bits_r0": 17,
    "escapes_short": 13,
    "escapes_long": 13,
}
RANGE = {
    f"{ranks}_{zero}_{end}": 8
    for ranks in ("short", "long")
    for zero in ("less", "all")
    for end in ("lo", "hi")
}


def stored_beats(block: Block) -> tuple[list[bool], list[bytes]]:
    """Whether each beat is stored, and the beats."""
    values = block.values
    beats = [values[i : i + f.BEAT_BYTES] for i in range(0, len(values), f.BEAT_BYTES)]
    bitmap = any(len(beat) == f.BEAT_BYTES and not any(beat) for beat in beats)
    return [any(beat) or not bitmap for beat in beats], beats


def stored(block: Block) -> bytes:
    """The bytes of the stored values."""
    return b"".join(beat for flag, beat in zip(*stored_beats(block), strict=True) if flag)


# With `bare`, blocks of so many bytes leave as they are if they are not constant.
BARE_BYTES = 32


def walked(block: Block, *, bare: bool = False, min_bytes: int = 0) -> bool:
    """Whether the symbols of the block are counted and ordered."""
    size = len(block.data)
    short = size < min_bytes or (bare and size <= BARE_BYTES)
    one_beat = size <= f.BEAT_BYTES
    return block.code and block.element != ElementType.RAW and not (one_beat and short)


def traits(block: Block, *, bare: bool = False, min_bytes: int = 0) -> dict[str, int]:
    """`traits_t`."""
    element, width = block.element, block.element.width_bytes
    shape = reference._shape(len(block.data), element, block.phase)
    flags, _beats = stored_beats(block)
    kept = reference._values(
        stored(block), element, reference._Shape(0, len(stored(block)) // width, 0)
    )
    parts = [reference._split(value, element) for value in kept]
    bare_zeros = element != ElementType.RAW and not any(r for symbol, r in parts if symbol == 0)
    carriers = [r for symbol, r in parts if symbol or not bare_zeros]
    signs = (
        {r >> element.layout.mantissa_bits for r in carriers} if element.layout.signed else set()
    )
    planes = {ElementType.RAW: 1, ElementType.FP16: 1, ElementType.FP32: 2}.get(element, 0)
    plane_flags = plane_bytes = 0
    for plane in range(planes):
        distinct = {r >> 8 * plane & 0xFF for r in carriers}
        if len(distinct) == 1:
            plane_flags |= 1 << plane
            plane_bytes |= distinct.pop() << 8 * plane
    data = block.data
    constant = len(data) > width and data[width:] == data[:-width]
    hopeless = len(data) <= BARE_BYTES or (element == ElementType.RAW and all(flags))
    as_it_is = len(data) < min_bytes or (bare and hopeless and not constant)
    return {
        "code": block.code and not as_it_is,
        "walked": walked(block, bare=bare, min_bytes=min_bytes),
        "element": element,
        "phase": block.phase,
        "block_bytes": len(data),
        "head_bytes": shape.head,
        "tail_bytes": shape.tail,
        "head": int.from_bytes(data[: shape.head], "little"),
        "tail": int.from_bytes(data[len(data) - shape.tail :], "little"),
        "values": shape.values,
        "bitmap": not all(flags),
        "stored_beats": sum(flag << i for i, flag in enumerate(flags)),
        "stored_values": len(kept),
        "bare": bare_zeros,
        "sign_flag": len(signs) == 1,
        "sign_value": signs == {1},
        "plane_flags": plane_flags,
        "plane_bytes": plane_bytes,
        "constant": constant,
        "pattern": int.from_bytes(data[:width], "little"),
    }


def shape(block: Block, *, min_bytes: int = 0) -> dict[str, int]:
    """`shape_t` of a block that is walked."""
    values = len(block.values) // block.element.width_bytes
    kept = len(stored(block)) // block.element.width_bytes
    ranked = (
        block.code
        and block.element != ElementType.RAW
        and kept > 0
        and len(block.data) >= min_bytes
    )
    return {
        "ranked": ranked,
        "element": block.element,
        "values": values,
        "left_out": values - kept,
    }


def order(block: Block, *, min_bytes: int = 0) -> dict[str, int]:
    """`order_t`, without the bank."""
    if not shape(block, min_bytes=min_bytes)["ranked"]:
        return dict.fromkeys(ORDER, 0)
    counts = Counter(symbols(stored(block), block.element).tolist())
    top = (1 << block.element.layout.exponent_bits) - 1
    base, path, zero_rank = reference._choose_order(counts, top)
    out = {"base": base, "path": path, "zero_rank": zero_rank, "zeros": counts[0]}
    for coder in Coder:
        escape = f.CODER_RANKS[coder]
        ranks = {s: r for r, s in enumerate(reference._order(base, path, zero_rank, escape, top))}
        spread = Counter(dict.fromkeys(range(escape + 1), 0))
        for symbol, count in counts.items():
            spread[ranks.get(symbol, escape)] += count
        out[f"bits_{coder.name.lower()}"] = sum(
            count * (q + 1)
            for rank, count in spread.items()
            for q in reference._quotients([rank], coder)
        )
        out["escapes_long" if coder == Coder.R2 else "escapes_short"] = spread[escape]
    return out


def spans(found: dict[str, int]) -> tuple[str, str]:
    """Those of `range_t` that hold for the order: with 15 and with 31 ranks."""
    zero = "all" if found["zero_rank"] == f.ZERO_RANK_NONE else "less"
    return f"short_{zero}", f"long_{zero}"


def ranges(block: Block, found: dict[str, int]) -> tuple[list[int], list[int]]:
    """Symbols but 0 that have a rank: with 15 and with 31 ranks, in the order of their steps."""
    top = (1 << block.element.layout.exponent_bits) - 1
    short, long = (
        [s for s in reference._order(found["base"], found["path"], found["zero_rank"], n, top) if s]
        for n in (15, 31)
    )
    return short, long
