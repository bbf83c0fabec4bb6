# SPDX-License-Identifier: Apache-2.0
"""The reference codec: `docs/format.md` in plain Python, in its order, slow and obvious.

It is the oracle that every other engine is tested against and the only source of golden vectors.
It shares no code with the fast engines beyond the constants and the header.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from codec import format as f
from codec.elements import ElementType
from codec.engine import U8, Packets, block_lengths, check_output, check_packets, check_request
from codec.errors import CorruptFrame, FrameError, InvalidInput, ReferenceMismatch, TruncatedFrame
from codec.format import Coder, Mode
from codec.header import Header, parse_header

Bits = list[int]


def encode_frame(
    block: bytes, element: ElementType, phase: int = 0, resident: bytes | None = None
) -> bytes:
    """The one frame of `block`, 1 to 4,096 bytes.

    Args:
        block: the bytes.
        element: what they are.
        phase: bytes at the start that belong to an element begun before.
        resident: the receiver's copy, as long as the block; allows reference mode.

    Raises:
        InvalidInput: a size or phase that the format does not have.
    """
    if not 1 <= len(block) <= f.BLOCK_BYTES_MAX:
        raise InvalidInput(f"block: expected 1 to {f.BLOCK_BYTES_MAX} bytes; found {len(block)}")
    if not 0 <= phase < element.width_bytes:
        raise InvalidInput(f"phase: expected 0 to {element.width_bytes - 1}; found {phase}")
    if resident is not None and len(resident) != len(block):
        raise InvalidInput(f"resident: expected {len(block)} bytes; found {len(resident)}")
    candidates = [
        _seal(Header(Mode.RAW, element, len(block)), block, block),
        _encode_constant(block, element),
        _encode_coded(block, element, phase),
    ]
    if resident is not None:
        candidates.append(_encode_reference(block, element, phase, resident, gaps=False))
        candidates.append(_encode_reference(block, element, phase, resident, gaps=True))
    return min((c for c in candidates if c is not None), key=len)


def decode_frame(frame: bytes, resident: bytes | None = None) -> bytes:
    """The block that `frame` holds.

    Args:
        frame: exactly one frame.
        resident: the copy that a frame in reference mode was coded against.

    Raises:
        FrameError: the frame is not valid; see its subclasses.
    """
    header = parse_header(frame)
    body = frame[header.size :]
    if len(frame) > header.block_bytes + f.SHORT_HEADER_BYTES:
        raise CorruptFrame(
            f"frame: expected at most {header.block_bytes + f.SHORT_HEADER_BYTES} bytes; "
            f"found {len(frame)}"
        )
    sections = _Reader(body)
    if header.mode == Mode.RAW:
        block = sections.take("block", header.block_bytes)
    elif header.mode == Mode.CONSTANT:
        block = _decode_constant(header, sections)
    elif header.mode == Mode.CODED:
        block = _decode_coded(header, sections)
    else:
        block = _decode_reference(header, sections, resident)
    sections.finish()
    crc = checksum(block, replace(header, crc=0).pack())
    if crc != header.crc:
        raise CorruptFrame(f"frame: expected CRC {header.crc:08x}; found {crc:08x}")
    return block


# Section 2: blocks


@dataclass(frozen=True)
class _Shape:
    """Where the head, the values and the tail of a block lie; all in bytes but `values`."""

    head: int
    values: int
    tail: int


def _shape(block_bytes: int, element: ElementType, phase: int) -> _Shape:
    head = min(phase, block_bytes)
    values, tail = divmod(block_bytes - head, element.width_bytes)
    return _Shape(head, values, tail)


def _values(block: bytes, element: ElementType, shape: _Shape) -> list[int]:
    width = element.width_bytes
    starts = range(shape.head, shape.head + shape.values * width, width)
    return [int.from_bytes(block[i : i + width], "little") for i in starts]


def _beats(values: list[int], element: ElementType) -> list[list[int]]:
    per_beat = f.BEAT_BYTES // element.width_bytes
    return [values[i : i + per_beat] for i in range(0, len(values), per_beat)]


# Section 3: element types


def _split(value: int, element: ElementType) -> tuple[int, int]:
    """Symbol and remainder of a value."""
    layout = element.layout
    mantissa = value & (1 << layout.mantissa_bits) - 1
    symbol = value >> layout.mantissa_bits & (1 << layout.exponent_bits) - 1
    sign = value >> (layout.mantissa_bits + layout.exponent_bits)
    return symbol, sign << layout.mantissa_bits | mantissa


def _merge(symbol: int, remainder: int, element: ElementType) -> int:
    layout = element.layout
    mantissa = remainder & (1 << layout.mantissa_bits) - 1
    sign = remainder >> layout.mantissa_bits
    return (sign << layout.exponent_bits | symbol) << layout.mantissa_bits | mantissa


def _symbol_max(element: ElementType) -> int:
    return (1 << element.layout.exponent_bits) - 1


# Section 4: header, raw and constant


def _seal(header: Header, block: bytes, body: bytes) -> bytes:
    crc = checksum(block, header.pack())
    return replace(header, crc=crc).pack() + body


def _encode_constant(block: bytes, element: ElementType) -> bytes | None:
    width = element.width_bytes
    if len(block) <= width or any(block[i] != block[i % width] for i in range(len(block))):
        return None
    return _seal(Header(Mode.CONSTANT, element, len(block)), block, block[:width])


def _decode_constant(header: Header, sections: "_Reader") -> bytes:
    width = header.element.width_bytes
    if header.block_bytes <= width:
        raise CorruptFrame(
            f"constant: expected a block longer than {width} bytes; found {header.block_bytes}"
        )
    pattern = sections.take("element", width)
    return bytes(pattern[i % width] for i in range(header.block_bytes))


class _Reader:
    """Takes sections off the front of a frame's body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, section: str, size: int) -> bytes:
        left = len(self._body) - self._at
        if size > left:
            raise TruncatedFrame(f"{section}: expected {size} bytes; found {left}")
        self._at += size
        return self._body[self._at - size : self._at]

    def take_padded(self, section: str, size: int) -> bytes:
        """`size` bytes of a section that is padded to a multiple of 16."""
        data = self.take(section, _pad16(size))
        if any(data[size:]):
            raise CorruptFrame(f"{section}: expected zero padding; found {data[size:].hex(' ')}")
        return data[:size]

    def finish(self) -> None:
        if self._at != len(self._body):
            raise CorruptFrame(
                f"frame: expected {self._at} bytes after the header; found {len(self._body)}"
            )


