# SPDX-License-Identifier: Apache-2.0
"""Frames to blocks (`docs/format.md`). May not use `codec.kernels.encode`.

Every length is checked before it is used. Words and vectors are read up to `SPARE` bytes past the
end of a frame: a frame that has less behind it is copied to scratch first.
"""

from collections import namedtuple

import numpy as np

from codec import format as f
from codec.format import Mode
from codec.kernels import order as o
from codec.kernels import reference_mode as rm
from codec.kernels import split as sp
from codec.kernels import unary as un
from codec.kernels.compile import kernel
from codec.kernels.crc import crc_block, crc_header
from codec.kernels.intrinsics import copy, copy_in, copy_out, load64, popcount, view8, view32
from codec.kernels.order import align, escapes_allowed
from codec.kernels.scratch import places

U8, U64, I64 = np.uint8, np.uint64, np.int64

RAW, CONSTANT, CODED, REFERENCE = (int(mode) for mode in Mode)
SPARE = 128
SCRATCH_BYTES = f.BLOCK_BYTES_MAX + SPARE
QUOTIENTS_BYTES = f.UNARY_BITS_PER_VALUE_MAX * f.BLOCK_BYTES_MAX + SPARE

# Statuses: which check a payload failed. The engine finds the words for them.
(
    OK,
    BAD_LENGTH,
    BAD_HEADER,
    BAD_SECTIONS,
    BAD_PADDING,
    BAD_CODES,
    BAD_RANKS,
    BAD_COPY,
    BAD_CRC,
) = range(9)

AT = places(
    frame=SCRATCH_BYTES,
    block=SCRATCH_BYTES,
    values=SCRATCH_BYTES,
    copied=SCRATCH_BYTES,
    slots=3 * sp.SLOT_BYTES,
    spread=3 * sp.SLOT_BYTES,
    symbols=SCRATCH_BYTES,
    ranks=SCRATCH_BYTES,
    low_values=SCRATCH_BYTES,
    places=QUOTIENTS_BYTES,
    quotients=QUOTIENTS_BYTES,
    order=o.RANKS_MAX + 1,
    plane_bytes=4,
    numbers=4 * SCRATCH_BYTES,
    gaps=4 * SCRATCH_BYTES,
    rest=4 * SCRATCH_BYTES,
)
"""Where each buffer lies in the arena."""


Body = namedtuple("Body", "status head n tail m bitmap at")
"""What the extras say: sizes in bytes (`head`, `tail`) and values (`n`, stored `m`), and where in
the frame the next section starts."""


@kernel
def decode_blocks(
    s, address, size_in, lengths, modes, element, block_bytes, phase, bare, resident, out, size_out
):
    """Decode `size_in` bytes of payloads at `address`, back to back, to `size_out` bytes at `out`.

    There must be one length a block, and they must add up to `size_in`. `s` is the address of an
    arena of `AT.end` bytes; `resident` that of a copy of `size_out` bytes, or 0.

    Returns:
        Status, and the index and offset of the block that failed.
    """
    width = sp.WIDTHS[element]
    at = 0
    for index in range(lengths.size):
        start = index * block_bytes
        size = min(block_bytes, size_out - start)
        length = I64(lengths[index])
        # A whole number of beats needs no padding, and so no detour.
        direct = size % f.BEAT_BYTES == 0 and (out + start) & 7 == 0
        block = view8(out + start if direct else s + AT.block, SCRATCH_BYTES)
        if bare and modes[index] == RAW:
            if length != size:
                return BAD_LENGTH, index, at
            copy_in(block, 0, address + at, size)
        else:
            if length < f.SHORT_HEADER_BYTES or length > size + f.SHORT_HEADER_BYTES:
                return BAD_LENGTH, index, at
            origin = address + at
            if at + length + SPARE > size_in:
                copy_in(view8(s + AT.frame, SCRATCH_BYTES), 0, origin, length)
                origin = s + AT.frame
            frame = view8(origin, SCRATCH_BYTES)
            copy_at = resident + start if resident else 0
            status = _decode_frame(
                s, frame, block, length, size, element, (phase - start) % width, bare, copy_at
            )
            if status != OK:
                return status, index, at
        if not direct:
            copy_out(out + start, block, 0, size)
        at += length
    return OK, 0, 0


