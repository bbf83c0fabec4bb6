# SPDX-License-Identifier: Apache-2.0
"""Blocks to frames (`docs/format.md`). May not use `codec.kernels.decode`.

Of every way to hold a block the exact length is found first, from counts; then the shortest is
written, once.
"""

import numpy as np

from codec import format as f
from codec.format import Mode
from codec.kernels import order as o
from codec.kernels import reference_mode as rm
from codec.kernels import split as sp
from codec.kernels import unary as un
from codec.kernels.compile import kernel
from codec.kernels.crc import crc_block, crc_header
from codec.kernels.intrinsics import (
    copy,
    copy_in,
    copy_out,
    load64,
    store64,
    view8,
    view16,
    view32,
    view_i32,
    view_i64,
)
from codec.kernels.order import align
from codec.kernels.scratch import places

U8, U64 = np.uint8, np.uint64

RAW, CONSTANT, CODED, REFERENCE = (int(mode) for mode in Mode)
SPARE = 128
SCRATCH_BYTES = f.BLOCK_BYTES_MAX + SPARE
NEVER = 1 << 30
"""A length that no frame has: this way cannot hold the block."""

# Places in the int64 array that describes a coded or reference frame.
VALUES, CARRIERS, EXTRAS, BITMAP, PLANES, LAST_BITS, SIGN, PHASE, REMAINDERS, COPY_CRC = range(10)
LAYOUT_SIZE = 10

AT = places(
    block=SCRATCH_BYTES,
    moved=SCRATCH_BYTES,
    copied=SCRATCH_BYTES,
    slots=3 * sp.SLOT_BYTES,
    symbols=SCRATCH_BYTES,
    ranks=SCRATCH_BYTES,
    packed=2 * SCRATCH_BYTES,
    low=2 * SCRATCH_BYTES,
    code_lengths=SCRATCH_BYTES,
    quads=SCRATCH_BYTES // 2,
    unary=SCRATCH_BYTES,
    extras=4 * f.ALIGN_BYTES,
    order=o.RANKS_MAX + 1,
    table=256,
    partial=2 * 1024,
    counts=4 * o.COUNTS_SIZE,
    ranked=4 * (o.RANKS_MAX + 1),
    choice=8 * o.CHOICE_SIZE,
    layout=8 * LAYOUT_SIZE,
    numbers=4 * SCRATCH_BYTES,
    kept=4 * SCRATCH_BYTES,
    gaps=4 * SCRATCH_BYTES,
    rest=4 * SCRATCH_BYTES,
    plan=8 * rm.PLAN_SIZE,
    trial=8 * rm.PLAN_SIZE,
)
"""Where each buffer lies in the arena."""


@kernel
def encode_blocks(
    s, address, total, element, block_bytes, phase, bare, resident, out, lengths, modes
):
    """Encode `total` bytes at `address` to memory at `out`; returns the bytes written.

    `s` is the address of an arena of `AT.end` bytes; `resident` that of a copy as long as the data,
    or 0. `out` must have room for 8 bytes more than each block; `lengths` int32 and `modes` uint8
    get one entry a block. With `bare`, a block that does not shrink is copied as it is.
    """
    o.clear_counts(view_i32(s + AT.counts, o.COUNTS_SIZE))
    width = sp.WIDTHS[element]
    at = 0
    index = 0
    for start in range(0, total, block_bytes):
        size = min(block_bytes, total - start)
        # A whole number of beats needs no padding, and so no detour.
        block = view8(s + AT.block, SCRATCH_BYTES)
        if size % f.BEAT_BYTES == 0 and (address + start) & 7 == 0:
            block = view8(address + start, size)
        else:
            copy_in(block, 0, address + start, size)
        origin = resident + start if resident else 0
        length, mode = _encode_block(
            s, block, size, element, (phase - start) % width, bare, origin, out + at
        )
        lengths[index] = length
        modes[index] = mode
        at += length
        index += 1
    return at