def _pad16(size: int) -> int:
    return -(-size // f.ALIGN_BYTES) * f.ALIGN_BYTES


def _padded(data: bytes) -> bytes:
    return data.ljust(_pad16(len(data)), b"\0")


def _pack_bits(bits: Bits) -> bytes:
    """A bit string as bytes, first bit lowest, padded with zeros to a byte."""
    value = sum(bit << i for i, bit in enumerate(bits))
    return value.to_bytes(-(-len(bits) // 8), "little")


def _field(value: int, width: int) -> Bits:
    return [value >> i & 1 for i in range(width)]


def _unpack_fields(data: bytes, width: int, count: int, section: str) -> list[int]:
    """`count` fields of `width` bits; the rest of `data` must be zero."""
    word = int.from_bytes(data, "little")
    if word >> width * count:
        raise CorruptFrame(f"{section}: expected zero padding; found {data.hex(' ')}")
    return [word >> i * width & (1 << width) - 1 for i in range(count)]


# Section 5: CRC


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (f.CRC_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C of `data`."""
    crc = f.CRC_INIT
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ f.CRC_INIT


def checksum(block: bytes, header: bytes) -> int:
    """The CRC field of a frame; `header` has zero in that field."""
    return crc32c(_pad_beat(block) + header)


def _pad_beat(block: bytes) -> bytes:
    return block.ljust(-(-len(block) // f.BEAT_BYTES) * f.BEAT_BYTES, b"\0")


# Section 6: zero beats and remainders


def _encode_bitmap(beats: list[list[int]], element: ElementType) -> bytes | None:
    """The bitmap, or None if it is not used."""
    complete = f.BEAT_BYTES // element.width_bytes
    if not any(len(beat) == complete and not any(beat) for beat in beats):
        return None
    return _pack_bits([int(any(beat)) for beat in beats]).ljust(f.BITMAP_BYTES, b"\0")


def _decode_bitmap(bitmap: bytes, beats: int) -> list[int]:
    """Whether each beat is stored."""
    return _unpack_fields(bitmap, 1, beats, "bitmap")


def _planes(remainder_bits: int) -> tuple[int, int]:
    """Number of byte planes and of top bits."""
    return divmod(remainder_bits, 8)


def _encode_remainders(records: list[list[int]], remainder_bits: int, plane_flags: int) -> bytes:
    planes, top_bits = _planes(remainder_bits)
    out = b""
    for record in records:
        for plane in range(planes):
            if not plane_flags >> plane & 1:
                out += bytes(r >> 8 * plane & 0xFF for r in record)
        out += _pack_bits([bit for r in record for bit in _field(r >> 8 * planes, top_bits)])
    return out


def _decode_remainders(
    sections: _Reader, counts: list[int], remainder_bits: int, constants: list[int | None]
) -> list[int]:
    """The remainders of the carriers; `counts` are the carriers of each record."""
    planes, top_bits = _planes(remainder_bits)
    stored = [plane for plane in range(planes) if constants[plane] is None]
    sizes = [count * len(stored) + -(-count * top_bits // 8) for count in counts]
    section = sections.take_padded("remainders", sum(sizes))
    fixed = sum((constants[plane] or 0) << 8 * plane for plane in range(planes))
    out = []
    for count, size in zip(counts, sizes, strict=True):
        record, section = section[:size], section[size:]
        lower = [fixed] * count
        for place, plane in enumerate(stored):
            for i in range(count):
                lower[i] |= record[place * count + i] << 8 * plane
        tops = _unpack_fields(record[len(stored) * count :], top_bits, count, "remainders")
        out += [r | top << 8 * planes for r, top in zip(lower, tops, strict=True)]
    return out


# Section 7: symbol order


def _order(base: int, path: int, zero_rank: int, ranks: int, symbol_max: int) -> list[int]:
    """The symbols by rank, at most `ranks` of them."""
    order = [base]
    left, right = base - 1, base + 1
    step = 0
    while len(order) < ranks and (left >= 1 or right <= symbol_max):
        if left >= 1 and right <= symbol_max:
            go_left = path >> step & 1 if step < f.PATH_BITS else step % 2 == 0
        else:
            go_left = left >= 1
        order.append(left if go_left else right)
        left, right = (left - 1, right) if go_left else (left, right + 1)
        step += 1
    if zero_rank != f.ZERO_RANK_NONE:
        order.insert(zero_rank, 0)
    return order[:ranks]


def _choose_order(counts: Counter[int], symbol_max: int) -> tuple[int, int, int]:
    """Base, path and zero rank."""
    base = max(range(1, symbol_max + 1), key=lambda s: (counts[s], -s))
    order, path = [base], 0
    left, right = base - 1, base + 1
    for step in range(f.PATH_BITS):
        if left < 1 and right > symbol_max:
            break
        go_left = right > symbol_max or (left >= 1 and counts[left] >= counts[right])
        order.append(left if go_left else right)
        path |= int(go_left) << step
        left, right = (left - 1, right) if go_left else (left, right + 1)
    zero_rank = f.ZERO_RANK_NONE
    if counts[0]:
        zero_rank = sum(counts[s] >= counts[0] for s in order)
    return base, path, zero_rank


# Section 8: ranks and codes


def _unary(quotients: list[int]) -> Bits:
    return [bit for q in quotients for bit in [0] * q + [1]]


def _low(rank: int, coder: Coder) -> int:
    return min(rank, 3) if coder == Coder.F2 else rank & (1 << f.CODER_LOW_BITS[coder]) - 1


def _quotients(ranks: list[int], coder: Coder) -> list[int]:
    if coder == Coder.F2:
        return [rank - 3 for rank in ranks if rank >= 3]
    return [rank >> f.CODER_LOW_BITS[coder] for rank in ranks]


def _escapes_allowed(values: int) -> int:
    return min(-(-values // f.VALUES_PER_ESCAPE), f.ESCAPES_MAX)


def _encode_ranks(
    symbols: list[int], coder: Coder, order: list[int]
) -> tuple[bytes, bytes, bytes] | None:
    """Low-bits, unary and escapes section, or None where a limit is broken."""
    escape = f.CODER_RANKS[coder]
    ranks = [order.index(s) if s in order else escape for s in symbols]
    escapes = bytes(s for s, rank in zip(symbols, ranks, strict=True) if rank == escape)
    unary = _unary(_quotients(ranks, coder))
    if len(unary) > f.UNARY_BITS_PER_VALUE_MAX * len(symbols):
        return None
    if len(escapes) > _escapes_allowed(len(symbols)):
        return None
    width = f.CODER_LOW_BITS[coder]
    low = _padded(_pack_bits([bit for r in ranks for bit in _field(_low(r, coder), width)]))
    return low, _pack_bits(unary), escapes


def _take_unary(sections: _Reader, header: Header, codes: int, bits_max: int) -> list[int]:
    """The quotients in the unary section, which must hold exactly `codes` of them."""
    section = sections.take("unary", header.unary_bytes)
    bits = _unpack_fields(section, 1, 8 * len(section), "unary")
    quotients, zeros = [], 0
    for bit in bits:
        if bit:
            quotients.append(zeros)
        zeros = 0 if bit else zeros + 1
    used = len(bits) - zeros
    if len(quotients) != codes:
        raise CorruptFrame(f"unary: expected {codes} codes; found {len(quotients)}")
    if zeros >= 8:
        raise CorruptFrame(f"unary: expected less than 8 padding bits; found {zeros}")
    if used > bits_max:
        raise CorruptFrame(f"unary: expected at most {bits_max} bits; found {used}")
    return quotients


def _check_escapes(found: int, expected: int, values: int) -> None:
    if found != expected:
        raise CorruptFrame(f"escapes: expected {expected} as the header says; found {found}")
    if found > _escapes_allowed(values):
        raise CorruptFrame(f"escapes: expected at most {_escapes_allowed(values)}; found {found}")


def _decode_ranks(sections: _Reader, header: Header, values: int) -> list[int]:
    """The symbols of the stored values."""
    symbol_max = _symbol_max(header.element)
    coder = Coder(header.coder)
    escape, width = f.CODER_RANKS[coder], f.CODER_LOW_BITS[coder]
    order = _order(header.base, header.path, header.zero_rank, escape, symbol_max)
    low = _unpack_fields(
        sections.take_padded("low bits", -(-values * width // 8)), width, values, "low bits"
    )
    bits_max = f.UNARY_BITS_PER_VALUE_MAX * values
    if coder == Coder.F2:
        quotients = iter(_take_unary(sections, header, low.count(3), bits_max))
        ranks = [3 + next(quotients) if part == 3 else part for part in low]
    else:
        quotients = iter(_take_unary(sections, header, values, bits_max))
        ranks = [next(quotients) << width | part for part in low]
    _check_escapes(ranks.count(escape), header.escapes, values)
    escapes = iter(sections.take("escapes", header.escapes))
    symbols = []
    for i, rank in enumerate(ranks):
        if rank != escape and rank >= len(order):
            raise CorruptFrame(f"value {i}: expected a rank below {len(order)}; found {rank}")
        symbol = next(escapes) if rank == escape else order[rank]
        if symbol > symbol_max:
            raise CorruptFrame(f"value {i}: expected a symbol up to {symbol_max}; found {symbol}")
        symbols.append(symbol)
    return symbols


def _encode_coded(block: bytes, element: ElementType, phase: int) -> bytes | None:
    layout = element.layout
    shape = _shape(len(block), element, phase)
    beats = _beats(_values(block, element, shape), element)
    bitmap = _encode_bitmap(beats, element)
    if bitmap is not None:
        beats = [beat for beat in beats if any(beat)]
    parts = [_split(v, element) for beat in beats for v in beat]
    symbols = [symbol for symbol, _ in parts]
    remainders = [remainder for _, remainder in parts]
    bare_zeros = 0
    if layout.exponent_bits and not any(r for symbol, r in parts if symbol == 0):
        bare_zeros = symbols.count(0)
        remainders = [r for symbol, r in parts if symbol != 0]

    signs = {r >> layout.mantissa_bits for r in remainders}
    sign_flag = int(layout.signed and len(signs) == 1)
    sign_value = signs.pop() if sign_flag else 0
    remainder_bits = layout.remainder_bits - sign_flag
    if sign_flag:
        mask = (1 << remainder_bits) - 1
        remainders = [r & mask for r in remainders]
    plane_flags, constants = 0, b""
    for plane in range(_planes(remainder_bits)[0]):
        distinct = {r >> 8 * plane & 0xFF for r in remainders}
        if len(distinct) == 1:
            plane_flags |= 1 << plane
            constants += bytes(distinct)

    base = path = zero_rank = coder = 0
    ranked = (b"", b"", b"")
    if layout.exponent_bits and symbols:
        symbol_max = _symbol_max(element)
        base, path, zero_rank = _choose_order(Counter(symbols), symbol_max)
        tried = {
            c: _encode_ranks(
                symbols, c, _order(base, path, zero_rank, f.CODER_RANKS[c], symbol_max)
            )
            for c in Coder
        }
        allowed = {c: sections for c, sections in tried.items() if sections is not None}
        if not allowed:
            return None
        coder = min(allowed, key=lambda c: (sum(map(len, allowed[c])), c))
        ranked = allowed[coder]

    header = Header(
        Mode.CODED,
        element,
        len(block),
        bitmap=int(bitmap is not None),
        phase=phase,
        plane_flags=plane_flags,
        sign_flag=sign_flag,
        sign_value=sign_value,
        zero_rank=zero_rank,
        base=base,
        path=path,
        coder=coder,
        unary_bytes=len(ranked[1]),
        escapes=len(ranked[2]),
        bare_zeros=bare_zeros,
    )
    tail = block[len(block) - shape.tail :]
    extras = _padded((bitmap or b"") + block[: shape.head] + tail + constants)
    records = _beats(remainders, element)
    stored = _padded(_encode_remainders(records, remainder_bits, plane_flags))
    return _seal(header, block, extras + stored + b"".join(ranked))


def _decode_coded(header: Header, sections: _Reader) -> bytes:
    element, layout = header.element, header.element.layout
    shape = _shape(header.block_bytes, element, header.phase)
    counts = [len(beat) for beat in _beats([0] * shape.values, element)]
    if header.sign_flag and not layout.signed:
        raise CorruptFrame(f"header: expected no sign flag for {element.name}; found one")
    remainder_bits = layout.remainder_bits - header.sign_flag
    planes = _planes(remainder_bits)[0]
    if header.plane_flags >> planes:
        raise CorruptFrame(
            f"header: expected flags of {planes} planes; found {header.plane_flags:03b}"
        )

    flagged = [plane for plane in range(planes) if header.plane_flags >> plane & 1]
    extras = _Reader(
        sections.take_padded(
            "extras", f.BITMAP_BYTES * header.bitmap + shape.head + shape.tail + len(flagged)
        )
    )
    stored = [1] * len(counts)
    if header.bitmap:
        stored = _decode_bitmap(extras.take("bitmap", f.BITMAP_BYTES), len(counts))
    head = extras.take("head", shape.head)
    tail = extras.take("tail", shape.tail)
    constants: list[int | None] = [None] * planes
    for plane in flagged:
        constants[plane] = extras.take("constant plane", 1)[0]

    values = sum(count for count, flag in zip(counts, stored, strict=True) if flag)
    carriers = values - header.bare_zeros
    if carriers < 0:
        raise CorruptFrame(
            f"header: expected at most {values} bare zeros; found {header.bare_zeros}"
        )
    records = [len(record) for record in _beats([0] * carriers, element)]
    remainders = _decode_remainders(sections, records, remainder_bits, constants)
    sign = header.sign_value << layout.mantissa_bits
    if layout.exponent_bits and values:
        if not 1 <= header.base <= _symbol_max(element):
            raise CorruptFrame(
                f"header: expected a base of 1 to {_symbol_max(element)}; found {header.base}"
            )
        symbols = _decode_ranks(sections, header, values)
    else:
        _check_no_symbols(header)
        symbols = [0] * values
    zeros = symbols.count(0)
    if header.bare_zeros and zeros != header.bare_zeros:
        raise CorruptFrame(f"values: expected {header.bare_zeros} zeros; found {zeros}")
    left = iter(remainders)
    decoded = iter(
        0 if header.bare_zeros and s == 0 else _merge(s, next(left) | sign, element)
        for s in symbols
    )
    body = b""
    for count, flag in zip(counts, stored, strict=True):
        for _ in range(count):
            body += (next(decoded) if flag else 0).to_bytes(element.width_bytes, "little")
    return head + body + tail


def _check_no_symbols(header: Header) -> None:
    for name in ("base", "path", "zero_rank", "coder", "unary_bytes", "escapes"):
        found = getattr(header, name)
        if found:
            raise CorruptFrame(
                f"header: expected {name} 0 in a frame without symbols; found {found}"
            )


# Section 9: reference mode


def _key(value: int, element: ElementType) -> int:
    """The value's place in numeric order; its own inverse is `_unkey`."""
    if element == ElementType.RAW:
        return value
    top = 1 << 8 * element.width_bytes - 1
    return value ^ (2 * top - 1 if value & top else top)


def _unkey(key: int, element: ElementType) -> int:
    if element == ElementType.RAW:
        return key
    top = 1 << 8 * element.width_bytes - 1
    return key ^ (top if key & top else 2 * top - 1)


def _zigzag(value: int, resident: int, element: ElementType) -> int:
    bits = 8 * element.width_bytes
    d = (_key(value, element) - _key(resident, element)) % (1 << bits)
    if d >> bits - 1:
        d -= 1 << bits
    return 2 * d if d >= 0 else -2 * d - 1


def _unzigzag(z: int, resident: int, element: ElementType) -> int:
    d = -(z + 1) // 2 if z & 1 else z // 2
    return _unkey((_key(resident, element) + d) % (1 << 8 * element.width_bytes), element)


def _quotient(number: int, shift: int) -> int:
    return min(number >> shift, f.REFERENCE_QUOTIENT_ESCAPE)


@dataclass(frozen=True)
class _Sequence:
    """Numbers coded with one shift, whose escapes take `escape_bytes` each."""

    numbers: list[int]
    shift: int
    escape_bytes: int

    @property
    def quotients(self) -> list[int]:
        return [_quotient(x, self.shift) for x in self.numbers]

    @property
    def low(self) -> Bits:
        mask = (1 << self.shift) - 1
        return [
            bit
            for x, q in zip(self.numbers, self.quotients, strict=True)
            for bit in _field(x & mask if q < f.REFERENCE_QUOTIENT_ESCAPE else 0, self.shift)
        ]

    @property
    def escapes(self) -> list[bytes]:
        return [
            x.to_bytes(self.escape_bytes, "little")
            for x, q in zip(self.numbers, self.quotients, strict=True)
            if q == f.REFERENCE_QUOTIENT_ESCAPE
        ]

    @property
    def bits(self) -> int:
        low_and_unary = sum(q + 1 + self.shift for q in self.quotients)
        return low_and_unary + 8 * self.escape_bytes * len(self.escapes)


def _best_sequence(numbers: list[int], element: ElementType, escape_bytes: int) -> _Sequence:
    shifts = range(min(8 * element.width_bytes, 16))
    tried = [_Sequence(numbers, shift, escape_bytes) for shift in shifts]
    return min(tried, key=lambda s: (s.bits, s.shift))


def _encode_reference(
    block: bytes, element: ElementType, phase: int, resident: bytes, *, gaps: bool
) -> bytes | None:
    width = element.width_bytes
    shape = _shape(len(block), element, phase)
    pairs = zip(_values(block, element, shape), _values(resident, element, shape), strict=True)
    numbers = [_zigzag(v, r, element) for v, r in pairs]
    bitmap, gap_shift, entries = None, 0, 0
    if gaps:
        places = [i for i, z in enumerate(numbers) if z]
        runs = [b - a - 1 for a, b in zip([-1, *places], places, strict=False)]
        gap_sequence = _best_sequence(runs, element, f.GAP_ESCAPE_BYTES)
        value_sequence = _best_sequence([numbers[i] - 1 for i in places], element, width)
        sequences = [gap_sequence, value_sequence]
        gap_shift, entries, values = gap_sequence.shift, len(places), shape.values
    else:
        beats = _beats(numbers, element)
        bitmap = _encode_bitmap(beats, element)
        if bitmap is not None:
            beats = [beat for beat in beats if any(beat)]
        value_sequence = _best_sequence([z for beat in beats for z in beat], element, width)
        sequences = [value_sequence]
        values = len(value_sequence.numbers)

    unary = _unary([q for s in sequences for q in s.quotients])
    escapes = [e for s in sequences for e in s.escapes]
    if len(unary) > f.UNARY_BITS_PER_VALUE_MAX * values or len(escapes) > _escapes_allowed(values):
        return None
    header = Header(
        Mode.REFERENCE,
        element,
        len(block),
        bitmap=int(bitmap is not None),
        phase=phase,
        gaps=int(gaps),
        gap_shift=gap_shift,
        shift=value_sequence.shift,
        reference_crc=crc32c(_pad_beat(resident)),
        unary_bytes=-(-len(unary) // 8),
        escapes=len(escapes),
        entries=entries,
    )
    tail = block[len(block) - shape.tail :]
    extras = _padded((bitmap or b"") + block[: shape.head] + tail)
    low = _padded(_pack_bits([bit for s in sequences for bit in s.low]))
    return _seal(header, block, extras + low + _pack_bits(unary) + b"".join(escapes))


def _decode_reference(header: Header, sections: _Reader, resident: bytes | None) -> bytes:
    if resident is None:
        raise ReferenceMismatch("reference: expected a resident copy; found none")
    if len(resident) != header.block_bytes:
        raise ReferenceMismatch(
            f"reference: expected a copy of {header.block_bytes} bytes; found {len(resident)}"
        )
    crc = crc32c(_pad_beat(resident))
    if crc != header.reference_crc:
        raise ReferenceMismatch(
            f"reference: expected a copy of CRC {header.reference_crc:08x}; found {crc:08x}"
        )
    element = header.element
    shape = _shape(header.block_bytes, element, header.phase)
    extras = _Reader(
        sections.take_padded("extras", f.BITMAP_BYTES * header.bitmap + shape.head + shape.tail)
    )
    counts = [len(beat) for beat in _beats([0] * shape.values, element)]
    stored = [1] * len(counts)
    if header.bitmap:
        stored = _decode_bitmap(extras.take("bitmap", f.BITMAP_BYTES), len(counts))
    head = extras.take("head", shape.head)
    tail = extras.take("tail", shape.tail)

    if header.gaps:
        numbers = _decode_gaps(header, sections, shape.values)
    else:
        values = sum(count for count, flag in zip(counts, stored, strict=True) if flag)
        plan = [(values, header.shift, element.width_bytes)]
        decoded = iter(_decode_sequences(header, sections, plan, values)[0])
        numbers = [
            next(decoded) if flag else 0
            for count, flag in zip(counts, stored, strict=True)
            for _ in range(count)
        ]
    if max(numbers, default=0) >> 8 * element.width_bytes:
        raise CorruptFrame(
            f"values: expected z below {1 << 8 * element.width_bytes}; found {max(numbers)}"
        )
    values_before = _values(resident, element, shape)
    body = b"".join(
        _unzigzag(z, r, element).to_bytes(element.width_bytes, "little")
        for z, r in zip(numbers, values_before, strict=True)
    )
    return head + body + tail


def _decode_gaps(header: Header, sections: _Reader, values: int) -> list[int]:
    """Every `z` of the block."""
    width = header.element.width_bytes
    plan = [
        (header.entries, header.gap_shift, f.GAP_ESCAPE_BYTES),
        (header.entries, header.shift, width),
    ]
    runs, rest = _decode_sequences(header, sections, plan, values)
    if sum(runs) + len(runs) > values:
        raise CorruptFrame(f"gaps: expected at most {values} values; found {sum(runs) + len(runs)}")
    numbers, at = [0] * values, -1
    for run, less_one in zip(runs, rest, strict=True):
        at += run + 1
        numbers[at] = less_one + 1
    return numbers


def _decode_sequences(
    header: Header, sections: _Reader, plan: list[tuple[int, int, int]], values: int
) -> list[list[int]]:
    """The numbers of each (count, shift, escape bytes) of the plan."""
    bits = sum(count * shift for count, shift, _ in plan)
    word = int.from_bytes(sections.take_padded("low bits", -(-bits // 8)), "little")
    codes = sum(count for count, _, _ in plan)
    bits_max = f.UNARY_BITS_PER_VALUE_MAX * values
    quotients = _take_unary(sections, header, codes, bits_max)
    if max(quotients, default=0) > f.REFERENCE_QUOTIENT_ESCAPE:
        raise CorruptFrame(
            f"unary: expected at most {f.REFERENCE_QUOTIENT_ESCAPE} zeros in a row; "
            f"found {max(quotients)}"
        )
    _check_escapes(quotients.count(f.REFERENCE_QUOTIENT_ESCAPE), header.escapes, values)
    out = []
    for count, shift, escape_bytes in plan:
        numbers = []
        for _ in range(count):
            q, low = quotients.pop(0), word & (1 << shift) - 1
            word >>= shift
            if q < f.REFERENCE_QUOTIENT_ESCAPE:
                numbers.append(q << shift | low)
                continue
            if low:
                raise CorruptFrame(f"low bits: expected 0 for an escape; found {low}")
            numbers.append(int.from_bytes(sections.take("escapes", escape_bytes), "little"))
        out.append(numbers)
    if word:
        raise CorruptFrame("low bits: expected zero padding; found other bits")
    return out


class ReferenceEngine:
    """The reference codec as an engine, one block after the other."""

    name = "reference"

    def encode(
        self,
        data: U8,
        element: ElementType,
        block_bytes: int,
        *,
        phase: int = 0,
        bare: bool = False,
        resident: U8 | None = None,
    ) -> Packets:
        check_request(data, element, block_bytes, phase, resident)
        payloads, modes = [], []
        for start in range(0, data.size, block_bytes):
            block = data[start : start + block_bytes].tobytes()
            copy = None if resident is None else resident[start : start + block_bytes].tobytes()
            frame = encode_frame(block, element, (phase - start) % element.width_bytes, copy)
            mode = parse_header(frame).mode
            if bare and len(frame) >= len(block):
                frame, mode = block, Mode.RAW
            payloads.append(frame)
            modes.append(mode)
        return Packets(
            np.frombuffer(b"".join(payloads), np.uint8),
            np.array([len(p) for p in payloads], np.int32),
            np.array(modes, np.uint8),
        )

    def decode(
        self,
        packets: Packets,
        element: ElementType,
        block_bytes: int,
        out: U8,
        *,
        phase: int = 0,
        bare: bool = False,
        resident: U8 | None = None,
    ) -> None:
        check_output(out, element, block_bytes, phase, resident)
        check_packets(packets, block_lengths(out.size, block_bytes).size)
        start = at = 0
        for i, (length, mode) in enumerate(zip(packets.lengths, packets.modes, strict=True)):
            payload = packets.payload[at : at + length].tobytes()
            expected = min(block_bytes, out.size - start)
            block_phase = (phase - start) % element.width_bytes
            bare_block = bare and mode == Mode.RAW
            copy = None if resident is None else resident[start : start + expected].tobytes()
            try:
                block = decode_payload(
                    payload,
                    element,
                    expected,
                    block_phase,
                    bare=bare,
                    bare_block=bare_block,
                    resident=copy,
                )
            except FrameError as error:
                raise type(error)(f"block {i}: {error}") from None
            out[start : start + expected] = np.frombuffer(block, np.uint8)
            start += expected
            at += length


def decode_payload(
    payload: bytes,
    element: ElementType,
    block_bytes: int,
    phase: int,
    *,
    bare: bool,
    bare_block: bool,
    resident: bytes | None = None,
) -> bytes:
    """The block of a payload, which must be the one that the receiver expects (section 11).

    Args:
        bare: the payload comes from a packet, so a frame in it is shorter than its block.
        bare_block: the payload is the block itself.
        resident: the copy that a frame in reference mode was coded against.

    Raises:
        FrameError: it is another block, or not valid.
    """
    if bare_block:
        if len(payload) != block_bytes:
            raise CorruptFrame(f"packet: expected {block_bytes} bytes; found {len(payload)}")
        return payload
    header = parse_header(payload)
    if header.element != element:
        raise CorruptFrame(f"header: expected type {element.name}; found {header.element.name}")
    if header.block_bytes != block_bytes:
        raise CorruptFrame(
            f"header: expected a block of {block_bytes} bytes; found {header.block_bytes}"
        )
    if header.mode >= Mode.CODED and header.phase != phase:
        raise CorruptFrame(f"header: expected phase {phase}; found {header.phase}")
    if bare and (header.mode == Mode.RAW or len(payload) >= block_bytes):
        raise CorruptFrame(
            f"packet: expected a frame shorter than {block_bytes} bytes; "
            f"found {header.mode.name.lower()}, {len(payload)} bytes"
        )
    return decode_frame(payload, resident)


ENGINE = ReferenceEngine()
