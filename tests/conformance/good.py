# SPDX-License-Identifier: Apache-2.0
"""The good vectors: blocks with the frames that decode to them (see `tests/make_vectors.py`)."""

from collections.abc import Iterator
from random import Random

from codec import reference
from codec.elements import ElementType
from codec.format import Coder, Mode
from codec.header import parse_header
from tests.conformance import blocks, builder
from tests.conformance.builder import Draft
from tests.conformance.vectors import Good

BF16, FP16, FP32 = ElementType.BF16, ElementType.FP16, ElementType.FP32
RAW, E4M3, E5M2 = ElementType.RAW, ElementType.E4M3, ElementType.E5M2


def good_vectors() -> Iterator[Good]:
    """All good vectors, in the order of the files."""
    yield from _sizes()
    yield from _modes()
    yield from _contents()
    yield from _order()
    yield from _codes()
    yield from _sections()
    yield from _bare_zeros()
    yield from _patterns()
    yield from _resident()
    yield from _unusual()


def _encoded(
    name: str,
    why: str,
    element: ElementType,
    block: bytes,
    *,
    phase: int = 0,
    resident: bytes | None = None,
    mode: Mode | None = None,
    coder: Coder | None = None,
    bare_zeros: int | None = None,
) -> Good:
    """A canonical vector.

    `mode`, `coder` and `bare_zeros` are what the encoder must choose, where it matters.
    """
    frame = reference.encode_frame(block, element, phase, resident)
    header = parse_header(frame)
    if (
        mode not in (None, header.mode)
        or coder not in (None, header.coder)
        or bare_zeros not in (None, header.bare_zeros)
    ):
        raise AssertionError(f"{name}: is {header}")
    return Good(name, why, element, block, frame, phase, resident)


def _sizes() -> Iterator[Good]:
    for element in ElementType:
        width = element.width_bytes
        rng = Random(f"sizes {element.name}")
        lengths = {1, width - 1, width, width + 1, 63, 64, 65, 1000, 1024, 4095, 4096} - {0}
        for length in sorted(lengths):
            yield _encoded(
                f"sizes/{element.name}-{length}",
                "length at or beside an element, a beat, a packet or the largest block",
                element,
                blocks.weights(rng, element, length),
            )
        for phase in range(1, width):
            for length in sorted({1, width - 1, width, phase + width, 66, 67, 513, 514} - {0}):
                yield _encoded(
                    f"sizes/{element.name}-{length}-phase-{phase}",
                    "block that begins inside an element; its head may be all of it",
                    element,
                    blocks.weights(rng, element, length, phase=phase),
                    phase=phase,
                )