@kernel
def _decode_frame(s, frame, block, length, size, element, phase, bare, resident):
    """Decode `frame` into `block`; returns a status."""
    first = load64(frame, 0)
    mode = _field(first, f.MODE_LSB, f.MODE_BITS)
    if (
        _field(first, f.VERSION_LSB, f.VERSION_BITS) != f.FORMAT_VERSION
        or _field(first, f.ELEMENT_LSB, f.ELEMENT_BITS) != element
        or _field(first, f.LENGTH_LSB, f.LENGTH_BITS) != size - 1
        or (bare and (mode == RAW or length >= size))
    ):
        return BAD_HEADER
    second = U64(0)
    if mode >= CODED:
        if length < f.LONG_HEADER_BYTES:
            return BAD_LENGTH
        second = load64(frame, 8)
        if _field(first, f.PHASE_LSB, f.PHASE_BITS) != phase:
            return BAD_HEADER
        if mode == CODED:
            status = _decode_coded(s, frame, block, first, second, length, size, element, phase)
        else:
            status = _decode_reference(
                s, frame, block, first, second, length, size, element, phase, resident
            )
    else:
        status = _decode_plain(frame, block, first, length, size, sp.WIDTHS[element], mode)
    if status != OK:
        return status

    padded = _clear_beat(block, size)
    word = first & U64((1 << f.CRC_LSB) - 1)
    crc = crc_header(crc_block(block, padded), word, second, mode >= CODED)
    return OK if crc == first >> U64(f.CRC_LSB) else BAD_CRC


@kernel
def _decode_plain(frame, block, first, length, size, width, mode):
    """Raw and constant frames."""
    unused = (1 << f.LENGTH_LSB) - (1 << f.BITMAP_LSB) | 0xF << f.ZERO_RANK_LSB
    if first & U64(unused):
        return BAD_HEADER
    body = size if mode == RAW else width
    if length != f.SHORT_HEADER_BYTES + body or (mode == CONSTANT and size <= width):
        return BAD_LENGTH
    copy(block, 0, frame, f.SHORT_HEADER_BYTES, body)
    for i in range(body, size):
        block[i] = block[i - width]
    return OK


@kernel
def _open_body(frame, block, length, size, width, phase, has_bitmap, constants):
    """Check and take the extras, all but the bytes of constant planes, which come last."""
    per_beat = f.BEAT_BYTES // width
    head = min(phase, size)
    n = (size - head) // width
    tail = size - head - n * width
    beats = (n + per_beat - 1) // per_beat
    extra = f.BITMAP_BYTES * has_bitmap + head + tail + constants
    at = f.LONG_HEADER_BYTES + align(extra)
    bitmap = ~U64(0)
    if at > length:
        return Body(BAD_SECTIONS, head, n, tail, 0, bitmap, at)
    if not _all_zero(frame, f.LONG_HEADER_BYTES + extra, at):
        return Body(BAD_PADDING, head, n, tail, 0, bitmap, at)
    place = f.LONG_HEADER_BYTES
    m = n
    if has_bitmap:
        bitmap = load64(frame, place)
        place += f.BITMAP_BYTES
        if beats < 64 and bitmap >> U64(beats):
            return Body(BAD_PADDING, head, n, tail, 0, bitmap, at)
        m = popcount(bitmap) * per_beat
        if beats > 0 and (bitmap >> U64(beats - 1)) & U64(1):
            m -= beats * per_beat - n
    if head + tail > 0:
        copy(block, 0, frame, place, head)
        copy(block, size - tail, frame, place + head, tail)
    return Body(OK, head, n, tail, m, bitmap, at)


# Coded


