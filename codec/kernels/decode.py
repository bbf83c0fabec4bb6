# SPDX-License-Identifier: Apache-2.0
"""Frames to blocks (`docs/format.md`). May not use `codec.kernels.encode`.

Every length is checked before it is used. A frame is first copied to scratch with room behind it,
so that word-wise reads stay inside memory that this file owns.
"""

import numpy as np

from codec import format as f
from codec.format import Mode
from codec.kernels import order as o
from codec.kernels import split as sp
from codec.kernels import unary as un
from codec.kernels.compile import kernel
from codec.kernels.crc import crc_block, crc_header
from codec.kernels.intrinsics import copy, copy_in, copy_out, load64, popcount

U8, U64, I64 = np.uint8, np.uint64, np.int64

RAW, CONSTANT, CODED = int(Mode.RAW), int(Mode.CONSTANT), int(Mode.CODED)
SPARE = 128
SCRATCH_BYTES = f.BLOCK_BYTES_MAX + SPARE
QUOTIENTS_BYTES = f.UNARY_BITS_PER_VALUE_MAX * f.BLOCK_BYTES_MAX + SPARE

# Statuses: which check a payload failed. The engine finds the words for them.
OK, BAD_LENGTH, BAD_HEADER, BAD_SECTIONS, BAD_PADDING, BAD_CODES, BAD_RANKS, BAD_CRC = range(8)


@kernel
def decode_blocks(address, lengths, modes, element, block_bytes, phase, bare, out, total):
    """Decode payloads at `address`, back to back, to `total` bytes at `out`.

    There must be one length a block, and their sum must be what lies at `address`.

    Returns:
        Status, and the index and offset of the block that failed.
    """
    frame = np.zeros(SCRATCH_BYTES + f.SHORT_HEADER_BYTES, np.uint8)
    block = np.zeros(SCRATCH_BYTES, np.uint8)
    values = np.zeros(SCRATCH_BYTES, np.uint8)
    slots = np.zeros(3 * sp.SLOT_BYTES, np.uint8)
    symbols = np.zeros(SCRATCH_BYTES, np.uint8)
    ranks = np.zeros(SCRATCH_BYTES, np.uint8)
    low_values = np.zeros(SCRATCH_BYTES, np.uint8)
    quotients = np.zeros(QUOTIENTS_BYTES, np.uint8)
    order = np.zeros(o.RANKS_MAX + 1, np.uint8)
    constants = np.zeros(4, np.uint8)

    width = sp.WIDTHS[element]
    at = 0
    for index in range(lengths.size):
        start = index * block_bytes
        size = min(block_bytes, total - start)
        length = I64(lengths[index])
        if bare and modes[index] == RAW:
            if length != size:
                return BAD_LENGTH, index, at
            _move(out + start, address + at, block, size)
            at += length
            continue
        if length < f.SHORT_HEADER_BYTES or length > size + f.SHORT_HEADER_BYTES:
            return BAD_LENGTH, index, at
        copy_in(frame, 0, address + at, length)
        first = load64(frame, 0)
        mode = _field(first, f.MODE_LSB, f.MODE_BITS)
        if (
            _field(first, f.VERSION_LSB, f.VERSION_BITS) != f.FORMAT_VERSION
            or _field(first, f.ELEMENT_LSB, f.ELEMENT_BITS) != element
            or _field(first, f.LENGTH_LSB, f.LENGTH_BITS) != size - 1
            or mode > CODED
            or (bare and (mode == RAW or length >= size))
        ):
            return BAD_HEADER, index, at
        second = U64(0)
        if mode == CODED:
            status = _decode_coded(
                frame,
                length,
                element,
                size,
                (phase - start) % width,
                block,
                values,
                slots,
                symbols,
                ranks,
                low_values,
                quotients,
                order,
                constants,
            )
            if status != OK:
                return status, index, at
            second = load64(frame, 8)
        else:
            unused = (1 << f.LENGTH_LSB) - (1 << f.BITMAP_LSB) | 0xF << f.ZERO_RANK_LSB
            if first & U64(unused):
                return BAD_HEADER, index, at
            body = size if mode == RAW else width
            if length != f.SHORT_HEADER_BYTES + body or (mode == CONSTANT and size <= width):
                return BAD_LENGTH, index, at
            copy(block, 0, frame, f.SHORT_HEADER_BYTES, body)
            for i in range(body, size):
                block[i] = block[i - width]

        padded = (size + f.BEAT_BYTES - 1) & ~(f.BEAT_BYTES - 1)
        for i in range(size, padded):
            block[i] = U8(0)
        word = first & U64((1 << f.CRC_LSB) - 1)
        crc = crc_header(crc_block(block, padded), word, second, mode == CODED)
        if crc != first >> U64(f.CRC_LSB):
            return BAD_CRC, index, at
        copy_out(out + start, block, 0, size)
        at += length
    return OK, 0, 0