def _modes() -> Iterator[Good]:
    for element in ElementType:
        rng = Random(f"modes {element.name}")
        width = element.width_bytes
        yield _encoded(
            f"modes/{element.name}-raw", "noise", element, blocks.noise(rng, 192), mode=Mode.RAW
        )
        pattern = blocks.noise(rng, width)
        for length in (width + 1, 64 + width // 2, 4096):
            yield _encoded(
                f"modes/{element.name}-constant-{length}",
                "one element over and over",
                element,
                (pattern * 4096)[:length],
                mode=Mode.CONSTANT,
            )
        for phase in range(1, width):
            yield _encoded(
                f"modes/{element.name}-constant-phase-{phase}",
                "a constant block has no phase: the period is that of its first byte",
                element,
                (pattern * 64)[:101],
                phase=phase,
                mode=Mode.CONSTANT,
            )
        yield _encoded(
            f"modes/{element.name}-zero",
            "all zero is constant",
            element,
            bytes(512),
            mode=Mode.CONSTANT,
        )
        if element == RAW:
            continue
        yield _encoded(
            f"modes/{element.name}-coded",
            "weights-like values",
            element,
            blocks.weights(rng, element, 1536),
            mode=Mode.CODED,
        )
        symbols = [1 if rng.getrandbits(4) else 2 for _ in range(64)]
        yield _encoded(
            f"modes/{element.name}-period-broken",
            "constant but for its last byte",
            element,
            pattern * (256 // width) + bytes([pattern[0] ^ 1]),
        )
        yield _encoded(
            f"modes/{element.name}-small",
            "little to save: the long header nearly costs what the code saves",
            element,
            blocks.with_symbols(rng, element, symbols, sign=0),
        )


def _contents() -> Iterator[Good]:
    rng = Random("contents")
    one, two = 0x3F80, 0x4000
    yield _encoded(
        "contents/BF16-alternating",
        "zero and one in turn: every second lane is zero",
        BF16,
        blocks.join([0, one] * 256, BF16),
    )
    yield _encoded(
        "contents/BF16-two-values",
        "two elements in turn, of neighbouring exponents",
        BF16,
        blocks.join([one, two] * 256, BF16),
        coder=Coder.R0,
    )
    special = [0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x0001, 0x8001, 0x007F, 0x8000, 0x0000]
    normal = blocks.with_symbols(rng, BF16, blocks.normal_symbols(rng, BF16, 502))
    yield _encoded(
        "contents/BF16-special",
        "infinities, NaN payloads, subnormals, both zeros among ordinary values",
        BF16,
        blocks.join(special, BF16) + normal,
    )
    yield _encoded(
        "contents/BF16-negative-zero",
        "-0 is not zero: no beat of it may be left out",
        BF16,
        blocks.join([0x8000] * 32, BF16) + normal[:960],
        mode=Mode.CODED,
    )
    specials = {
        FP16: [0x7C00, 0xFC00, 0x7E01, 0x0001, 0x83FF, 0x8000],
        FP32: [0x7F800000, 0xFFC00001, 1, 0x807FFFFF, 0x80000000, 0],
        E4M3: [0x7F, 0xFF, 0x01, 0x87, 0x80],
        E5M2: [0x7C, 0xFC, 0x7F, 0x01, 0x83, 0x80],
    }
    for element, values in specials.items():
        yield _encoded(
            f"contents/{element.name}-special",
            "not numbers, subnormals, both zeros",
            element,
            blocks.join(values, element) + blocks.weights(rng, element, 600),
        )
    yield _encoded(
        "contents/BF16-weights",
        "a full block of a weight matrix",
        BF16,
        blocks.weights(rng, BF16, 4096),
        coder=Coder.F2,
    )
    rows = [
        blocks.with_symbols(rng, BF16, blocks.normal_symbols(rng, BF16, 64, top=120 - 9 * row % 13))
        if row % 3
        else bytes(128)
        for row in range(16)
    ]
    yield _encoded(
        "contents/BF16-gradient",
        "rows of several scales, a third of them zero",
        BF16,
        b"".join(rows),
    )
    yield _encoded(
        "contents/BF16-relu",
        "half of the values zero, sprinkled; constant sign",
        BF16,
        blocks.join(
            [
                x * rng.getrandbits(1)
                for x in (
                    blocks.value(BF16, 0, s, rng.getrandbits(7))
                    for s in blocks.normal_symbols(rng, BF16, 512)
                )
            ],
            BF16,
        ),
    )
    yield _encoded(
        "contents/FP32-holds-BF16",
        "two constant zero bytes in each element",
        FP32,
        blocks.with_symbols(rng, FP32, blocks.normal_symbols(rng, FP32, 256), clear=0xFFFF),
    )
    yield _encoded(
        "contents/RAW-text",
        "bytes that no coder can shorten",
        RAW,
        (b"wirezip frame " * 40)[:513],
        mode=Mode.RAW,
    )
    yield _encoded(
        "contents/RAW-zero-beats",
        "bytes have no symbols, but zero beats and a constant plane",
        RAW,
        bytes(128) + b"\x07" * 64 + bytes(64) + b"\x07" * 30,
        mode=Mode.CODED,
    )


def _descending(base: int, start: int = 40, step: int = 2) -> dict[int, int]:
    """Counts of 15 symbols from `base` downwards, each smaller than the one before."""
    return {base - i: start - step * i for i in range(15)}


def _order() -> Iterator[Good]:
    rng = Random("order")
    for rank in range(15):
        yield _encoded(
            f"order/BF16-zero-rank-{rank}",
            "place of symbol 0 in the order",
            BF16,
            blocks.with_counts(rng, BF16, _descending(127) | {0: 41 - 2 * rank}),
            mode=Mode.CODED,
        )
    yield _encoded(
        "order/BF16-zero-rank-tie",
        "a symbol as frequent as 0 comes before it",
        BF16,
        blocks.with_counts(rng, BF16, _descending(127) | {0: 36}),
        mode=Mode.CODED,
    )
    yield _encoded(
        "order/BF16-zero-escapes",
        "0 is rarer than the 15 symbols of the order: rank 15, escapes",
        BF16,
        blocks.with_counts(rng, BF16, _descending(127) | {0: 3}),
        mode=Mode.CODED,
    )
    yield _encoded(
        "order/BF16-only-zero",
        "0 is the only symbol: base 1 counts nothing",
        BF16,
        blocks.with_counts(rng, BF16, {0: 256}),
        mode=Mode.CODED,
    )
    yield _encoded(
        "order/BF16-base-tie",
        "several symbols of maximal count: the lowest is the base",
        BF16,
        blocks.with_counts(rng, BF16, {120: 70, 121: 70, 122: 70, 123: 46}),
    )
    yield _encoded(
        "order/BF16-path-tie",
        "neighbours of equal count: left first",
        BF16,
        blocks.with_counts(rng, BF16, {120: 100, 119: 40, 121: 40, 118: 30, 122: 30, 117: 16}),
    )
    yield _encoded(
        "order/BF16-path-after-14",
        "31 ranks: after step 13 the path alternates",
        BF16,
        blocks.with_counts(rng, BF16, {s: 28 if 92 <= s < 108 else 3 for s in range(85, 116)}),
        coder=Coder.R2,
    )
    for element in blocks.FLOATS:
        last = (1 << element.layout.exponent_bits) - 1
        ramp = [128, 64, 32, 16, 8, 4, 2, 2]
        low = {1 + i: n for i, n in enumerate(ramp)}
        high = {last - i: n for i, n in enumerate(ramp)}
        yield _encoded(
            f"order/{element.name}-left-exhausted",
            "base 1: all steps go right",
            element,
            blocks.with_counts(rng, element, low),
        )
        yield _encoded(
            f"order/{element.name}-right-exhausted",
            "base is the last symbol: all steps go left",
            element,
            blocks.with_counts(rng, element, high),
        )
        yield _encoded(
            f"order/{element.name}-left-runs-out",
            "the left side ends within the path",
            element,
            blocks.with_counts(
                rng, element, {3: 120, 2: 60, 4: 50, 1: 20, 5: 14, 6: 8, 7: 4, 0: 9}
            ),
        )
        yield _encoded(
            f"order/{element.name}-right-runs-out",
            "the right side ends within the path",
            element,
            blocks.with_counts(
                rng,
                element,
                {last - 2: 120, last - 1: 60, last - 3: 50, last: 20, last - 4: 14, last - 5: 8},
            ),
        )
    for element in (FP16, E5M2):
        yield _encoded(
            f"order/{element.name}-all-symbols",
            "32 symbols: with 0 in the order one escapes",
            element,
            blocks.with_counts(rng, element, {s: 30 - abs(s - 12) for s in range(32)}),
        )
    yield _encoded(
        "order/E4M3-all-symbols",
        "16 symbols, the order is one short with 15 ranks",
        E4M3,
        blocks.with_counts(rng, E4M3, {s: 60 - 4 * abs(s - 7) for s in range(16)}),
    )


def _codes() -> Iterator[Good]:
    rng = Random("codes")
    ramps = {
        Coder.R0: [256, 128, 64, 32, 16, 8, 4, 2, 1, 1],
        Coder.R1: [130, 90, 80, 60, 50, 40, 20, 20, 10, 6, 4, 2],
        Coder.R2: [40] * 8 + [20] * 8 + [4] * 8,
        Coder.F2: [150, 130, 110, 60, 32, 16, 8, 4, 2],
    }
    for element in blocks.FLOATS:
        alphabet = (1 << element.layout.exponent_bits) - 1
        for coder, ramp in ramps.items():
            if element == E4M3 and coder == Coder.R2:
                ramp = [70] * 4 + [40] * 4 + [10] * 7
            top = min(alphabet, 127)
            yield _encoded(
                f"codes/{element.name}-{coder.name}",
                f"{coder.name} is the shortest",
                element,
                blocks.with_counts(rng, element, {top - i: n for i, n in enumerate(ramp)}),
                coder=coder,
            )
    steep = {127 - i: n for i, n in enumerate([300, 100, 50, 25, 12, 6, 3])}
    for escapes in (0, 1, 15, 16, 17):
        common = steep | {127: 512 - sum(steep.values()) + steep[127] - escapes}
        counts = common | ({250: escapes} if escapes else {})
        yield _encoded(
            f"codes/BF16-escapes-{escapes}",
            "512 values may have 16 escapes; 17 make the block raw",
            BF16,
            blocks.with_counts(rng, BF16, counts),
            mode=Mode.RAW if escapes > 16 else Mode.CODED,
        )
    yield _encoded(
        "codes/BF16-escapes-many-symbols",
        "several symbols escape, 255 and 0 among them",
        BF16,
        blocks.with_counts(rng, BF16, _descending(140, 60, 3) | {255: 2, 0: 3, 9: 4, 200: 4}),
        mode=Mode.CODED,
    )
    limit = {100: 257, 96: 254, 92: 1}
    yield _encoded(
        "codes/BF16-unary-at-limit",
        "exactly 3 unary bits a value",
        BF16,
        blocks.with_counts(rng, BF16, limit),
        coder=Coder.R0,
    )
    yield _encoded(
        "codes/BF16-unary-over-limit",
        "one bit over the limit: another coder is taken",
        BF16,
        blocks.with_counts(rng, BF16, {100: 257, 96: 254, 91: 1}),
        coder=Coder.R1,
    )
    for coder, ramp in ramps.items():
        counts = {127 - i: n for i, n in enumerate(ramp)} | {127: ramp[0] - 3, 200: 3}
        yield _encoded(
            f"codes/BF16-longest-{coder.name}",
            "escapes have the longest code of their coder",
            BF16,
            blocks.with_counts(rng, BF16, counts),
            coder=coder,
        )
    yield _encoded(
        "codes/BF16-tie",
        "two coders of equal length: the lower number is taken",
        BF16,
        blocks.with_counts(rng, BF16, {127: 256, 126: 256}),
        coder=Coder.R0,
    )


def _sections() -> Iterator[Good]:
    rng = Random("sections")
    for sign in (0, 1):
        for element in blocks.FLOATS:
            yield _encoded(
                f"sections/{element.name}-sign-{sign}",
                "all signs equal: not stored",
                element,
                blocks.with_symbols(
                    rng, element, blocks.normal_symbols(rng, element, 301), sign=sign
                ),
            )
    clear = {1: 0xFF, 2: 0xFF00, 3: 0xFFFF, 4: 0xFF0000, 5: 0xFF00FF, 7: 0xFFFFFF}
    for planes, bits in clear.items():
        signs = 1 if planes & 4 else None
        yield _encoded(
            f"sections/FP32-planes-{planes}",
            "byte planes of zero are not stored",
            FP32,
            blocks.with_symbols(
                rng, FP32, blocks.normal_symbols(rng, FP32, 130), clear=bits, sign=signs
            ),
        )
    yield _encoded(
        "sections/FP32-plane-not-zero",
        "a constant plane need not be zero",
        FP32,
        blocks.join(
            [
                blocks.value(FP32, rng.getrandbits(1), s, rng.getrandbits(15) << 8 | 0xA5)
                for s in blocks.normal_symbols(rng, FP32, 130)
            ],
            FP32,
        ),
    )
    yield _encoded(
        "sections/FP16-plane",
        "low mantissa byte constant",
        FP16,
        blocks.with_symbols(rng, FP16, blocks.normal_symbols(rng, FP16, 200), clear=0xFF),
    )
    yield _encoded(
        "sections/BF16-plane",
        "all mantissas and signs equal: only symbols are left",
        BF16,
        blocks.join([s << 7 | 0x8055 for s in blocks.normal_symbols(rng, BF16, 200)], BF16),
    )
    for element in ElementType:
        per_beat = 64 // element.width_bytes
        beat = [blocks.weights(rng, element, 64) for _ in range(4)]
        zero = bytes(64)
        partial = bytes(element.width_bytes * (per_beat // 2))
        half = beat[3][: len(partial)]
        layouts = {
            "first": zero + beat[0] + beat[1] + beat[2],
            "last": beat[0] + beat[1] + beat[2] + zero,
            "middle": beat[0] + zero + zero + beat[1] + half,
            "partial": beat[0] + zero + beat[1] + beat[2] + partial,
            "partial-alone": beat[0] + beat[1] + beat[2] + beat[3] + partial,
        }
        for name, block in layouts.items():
            yield _encoded(
                f"sections/{element.name}-zero-beat-{name}",
                "zero beats are left out, a partial one only beside a complete one",
                element,
                block,
            )
        yield _encoded(
            f"sections/{element.name}-one-beat-of-64",
            "63 zero beats: bit 63 of the bitmap",
            element,
            zero * 63 + beat[0],
            mode=Mode.CODED,
        )
        for phase in range(1, element.width_bytes):
            head = blocks.noise(rng, phase)
            yield _encoded(
                f"sections/{element.name}-no-values-phase-{phase}",
                "m = 0: head and tail around zero beats",
                element,
                head + bytes(512) + b"\x01" * (element.width_bytes - 1),
                phase=phase,
                mode=Mode.CODED,
            )
            yield _encoded(
                f"sections/{element.name}-extras-phase-{phase}",
                "bitmap, head, tail and constant plane share one section",
                element,
                head + beat[0] + zero + beat[1] + beat[2] + beat[3] + b"\x7e",
                phase=phase,
            )


def _count_zeros(block: bytes, element: ElementType, phase: int = 0) -> int:
    """Values of `block` that are zero in all bits."""
    width = element.width_bytes
    values = (block[i : i + width] for i in range(phase, len(block) - width + 1, width))
    return sum(not any(v) for v in values)


def _bare_zeros() -> Iterator[Good]:
    for element in blocks.FLOATS:
        rng = Random(f"bare zeros {element.name}")
        width = element.width_bytes

        def numbers(count: int, *, rng=rng, element=element) -> list[int]:
            return [max(1, s) for s in blocks.normal_symbols(rng, element, count)]

        def case(
            name: str, why: str, block: bytes, count: int, *, phase: int = 0, element=element
        ) -> Good:
            return _encoded(
                f"bare/{element.name}-{name}",
                why,
                element,
                block,
                phase=phase,
                mode=Mode.CODED,
                bare_zeros=count,
            )

        for share in (0.05, 0.5, 0.6):
            block = blocks.sprinkled(rng, element, numbers(2048 // width), zeros=share)
            yield case(
                f"relu-{share}",
                "zeros among positive values: they have no remainder",
                block,
                _count_zeros(block, element),
            )
        block = blocks.sprinkled(rng, element, numbers(301), zeros=0.3, sign=None)
        yield case(
            "dropout", "zeros among values of both signs", block, _count_zeros(block, element)
        )
        block = blocks.sprinkled(rng, element, numbers(301), zeros=0.3, sign=1)
        yield case(
            "negative",
            "all carriers are negative, the zeros are not: sign flag and value 1",
            block,
            _count_zeros(block, element),
        )
        if element in (FP16, FP32):
            values = [
                blocks.value(element, rng.getrandbits(1), s, rng.getrandbits(2) << 8 | 0xA5)
                if rng.random() < 0.7
                else 0
                for s in numbers(301)
            ]
            yield case(
                "plane",
                "a byte plane of all carriers is constant, and not what the zeros have there",
                blocks.join(values, element),
                values.count(0),
            )
        block = blocks.sprinkled(rng, element, numbers(300), zeros=0.3, sign=1)
        holed = block[:128] + bytes(128) + block[128:]
        yield case(
            "bitmap",
            "zero beats are left out and not counted, zeros in stored beats are bare",
            holed,
            _count_zeros(block, element),
        )
        for phase in range(1, width):
            edges = blocks.noise(rng, phase) + holed + blocks.noise(rng, width - 1)
            yield case(
                f"phase-{phase}",
                "head, tail, bitmap and bare zeros",
                edges,
                _count_zeros(block, element),
                phase=phase,
            )
            few = 64 // width - 1
            alone = blocks.noise(rng, phase) + bytes(few * width) + blocks.noise(rng, width - 1)
            yield case(
                f"only-zeros-phase-{phase}",
                "no carrier, yet stored values: the partial beat is not left out",
                alone,
                few,
                phase=phase,
            )
        block = blocks.sprinkled(rng, element, numbers(2048 // width), zeros=0.3, sign=None)
        for name, why, number in (
            ("negative-zero", "-0 has symbol 0 and is not zero", 1 << 8 * width - 1),
            ("subnormal", "a subnormal value has symbol 0 and is not zero", 1),
        ):
            value = number.to_bytes(width, "little")
            for place in (0, 2048 - width):
                yield case(
                    f"{name}-{place}",
                    f"{why}: every zero has a remainder",
                    block[:place] + value + block[place + width :],
                    0,
                )


def _patterns() -> Iterator[Good]:
    for i in range(32):
        yield _encoded(
            f"patterns/BF16-{i:02}",
            "all 65,536 patterns of BF16, in 32 blocks",
            BF16,
            blocks.join(range(2048 * i, 2048 * (i + 1)), BF16),
        )


def _resident() -> Iterator[Good]:
    for element in ElementType:
        rng = Random(f"resident {element.name}")
        width = element.width_bytes
        copy = blocks.noise(rng, 512)

        def case(
            name: str, why: str, block: bytes, *, element=element, copy=copy, phase: int = 0
        ) -> Good:
            return _encoded(
                f"resident/{element.name}-{name}",
                why,
                element,
                block,
                phase=phase,
                resident=copy[: len(block)],
                mode=Mode.REFERENCE,
            )

        yield case("same", "nothing has changed", copy)
        yield case(
            "dense", "every value has moved a little", blocks.moved(rng, copy, element, 1, 2)
        )
        sparse = bytearray(copy)
        for at in (0, 5, 6, 100):
            sparse[at * width] ^= 1
        yield case("sparse", "few values have moved: gaps", bytes(sparse))
        yield case(
            "bitmap",
            "one dense region: zero beats are left out",
            copy[:256] + blocks.moved(rng, copy[256:384], element, 1, 3) + copy[384:],
        )
        far = bytearray(blocks.moved(rng, copy, element, 1, 1))
        far[10 * width + width - 1] ^= 0x55
        yield case("value-escapes", "one value has moved far: an escape", bytes(far))
        lone = bytearray(copy)
        for at in (*range(8), 500 // width):
            lone[at * width] ^= 1
        yield case("gap-escapes", "short gaps, and one so long that it escapes", bytes(lone))
        flipped = bytes(
            b ^ (0x80 if i % width == width - 1 and i < 16 else 0) for i, b in enumerate(copy)
        )
        yield case("signs", "values that changed sign, and so the order of their keys", flipped)
        for phase in range(1, width):
            yield case(
                f"phase-{phase}",
                "head and tail are stored as they are",
                blocks.noise(rng, phase) + blocks.moved(rng, copy[phase:333], element, 0.5, 2),
                phase=phase,
            )
    copy = blocks.weights(Random("resident no"), BF16, 600)
    yield _encoded(
        "resident/BF16-unrelated",
        "a copy that does not help: the frame is coded",
        BF16,
        blocks.weights(Random("resident yes"), BF16, 600),
        resident=copy,
        mode=Mode.CODED,
    )
    yield _encoded(
        "resident/BF16-constant",
        "a constant block, copy or no copy",
        BF16,
        b"\x11\x22" * 300,
        resident=copy,
        mode=Mode.CONSTANT,
    )


def _unusual() -> Iterator[Good]:
    """Valid frames that no conforming encoder writes."""
    rng = Random("unusual")

    def case(name: str, why: str, draft: Draft, element: ElementType = BF16, **more) -> Good:
        if not draft.within_limits:
            raise AssertionError(f"{name}: breaks a limit")
        return Good(
            f"unusual/{name}", why, element, draft.block, draft.frame(), canonical=False, **more
        )

    plain = blocks.with_counts(rng, BF16, {120: 128, 121: 64, 119: 32, 118: 20, 0: 8, 122: 4})
    good = {"base": 120, "path": 0b101, "zero_rank": 4}
    yield case("raw", "a raw frame of a block that can be coded", builder.raw(plain, BF16))
    for coder in Coder:
        yield case(
            f"coder-{coder.name}",
            "one of four coders is the best, all are valid",
            builder.coded(plain, BF16, coder=coder, **good),
        )
    yield case(
        "constant",
        "a constant block coded all the same",
        builder.coded(b"\x80\x3f" * 64, BF16, base=127, sign=True),
    )
    yield case(
        "constant-raw", "a constant block in a raw frame", builder.raw(b"\x80\x3f" * 64, BF16)
    )
    yield case(
        "sign-kept",
        "all signs are equal, but stored",
        builder.coded(blocks.with_symbols(rng, BF16, [127] * 100, sign=1), BF16, base=127),
    )
    yield case(
        "plane-kept",
        "planes are constant, but stored",
        builder.coded(blocks.with_symbols(rng, FP32, [127] * 60, clear=0xFFFF), FP32, base=127),
        FP32,
    )
    yield case(
        "bitmap-all",
        "a bitmap that leaves nothing out",
        builder.coded(plain, BF16, bitmap=255, **good),
    )
    holed = plain[:64] + bytes(64) + plain[64:256] + bytes(64)
    yield case(
        "bitmap-some",
        "one zero beat left out, another stored",
        builder.coded(holed, BF16, bitmap=0b111101, **good),
    )
    yield case(
        "bitmap-none",
        "zero beats stored, without a bitmap",
        builder.coded(holed, BF16, **good | {"zero_rank": 0}),
    )
    yield case(
        "base",
        "another base than the most frequent symbol",
        builder.coded(plain, BF16, base=122, path=0b111111, zero_rank=9, coder=Coder.R1),
    )
    yield case(
        "path",
        "another path, and bits for steps that do not take place",
        builder.coded(plain, BF16, base=120, path=0x3FF5, zero_rank=0, coder=Coder.R1),
    )
    yield case(
        "path-forced",
        "path bits against the only side that is left",
        builder.coded(
            blocks.with_counts(rng, BF16, {1: 90, 2: 20, 3: 10}),
            BF16,
            base=1,
            path=0x3FFF,
            zero_rank=15,
        ),
    )
    no_zero = blocks.with_counts(rng, BF16, {120: 128, 121: 90, 119: 38})
    for rank in (0, 7, 14):
        yield case(
            f"zero-rank-{rank}",
            "a place for symbol 0, which does not occur",
            builder.coded(no_zero, BF16, base=120, path=1, zero_rank=rank, coder=Coder.R2),
        )
    yield case(
        "zero-escapes",
        "symbol 0 has a place by its count, but escapes",
        builder.coded(plain, BF16, base=120, path=0b101, zero_rank=15),
    )
    yield case(
        "escape-ranked",
        "escapes of symbols that have a rank",
        builder.coded(plain, BF16, escape_at={0, 31, 200, 255}, **good),
    )
    yield case(
        "escape-F2",
        "the same with F2, whose low bits of an escape are 3",
        builder.coded(plain, BF16, coder=Coder.F2, escape_at={0, 31, 200, 255}, **good),
    )
    yield case(
        "F2-no-unary",
        "F2 of three symbols, whose unary section is empty",
        builder.coded(no_zero, BF16, base=120, path=1, zero_rank=15, coder=Coder.F2),
    )
    yield case(
        "escape-R2",
        "the same with R2, whose escape has the rank 31",
        builder.coded(plain, BF16, coder=Coder.R2, escape_at={0, 31, 200, 255}, **good),
    )
    yield case(
        "flags-without-values",
        "m = 0, with sign flag, sign value and all plane flags",
        builder.coded(bytes(256), FP32, sign=True, planes=3, bitmap=0)
        .with_fields(sign_value=1)
        .patched("extras", 8, 0x5A),
        FP32,
    )
    zeros = blocks.sprinkled(rng, BF16, blocks.normal_symbols(rng, BF16, 256), zeros=0.4, sign=1)
    order = {"base": 126, "path": 0x3FFE, "zero_rank": 0}
    yield case(
        "zeros-with-remainders",
        "the zeros could be bare, but have remainders",
        builder.coded(zeros, BF16, **order),
    )
    yield case(
        "bare-zeros-sign-kept",
        "bare zeros; all carriers are negative, but their sign is stored",
        builder.coded(zeros, BF16, bare=True, **order),
    )
    for coder in Coder:
        yield case(
            f"bare-zeros-escape-{coder.name}",
            "bare zeros that escape, and some that do not",
            builder.coded(
                zeros,
                BF16,
                coder=coder,
                sign=True,
                bare=True,
                escape_at={i for i in range(0, 60, 10) if not any(zeros[2 * i : 2 * i + 2])},
                **order,
            ),
        )
    yield case(
        "bare-zeros-all-escape",
        "symbol 0 is not in the order: all bare zeros escape",
        builder.coded(
            blocks.with_symbols(rng, BF16, [127] * 250, sign=0) + bytes(12),
            BF16,
            base=127,
            zero_rank=15,
            bare=True,
        ),
    )
    beats = zeros[:64] + bytes(64) + zeros[64:256] + bytes(64)
    yield case(
        "bare-zeros-bitmap-none",
        "zero beats stored, all of their values bare zeros",
        builder.coded(beats, BF16, bare=True, **order),
    )
    yield case(
        "bare-zeros-bitmap-some",
        "one zero beat left out, another one of bare zeros",
        builder.coded(beats, BF16, bare=True, bitmap=0b111101, **order),
    )
    yield case(
        "bare-zeros-only",
        "a block of zeros, all of them bare",
        builder.coded(bytes(256), BF16, base=1, bare=True),
    )
    yield case(
        "flags-without-carriers",
        "no carrier, with sign flag, sign value and all plane flags: zeros all the same",
        builder.coded(bytes(256), FP32, base=1, sign=True, planes=3, bare=True)
        .with_fields(sign_value=1)
        .patched("extras", 0, 0x5A),
        FP32,
    )
    for element in (FP16, E4M3, E5M2):
        last = (1 << element.layout.exponent_bits) - 1
        counts = dict.fromkeys(range(last - 3, last + 1), 40)
        yield case(
            f"escape-last-{element.name}",
            "the last symbol as an escape",
            builder.coded(
                blocks.with_counts(rng, element, counts),
                element,
                base=last - 3,
                path=0,
                zero_rank=15,
                coder=Coder.R2,
                escape_at={3},
            ),
            element,
        )

    copy = blocks.noise(rng, 512)
    near = blocks.moved(rng, copy, BF16, 0.4, 3)
    for shift in (1, 2, 5):
        yield case(
            f"reference-shift-{shift}",
            "another shift than the best one",
            builder.reference(near, copy, BF16, shift=shift),
            resident=copy,
        )
    yield case(
        "reference-gaps",
        "gaps where none would be shorter",
        builder.reference(near, copy, BF16, shift=1, gap_shift=1),
        resident=copy,
    )
    yield case(
        "reference-escapes",
        "escapes of numbers that have a code",
        builder.reference(near, copy, BF16, shift=1, escape_at={0, 100}),
        resident=copy,
    )
    yield case(
        "reference-gap-escapes",
        "escapes of gaps and values that have a code",
        builder.reference(near, copy, BF16, shift=1, gap_shift=0, escape_at={0, 100, 150}),
        resident=copy,
    )
    yield case(
        "reference-shift-13",
        "low bits of nearly the length of the element",
        builder.reference(near, copy, BF16, shift=13),
        resident=copy,
    )
    yield case(
        "reference-bitmap-all",
        "a bitmap that leaves nothing out",
        builder.reference(near, copy, BF16, shift=1, bitmap=255),
        resident=copy,
    )
