# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies: blocks of every structure the format knows, frames, and damage to them."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from codec.elements import ElementType
from codec.format import Coder
from tests.conformance import blocks, builder
from tests.conformance.builder import Draft

LENGTHS = st.one_of(
    st.integers(1, 80),
    st.sampled_from([127, 128, 129, 255, 256, 511, 512, 1000, 1023, 1024]),
    st.integers(81, 1500),
)

# Shares of consecutive symbols: like weights, falling by half, equal, or anything.
WEIGHTS = st.one_of(
    st.just(blocks.NORMAL),
    st.integers(1, 12).map(lambda n: [1 << n - i for i in range(n + 1)]),
    st.integers(1, 24).map(lambda n: [1] * n),
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
)


@dataclass(frozen=True)
class Case:
    """A block and what the encoder is told of it."""

    element: ElementType
    phase: int
    block: bytes


@st.composite
def cases(draw: Callable, lengths: st.SearchStrategy[int] = LENGTHS) -> Case:
    """Blocks: noise, a constant, or values with drawn exponents, signs, planes and zero beats."""
    element = draw(st.sampled_from(ElementType))
    phase = draw(st.integers(0, element.width_bytes - 1))
    length = draw(lengths)
    rng = Random(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["values", "values", "values", "noise", "constant", "damaged"]))
    if kind == "noise":
        return Case(element, phase, blocks.noise(rng, length))
    if kind == "values":
        return Case(element, phase, draw(_valued_block(element, phase, length, rng)))
    pattern = blocks.noise(rng, element.width_bytes)
    block = bytearray((pattern * (length // len(pattern) + 1))[:length])
    if kind == "damaged":
        block[draw(st.integers(0, length - 1))] ^= 1 << draw(st.integers(0, 7))
    return Case(element, phase, bytes(block))


@st.composite
def _valued_block(
    draw: Callable, element: ElementType, phase: int, length: int, rng: Random
) -> bytes:
    """Head, values and tail, with whole beats of the values set to zero."""
    head = min(phase, length)
    count, tail = divmod(length - head, element.width_bytes)
    body = bytearray(draw(_values(element, count, rng)))
    for start in range(0, len(body), 64):
        if rng.random() < draw(st.shared(st.sampled_from([0, 0, 0.1, 0.6, 1]), key="zero beats")):
            body[start : start + 64] = bytes(len(body[start : start + 64]))
    return blocks.noise(rng, head) + bytes(body) + blocks.noise(rng, tail)


@st.composite
def _values(draw: Callable, element: ElementType, count: int, rng: Random) -> bytes:
    if element == ElementType.RAW:
        choices = draw(st.lists(st.integers(0, 255), min_size=1, max_size=4))
        return bytes(choices[int(rng.random() * len(choices))] for _ in range(count))
    layout = element.layout
    last = (1 << layout.exponent_bits) - 1
    base = draw(st.integers(0, last))
    weights = draw(WEIGHTS)
    spread = draw(st.sampled_from([-1, -1, 1, 2]))
    symbols = [min(last, max(0, base + spread * i)) for i in blocks.draw(rng, weights, count)]
    outliers = draw(st.sampled_from([0, 0, 0, 0.01, 0.03]))
    zeros = draw(st.sampled_from([0, 0, 0.02, 0.3, 0.3, 0.6]))
    symbols = [int(rng.random() * (last + 1)) if rng.random() < outliers else s for s in symbols]
    symbols = [0 if rng.random() < zeros else s for s in symbols]
    mantissa = (1 << layout.mantissa_bits) - 1
    clear = draw(st.sampled_from([0, 0, 0xFF, 0xFFFF, 0xFF00, mantissa])) & mantissa
    sign = draw(st.sampled_from([None, None, 0, 1]))
    bare = draw(st.sampled_from([0, 0.99, 1, 1, 1]))
    return b"".join(
        bytes(element.width_bytes)
        if s == 0 and rng.random() < bare
        else blocks.with_symbols(rng, element, [s], sign=sign, clear=clear)
        for s in symbols
    )


@st.composite
def drafts(draw: Callable) -> tuple[Draft, ElementType, int]:
    """Coded frames whose every choice is drawn, and their element type and phase.

    They keep every rule, except perhaps a limit: see `Draft.within_limits`.
    """
    case = draw(cases(st.integers(40, 700)))
    element, phase, block = case.element, case.phase, case.block
    layout, width = element.layout, element.width_bytes
    values = [block[i : i + width] for i in range(phase, len(block) - width + 1, width)]
    beats = [values[i : i + 64 // width] for i in range(0, len(values), 64 // width)]
    bitmap = None
    if draw(st.booleans()):
        bitmap = draw(st.integers(0, (1 << len(beats)) - 1))
        bitmap |= sum(1 << b for b, beat in enumerate(beats) if any(map(any, beat)))
    stored = [v for b, beat in enumerate(beats) if bitmap is None or bitmap >> b & 1 for v in beat]
    last = (1 << layout.exponent_bits) - 1
    symbols = [int.from_bytes(v, "little") >> layout.mantissa_bits & last for v in stored]
    carriers = stored
    if element != ElementType.RAW and symbols.count(0) == sum(not any(v) for v in stored):
        bare = draw(st.sampled_from([True, True, False]))
        carriers = [v for v in stored if any(v) or not bare]
    # Planes that are whole bytes of the element are enough here.
    planes = sum(
        draw(st.integers(0, 1)) << p
        for p in range(layout.mantissa_bits // 8)
        if len({v[p] for v in carriers}) == 1
    )
    bare = len(carriers) < len(stored)
    make = {"phase": phase, "bitmap": bitmap, "planes": planes, "bare": bare}
    if element == ElementType.RAW or not stored:
        return builder.coded(block, element, **make), element, phase
    base, path = _fitting_order(symbols, last)
    if not draw(st.integers(0, 2)):
        base = min(last, max(1, draw(st.sampled_from(symbols))))
        path = draw(st.integers(0, (1 << 14) - 1))
    draft = builder.coded(
        block,
        element,
        base=base,
        path=path,
        zero_rank=draw(st.one_of(st.integers(0, 2), st.integers(0, 15))),
        coder=draw(st.sampled_from(Coder)),
        sign=len({v[-1] >> 7 for v in carriers}) == 1 and draw(st.booleans()),
        escape_at=draw(st.sets(st.integers(0, len(stored) - 1), max_size=3)),
        **make,
    )
    return draft, element, phase


def _fitting_order(symbols: list[int], last: int) -> tuple[int, int]:
    """A base and a path by falling frequency, as far as a path can: few escapes, short codes."""
    base = max(range(1, last + 1), key=symbols.count)
    left, right, path = base - 1, base + 1, 0
    for step in range(14):
        if left >= 1 and (right > last or symbols.count(left) >= symbols.count(right)):
            path |= 1 << step
            left -= 1
        else:
            right += 1
    return base, path


@dataclass(frozen=True)
class Update:
    """A block, and the copy of it that the receiver holds."""

    element: ElementType
    phase: int
    block: bytes
    resident: bytes


@st.composite
def updates(draw: Callable) -> Update:
    """Blocks that differ from their resident copy in all values, in some, or in few."""
    case = draw(cases(st.integers(1, 700)))
    rng = Random(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0, 0.01, 0.1, 0.5, 1]))
    step = draw(st.sampled_from([1, 2, 6, 100]))
    block = bytearray(blocks.moved(rng, case.block, case.element, share, step))
    for _ in range(draw(st.integers(0, 2))):
        block[draw(st.integers(0, len(block) - 1))] ^= draw(st.integers(1, 255))
    return Update(case.element, case.phase, bytes(block), case.block)


@st.composite
def resident_drafts(draw: Callable) -> tuple[Draft, Update]:
    """Frames in reference mode whose every choice is drawn; limits as in `drafts`."""
    update = draw(updates())
    width = update.element.width_bytes
    shift = draw(st.one_of(st.integers(0, 4), st.integers(0, min(15, 8 * width))))
    gap_shift = draw(st.one_of(st.none(), st.integers(0, 15)))
    bitmap = None
    if gap_shift is None and draw(st.booleans()):
        count = (len(update.block) - update.phase) // width
        beats = -(-max(0, count) * width // 64)
        bitmap = (1 << beats) - 1
        for b in range(beats):
            at = update.phase + 64 * b
            beat = slice(at, min(at + 64, update.phase + count * width))
            if update.block[beat] == update.resident[beat] and draw(st.booleans()):
                bitmap &= ~(1 << b)
    draft = builder.reference(
        update.block,
        update.resident,
        update.element,
        phase=update.phase,
        shift=shift,
        gap_shift=gap_shift,
        bitmap=bitmap,
        escape_at=draw(st.sets(st.integers(0, 40), max_size=2)),
    )
    return draft, update


Edit = tuple[str, int, int]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "flip", "byte", "header", "header", "cut", "grow", "insert"]),
        st.integers(8, 8191),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=3,
)


def damaged(frame: bytes, edits: list[Edit]) -> bytes:
    """`frame` after edits: what is done, at which place modulo the length, and with which byte."""
    data = bytearray(frame)
    for kind, place, byte in edits:
        at = place % max(1, len(data))
        if kind == "grow":
            data.append(byte)
        elif kind == "insert":
            data.insert(at, byte)
        elif not data:
            continue
        elif kind == "flip":
            data[at] ^= 1 << byte % 8
        elif kind == "byte":
            data[at] = byte
        elif kind == "header":
            data[place % min(16, len(data))] ^= 1 << byte % 8
        else:
            del data[at:]
    return bytes(data)