@kernel
def _move(to, origin, scratch, size):
    copy_in(scratch, 0, origin, size)
    copy_out(to, scratch, 0, size)


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
def _align(size):
    return (size + f.ALIGN_BYTES - 1) & ~(f.ALIGN_BYTES - 1)


@kernel
def _decode_coded(
    frame,
    length,
    element,
    size,
    phase,
    block,
    values,
    slots,
    symbols,
    ranks,
    low_values,
    quotients,
    order,
    constants,
):
    """Decode a coded frame of `length` bytes into `block`; returns a status."""
    if length < f.LONG_HEADER_BYTES:
        return BAD_LENGTH
    first, second = load64(frame, 0), load64(frame, 8)
    width = sp.WIDTHS[element]
    symbol_max = sp.SYMBOL_MAX[element]
    per_beat = f.BEAT_BYTES // width
    slot_count = sp.SLOTS[element]
    has_bitmap = _field(first, f.BITMAP_LSB, f.BITMAP_BITS)
    plane_flags = _field(first, f.PLANE_FLAGS_LSB, f.PLANE_FLAGS_BITS)
    sign_flag = _field(first, f.SIGN_FLAG_LSB, f.SIGN_FLAG_BITS)
    sign_value = _field(first, f.SIGN_VALUE_LSB, f.SIGN_VALUE_BITS)
    zero_rank = _field(first, f.ZERO_RANK_LSB, f.ZERO_RANK_BITS)
    base = _field(second, f.BASE_LSB - 64, f.BASE_BITS)
    path = _field(second, f.PATH_LSB - 64, f.PATH_BITS)
    coder = _field(second, f.CODER_LSB - 64, f.CODER_BITS)
    unary_bytes = _field(second, f.UNARY_BYTES_LSB - 64, f.UNARY_BYTES_BITS)
    escapes = _field(second, f.ESCAPES_LSB - 64, f.ESCAPES_BITS)

    last_bits = sp.LAST_SLOT_BITS[element] - sign_flag
    planes = slot_count if last_bits == 8 else slot_count - 1
    if (
        _field(first, f.PHASE_LSB, f.PHASE_BITS) != phase
        or _field(second, f.RESERVED_LSB - 64, f.RESERVED_BITS) != 0
        or _field(second, f.ENTRIES_LSB - 64, f.ENTRIES_BITS) != 0
        or (sign_flag and not sp.SIGNED[element])
        or (sign_value and not sign_flag)
        or plane_flags >> planes
    ):
        return BAD_HEADER

    head = min(phase, size)
    n = (size - head) // width
    tail = size - head - n * width
    beats = (n + per_beat - 1) // per_beat
    constant_count = (plane_flags & 1) + (plane_flags >> 1 & 1) + (plane_flags >> 2)
    extra = f.BITMAP_BYTES * has_bitmap + head + tail + constant_count
    at = f.LONG_HEADER_BYTES + _align(extra)
    if at > length:
        return BAD_SECTIONS
    if not _all_zero(frame, f.LONG_HEADER_BYTES + extra, at):
        return BAD_PADDING
    place = f.LONG_HEADER_BYTES
    bitmap = U64(0xFFFFFFFFFFFFFFFF)
    m = n
    if has_bitmap:
        bitmap = load64(frame, place)
        place += f.BITMAP_BYTES
        if beats < 64 and bitmap >> U64(beats):
            return BAD_PADDING
        m = popcount(bitmap) * per_beat
        if beats > 0 and (bitmap >> U64(beats - 1)) & U64(1):
            m -= beats * per_beat - n
    copy(block, 0, frame, place, head)
    copy(block, size - tail, frame, place + head, tail)
    place += head + tail
    for plane in range(planes):
        if plane_flags >> plane & 1:
            constants[plane] = frame[place]
            place += 1

    stored = planes - constant_count
    remainder_bytes = m * stored
    if last_bits < 8:
        remainder_bytes += (m * last_bits + 7) >> 3
    has_symbols = symbol_max > 0 and m > 0
    low_bits = m * o.LOW_BITS[coder] if has_symbols else 0
    low = at + _align(remainder_bytes)
    unary = low + _align((low_bits + 7) >> 3)
    if unary + unary_bytes + escapes != length:
        return BAD_SECTIONS
    if not _all_zero(frame, at + remainder_bytes, low):
        return BAD_PADDING
    if not _all_zero(frame, low + ((low_bits + 7) >> 3), unary):
        return BAD_PADDING
    if low_bits & 7 and frame[low + (low_bits >> 3)] >> (low_bits & 7):
        return BAD_PADDING
    used = sp.unpack_remainders(
        _from(frame, at), m, per_beat, slot_count, last_bits, plane_flags, constants, slots
    )
    if used < 0:
        return BAD_PADDING
    if sign_value:
        _set_bit(slots, sp.SLOT_BYTES * (slot_count - 1), m, U8(1 << last_bits))

    if has_symbols:
        if base < 1 or base > symbol_max:
            return BAD_HEADER
        status = _decode_symbols(
            frame,
            low,
            unary,
            unary_bytes,
            escapes,
            m,
            symbol_max,
            coder,
            base,
            path,
            zero_rank,
            symbols,
            ranks,
            low_values,
            quotients,
            order,
        )
        if status != OK:
            return status
    elif base | path | zero_rank | coder | unary_bytes | escapes:
        return BAD_HEADER
    else:
        symbols[:m] = U8(0)

    if head == 0 and not has_bitmap:
        sp.merge(element, slots, symbols, block, m)
        return OK
    sp.merge(element, slots, symbols, values, m)
    kept = 0
    for beat in range(beats):
        first_value = beat * per_beat
        bytes_here = min(per_beat, n - first_value) * width
        to = head + first_value * width
        if (bitmap >> U64(beat)) & U64(1):
            copy(block, to, values, kept, bytes_here)
            kept += bytes_here
        else:
            for i in range(to, to + bytes_here):
                block[i] = U8(0)
    return OK