@kernel
def _decode_coded(s, frame, block, first, second, length, size, element, phase):
    values = view8(s + AT.values, SCRATCH_BYTES)
    slots = view8(s + AT.slots, 3 * sp.SLOT_BYTES)
    symbols = view8(s + AT.symbols, SCRATCH_BYTES)
    plane_bytes = view8(s + AT.plane_bytes, 4)
    width = sp.WIDTHS[element]
    per_beat = f.BEAT_BYTES // width
    symbol_max = sp.SYMBOL_MAX[element]
    slot_count = sp.SLOTS[element]
    has_bitmap = _field(first, f.BITMAP_LSB, f.BITMAP_BITS)
    plane_flags = _field(first, f.PLANE_FLAGS_LSB, f.PLANE_FLAGS_BITS)
    sign_flag = _field(first, f.SIGN_FLAG_LSB, f.SIGN_FLAG_BITS)
    sign_value = _field(first, f.SIGN_VALUE_LSB, f.SIGN_VALUE_BITS)
    coder = _field(second, f.CODER_LSB - 64, f.CODER_BITS)
    unary_bytes = _field(second, f.UNARY_BYTES_LSB - 64, f.UNARY_BYTES_BITS)
    escapes = _field(second, f.ESCAPES_LSB - 64, f.ESCAPES_BITS)
    bare_zeros = _field(second, f.BARE_ZEROS_LSB - 64, f.BARE_ZEROS_BITS)

    last_bits = sp.LAST_SLOT_BITS[element] - sign_flag
    planes = slot_count if last_bits == 8 else slot_count - 1
    if (
        _field(second, f.RESERVED_LSB - 64, f.RESERVED_BITS) != 0
        or (sign_flag and not sp.SIGNED[element])
        or (sign_value and not sign_flag)
        or plane_flags >> planes
    ):
        return BAD_HEADER
    constants = (plane_flags & 1) + (plane_flags >> 1 & 1) + (plane_flags >> 2)
    body = _open_body(frame, block, length, size, width, phase, has_bitmap, constants)
    if body.status != OK:
        return body.status
    place = f.LONG_HEADER_BYTES + f.BITMAP_BYTES * has_bitmap + body.head + body.tail
    for plane in range(planes):
        if plane_flags >> plane & 1:
            plane_bytes[plane] = frame[place]
            place += 1

    m = body.m
    carriers = m - bare_zeros
    if carriers < 0:
        return BAD_HEADER
    remainder_bytes = carriers * (planes - constants)
    if last_bits < 8:
        remainder_bytes += (carriers * last_bits + 7) >> 3
    has_symbols = symbol_max > 0 and m > 0
    low_bits = m * o.LOW_BITS[coder] if has_symbols else 0
    low = body.at + align(remainder_bytes)
    unary = low + align((low_bits + 7) >> 3)
    if unary + unary_bytes + escapes != length:
        return BAD_SECTIONS
    if not _all_zero(frame, body.at + remainder_bytes, low):
        return BAD_PADDING
    if not _bits_end(frame, low, low_bits, unary):
        return BAD_PADDING
    used = sp.unpack_remainders(
        frame[body.at :],
        carriers,
        per_beat,
        slot_count,
        last_bits,
        plane_flags,
        plane_bytes,
        slots,
    )
    if used < 0:
        return BAD_PADDING
    if sign_value:
        start = sp.SLOT_BYTES * (slot_count - 1)
        for i in range(start, start + carriers):
            slots[i] |= U8(1 << last_bits)

    if has_symbols:
        status = _decode_symbols(s, frame, first, second, m, symbol_max, low, unary)
        if status != OK:
            return status
    elif second or _field(first, f.ZERO_RANK_LSB, f.ZERO_RANK_BITS):
        return BAD_HEADER
    else:
        symbols[:m] = U8(0)
    if bare_zeros > 0:
        if un.count_equal(symbols, m, U8(0)) != bare_zeros:
            return BAD_RANKS
        spread = view8(s + AT.spread, 3 * sp.SLOT_BYTES)
        sp.spread_carriers(slots, symbols, m, slot_count, spread)
        slots = spread
    if body.head == 0 and not has_bitmap:
        sp.merge(element, slots, symbols, block, m)
    else:
        sp.merge(element, slots, symbols, values, m)
        _place_beats(s, block, body, width)
    return OK


@kernel
def _decode_symbols(s, frame, first, second, m, symbol_max, low, unary):
    """Symbols of `m` >= 1 values; sections lie inside the frame. Returns a status."""
    symbols = view8(s + AT.symbols, SCRATCH_BYTES)
    ranks = view8(s + AT.ranks, SCRATCH_BYTES)
    low_values = view8(s + AT.low_values, SCRATCH_BYTES)
    quotients = view8(s + AT.quotients, QUOTIENTS_BYTES)
    order = view8(s + AT.order, o.RANKS_MAX + 1)
    zero_rank = _field(first, f.ZERO_RANK_LSB, f.ZERO_RANK_BITS)
    base = _field(second, f.BASE_LSB - 64, f.BASE_BITS)
    path = _field(second, f.PATH_LSB - 64, f.PATH_BITS)
    coder = _field(second, f.CODER_LSB - 64, f.CODER_BITS)
    unary_bytes = _field(second, f.UNARY_BYTES_LSB - 64, f.UNARY_BYTES_BITS)
    escapes = _field(second, f.ESCAPES_LSB - 64, f.ESCAPES_BITS)
    if base < 1 or base > symbol_max:
        return BAD_HEADER
    escape = o.RANKS[coder]
    known = o.fill_order(base, path, zero_rank, escape, symbol_max, order)
    un.unpack_low(coder, frame, low, low_values, m)
    codes = un.count_coded(coder, low_values, m)
    if not _read_quotients(s, frame, unary, unary_bytes, codes, m):
        return BAD_CODES

    un.join(coder, low_values, quotients, ranks, m)
    largest = un.largest(ranks, m)
    if largest > escape:
        return BAD_RANKS
    if known < escape:
        for i in range(m):
            if known <= ranks[i] < escape:
                return BAD_RANKS
    un.unrank(coder, ranks, order, symbols, m)
    found = un.count_equal(ranks, m, U8(escape)) if largest == escape else 0
    if found != escapes or found > escapes_allowed(m):
        return BAD_RANKS
    if found > 0:
        at = unary + unary_bytes
        for i in range(m):
            if ranks[i] == escape:
                if frame[at] > symbol_max:
                    return BAD_RANKS
                symbols[i] = frame[at]
                at += 1
    return OK