@kernel
def _encode_block(s, block, size, element, phase, bare, resident, to):
    """Encode `block`; returns the payload's length and mode."""
    width = sp.WIDTHS[element]
    padded = _beat_align(size)
    for i in range(size, padded):
        block[i] = U8(0)
    state = crc_block(block, padded)
    raw = size if bare else size + f.SHORT_HEADER_BYTES

    if size > width and _has_period(block, size, width):
        length = f.SHORT_HEADER_BYTES + width
        if length < raw:
            _put_short_header(s, to, size, element, CONSTANT, state)
            copy_out(to + f.SHORT_HEADER_BYTES, block, 0, width)
            return length, CONSTANT

    coded = _plan_coded(s, block, size, element, phase)
    shortest = min(raw, coded)
    reference = NEVER
    if resident:
        reference = _plan_reference(s, block, size, element, phase, resident, shortest)
    if reference < shortest:
        _write_reference(s, size, element, phase, state, to)
        return reference, REFERENCE
    if coded < raw:
        _write_coded(s, size, element, state, to)
        return coded, CODED
    if bare:
        copy_out(to, block, 0, size)
    else:
        _put_short_header(s, to, size, element, RAW, state)
        copy_out(to + f.SHORT_HEADER_BYTES, block, 0, size)
    return raw, RAW


# Coded


@kernel
def _plan_coded(s, block, size, element, phase):
    """Split the block and choose how to code it; returns the frame's length, or `NEVER`."""
    moved = view8(s + AT.moved, SCRATCH_BYTES)
    slots = view8(s + AT.slots, 3 * sp.SLOT_BYTES)
    symbols = view8(s + AT.symbols, SCRATCH_BYTES)
    extras = view8(s + AT.extras, 4 * f.ALIGN_BYTES)
    partial = view16(s + AT.partial, 1024)
    counts = view_i32(s + AT.counts, o.COUNTS_SIZE)
    ranked = view_i32(s + AT.ranked, o.RANKS_MAX + 1)
    choice = view_i64(s + AT.choice, o.CHOICE_SIZE)
    layout = view_i64(s + AT.layout, LAYOUT_SIZE)
    width = sp.WIDTHS[element]
    per_beat = f.BEAT_BYTES // width
    head = min(phase, size)
    n = (size - head) // width
    values = block
    if head > 0 or n * width < _beat_align(size):
        _take_values(moved, block, head, n * width)
        values = moved
    bitmap, whole_zero = _stored_beats(values, n * width)
    extra = 0
    m = n
    if whole_zero:
        store64(extras, 0, bitmap)
        extra = f.BITMAP_BYTES
        m = _drop_zero_beats(values, moved, n, per_beat, width, bitmap)
        values = moved
    extra = _put_edges(s, block, size, head, size - head - n * width, extra)

    sp.split(element, values, slots, symbols, m)
    slot_count = sp.SLOTS[element]
    for i in range(o.CHOICE_SIZE):
        choice[i] = 0
    symbol_max = sp.SYMBOL_MAX[element]
    carriers = m
    if symbol_max > 0 and m > 0:
        o.count_symbols(symbols, m, partial, counts)
        zeros = counts[o.MARGIN]
        if not o.choose(counts, m, symbol_max, ranked, choice):
            return NEVER
        if zeros > 0 and sp.zeros_are_bare(slots, symbols, m, slot_count):
            sp.drop_zeros(slots, symbols, m, slot_count)
            carriers -= zeros

    last_bits = sp.LAST_SLOT_BITS[element]
    sign = 0
    plane_flags = 0
    if carriers > 0:
        if sp.SIGNED[element]:
            sign = sp.common_sign(slots, carriers, slot_count - 1, last_bits)
            last_bits -= min(sign, 1)
        planes = slot_count if last_bits == 8 else slot_count - 1
        for plane in range(planes):
            if sp.is_constant(slots, carriers, plane):
                plane_flags |= 1 << plane
                extras[extra] = slots[sp.SLOT_BYTES * plane]
                extra += 1
    remainders = _remainder_bytes(carriers, slot_count, last_bits, plane_flags)
    layout[VALUES], layout[CARRIERS] = m, carriers
    layout[EXTRAS], layout[BITMAP] = extra, 1 if whole_zero else 0
    layout[PLANES], layout[LAST_BITS], layout[SIGN] = plane_flags, last_bits, sign
    layout[PHASE], layout[REMAINDERS] = phase, remainders
    return f.LONG_HEADER_BYTES + align(extra) + align(remainders) + choice[o.CODED_BYTES]


