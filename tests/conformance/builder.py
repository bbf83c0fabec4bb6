# SPDX-License-Identifier: Apache-2.0
"""Builds frames with every choice left to the caller: base, path, coder, bitmap, escapes, shifts.

A second reading of `docs/format.md`, independent of the reference codec: the header table, the bit
packing, the CRC and the arithmetic are written here again. It makes valid frames that no conforming
encoder writes, and frames that break one rule and carry the CRC that fits, so that no other rule
catches them.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import pairwise

from codec.elements import ElementType
from codec.format import Coder, Mode

# Section 4: lowest bit and width of each field.
FIELDS = {
    "version": (0, 3),
    "mode": (3, 2),
    "element": (5, 3),
    "bitmap": (8, 1),
    "planes": (9, 3),
    "sign_flag": (12, 1),
    "sign_value": (13, 1),
    "gaps": (9, 1),
    "gap_shift": (10, 4),
    "phase": (14, 2),
    "length": (16, 12),
    "zero_rank": (28, 4),
    "shift": (28, 4),
    "crc": (32, 32),
    "base": (64, 8),
    "path": (72, 14),
    "coder": (86, 2),
    "reserved": (88, 8),
    "copy_crc": (64, 32),
    "unary_bytes": (96, 11),
    "escapes": (107, 8),
    "bare_zeros": (115, 13),
    "entries": (115, 13),
}
LONGEST = {Coder.R0: 15, Coder.R1: 15, Coder.R2: 31, Coder.F2: 15}
LOW_BITS = {Coder.R0: 0, Coder.R1: 1, Coder.R2: 2, Coder.F2: 2}

# Section 3: bytes, symbol bits, mantissa bits.
SHAPES = {
    ElementType.RAW: (1, 0, 8),
    ElementType.BF16: (2, 8, 7),
    ElementType.FP16: (2, 5, 10),
    ElementType.FP32: (4, 8, 23),
    ElementType.E4M3: (1, 4, 3),
    ElementType.E5M2: (1, 5, 2),
}


@dataclass(frozen=True)
class Draft:
    """A frame before its CRC: header fields, sections in order, and the block that it stands for.

    `used_bits` and `values` are what the limits of sections 8 and 9 are about: bits of unary codes,
    and the number of values that those bits and the escapes are shared by.
    """

    block: bytes
    fields: dict[str, int]
    sections: dict[str, bytes] = field(default_factory=dict)
    used_bits: int = 0
    values: int = 0

    def with_fields(self, **fields: int) -> "Draft":
        return replace(self, fields=self.fields | fields)

    def with_sections(self, **sections: bytes) -> "Draft":
        return replace(self, sections=self.sections | sections)

    def patched(self, section: str, at: int, byte: int) -> "Draft":
        """The draft with `byte` exclusive-ored into one byte of a section."""
        data = bytearray(self.sections[section])
        data[at] ^= byte
        return self.with_sections(**{section: bytes(data)})

    def frame(self) -> bytes:
        """The frame, with the CRC of its block and header."""
        size = 16 if self.fields["mode"] >= Mode.CODED else 8
        word = 0
        for name, value in self.fields.items():
            lsb, width = FIELDS[name]
            assert 0 <= value < 1 << width, f"{name} = {value}"
            word |= value << lsb
        crc = crc32c(pad(self.block, 64) + word.to_bytes(size, "little"))
        header = (word | crc << 32).to_bytes(size, "little")
        return header + b"".join(self.sections.values())

    @property
    def fits(self) -> bool:
        """Whether every field is wide enough for its number."""
        return all(value < 1 << FIELDS[name][1] for name, value in self.fields.items())

    @property
    def within_limits(self) -> bool:
        """Whether the limits of sections 4, 8 and 9 hold."""
        return (
            len(self.frame()) <= len(self.block) + 8
            and self.used_bits <= 3 * self.values
            and self.fields.get("escapes", 0) <= min(-(-self.values // 32), 255)
        )


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def pad(data: bytes, multiple: int) -> bytes:
    return data + bytes(-len(data) % multiple)


def bit_string(fields: list[tuple[int, int]]) -> bytes:
    """(value, width) pairs as a bit string, from bit 0 of the first byte upwards."""
    word = at = 0
    for value, width in fields:
        word |= value << at
        at += width
    return word.to_bytes(-(-at // 8), "little")


def unary(quotients: list[int]) -> bytes:
    return bit_string([(1 << q, q + 1) for q in quotients])


def raw(block: bytes, element: ElementType) -> Draft:
    return Draft(block, _header(Mode.RAW, element, block), {"block": block})


def constant(pattern: bytes, length: int, element: ElementType) -> Draft:
    block = (pattern * (length // max(1, len(pattern)) + 1))[:length]
    return Draft(block, _header(Mode.CONSTANT, element, block), {"element": pattern})


def symbol_order(base: int, path: int, zero_rank: int, ranks: int, last: int) -> list[int]:
    """Section 7: the symbols by rank, of an alphabet that ends at `last`."""
    left, right = list(range(base - 1, 0, -1)), list(range(base + 1, last + 1))
    order = [base]
    for step in range(ranks - 1):
        if not left and not right:
            break
        wants_left = path >> step & 1 if step < 14 else step % 2 == 0
        side = left if (wants_left and left) or not right else right
        order.append(side.pop(0))
    if zero_rank != 15:
        order[zero_rank:zero_rank] = [0]
    return order[:ranks]


def coded(
    block: bytes,
    element: ElementType,
    *,
    phase: int = 0,
    base: int = 0,
    path: int = 0,
    zero_rank: int = 0,
    coder: Coder = Coder.R0,
    bitmap: int | None = None,
    sign: bool = False,
    planes: int = 0,
    escape_at: Collection[int] = (),
    bare: bool = False,
) -> Draft:
    """A coded frame.

    Args:
        block: what it holds.
        element: its type.
        phase: bytes at its start of an element begun before.
        base, path, zero_rank, coder: as in the header.
        bitmap: one bit for each beat that is stored; the others must be zero. None for no bitmap.
        sign: drop the sign, which must be the same in all values that have a remainder.
        planes: flags of the byte planes to drop, which must be constant.
        escape_at: places, among the stored values, to code as an escape whatever their rank.
        bare: store no remainder where the symbol is 0; these values must be zero.
    """
    width, symbol_bits, mantissa_bits = SHAPES[element]
    head, values, tail = _split_block(block, width, phase)
    beats = _stored_beats(values, 64 // width, bitmap)
    stored = [v for beat in beats for v in beat]
    symbols = [v >> mantissa_bits & (1 << symbol_bits) - 1 for v in stored]
    carriers = [v for v, s in zip(stored, symbols, strict=True) if s or not bare]
    assert not bare or sum(map(bool, stored)) == len(carriers)
    signs = 0 if element == ElementType.RAW else 1 - sign
    remainders = [_remainder(v, symbol_bits, mantissa_bits, signs) for v in carriers]
    byte_planes, top_bits = divmod(mantissa_bits + signs, 8)
    constants = bytes(
        (remainders[0] if remainders else 0) >> 8 * p & 255
        for p in range(byte_planes)
        if planes >> p & 1
    )
    per_record = 64 // width
    records = b"".join(
        _record(remainders[i : i + per_record], byte_planes, top_bits, planes)
        for i in range(0, len(remainders), per_record)
    )

    low, codes, escapes = b"", [], b""
    if symbol_bits and stored:
        order = symbol_order(base, path, zero_rank, LONGEST[coder], (1 << symbol_bits) - 1)
        ranks = [
            order.index(s) if s in order and i not in escape_at else LONGEST[coder]
            for i, s in enumerate(symbols)
        ]
        low, codes = _code_ranks(ranks, coder)
        escapes = bytes(s for s, rank in zip(symbols, ranks, strict=True) if rank == LONGEST[coder])
    sign_bit = carriers[0] >> symbol_bits + mantissa_bits & 1 if sign and carriers else 0
    fields = _header(Mode.CODED, element, block) | {
        "bitmap": int(bitmap is not None),
        "planes": planes,
        "sign_flag": int(sign),
        "sign_value": sign_bit,
        "phase": phase,
        "zero_rank": zero_rank,
        "base": base,
        "path": path,
        "coder": int(coder),
        "unary_bytes": len(unary(codes)),
        "escapes": len(escapes),
        "bare_zeros": len(stored) - len(carriers),
    }
    sections = {
        "extras": pad(_bitmap_bytes(bitmap) + head + tail + constants, 16),
        "remainders": pad(records, 16),
        "low": pad(low, 16),
        "unary": unary(codes),
        "escapes": escapes,
    }
    return Draft(block, fields, sections, sum(codes) + len(codes), len(stored))


def reference(
    block: bytes,
    resident: bytes,
    element: ElementType,
    *,
    phase: int = 0,
    shift: int = 0,
    gap_shift: int | None = None,
    bitmap: int | None = None,
    escape_at: Collection[int] = (),
) -> Draft:
    """A frame in reference mode; with gaps where `gap_shift` is given.

    `escape_at` are places among the numbers of the unary section (with gaps: first all gaps, then
    all values) to code as an escape whatever their size.
    """
    width = SHAPES[element][0]
    head, values, tail = _split_block(block, width, phase)
    _, before, _ = _split_block(resident, width, phase)
    numbers = [zigzag(v, r, element) for v, r in zip(values, before, strict=True)]
    if gap_shift is None:
        stored = [z for beat in _stored_beats(numbers, 64 // width, bitmap) for z in beat]
        plan = [(z, shift, width) for z in stored]
        share, entries = len(stored), 0
    else:
        places = [i for i, z in enumerate(numbers) if z]
        gaps = [b - a - 1 for a, b in pairwise([-1, *places])]
        plan = [(g, gap_shift, 2) for g in gaps] + [(numbers[i] - 1, shift, width) for i in places]
        share, entries = len(values), len(places)
    codes, low, escapes = [], [], []
    for i, (number, k, size) in enumerate(plan):
        escape = number >> k >= 15 or i in escape_at
        codes.append(15 if escape else number >> k)
        low.append((0 if escape else number & (1 << k) - 1, k))
        if escape:
            escapes.append(number.to_bytes(size, "little"))
    fields = _header(Mode.REFERENCE, element, block) | {
        "bitmap": int(bitmap is not None),
        "gaps": int(gap_shift is not None),
        "gap_shift": gap_shift or 0,
        "phase": phase,
        "shift": shift,
        "copy_crc": crc32c(pad(resident, 64)),
        "unary_bytes": len(unary(codes)),
        "escapes": len(escapes),
        "entries": entries,
    }
    sections = {
        "extras": pad(_bitmap_bytes(bitmap) + head + tail, 16),
        "low": pad(bit_string(low), 16),
        "unary": unary(codes),
        "escapes": b"".join(escapes),
    }
    return Draft(block, fields, sections, sum(codes) + len(codes), share)


def zigzag(value: int, resident: int, element: ElementType) -> int:
    """Section 9: the distance of two elements in numeric order, folded to 0, 1, 2, ..."""
    bits = 8 * SHAPES[element][0]

    def key(x: int) -> int:
        if element == ElementType.RAW:
            return x
        return (1 << bits) - 1 - x if x >> bits - 1 else x + (1 << bits - 1)

    distance = (key(value) - key(resident) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    return 2 * distance if distance >= 0 else -2 * distance - 1


def _header(mode: Mode, element: ElementType, block: bytes) -> dict[str, int]:
    return {
        "version": 1,
        "mode": int(mode),
        "element": int(element),
        "length": len(block) - 1,
    }


def _split_block(block: bytes, width: int, phase: int) -> tuple[bytes, list[int], bytes]:
    """Head, values and tail."""
    head, rest = block[:phase], block[phase:]
    whole = len(rest) - len(rest) % width
    values = [int.from_bytes(rest[i : i + width], "little") for i in range(0, whole, width)]
    return head, values, rest[whole:]


def _stored_beats(values: list[int], per_beat: int, bitmap: int | None) -> list[list[int]]:
    beats = [values[i : i + per_beat] for i in range(0, len(values), per_beat)]
    if bitmap is None:
        return beats
    assert not any(any(beat) for b, beat in enumerate(beats) if not bitmap >> b & 1)
    return [beat for b, beat in enumerate(beats) if bitmap >> b & 1]


def _bitmap_bytes(bitmap: int | None) -> bytes:
    return b"" if bitmap is None else bitmap.to_bytes(8, "little")


def _remainder(value: int, symbol_bits: int, mantissa_bits: int, signs: int) -> int:
    mantissa = value & (1 << mantissa_bits) - 1
    return mantissa | (value >> symbol_bits + mantissa_bits) * signs << mantissa_bits


def _record(remainders: list[int], byte_planes: int, top_bits: int, planes: int) -> bytes:
    """One record of the remainders section."""
    kept = [p for p in range(byte_planes) if not planes >> p & 1]
    low = bytes(r >> 8 * p & 255 for p in kept for r in remainders)
    return low + bit_string([(r >> 8 * byte_planes, top_bits) for r in remainders])


def _code_ranks(ranks: list[int], coder: Coder) -> tuple[bytes, list[int]]:
    """Low bits, and the numbers of the unary section."""
    k = LOW_BITS[coder]
    if coder == Coder.F2:
        low = bit_string([(min(rank, 3), k) for rank in ranks])
        return low, [rank - 3 for rank in ranks if rank >= 3]
    return bit_string([(rank % (1 << k), k) for rank in ranks]), [rank >> k for rank in ranks]