# Reference mode


@kernel
def _decode_reference(s, frame, block, first, second, length, size, element, phase, resident):
    values = view8(s + AT.values, SCRATCH_BYTES)
    copied = view8(s + AT.copied, SCRATCH_BYTES)
    quotients = view8(s + AT.quotients, QUOTIENTS_BYTES)
    numbers = view32(s + AT.numbers, SCRATCH_BYTES)
    rest = view32(s + AT.rest, SCRATCH_BYTES)
    if not resident:
        return BAD_COPY
    width = sp.WIDTHS[element]
    has_bitmap = _field(first, f.BITMAP_LSB, f.BITMAP_BITS)
    gaps = _field(first, f.GAPS_LSB, f.GAPS_BITS)
    gap_shift = _field(first, f.GAP_SHIFT_LSB, f.GAP_SHIFT_BITS)
    shift = _field(first, f.SHIFT_LSB, f.SHIFT_BITS)
    unary_bytes = _field(second, f.UNARY_BYTES_LSB - 64, f.UNARY_BYTES_BITS)
    escapes = _field(second, f.ESCAPES_LSB - 64, f.ESCAPES_BITS)
    entries = _field(second, f.ENTRIES_LSB - 64, f.ENTRIES_BITS)
    if gaps:
        if has_bitmap:
            return BAD_HEADER
    elif gap_shift or entries:
        return BAD_HEADER

    copy_in(copied, 0, resident, size)
    padded = _clear_beat(copied, size)
    copy_crc = crc_block(copied, padded) ^ U64(f.CRC_INIT)
    if I64(copy_crc) != _field(second, f.REFERENCE_CRC_LSB - 64, f.REFERENCE_CRC_BITS):
        return BAD_COPY
    body = _open_body(frame, block, length, size, width, phase, has_bitmap, 0)
    if body.status != OK:
        return body.status
    copy_in(copied, 0, resident + body.head, body.n * width)

    limit = body.n if gaps else body.m
    codes = 2 * entries if gaps else body.m
    if gaps and entries > body.n:
        return BAD_CODES
    low_bits = entries * (gap_shift + shift) if gaps else codes * shift
    unary = body.at + align((low_bits + 7) >> 3)
    escapes_at = unary + unary_bytes
    if escapes_at > length:
        return BAD_SECTIONS
    if not _bits_end(frame, body.at, low_bits, unary):
        return BAD_PADDING
    if not _read_quotients(s, frame, unary, unary_bytes, codes, limit):
        return BAD_CODES
    if un.largest(quotients, codes) > rm.ESCAPE or escapes > escapes_allowed(limit):
        return BAD_CODES
    long_gaps = un.count_equal(quotients, entries, U8(rm.ESCAPE))
    found = un.count_equal(quotients, codes, U8(rm.ESCAPE))
    if found != escapes:
        return BAD_RANKS
    escape_bytes = long_gaps * f.GAP_ESCAPE_BYTES + (found - long_gaps) * width
    if escapes_at + escape_bytes != length:
        return BAD_SECTIONS

    low_at = 8 * body.at
    if not gaps:
        stored = rest if has_bitmap else numbers
        low_at, escapes_at = rm.read(
            frame, low_at, quotients, 0, body.m, shift, width, escapes_at, stored
        )
        if escapes_at < 0 or not rm.fit(stored, body.m, width):
            return BAD_CODES
        if has_bitmap:
            _spread_beats(s, body, f.BEAT_BYTES // width)
    else:
        status = _read_gaps(s, frame, entries, gap_shift, shift, width, low_at, escapes_at, body.n)
        if status != OK:
            return status
    if body.head == 0:
        rm.restore(element, numbers, copied, block, body.n)
    else:
        rm.restore(element, numbers, copied, values, body.n)
        copy(block, body.head, values, 0, body.n * width)
    return OK


@kernel
def _read_gaps(s, frame, entries, gap_shift, shift, width, low_at, escapes_at, n):
    """Every `z` of the block into `numbers`; returns a status."""
    quotients = view8(s + AT.quotients, QUOTIENTS_BYTES)
    numbers = view32(s + AT.numbers, SCRATCH_BYTES)
    gaps = view32(s + AT.gaps, SCRATCH_BYTES)
    rest = view32(s + AT.rest, SCRATCH_BYTES)
    low_at, escapes_at = rm.read(
        frame,
        low_at,
        quotients,
        0,
        entries,
        gap_shift,
        f.GAP_ESCAPE_BYTES,
        escapes_at,
        gaps,
    )
    if escapes_at < 0:
        return BAD_CODES
    low_at, escapes_at = rm.read(
        frame, low_at, quotients, entries, entries, shift, width, escapes_at, rest
    )
    if escapes_at < 0:
        return BAD_CODES
    numbers[:n] = np.uint32(0)
    most = (1 << 8 * width) - 1
    at = -1
    for i in range(entries):
        at += I64(gaps[i]) + 1
        if at >= n or I64(rest[i]) >= most:
            return BAD_CODES
        numbers[at] = rest[i] + np.uint32(1)
    return OK


@kernel
def _spread_beats(s, body, per_beat):
    """Move the numbers of stored beats from `rest` to their places in `numbers`."""
    numbers = view32(s + AT.numbers, SCRATCH_BYTES)
    rest = view32(s + AT.rest, SCRATCH_BYTES)
    kept = 0
    beat = 0
    for first in range(0, body.n, per_beat):
        stored = (body.bitmap >> U64(beat)) & U64(1)
        for i in range(first, min(first + per_beat, body.n)):
            numbers[i] = rest[kept] if stored else np.uint32(0)
            kept += I64(stored)
        beat += 1


# What both need


@kernel
def _field(word, lsb, bits):
    return I64((word >> U64(lsb)) & U64((1 << bits) - 1))


@kernel
def _all_zero(data, start, end):
    any_bits = U8(0)
    for i in range(start, end):
        any_bits |= data[i]
    return any_bits == 0


@kernel
def _bits_end(data, start, bits, end):
    """Whether everything behind a bit string is zero, up to the end of its section."""
    if bits & 7 and data[start + (bits >> 3)] >> (bits & 7):
        return False
    return _all_zero(data, start + ((bits + 7) >> 3), end)


@kernel
def _clear_beat(block, size):
    """Fill the last beat with zeros; returns the size with them."""
    padded = (size + f.BEAT_BYTES - 1) & ~(f.BEAT_BYTES - 1)
    for i in range(size, padded):
        block[i] = U8(0)
    return padded


@kernel
def _read_quotients(s, frame, unary, unary_bytes, codes, values):
    """Read the unary section; False unless it holds exactly so many codes, within the limit."""
    places = view8(s + AT.places, QUOTIENTS_BYTES)
    quotients = view8(s + AT.quotients, QUOTIENTS_BYTES)
    bits_max = f.UNARY_BITS_PER_VALUE_MAX * values
    if unary_bytes == 0:
        return codes == 0
    return (
        unary_bytes <= (bits_max + 7) >> 3
        and frame[unary + unary_bytes - 1] != 0
        and un.unary_bits(frame, unary, unary_bytes) <= bits_max
        and un.read_unary(frame, unary, unary_bytes, places, quotients) == codes
    )


@kernel
def _place_beats(s, block, body, width):
    """Move the stored beats from `values` to their places in the block, zeros between them."""
    values = view8(s + AT.values, SCRATCH_BYTES)
    kept = 0
    for first in range(0, body.n * width, f.BEAT_BYTES):
        size = min(f.BEAT_BYTES, body.n * width - first)
        if (body.bitmap >> U64(first // f.BEAT_BYTES)) & U64(1):
            copy(block, body.head + first, values, kept, size)
            kept += size
        else:
            for i in range(body.head + first, body.head + first + size):
                block[i] = U8(0)
