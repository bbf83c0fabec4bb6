# SPDX-License-Identifier: Apache-2.0
"""The bad vectors: frames that break one rule of the format, and carry the CRC that fits.

`why` names the sentence of `docs/format.md` that is broken. See also `tests/make_vectors.py`.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from codec.elements import ElementType
from codec.errors import (
    CorruptFrame,
    FrameError,
    ReferenceMismatch,
    TruncatedFrame,
    UnsupportedFrame,
)
from codec.format import Coder
from tests.conformance import blocks, builder
from tests.conformance.builder import Draft
from tests.conformance.vectors import Bad

BF16, FP16, FP32 = ElementType.BF16, ElementType.FP16, ElementType.FP32
RAW, E4M3, E5M2 = ElementType.RAW, ElementType.E4M3, ElementType.E5M2


def bad_vectors() -> Iterator[Bad]:
    """All bad vectors, in the order of the file."""
    yield from _bad_headers()
    yield from _bad_lengths()
    yield from _bad_padding()
    yield from _bad_bare_zeros()
    yield from _bad_order()
    yield from _bad_codes()
    yield from _bad_resident()


def _bad(
    name: str,
    why: str,
    draft: Draft,
    element: ElementType = BF16,
    *,
    error: type[FrameError] = CorruptFrame,
    phase: int = 0,
    resident: bytes | None = None,
) -> Bad:
    return Bad(f"bad/{name}", why, element, len(draft.block), draft.frame(), error, phase, resident)


def _plain() -> Draft:
    """A valid coded frame of 256 values, to break one rule of."""
    counts = {120: 128, 121: 64, 119: 32, 118: 20, 0: 8, 122: 4}
    block = blocks.with_counts(Random("bad"), BF16, counts)
    return builder.coded(block, BF16, base=120, path=0b101, zero_rank=4)


def _bad_headers() -> Iterator[Bad]:
    raw = builder.raw(bytes(range(100)), BF16)
    constant = builder.constant(b"\x80\x3f", 64, BF16)
    plain = _plain()
    copy = blocks.noise(Random("bad copy"), 256)
    same = builder.reference(copy, copy, BF16)
    drafts = {"raw": raw, "constant": constant, "coded": plain, "reference": same}
    for mode, draft in drafts.items():
        resident = copy if mode == "reference" else None
        for version in (0, 2, 7):
            yield _bad(
                f"version-{version}-{mode}",
                "section 4: version must be 1",
                draft.with_fields(version=version),
                error=UnsupportedFrame,
                resident=resident,
            )
        for tag in (6, 7):
            yield _bad(
                f"type-{tag}-{mode}",
                "section 3: tags 6 and 7 are invalid",
                draft.with_fields(element=tag),
                resident=resident,
            )
    unused = {"bitmap": 1, "planes": 4, "sign_flag": 1, "sign_value": 1, "phase": 1, "zero_rank": 8}
    for mode in ("raw", "constant"):
        for name, value in unused.items():
            yield _bad(
                f"{mode}-{name}",
                f"section 4: these bits must be zero in {mode} mode",
                drafts[mode].with_fields(**{name: value}),
            )
    for bit in range(8):
        yield _bad(
            f"coded-reserved-{bit}",
            "section 4: reserved bits must be zero",
            plain.with_fields(reserved=1 << bit),
        )
    yield _bad(
        "coded-sign-value",
        "section 4: sign value must be 0 unless the sign flag is set",
        plain.with_fields(sign_value=1),
    )
    for element, phase in ((RAW, 1), (BF16, 2), (BF16, 3), (FP16, 2), (E4M3, 1), (E5M2, 3)):
        yield _bad(
            f"coded-phase-{element.name}-{phase}",
            "section 4: phase must be less than W",
            builder.coded(bytes(512), element, bitmap=0).with_fields(phase=phase),
            element,
        )
    yield _bad(
        "reference-phase",
        "section 4: phase must be less than W",
        same.with_fields(phase=2),
        resident=copy,
    )
    yield _bad(
        "reference-gap-shift",
        "section 4: gap shift must be 0 unless gaps is set",
        same.with_fields(gap_shift=1).with_fields(gaps=0),
        resident=copy,
    )
    yield _bad(
        "reference-entries",
        "section 4: entries must be 0 unless gaps is set",
        same.with_fields(entries=1),
        resident=copy,
    )
    gaps = builder.reference(copy, copy, BF16, gap_shift=0)
    yield _bad(
        "reference-gaps-bitmap",
        "section 9: with gaps the bitmap must be absent",
        gaps.with_fields(bitmap=1).with_sections(extras=bytes(16)),
        resident=copy,
    )
    for element, sign, planes in (
        (RAW, False, 2),
        (BF16, False, 2),
        (BF16, True, 1),
        (FP16, False, 2),
        (FP32, True, 4),
        (E4M3, False, 1),
        (E5M2, False, 1),
    ):
        yield _bad(
            f"plane-{element.name}-{planes}",
            "section 6: a plane flag may only be set for a plane that exists",
            builder.coded(bytes(512), element, bitmap=0, sign=sign).with_fields(planes=planes),
            element,
        )
    yield _bad(
        "sign-RAW",
        "section 6: the sign flag must not be set for RAW",
        builder.coded(bytes(512), RAW, bitmap=0).with_fields(sign_flag=1),
        RAW,
    )


def _cut(bad: Bad, size: int) -> Bad:
    return replace(bad, frame=bad.frame[:size], error=TruncatedFrame)


def _bad_lengths() -> Iterator[Bad]:
    copy = blocks.noise(Random("bad copy"), 256)
    near = blocks.moved(Random("bad near"), copy, BF16, 1, 20)
    drafts = {
        "raw": builder.raw(copy, BF16),
        "constant": builder.constant(b"\x80\x3f", 64, BF16),
        "coded": _plain(),
        "reference": builder.reference(near, copy, BF16, shift=3),
    }
    for mode, draft in drafts.items():
        resident = copy if mode == "reference" else None
        size = len(draft.frame())
        header = 16 if mode in ("coded", "reference") else 8
        for cut in sorted({0, 1, 7, header - 1, header, size // 2, size - 1}):
            bad = _bad(
                f"cut-{mode}-{cut}", "section 4: as long as it says", draft, resident=resident
            )
            yield _cut(bad, cut)
        bad = _bad(f"trailing-{mode}", "section 4: as long as it says", draft, resident=resident)
        yield replace(bad, frame=bad.frame + b"\0")
    yield _bad(
        "crc",
        "section 5: the CRC must be that of the block",
        replace(_plain(), block=_plain().block[:-1] + b"\1"),
    )
    for mode in ("raw", "constant"):
        bad = _bad(f"crc-{mode}", "section 5: the CRC must be that of the block", drafts[mode])
        yield replace(bad, frame=bad.frame[:4] + bytes(4) + bad.frame[8:])
    for element in ElementType:
        width = element.width_bytes
        for length in {1, width}:
            yield _bad(
                f"constant-{element.name}-{length}",
                "section 4: the block must be longer than W",
                _short_constant(element, length),
                element,
            )
    small = blocks.with_symbols(Random(3), BF16, [127, 126] * 8)
    yield _bad(
        "long-coded",
        "section 4: a frame must not be longer than its block plus 8 bytes",
        builder.coded(small, BF16, base=127, path=1, zero_rank=15, coder=Coder.R1),
    )
    yield _bad(
        "long-reference",
        "section 4: a frame must not be longer than its block plus 8 bytes",
        builder.reference(small[:16], small[:16], BF16, shift=3),
        resident=small[:16],
    )
    longest = _plain().with_fields(length=4095)
    bad = _bad("huge-length", "section 4: as long as it says", longest, error=TruncatedFrame)
    yield replace(bad, block_bytes=4096)
    for name, fields, error in (
        ("unary", {"unary_bytes": 2047}, TruncatedFrame),
        ("escapes", {"escapes": 255}, CorruptFrame),
    ):
        yield _bad(
            f"huge-{name}",
            "section 4: as long as it says",
            _plain().with_fields(**fields),
            error=error,
        )


def _short_constant(element: ElementType, length: int) -> Draft:
    pattern = bytes(range(1, element.width_bytes + 1))
    return replace(builder.constant(pattern, 8, element), block=pattern[:length]).with_fields(
        length=length - 1
    )


def _bad_padding() -> Iterator[Bad]:
    rng = Random("bad padding")
    block = blocks.with_symbols(rng, BF16, [127, 126, 126, 125] * 30 + [127])
    odd = builder.coded(
        b"\x11" + block + b"\x22", BF16, phase=1, base=126, path=1, zero_rank=15, coder=Coder.R1
    )
    for section in ("extras", "remainders", "low"):
        yield _bad(
            f"padding-{section}",
            "section 1: padding bytes must be zero",
            odd.patched(section, -1, 0x80),
            phase=1,
        )
    yield _bad(
        "padding-low-bits",
        "section 1: padding bits must be zero",
        odd.patched("low", 121 // 8, 0x02),
        phase=1,
    )
    signed = builder.coded(
        blocks.with_symbols(rng, BF16, [127, 126, 126, 125] * 30 + [127], sign=1),
        BF16,
        base=126,
        path=1,
        zero_rank=15,
        sign=True,
    )
    yield _bad(
        "padding-top-bits",
        "section 6: top bits are padded with zero bits",
        signed.patched("remainders", 3 * 28 + 25 * 7 // 8, 0x80),
    )
    zeros = blocks.with_symbols(rng, BF16, [127] * 64) + bytes(128) + block[:64]
    holed = builder.coded(zeros, BF16, base=127, path=1, zero_rank=15, bitmap=0b10011)
    for beat in (5, 6, 63):
        yield _bad(
            f"bitmap-beat-{beat}",
            "section 6: bits at and above the number of beats must be 0",
            holed.patched("extras", beat // 8, 1 << beat % 8),
        )


def _bad_bare_zeros() -> Iterator[Bad]:
    counted = "section 6: the number of values of symbol 0 must equal bare zeros"
    rng = Random("bad bare zeros")
    values = blocks.sprinkled(rng, BF16, blocks.normal_symbols(rng, BF16, 256), zeros=0.5)
    zeros = sum(values[i : i + 2] == b"\0\0" for i in range(0, 512, 2))
    good = {"base": 126, "path": 0x3FFE, "zero_rank": 0}
    for coder in Coder:
        draft = builder.coded(values, BF16, bare=True, coder=coder, **good)
        assert draft.fields["bare_zeros"] == zeros
        assert draft.within_limits
        for change in (-1, 1):
            # As many remainders as the header promises: only the count is wrong.
            carriers = 256 - zeros - change
            remainders = draft.sections["remainders"][: 256 - zeros].ljust(carriers, b"\x11")
            yield _bad(
                f"bare-zeros-{coder.name}-{'more' if change > 0 else 'fewer'}",
                counted,
                draft.with_fields(bare_zeros=zeros + change).with_sections(
                    remainders=builder.pad(remainders[:carriers], 16)
                ),
            )
    for element, planes in ((BF16, 0b1), (FP32, 0b111)):
        mantissa = (1 << element.layout.mantissa_bits) - 1
        powers = blocks.sprinkled(rng, element, [127, 126] * 64, zeros=0.5, clear=mantissa)
        # All planes are constant: the section is empty, however many remainders it stands for.
        draft = builder.coded(
            powers, element, base=127, path=1, zero_rank=0, planes=planes, bare=True
        )
        assert not draft.sections["remainders"]
        zeros = draft.fields["bare_zeros"]
        for count in (1, zeros - 1, zeros + 1, 128, 129, 8191):
            yield _bad(
                f"bare-zeros-{element.name}-no-remainders-{count}",
                counted,
                draft.with_fields(bare_zeros=count),
                element,
            )
    draft = builder.coded(values, BF16, bare=True, **good)
    for count, error in ((257, CorruptFrame), (8191, CorruptFrame), (0, TruncatedFrame)):
        yield _bad(
            f"bare-zeros-{count}",
            "section 6: m - bare zeros must not be negative" if count else counted,
            draft.with_fields(bare_zeros=count),
            error=error,
        )
    none = blocks.with_symbols(rng, BF16, [127] * 256)
    yield _bad(
        "bare-zeros-without-zeros",
        counted,
        _without_last_remainders(builder.coded(none, BF16, base=127, zero_rank=15), 16),
    )
    subnormal = blocks.with_counts(rng, BF16, {127: 224, 0: 32})
    yield _bad(
        "bare-zeros-some-of-the-zeros",
        counted,
        _without_last_remainders(builder.coded(subnormal, BF16, base=127, zero_rank=1), 16),
    )
    holed = values[:64] + bytes(64) + values[64:448]
    draft = builder.coded(holed, BF16, bare=True, bitmap=0b11111101, **good)
    carriers = 224 - draft.fields["bare_zeros"] - 32
    yield _bad(
        "bare-zeros-and-left-out",
        "section 6: zeros of beats that are left out are no bare zeros",
        draft.with_fields(bare_zeros=224 - carriers).with_sections(
            remainders=builder.pad(draft.sections["remainders"][:carriers], 16)
        ),
    )
    yield _bad(
        "bare-zeros-RAW",
        "section 6: bare zeros must be 0 for RAW",
        _without_last_remainders(builder.coded(bytes(64) + b"\x07" * 64, RAW, bitmap=0b10), 16),
        RAW,
    )
    yield _bad(
        "bare-zeros-RAW-all",
        "section 6: bare zeros must be 0 for RAW",
        _without_last_remainders(builder.coded(bytes(128), RAW), 128),
        RAW,
    )
    for count in (1, 128):
        yield _bad(
            f"bare-zeros-m-0-{count}",
            "section 6: bare zeros must be 0 where m = 0",
            builder.coded(bytes(256), BF16, bitmap=0).with_fields(bare_zeros=count),
        )
    for element in (FP16, FP32, E4M3, E5M2):
        symbols = [max(1, s) for s in blocks.normal_symbols(rng, element, 101)]
        body = blocks.sprinkled(rng, element, symbols, zeros=0.4)
        base = max(symbols) - 1
        odd = builder.coded(
            body, element, base=base, path=0x3FFE, zero_rank=0, coder=Coder.R1, bare=True
        )
        assert len(odd.sections["remainders"]) > _remainder_bytes(odd, element)
        yield _bad(
            f"bare-zeros-padding-{element.name}",
            "section 1: padding bytes must be zero, not the remainder of a bare zero",
            odd.patched("remainders", _remainder_bytes(odd, element), 1),
            element,
        )


def _without_last_remainders(draft: Draft, count: int) -> Draft:
    """As if so many values, of one byte of remainder each, were bare zeros."""
    remainders = draft.sections["remainders"][:-count]
    return draft.with_fields(bare_zeros=count).with_sections(remainders=remainders)


def _remainder_bytes(draft: Draft, element: ElementType) -> int:
    """Bytes of the remainders section before its padding, with signs and all planes."""
    layout = element.layout
    values = len(draft.block) // layout.width_bytes
    return -(-(values - draft.fields["bare_zeros"]) * layout.remainder_bits // 8)


def _bad_order() -> Iterator[Bad]:
    plain = _plain()
    yield _bad("base-0", "section 7: base must be in 1 ... S", plain.with_fields(base=0))
    for element in (FP16, E4M3, E5M2):
        last = (1 << element.layout.exponent_bits) - 1
        block = blocks.with_symbols(Random(2), element, [last] * 100)
        draft = builder.coded(block, element, base=last, zero_rank=15)
        for base in (0, last + 1, 255):
            yield _bad(
                f"base-{element.name}-{base}",
                "section 7: base must be in 1 ... S",
                draft.with_fields(base=base),
                element,
            )
    beats = bytes(64) + b"\x07" * 64
    no_symbols = {
        "RAW": (builder.coded(beats, RAW, bitmap=0b10), RAW),
        "BF16-m-0": (builder.coded(bytes(256), BF16, bitmap=0), BF16),
    }
    for name, (draft, element) in no_symbols.items():
        for field, value in {"base": 1, "path": 1, "zero_rank": 15, "coder": 1}.items():
            yield _bad(
                f"no-symbols-{name}-{field}",
                f"section 7: without symbols {field} must be 0",
                draft.with_fields(**{field: value}),
                element,
            )
        yield _bad(
            f"no-symbols-{name}-unary_bytes",
            "section 7: without symbols unary bytes must be 0",
            draft.with_fields(unary_bytes=1).with_sections(unary=b"\0"),
            element,
        )
        yield _bad(
            f"no-symbols-{name}-escapes",
            "section 7: without symbols escapes must be 0",
            draft.with_fields(escapes=1).with_sections(escapes=b"\0"),
            element,
        )


def _with_unary(draft: Draft, codes: list[int]) -> Draft:
    section = builder.unary(codes)
    return draft.with_fields(unary_bytes=len(section)).with_sections(unary=section)


def _bad_codes() -> Iterator[Bad]:
    flat = blocks.with_symbols(Random(4), BF16, [127] * 128)
    draft = builder.coded(flat, BF16, base=127, zero_rank=15)
    yield _bad(
        "codes-missing",
        "section 8: the unary section must hold exactly the codes",
        _with_unary(draft, [0] * 120),
    )
    yield _bad(
        "codes-one-missing",
        "section 8: the unary section must hold exactly the codes",
        _with_unary(draft, [0] * 127),
    )
    yield _bad(
        "codes-one-more",
        "section 8: the unary section must hold exactly the codes",
        _with_unary(draft, [0] * 129),
    )
    yield _bad(
        "codes-none",
        "section 8: the unary section must hold exactly the codes",
        _with_unary(draft, []),
    )
    yield _bad(
        "codes-padding-8",
        "section 8: fewer than 8 padding bits",
        _with_unary(draft, [0] * 128)
        .with_fields(unary_bytes=17)
        .with_sections(unary=b"\xff" * 16 + b"\0"),
    )
    for coder in (Coder.R1, Coder.R2):
        again = builder.coded(flat, BF16, base=127, zero_rank=15, coder=coder)
        yield _bad(
            f"codes-one-missing-{coder.name}",
            "section 8: the unary section must hold exactly the codes",
            _with_unary(again, [0] * 127),
        )
    three = blocks.with_symbols(Random(4), BF16, [127, 124] * 64)
    f2 = builder.coded(three, BF16, base=127, path=0x3FFF, zero_rank=15, coder=Coder.F2)
    for count in (63, 65):
        yield _bad(
            f"codes-F2-{count}",
            "section 8: F2 has a code where the low bits are 3, and only there",
            _with_unary(f2, [0] * count),
        )
    two = builder.coded(
        blocks.with_symbols(Random(4), BF16, [127, 125] * 64),
        BF16,
        base=127,
        path=0x3FFF,
        zero_rank=15,
        coder=Coder.F2,
    )
    yield _bad(
        "codes-F2-1",
        "section 8: F2 has a code where the low bits are 3, and only there",
        _with_unary(two, [0]),
    )
    for coder, quotient in ((Coder.R0, 16), (Coder.R1, 8), (Coder.R2, 8), (Coder.F2, 13)):
        symbols = [127] * 122 + [124] * 6
        with_rank_3 = builder.coded(
            blocks.with_symbols(Random(5), BF16, symbols),
            BF16,
            base=127,
            path=0x3FFF,
            zero_rank=15,
            coder=coder,
        )
        codes = [quotient] + [0] * (5 if coder == Coder.F2 else 127)
        yield _bad(
            f"rank-{coder.name}",
            "section 8: a rank that is neither in the order nor E is invalid",
            _with_unary(with_rank_3, codes),
        )
    for rank in (15, 16, 30):
        block = blocks.with_symbols(Random(6), E4M3, [8] * 256)
        zero_rank = 15 if rank == 15 else 3
        short = builder.coded(block, E4M3, base=8, zero_rank=zero_rank, coder=Coder.R2)
        low = bytes([rank % 4]) + short.sections["low"][1:]
        yield _bad(
            f"rank-E4M3-{rank}",
            "section 8: a rank that is neither in the order nor E is invalid",
            _with_unary(short, [rank >> 2] + [0] * 255).with_sections(low=low),
            E4M3,
        )
    yield from _bad_limits()


def _bad_limits() -> Iterator[Bad]:
    rng = Random("bad limits")
    even = blocks.with_symbols(rng, BF16, [100, 96] * 64)
    exact = {"base": 100, "path": 0x3FFF, "zero_rank": 15}
    valid = builder.coded(even, BF16, **exact)
    assert valid.used_bits == 3 * valid.values
    over = builder.coded(even[:-2] + blocks.with_symbols(rng, BF16, [95]), BF16, **exact)
    yield _bad("unary-limit", "section 8: at most 3m unary bits", over)
    for coder in Coder:
        symbols = [127] * 123 + [250] * 5
        draft = builder.coded(
            blocks.with_symbols(rng, BF16, symbols), BF16, base=127, zero_rank=15, coder=coder
        )
        yield _bad(f"escape-limit-{coder.name}", "section 8: at most m / 32 escapes", draft)
    symbols = [127] * 124 + [250] * 4
    draft = builder.coded(blocks.with_symbols(rng, BF16, symbols), BF16, base=127, zero_rank=15)
    for count in (0, 3, 5):
        yield _bad(
            f"escape-count-{count}",
            "section 4: escapes is the number of escapes",
            draft.with_fields(escapes=count).with_sections(escapes=b"\xfa" * count),
        )
    for element in (FP16, E4M3, E5M2):
        last = (1 << element.layout.exponent_bits) - 1
        block = blocks.with_symbols(rng, element, [5] * 128)
        draft = builder.coded(block, element, base=5, zero_rank=15, escape_at={7})
        for symbol in (last + 1, 255):
            yield _bad(
                f"escape-{element.name}-{symbol}",
                "section 8: an escape must not exceed S",
                draft.with_sections(escapes=bytes([symbol])),
                element,
            )


def _bad_resident() -> Iterator[Bad]:
    rng = Random("bad resident")
    copy = blocks.noise(rng, 512)
    near = blocks.moved(rng, copy, BF16, 1, 6)
    good = builder.reference(near, copy, BF16, shift=2)
    wrong = "section 9: a decoder must refuse a frame whose copy "
    for name, why, resident in (
        ("missing", "is missing", None),
        ("short", "has another length", copy[:-1]),
        ("long", "has another length", copy + b"\0"),
        ("other", "has another CRC", copy[:-1] + bytes([copy[-1] ^ 1])),
        ("stale", "has another CRC", near),
    ):
        yield _bad(f"copy-{name}", wrong + why, good, error=ReferenceMismatch, resident=resident)
    escaped = builder.reference(near, copy, BF16, shift=2, escape_at={3})
    yield _bad(
        "reference-escape-low",
        "section 9: the low bits of an escape must be zero",
        escaped.patched("low", 0, 0x40),
        resident=copy,
    )
    same = builder.reference(copy, copy, BF16)
    for name, codes in (
        ("quotient", [16] + [0] * 255),
        ("code-missing", [0] * 255),
        ("code-more", [0] * 257),
    ):
        yield _bad(
            f"reference-{name}",
            "section 9: the unary section must hold exactly the codes",
            _with_unary(same, codes),
            resident=copy,
        )
    yield _bad(
        "reference-padding-8",
        "section 9: fewer than 8 padding bits",
        same.with_fields(unary_bytes=33).with_sections(unary=same.sections["unary"] + b"\0"),
        resident=copy,
    )
    many = builder.reference(near, copy, BF16, shift=2, escape_at=range(0, 36, 4))
    yield _bad("reference-escapes", "section 9: at most m / 32 escapes", many, resident=copy)
    for count in (0, 2):
        yield _bad(
            f"reference-escape-count-{count}",
            "section 4: escapes is the number of escapes",
            escaped.with_fields(escapes=count).with_sections(
                escapes=(escaped.sections["escapes"] * 2)[: 2 * count]
            ),
            resident=copy,
        )
    slow = builder.reference(blocks.moved(rng, copy, BF16, 1, 3), copy, BF16)
    assert slow.used_bits > 3 * slow.values
    yield _bad("reference-unary", "section 9: at most 3m unary bits", slow, resident=copy)
    yield _bad(
        "reference-padding-low",
        "section 1: padding bits must be zero",
        builder.reference(near[:500], copy[:500], BF16, shift=3).patched("low", -1, 0x80),
        resident=copy[:500],
    )
    yield _bad(
        "reference-padding-extras",
        "section 1: padding bytes must be zero",
        builder.reference(copy, copy, BF16, bitmap=0).patched("extras", 8, 1),
        resident=copy,
    )
    yield _bad(
        "reference-bitmap",
        "section 6: bits at and above the number of beats must be 0",
        builder.reference(copy, copy, BF16, bitmap=0).patched("extras", 1, 1),
        resident=copy,
    )
    yield from _bad_numbers()


def _bad_numbers() -> Iterator[Bad]:
    """Numbers in reference mode that no pair of elements has."""
    copy = bytes(range(128, 256))
    byte = builder.reference(copy, copy, RAW, shift=5)
    rule = "section 9: z must be below 2^(8W)"
    # 256 in the first place: to a decoder that takes z modulo 2^(8W) this is the copy itself.
    yield _bad("reference-z", rule, _with_unary(byte, [8] + [0] * 127), RAW, resident=copy)
    half = builder.reference(copy, copy, BF16, shift=13)
    yield _bad("reference-z-bf16", rule, _with_unary(half, [8] + [0] * 63), BF16, resident=copy)
    beats = builder.reference(copy, copy, BF16, shift=13, bitmap=0b01)
    over = _with_unary(beats, [8] + [0] * 31)
    yield _bad("reference-z-bitmap", rule, over, BF16, resident=copy)
    one = bytes([copy[0] ^ 1]) + copy[1:]
    gaps = builder.reference(one, copy, RAW, shift=0, gap_shift=0, escape_at={1})
    yield _bad(
        "gaps-z",
        rule,
        gaps.with_sections(escapes=b"\xff"),
        RAW,
        resident=copy,
    )
    several = bytearray(copy)
    for at in (0, 1, 127):
        several[at] ^= 1
    last = builder.reference(bytes(several), copy, RAW, shift=0, gap_shift=4)
    over = last.patched("low", 1, 0x02)
    yield _bad(
        "gaps-sum", "section 9: the sum of all g + 1 must not exceed n", over, RAW, resident=copy
    )
    far = builder.reference(bytes(several), copy, RAW, shift=0, gap_shift=0, escape_at={0})
    for gap in (125, 0xFFFF):
        yield _bad(
            f"gaps-escape-{gap}",
            "section 9: the sum of all g + 1 must not exceed n",
            far.with_sections(escapes=gap.to_bytes(2, "little") + far.sections["escapes"][2:]),
            RAW,
            resident=copy,
        )
    for entries in (2, 4, 8191):
        yield _bad(
            f"gaps-entries-{entries}",
            "section 9: entries is the number of non-zero z",
            last.with_fields(entries=entries),
            RAW,
            resident=copy,
            error=TruncatedFrame if entries == 8191 else CorruptFrame,
        )
