# SPDX-License-Identifier: Apache-2.0
"""Blocks to frames (`docs/format.md`). May not use `codec.kernels.decode`.

Of every way to hold a block the exact length is found first, from counts; then the shortest is
written, once.
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
from codec.kernels.intrinsics import copy, copy_in, copy_out, load64, store64
from codec.kernels.order import align

U8, U64 = np.uint8, np.uint64

RAW, CONSTANT, CODED, REFERENCE = (int(mode) for mode in Mode)
SPARE = 128
SCRATCH_BYTES = f.BLOCK_BYTES_MAX + SPARE
NEVER = 1 << 30
"""A length that no frame has: this way cannot hold the block."""

# Places in the int64 array that describes a coded or reference frame.
VALUES, EXTRAS, BITMAP, PLANES, LAST_BITS, SIGN, PHASE, REMAINDERS, COPY_CRC = range(9)
LAYOUT_SIZE = 9

Scratch = namedtuple(
    "Scratch",
    "block values resident slots symbols ranks packed low code_lengths quads unary extras order "
    "table partial counts ranked choice layout numbers kept gaps rest plan trial",
)


@kernel
def _make_scratch():
    return Scratch(
        block=np.zeros(SCRATCH_BYTES, np.uint8),
        values=np.zeros(SCRATCH_BYTES, np.uint8),
        resident=np.zeros(SCRATCH_BYTES, np.uint8),
        slots=np.zeros(3 * sp.SLOT_BYTES, np.uint8),
        symbols=np.zeros(SCRATCH_BYTES, np.uint8),
        ranks=np.zeros(SCRATCH_BYTES, np.uint8),
        packed=np.zeros(2 * SCRATCH_BYTES, np.uint8),
        low=np.zeros(2 * SCRATCH_BYTES, np.uint8),
        code_lengths=np.zeros(SCRATCH_BYTES, np.uint8),
        quads=np.zeros(SCRATCH_BYTES // 4, np.uint16),
        unary=np.zeros(SCRATCH_BYTES, np.uint8),
        extras=np.zeros(f.ALIGN_BYTES * 4, np.uint8),
        order=np.zeros(o.RANKS_MAX + 1, np.uint8),
        table=np.zeros(256, np.uint8),
        partial=np.zeros(1024, np.uint16),
        counts=np.full(o.COUNTS_SIZE, -1, np.int32),
        ranked=np.zeros(o.RANKS_MAX + 1, np.int32),
        choice=np.zeros(o.CHOICE_SIZE, np.int64),
        layout=np.zeros(LAYOUT_SIZE, np.int64),
        numbers=np.zeros(SCRATCH_BYTES, np.uint32),
        kept=np.zeros(SCRATCH_BYTES, np.uint32),
        gaps=np.zeros(SCRATCH_BYTES, np.uint32),
        rest=np.zeros(SCRATCH_BYTES, np.uint32),
        plan=np.zeros(rm.PLAN_SIZE, np.int64),
        trial=np.zeros(rm.PLAN_SIZE, np.int64),
    )


@kernel
def encode_blocks(address, total, element, block_bytes, phase, bare, resident, out, lengths, modes):
    """Encode `total` bytes at `address` to memory at `out`; returns the bytes written.

    `resident` is the address of a copy as long as the data, or 0. `out` must have room for 8 bytes
    more than each block; `lengths` int32 and `modes` uint8 get one entry a block. With `bare`, a
    block that does not shrink is copied as it is.
    """
    s = _make_scratch()
    width = sp.WIDTHS[element]
    at = 0
    index = 0
    for start in range(0, total, block_bytes):
        size = min(block_bytes, total - start)
        copy_in(s.block, 0, address + start, size)
        origin = resident + start if resident else 0
        length, mode = _encode_block(
            s, size, element, (phase - start) % width, bare, origin, out + at
        )
        lengths[index] = length
        modes[index] = mode
        at += length
        index += 1
    return at


@kernel
def _encode_block(s, size, element, phase, bare, resident, to):
    """Encode `s.block`; returns the payload's length and mode."""
    width = sp.WIDTHS[element]
    padded = _beat_align(size)
    for i in range(size, padded):
        s.block[i] = U8(0)
    state = crc_block(s.block, padded)
    raw = size if bare else size + f.SHORT_HEADER_BYTES

    if size > width and _has_period(s.block, size, width):
        length = f.SHORT_HEADER_BYTES + width
        if length < raw:
            _put_short_header(s, to, size, element, CONSTANT, state)
            copy_out(to + f.SHORT_HEADER_BYTES, s.block, 0, width)
            return length, CONSTANT

    coded = _plan_coded(s, size, element, phase)
    shortest = min(raw, coded)
    reference = NEVER
    if resident:
        reference = _plan_reference(s, size, element, phase, resident, shortest)
    if reference < shortest:
        _write_reference(s, size, element, phase, state, to)
        return reference, REFERENCE
    if coded < raw:
        _write_coded(s, size, element, state, to)
        return coded, CODED
    if bare:
        copy_out(to, s.block, 0, size)
    else:
        _put_short_header(s, to, size, element, RAW, state)
        copy_out(to + f.SHORT_HEADER_BYTES, s.block, 0, size)
    return raw, RAW