@kernel
def _from(data, start):
    return data[start:]


@kernel
def _set_bit(slots, start, n, bit):
    for i in range(start, start + n):
        slots[i] |= bit


@kernel
def _decode_symbols(
    frame,
    low,
    unary,
    unary_bytes,
    escapes,
    m,
    symbol_max,
    coder,
    base,
    path,
    zero_rank,
    symbols,
    ranks,
    low_values,
    quotients,
    order,
):
    """Symbols of `m` >= 1 values; sections lie inside the frame. Returns a status."""
    escape = o.RANKS[coder]
    known = o.fill_order(base, path, zero_rank, escape, symbol_max, order)
    un.unpack_low(coder, frame, low, low_values, m)
    codes = un.count_coded(coder, low_values, m)
    bits_max = f.UNARY_BITS_PER_VALUE_MAX * m
    if unary_bytes == 0:
        if codes != 0:
            return BAD_CODES
    else:
        if unary_bytes > (bits_max + 7) >> 3 or frame[unary + unary_bytes - 1] == 0:
            return BAD_CODES
        if un.unary_bits(frame, unary, unary_bytes) > bits_max:
            return BAD_CODES
        if un.read_unary(frame, unary, unary_bytes, quotients) != codes:
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
    allowed = min((m + f.VALUES_PER_ESCAPE - 1) // f.VALUES_PER_ESCAPE, f.ESCAPES_MAX)
    if found != escapes or found > allowed:
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