@kernel
def _write_coded(s, size, element, state, to):
    slots = view8(s + AT.slots, 3 * sp.SLOT_BYTES)
    packed = view8(s + AT.packed, 2 * SCRATCH_BYTES)
    extras = view8(s + AT.extras, 4 * f.ALIGN_BYTES)
    choice = view_i64(s + AT.choice, o.CHOICE_SIZE)
    layout = view_i64(s + AT.layout, LAYOUT_SIZE)
    m, carriers, sign = layout[VALUES], layout[CARRIERS], layout[SIGN]
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
        | U64((m - carriers) << (f.BARE_ZEROS_LSB - 64))
    )
    _put_long_header(s, to, first, second, state)
    to += f.LONG_HEADER_BYTES
    to += _put_padded(to, extras, layout[EXTRAS])
    slot_count, last_bits = sp.SLOTS[element], layout[LAST_BITS]
    if slot_count == 1 and last_bits == 8 and layout[PLANES] == 0:
        to += _put_padded(to, slots, carriers)
    else:
        sp.pack_remainders(
            slots,
            carriers,
            f.BEAT_BYTES // sp.WIDTHS[element],
            slot_count,
            last_bits,
            layout[PLANES],
            packed,
        )
        to += _put_padded(to, packed, layout[REMAINDERS])
    if choice[o.CODED_BYTES] > 0:
        _write_symbols(s, m, sp.SYMBOL_MAX[element], to)