# Coded


@kernel
def _plan_coded(s, size, element, phase):
    """Split the block and choose how to code it; returns the frame's length, or `NEVER`."""
    width = sp.WIDTHS[element]
    per_beat = f.BEAT_BYTES // width
    head = min(phase, size)
    n = (size - head) // width
    values = s.block
    if head > 0 or n * width < _beat_align(size):
        _take_values(s.values, s.block, head, n * width)
        values = s.values
    bitmap, whole_zero = _stored_beats(values, n * width)
    extra = 0
    m = n
    if whole_zero:
        store64(s.extras, 0, bitmap)
        extra = f.BITMAP_BYTES
        m = _drop_zero_beats(values, s.values, n, per_beat, width, bitmap)
        values = s.values
    extra = _put_edges(s, size, head, size - head - n * width, extra)

    sp.split(element, values, s.slots, s.symbols, m)
    slot_count = sp.SLOTS[element]
    last_bits = sp.LAST_SLOT_BITS[element]
    sign = 0
    plane_flags = 0
    if m > 0:
        if sp.SIGNED[element]:
            sign = sp.common_sign(s.slots, m, slot_count - 1, last_bits)
            last_bits -= min(sign, 1)
        planes = slot_count if last_bits == 8 else slot_count - 1
        for plane in range(planes):
            if sp.is_constant(s.slots, m, plane):
                plane_flags |= 1 << plane
                s.extras[extra] = s.slots[sp.SLOT_BYTES * plane]
                extra += 1
    remainders = _remainder_bytes(m, slot_count, last_bits, plane_flags)
    layout = s.layout
    layout[VALUES], layout[EXTRAS], layout[BITMAP] = m, extra, 1 if whole_zero else 0
    layout[PLANES], layout[LAST_BITS], layout[SIGN] = plane_flags, last_bits, sign
    layout[PHASE], layout[REMAINDERS] = phase, remainders

    for i in range(o.CHOICE_SIZE):
        s.choice[i] = 0
    symbol_max = sp.SYMBOL_MAX[element]
    if symbol_max > 0 and m > 0:
        o.count_symbols(s.symbols, m, s.partial, s.counts)
        if not o.choose(s.counts, m, symbol_max, s.ranked, s.choice):
            return NEVER
    return f.LONG_HEADER_BYTES + align(extra) + align(remainders) + s.choice[o.CODED_BYTES]


@kernel
def _write_coded(s, size, element, state, to):
    layout, choice = s.layout, s.choice
    m, sign = layout[VALUES], layout[SIGN]
    first = _first_word(size, element, CODED) | (
        U64(layout[BITMAP] << f.BITMAP_LSB)
        | U64(layout[PLANES] << f.PLANE_FLAGS_LSB)
        | U64(layout[PHASE] << f.PHASE_LSB)
        | U64(choice[o.ZERO_RANK] << f.ZERO_RANK_LSB)
    )
    if sign > 0:
        first |= U64(1 << f.SIGN_FLAG_LSB) | U64((sign - 1) << f.SIGN_VALUE_LSB)
    second = (
        U64(choice[o.BASE] << (f.BASE_LSB - 64))
        | U64(choice[o.PATH] << (f.PATH_LSB - 64))
        | U64(choice[o.CODER] << (f.CODER_LSB - 64))
        | U64(choice[o.UNARY_BYTES] << (f.UNARY_BYTES_LSB - 64))
        | U64(choice[o.ESCAPES] << (f.ESCAPES_LSB - 64))
    )
    _put_long_header(s, to, first, second, state)
    to += f.LONG_HEADER_BYTES
    to += _put_padded(to, s.extras, layout[EXTRAS])
    slot_count, last_bits = sp.SLOTS[element], layout[LAST_BITS]
    if slot_count == 1 and last_bits == 8 and layout[PLANES] == 0:
        to += _put_padded(to, s.slots, m)
    else:
        sp.pack_remainders(
            s.slots,
            m,
            f.BEAT_BYTES // sp.WIDTHS[element],
            slot_count,
            last_bits,
            layout[PLANES],
            s.packed,
        )
        to += _put_padded(to, s.packed, layout[REMAINDERS])
    if choice[o.CODED_BYTES] > 0:
        _write_symbols(s, m, sp.SYMBOL_MAX[element], to)


