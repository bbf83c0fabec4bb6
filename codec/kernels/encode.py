# SPDX-License-Identifier: Apache-2.0
"""Blocks to frames (`docs/format.md`). May not use `codec.kernels.decode`."""

import numpy as np

from codec import format as f
from codec.format import Mode
from codec.kernels import order as o
from codec.kernels import split as sp
from codec.kernels import unary as un
from codec.kernels.compile import kernel
from codec.kernels.crc import crc_block, crc_header
from codec.kernels.intrinsics import copy, copy_in, copy_out, load64, store64

U8, U64 = np.uint8, np.uint64

RAW, CONSTANT, CODED = int(Mode.RAW), int(Mode.CONSTANT), int(Mode.CODED)
SPARE = 128
SCRATCH_BYTES = f.BLOCK_BYTES_MAX + SPARE


@kernel
def encode_blocks(address, total, element, block_bytes, phase, bare, out, lengths, modes):
    """Encode `total` bytes at `address` to memory at `out`; returns the bytes written.

    `out` must have room for 8 bytes more than each block; `lengths` int32 and `modes` uint8 get
    one entry a block. With `bare`, a block that does not shrink is copied as it is.
    """
    block = np.zeros(SCRATCH_BYTES, np.uint8)
    values = np.zeros(SCRATCH_BYTES, np.uint8)
    slots = np.zeros(3 * sp.SLOT_BYTES, np.uint8)
    symbols = np.zeros(SCRATCH_BYTES, np.uint8)
    ranks = np.zeros(SCRATCH_BYTES, np.uint8)
    packed = np.zeros(2 * SCRATCH_BYTES, np.uint8)
    low = np.zeros(SCRATCH_BYTES, np.uint8)
    code_lengths = np.zeros(SCRATCH_BYTES, np.uint8)
    quads = np.zeros(SCRATCH_BYTES // 4, np.uint16)
    unary = np.zeros(SCRATCH_BYTES, np.uint8)
    extras = np.zeros(f.ALIGN_BYTES * 4, np.uint8)
    order = np.zeros(o.RANKS_MAX + 1, np.uint8)
    table = np.zeros(256, np.uint8)
    partial = np.zeros(1024, np.uint16)
    counts = np.full(o.COUNTS_SIZE, -1, np.int32)
    ranked = np.zeros(o.RANKS_MAX + 1, np.int32)
    choice = np.zeros(o.CHOICE_SIZE, np.int64)

    width = sp.WIDTHS[element]
    symbol_max = sp.SYMBOL_MAX[element]
    per_beat = f.BEAT_BYTES // width
    at = 0
    index = 0
    for start in range(0, total, block_bytes):
        size = min(block_bytes, total - start)
        padded = (size + f.BEAT_BYTES - 1) & ~(f.BEAT_BYTES - 1)
        copy_in(block, 0, address + start, size)
        for i in range(size, padded):
            block[i] = U8(0)
        state = crc_block(block, padded)
        first = (
            U64(f.FORMAT_VERSION << f.VERSION_LSB)
            | U64(element << f.ELEMENT_LSB)
            | U64((size - 1) << f.LENGTH_LSB)
        )

        if size > width and _has_period(block, size, width):
            length = f.SHORT_HEADER_BYTES + width
            if not (bare and length >= size):
                word = first | U64(CONSTANT << f.MODE_LSB)
                crc = crc_header(state, word, U64(0), False)
                _put_word(out + at, table, word | (crc << U64(f.CRC_LSB)))
                copy_out(out + at + f.SHORT_HEADER_BYTES, block, 0, width)
                at += _finish(lengths, modes, index, length, CONSTANT)
                index += 1
                continue

        block_phase = (phase - start) % width
        head = min(block_phase, size)
        n = (size - head) // width
        tail = size - head - n * width
        data = block
        if head > 0 or n * width < padded:
            copy(values, 0, block, head, n * width)
            for i in range(n * width, ((n * width + 63) & ~63) + 8):
                values[i] = U8(0)
            data = values
        bitmap, whole_zero = _stored_beats(data, n * width)
        extra = 0
        m = n
        if whole_zero:
            store64(extras, 0, bitmap)
            extra = f.BITMAP_BYTES
            m = _drop_zero_beats(data, values, n, per_beat, width, bitmap)
            data = values
        if head + tail > 0:
            copy(extras, extra, block, 0, head)
            copy(extras, extra + head, block, size - tail, tail)
            extra += head + tail

        sp.split(element, data, slots, symbols, m)
        slot_count = sp.SLOTS[element]
        last_bits = sp.LAST_SLOT_BITS[element]
        flags = U64(1 << f.BITMAP_LSB) if whole_zero else U64(0)
        plane_flags = 0
        if m > 0:
            if sp.SIGNED[element]:
                sign = sp.common_sign(slots, m, slot_count - 1, last_bits)
                if sign > 0:
                    flags |= U64(1 << f.SIGN_FLAG_LSB) | U64((sign - 1) << f.SIGN_VALUE_LSB)
                    last_bits -= 1
            planes = slot_count if last_bits == 8 else slot_count - 1
            for plane in range(planes):
                if sp.is_constant(slots, m, plane):
                    plane_flags |= 1 << plane
                    extras[extra] = slots[sp.SLOT_BYTES * plane]
                    extra += 1
        remainder_bytes = _remainder_bytes(m, per_beat, slot_count, last_bits, plane_flags)

        ranked_ok = True
        for i in range(o.CHOICE_SIZE):
            choice[i] = 0
        if symbol_max > 0 and m > 0:
            o.count_symbols(symbols, m, partial, counts)
            ranked_ok = o.choose(counts, m, symbol_max, ranked, choice)
        length = (
            f.LONG_HEADER_BYTES + _align(extra) + _align(remainder_bytes) + choice[o.CODED_BYTES]
        )
        if not ranked_ok or length >= size + (0 if bare else f.SHORT_HEADER_BYTES):
            if bare:
                copy_out(out + at, block, 0, size)
                at += _finish(lengths, modes, index, size, RAW)
            else:
                crc = crc_header(state, first, U64(0), False)
                _put_word(out + at, table, first | (crc << U64(f.CRC_LSB)))
                copy_out(out + at + f.SHORT_HEADER_BYTES, block, 0, size)
                at += _finish(lengths, modes, index, size + f.SHORT_HEADER_BYTES, RAW)
            index += 1
            continue

        first |= (
            flags
            | U64(CODED << f.MODE_LSB)
            | U64(plane_flags << f.PLANE_FLAGS_LSB)
            | U64(block_phase << f.PHASE_LSB)
            | U64(choice[o.ZERO_RANK] << f.ZERO_RANK_LSB)
        )
        second = (
            U64(choice[o.BASE] << (f.BASE_LSB - 64))
            | U64(choice[o.PATH] << (f.PATH_LSB - 64))
            | U64(choice[o.CODER] << (f.CODER_LSB - 64))
            | U64(choice[o.UNARY_BYTES] << (f.UNARY_BYTES_LSB - 64))
            | U64(choice[o.ESCAPES] << (f.ESCAPES_LSB - 64))
        )
        crc = crc_header(state, first, second, True)
        to = out + at
        _put_word(to, table, first | (crc << U64(f.CRC_LSB)))
        _put_word(to + 8, table, second)
        to += f.LONG_HEADER_BYTES
        _clear(extras, extra)
        to += _put_padded(to, extras, extra)
        if slot_count == 1 and last_bits == 8 and plane_flags == 0:
            _clear(slots, m)
            to += _put_padded(to, slots, m)
        else:
            sp.pack_remainders(slots, m, per_beat, slot_count, last_bits, plane_flags, packed)
            _clear(packed, remainder_bytes)
            to += _put_padded(to, packed, remainder_bytes)
        if choice[o.CODED_BYTES] > 0:
            coder = choice[o.CODER]
            count = o.RANKS[coder]
            known = o.fill_order(
                choice[o.BASE], choice[o.PATH], choice[o.ZERO_RANK], count, symbol_max, order
            )
            if coder == o.R2:
                un.rank_many(symbols, order, known, count, table, ranks, m)
            else:
                un.rank_few(symbols, order, known, choice[o.ZERO_RANK], table, ranks, m)
            low_bytes = (m * o.LOW_BITS[coder] + 7) >> 3
            un.pack_low(coder, ranks, m, code_lengths, low)
            un.pack_unary(coder, ranks, m, code_lengths, quads, unary)
            _clear(low, low_bytes)
            to += _put_padded(to, low, low_bytes)
            copy_out(to, unary, 0, choice[o.UNARY_BYTES])
            to += choice[o.UNARY_BYTES]
            if choice[o.ESCAPES] > 0:
                _gather_escapes(symbols, ranks, m, count, packed)
                copy_out(to, packed, 0, choice[o.ESCAPES])
        at += _finish(lengths, modes, index, length, CODED)
        index += 1
    return at


@kernel
def _finish(lengths, modes, index, length, mode):
    lengths[index] = length
    modes[index] = mode
    return length


@kernel
def _align(size):
    return (size + f.ALIGN_BYTES - 1) & ~(f.ALIGN_BYTES - 1)


@kernel
def _clear(data, size):
    """Zero the padding behind a section of `size` bytes."""
    store64(data, size, U64(0))
    store64(data, size + 8, U64(0))


@kernel
def _put_padded(to, data, size):
    copy_out(to, data, 0, _align(size))
    return _align(size)


@kernel
def _put_word(to, scratch, word):
    store64(scratch, 0, word)
    copy_out(to, scratch, 0, 8)


@kernel
def _has_period(block, size, width):
    for i in range(width, min(size, 16)):
        if block[i] != block[i - width]:
            return False
    differ = U8(0)
    for i in range(width, size):
        differ |= block[i] ^ block[i - width]
    return differ == 0


@kernel
def _stored_beats(data, size):
    """Bitmap of the beats that are not zero, and whether a complete beat is zero.

    Bytes behind `size`, up to the end of the beat, must be zero.
    """
    bitmap = U64(0)
    whole_zero = False
    for start in range(0, size, f.BEAT_BYTES):
        w = load64(data, start)
        if w == U64(0):
            for i in range(8, f.BEAT_BYTES, 8):
                w |= load64(data, start + i)
        if w != U64(0):
            bitmap |= U64(1) << U64(start // f.BEAT_BYTES)
        elif start + f.BEAT_BYTES <= size:
            whole_zero = True
    return bitmap, whole_zero


@kernel
def _drop_zero_beats(data, values, n, per_beat, width, bitmap):
    """Move the stored beats to the front of `values`; returns the number of values kept."""
    kept = 0
    beat = 0
    for first in range(0, n, per_beat):
        if (bitmap >> U64(beat)) & U64(1):
            count = min(per_beat, n - first)
            for i in range(0, f.BEAT_BYTES, 8):
                store64(values, kept * width + i, load64(data, first * width + i))
            kept += count
        beat += 1
    return kept


@kernel
def _remainder_bytes(n, per_beat, slot_count, last_bits, plane_flags):
    """Bytes of the remainders section without padding."""
    planes = slot_count if last_bits == 8 else slot_count - 1
    stored = planes
    for plane in range(planes):
        stored -= (plane_flags >> plane) & 1
    size = n * stored
    if last_bits < 8:
        # Only a partial last record pads its top bits to a byte.
        size += (n * last_bits + 7) >> 3
    return size


@kernel
def _gather_escapes(symbols, ranks, n, escape, out):
    count = 0
    for i in range(n):
        if ranks[i] == escape:
            out[count] = symbols[i]
            count += 1