@kernel
def _write_symbols(s, m, symbol_max, to):
    """Write the low-bits, unary and escapes section."""
    symbols = view8(s + AT.symbols, SCRATCH_BYTES)
    ranks = view8(s + AT.ranks, SCRATCH_BYTES)
    packed = view8(s + AT.packed, 2 * SCRATCH_BYTES)
    low = view8(s + AT.low, 2 * SCRATCH_BYTES)
    code_lengths = view8(s + AT.code_lengths, SCRATCH_BYTES)
    quads = view16(s + AT.quads, SCRATCH_BYTES // 4)
    unary = view8(s + AT.unary, SCRATCH_BYTES)
    order = view8(s + AT.order, o.RANKS_MAX + 1)
    table = view8(s + AT.table, 256)
    choice = view_i64(s + AT.choice, o.CHOICE_SIZE)
    coder, zero_rank = choice[o.CODER], choice[o.ZERO_RANK]
    escape = o.RANKS[coder]
    known = o.fill_order(choice[o.BASE], choice[o.PATH], zero_rank, escape, symbol_max, order)
    if coder == o.R2:
        un.rank_many(symbols, order, known, escape, table, ranks, m)
    else:
        un.rank_few(symbols, order, known, zero_rank, table, ranks, m)
    un.pack_low(coder, ranks, m, code_lengths, low)
    un.pack_unary(coder, ranks, m, code_lengths, quads, unary)
    to += _put_padded(to, low, (m * o.LOW_BITS[coder] + 7) >> 3)
    copy_out(to, unary, 0, choice[o.UNARY_BYTES])
    to += choice[o.UNARY_BYTES]
    if choice[o.ESCAPES] > 0:
        count = 0
        for i in range(m):
            if ranks[i] == escape:
                packed[count] = symbols[i]
                count += 1
        copy_out(to, packed, 0, count)


@kernel
def _remainder_bytes(carriers, slot_count, last_bits, plane_flags):
    """Bytes of the remainders section without padding."""
    planes = slot_count if last_bits == 8 else slot_count - 1
    stored = planes
    for plane in range(planes):
        stored -= (plane_flags >> plane) & 1
    size = carriers * stored
    if last_bits < 8:
        # Only a partial last record pads its top bits to a byte.
        size += (carriers * last_bits + 7) >> 3
    return size


# Reference mode


@kernel
def _plan_reference(s, block, size, element, phase, resident, shortest):
    """Choose how to code the block against its resident copy.

    Returns the frame's length, or `NEVER` if it is not below `shortest`. Overwrites the extras
    only if it is.
    """
    moved = view8(s + AT.moved, SCRATCH_BYTES)
    copied = view8(s + AT.copied, SCRATCH_BYTES)
    extras = view8(s + AT.extras, 4 * f.ALIGN_BYTES)
    layout = view_i64(s + AT.layout, LAYOUT_SIZE)
    numbers = view32(s + AT.numbers, SCRATCH_BYTES)
    kept = view32(s + AT.kept, SCRATCH_BYTES)
    gaps = view32(s + AT.gaps, SCRATCH_BYTES)
    rest = view32(s + AT.rest, SCRATCH_BYTES)
    plan = view_i64(s + AT.plan, rm.PLAN_SIZE)
    trial = view_i64(s + AT.trial, rm.PLAN_SIZE)
    width = sp.WIDTHS[element]
    per_beat = f.BEAT_BYTES // width
    head = min(phase, size)
    n = (size - head) // width
    tail = size - head - n * width
    _take_values(moved, block, head, n * width)
    copy_in(copied, 0, resident + head, n * width)
    rm.difference(element, moved, copied, numbers, n)

    bitmap, whole_zero = rm.stored_beats(numbers, n, per_beat)
    extra = head + tail + (f.BITMAP_BYTES if whole_zero else 0)
    dense = NEVER
    m = n
    if whole_zero:
        m = rm.keep_beats(numbers, n, per_beat, bitmap, kept)
    if rm.plan_dense(kept if whole_zero else numbers, m, element, plan):
        dense = f.LONG_HEADER_BYTES + align(extra) + plan[rm.BYTES]
    count = rm.find_gaps(numbers, n, gaps, rest)
    sparse = NEVER
    if rm.plan_gaps(gaps, rest, count, n, element, trial):
        sparse = f.LONG_HEADER_BYTES + align(head + tail) + trial[rm.BYTES]

    if min(dense, sparse) >= shortest:
        return NEVER
    layout[PHASE] = phase
    layout[BITMAP] = 0
    extra = 0
    if sparse < dense:
        for i in range(rm.PLAN_SIZE):
            plan[i] = trial[i]
        layout[VALUES] = count
    else:
        layout[VALUES] = m
        if whole_zero:
            layout[BITMAP] = 1
            store64(extras, 0, bitmap)
            extra = f.BITMAP_BYTES
    layout[EXTRAS] = _put_edges(s, block, size, head, tail, extra)
    # What the header promises of the copy.
    padded = _beat_align(size)
    copy_in(copied, 0, resident, size)
    for i in range(size, padded):
        copied[i] = U8(0)
    layout[COPY_CRC] = crc_block(copied, padded) ^ U64(f.CRC_INIT)
    return min(dense, sparse)


@kernel
def _write_reference(s, size, element, phase, state, to):
    packed = view8(s + AT.packed, 2 * SCRATCH_BYTES)
    low = view8(s + AT.low, 2 * SCRATCH_BYTES)
    unary = view8(s + AT.unary, SCRATCH_BYTES)
    extras = view8(s + AT.extras, 4 * f.ALIGN_BYTES)
    layout = view_i64(s + AT.layout, LAYOUT_SIZE)
    numbers = view32(s + AT.numbers, SCRATCH_BYTES)
    kept = view32(s + AT.kept, SCRATCH_BYTES)
    gaps = view32(s + AT.gaps, SCRATCH_BYTES)
    rest = view32(s + AT.rest, SCRATCH_BYTES)
    plan = view_i64(s + AT.plan, rm.PLAN_SIZE)
    low_bytes = (plan[rm.LOW_BITS] + 7) >> 3
    unary_bytes = (plan[rm.UNARY_BITS] + 7) >> 3
    low[: low_bytes + 8] = U8(0)
    unary[:unary_bytes] = U8(0)
    width = sp.WIDTHS[element]
    count, shift = layout[VALUES], plan[rm.SHIFT]
    low_at = unary_at = escapes_at = 0
    if plan[rm.GAPS]:
        low_at, unary_at, escapes_at = rm.write(
            gaps,
            count,
            plan[rm.GAP_SHIFT],
            f.GAP_ESCAPE_BYTES,
            low,
            low_at,
            unary,
            unary_at,
            packed,
            escapes_at,
        )
    coded = rest if plan[rm.GAPS] else (kept if layout[BITMAP] else numbers)
    rm.write(coded, count, shift, width, low, low_at, unary, unary_at, packed, escapes_at)

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
    to += _put_padded(to, extras, layout[EXTRAS])
    to += _put_padded(to, low, low_bytes)
    copy_out(to, unary, 0, unary_bytes)
    copy_out(to + unary_bytes, packed, 0, plan[rm.ESCAPE_BYTES])


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
    table = view8(s + AT.table, 256)
    word = _first_word(size, element, mode)
    crc = crc_header(state, word, U64(0), False)
    _put_word(to, table, word | (crc << U64(f.CRC_LSB)))


@kernel
def _put_long_header(s, to, first, second, state):
    table = view8(s + AT.table, 256)
    crc = crc_header(state, first, second, True)
    _put_word(to, table, first | (crc << U64(f.CRC_LSB)))
    _put_word(to + 8, table, second)


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
def _put_edges(s, block, size, head, tail, extra):
    """Put head and tail into the extras, from place `extra`; returns the new place."""
    extras = view8(s + AT.extras, 4 * f.ALIGN_BYTES)
    copy(extras, extra, block, 0, head)
    copy(extras, extra + head, block, size - tail, tail)
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