@kernel
def _write_symbols(s, m, symbol_max, to):
    """Write the low-bits, unary and escapes section."""
    choice = s.choice
    coder, zero_rank = choice[o.CODER], choice[o.ZERO_RANK]
    escape = o.RANKS[coder]
    known = o.fill_order(choice[o.BASE], choice[o.PATH], zero_rank, escape, symbol_max, s.order)
    if coder == o.R2:
        un.rank_many(s.symbols, s.order, known, escape, s.table, s.ranks, m)
    else:
        un.rank_few(s.symbols, s.order, known, zero_rank, s.table, s.ranks, m)
    un.pack_low(coder, s.ranks, m, s.code_lengths, s.low)
    un.pack_unary(coder, s.ranks, m, s.code_lengths, s.quads, s.unary)
    to += _put_padded(to, s.low, (m * o.LOW_BITS[coder] + 7) >> 3)
    copy_out(to, s.unary, 0, choice[o.UNARY_BYTES])
    to += choice[o.UNARY_BYTES]
    if choice[o.ESCAPES] > 0:
        count = 0
        for i in range(m):
            if s.ranks[i] == escape:
                s.packed[count] = s.symbols[i]
                count += 1
        copy_out(to, s.packed, 0, count)


@kernel
def _remainder_bytes(m, slot_count, last_bits, plane_flags):
    """Bytes of the remainders section without padding."""
    planes = slot_count if last_bits == 8 else slot_count - 1
    stored = planes
    for plane in range(planes):
        stored -= (plane_flags >> plane) & 1
    size = m * stored
    if last_bits < 8:
        # Only a partial last record pads its top bits to a byte.
        size += (m * last_bits + 7) >> 3
    return size


# Reference mode


@kernel
def _plan_reference(s, size, element, phase, resident, shortest):
    """Choose how to code the block against its resident copy.

    Returns the frame's length, or `NEVER` if it is not below `shortest`. Overwrites the extras
    only if it is.
    """
    width = sp.WIDTHS[element]
    per_beat = f.BEAT_BYTES // width
    head = min(phase, size)
    n = (size - head) // width
    tail = size - head - n * width
    _take_values(s.values, s.block, head, n * width)
    copy_in(s.resident, 0, resident + head, n * width)
    rm.difference(element, s.values, s.resident, s.numbers, n)

    bitmap, whole_zero = rm.stored_beats(s.numbers, n, per_beat)
    extra = head + tail + (f.BITMAP_BYTES if whole_zero else 0)
    dense = NEVER
    m = n
    if whole_zero:
        m = rm.keep_beats(s.numbers, n, per_beat, bitmap, s.kept)
    numbers = s.kept if whole_zero else s.numbers
    if rm.plan_dense(numbers, m, element, s.plan):
        dense = f.LONG_HEADER_BYTES + align(extra) + s.plan[rm.BYTES]
    count = rm.find_gaps(s.numbers, n, s.gaps, s.rest)
    sparse = NEVER
    if rm.plan_gaps(s.gaps, s.rest, count, n, element, s.trial):
        sparse = f.LONG_HEADER_BYTES + align(head + tail) + s.trial[rm.BYTES]

    if min(dense, sparse) >= shortest:
        return NEVER
    layout = s.layout
    layout[PHASE] = phase
    layout[BITMAP] = 0
    extra = 0
    if sparse < dense:
        for i in range(rm.PLAN_SIZE):
            s.plan[i] = s.trial[i]
        layout[VALUES] = count
    else:
        layout[VALUES] = m
        if whole_zero:
            layout[BITMAP] = 1
            store64(s.extras, 0, bitmap)
            extra = f.BITMAP_BYTES
    layout[EXTRAS] = _put_edges(s, size, head, tail, extra)
    # What the header promises of the copy.
    padded = _beat_align(size)
    copy_in(s.resident, 0, resident, size)
    for i in range(size, padded):
        s.resident[i] = U8(0)
    layout[COPY_CRC] = crc_block(s.resident, padded) ^ U64(f.CRC_INIT)
    return min(dense, sparse)


@kernel
def _write_reference(s, size, element, phase, state, to):
    layout, plan = s.layout, s.plan
    low_bytes = (plan[rm.LOW_BITS] + 7) >> 3
    unary_bytes = (plan[rm.UNARY_BITS] + 7) >> 3
    s.low[: low_bytes + 8] = U8(0)
    s.unary[:unary_bytes] = U8(0)
    width = sp.WIDTHS[element]
    count, shift = layout[VALUES], plan[rm.SHIFT]
    low_at = unary_at = escapes_at = 0
    if plan[rm.GAPS]:
        low_at, unary_at, escapes_at = rm.write(
            s.gaps,
            count,
            plan[rm.GAP_SHIFT],
            f.GAP_ESCAPE_BYTES,
            s.low,
            low_at,
            s.unary,
            unary_at,
            s.packed,
            escapes_at,
        )
    numbers = s.rest if plan[rm.GAPS] else (s.kept if layout[BITMAP] else s.numbers)
    rm.write(numbers, count, shift, width, s.low, low_at, s.unary, unary_at, s.packed, escapes_at)

    first = _first_word(size, element, REFERENCE) | (
        U64(layout[BITMAP] << f.BITMAP_LSB)
        | U64(plan[rm.GAPS] << f.GAPS_LSB)
        | U64(plan[rm.GAP_SHIFT] << f.GAP_SHIFT_LSB)
        | U64(phase << f.PHASE_LSB)
        | U64(shift << f.SHIFT_LSB)
    )
    second = (
        U64(layout[COPY_CRC] << (f.REFERENCE_CRC_LSB - 64))
        | U64(unary_bytes << (f.UNARY_BYTES_LSB - 64))
        | U64(plan[rm.ESCAPES] << (f.ESCAPES_LSB - 64))
        | U64(plan[rm.ENTRIES] << (f.ENTRIES_LSB - 64))
    )
    _put_long_header(s, to, first, second, state)
    to += f.LONG_HEADER_BYTES
    to += _put_padded(to, s.extras, layout[EXTRAS])
    to += _put_padded(to, s.low, low_bytes)
    copy_out(to, s.unary, 0, unary_bytes)
    copy_out(to + unary_bytes, s.packed, 0, plan[rm.ESCAPE_BYTES])


# What all of them need


@kernel
def _beat_align(size):
    return (size + f.BEAT_BYTES - 1) & ~(f.BEAT_BYTES - 1)


@kernel
def _first_word(size, element, mode):
    return U64(
        f.FORMAT_VERSION << f.VERSION_LSB
        | mode << f.MODE_LSB
        | element << f.ELEMENT_LSB
        | (size - 1) << f.LENGTH_LSB
    )


@kernel
def _put_short_header(s, to, size, element, mode, state):
    word = _first_word(size, element, mode)
    crc = crc_header(state, word, U64(0), False)
    _put_word(to, s.table, word | (crc << U64(f.CRC_LSB)))


@kernel
def _put_long_header(s, to, first, second, state):
    crc = crc_header(state, first, second, True)
    _put_word(to, s.table, first | (crc << U64(f.CRC_LSB)))
    _put_word(to + 8, s.table, second)


@kernel
def _put_word(to, scratch, word):
    store64(scratch, 0, word)
    copy_out(to, scratch, 0, 8)


@kernel
def _put_padded(to, section, size):
    """Write a section of `size` bytes and its padding; returns the bytes written."""
    store64(section, size, U64(0))
    store64(section, size + 8, U64(0))
    copy_out(to, section, 0, align(size))
    return align(size)


@kernel
def _put_edges(s, size, head, tail, extra):
    """Put head and tail into the extras, from place `extra`; returns the new place."""
    copy(s.extras, extra, s.block, 0, head)
    copy(s.extras, extra + head, s.block, size - tail, tail)
    return extra + head + tail


@kernel
def _take_values(values, block, head, size):
    """Copy the bytes of whole elements, and fill the last beat with zeros."""
    copy(values, 0, block, head, size)
    for i in range(size, _beat_align(size) + 8):
        values[i] = U8(0)


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
def _stored_beats(values, size):
    """Bitmap of the beats that are not zero, and whether a complete beat is zero.

    Bytes behind `size`, up to the end of the beat, must be zero.
    """
    bitmap = U64(0)
    whole_zero = False
    for start in range(0, size, f.BEAT_BYTES):
        w = load64(values, start)
        if w == U64(0):
            for i in range(8, f.BEAT_BYTES, 8):
                w |= load64(values, start + i)
        if w != U64(0):
            bitmap |= U64(1) << U64(start // f.BEAT_BYTES)
        elif start + f.BEAT_BYTES <= size:
            whole_zero = True
    return bitmap, whole_zero


@kernel
def _drop_zero_beats(values, kept, n, per_beat, width, bitmap):
    """Move the stored beats to the front of `kept`; returns the number of values there."""
    count = 0
    beat = 0
    for first in range(0, n, per_beat):
        if (bitmap >> U64(beat)) & U64(1):
            for i in range(0, f.BEAT_BYTES, 8):
                store64(kept, count * width + i, load64(values, first * width + i))
            count += min(per_beat, n - first)
        beat += 1
    return count
