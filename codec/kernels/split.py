# SPDX-License-Identifier: Apache-2.0
"""Elements to symbols and remainders and back (`docs/format.md`, sections 3 and 6).

A remainder lies in up to three *slots*, lowest bits first: one uint8 a value, slot `s` of a
block at `SLOT_BYTES * s`. A slot of 8 bits is a byte plane; a narrower one, always the last, holds
the top bits. The sign is the highest bit of the last slot.
"""

import numpy as np

from codec.elements import ElementType
from codec.format import BLOCK_BYTES_MAX
from codec.kernels.compile import kernel
from codec.kernels.intrinsics import (
    cast16,
    cast32,
    compress_64,
    copy,
    equal_mask,
    expand_64,
    gather_bits,
    load64,
    popcount,
    scatter_bits,
    store64,
)

U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64

RAW, BF16, FP16, FP32 = (
    int(ElementType.RAW),
    int(ElementType.BF16),
    int(ElementType.FP16),
    int(ElementType.FP32),
)
E4M3, E5M2 = int(ElementType.E4M3), int(ElementType.E5M2)

SLOT_BYTES = BLOCK_BYTES_MAX + 64


def _per_type(of):
    return np.array([of(element.layout) for element in ElementType], np.int64)


WIDTHS = _per_type(lambda layout: layout.width_bytes)
SYMBOL_MAX = _per_type(lambda layout: (1 << layout.exponent_bits) - 1)
SIGNED = _per_type(lambda layout: layout.signed)
SLOTS = _per_type(lambda layout: -(-layout.remainder_bits // 8))
LAST_SLOT_BITS = _per_type(lambda layout: (layout.remainder_bits - 1) % 8 + 1)


@kernel
def split(element, values, slots, symbols, n):
    """Split `n` elements, given as the bytes of `values`, and clear what lies behind them."""
    if element == BF16:
        _split_bf16(cast16(values), slots, symbols, n)
    elif element == FP32:
        _split_fp32(cast32(values), slots, symbols, n)
    elif element == FP16:
        _split_fp16(cast16(values), slots, symbols, n)
    elif element == RAW:
        copy(slots, 0, values, 0, n)
        for i in range(n):
            symbols[i] = U8(0)
    else:
        _split_fp8(values, slots, symbols, n, U8(3 if element == E4M3 else 2))
    clear_group(symbols, n)
    for slot in range(SLOTS[element]):
        store64(slots, SLOT_BYTES * slot + n, U64(0))


@kernel
def clear_group(data, n):
    """Zero the bytes behind `n` up to a multiple of 64."""
    for i in range(n, (n + 63) & ~63):
        data[i] = U8(0)


@kernel
def merge(element, slots, symbols, values, n):
    """Undo `split`."""
    if element == BF16:
        _merge_bf16(slots, symbols, cast16(values), n)
    elif element == FP32:
        _merge_fp32(slots, symbols, cast32(values), n)
    elif element == FP16:
        _merge_fp16(slots, symbols, cast16(values), n)
    elif element == RAW:
        copy(values, 0, slots, 0, n)
    else:
        _merge_fp8(slots, symbols, values, n, U8(3 if element == E4M3 else 2))


@kernel
def zeros_are_bare(slots, symbols, n, slot_count):
    """Whether the remainder of every symbol 0 is 0."""
    for start in range(0, n, 64):
        zeros = equal_mask(symbols, start, U8(0)) & _first(n - start)
        for slot in range(slot_count):
            if zeros & ~equal_mask(slots, SLOT_BYTES * slot + start, U8(0)):
                return False
    return True


@kernel
def drop_zeros(slots, symbols, n, slot_count):
    """Close up the remainders of the symbols that are not 0, and clear what lies behind them."""
    count = 0
    for start in range(0, n, 64):
        carriers = ~equal_mask(symbols, start, U8(0)) & _first(n - start)
        for slot in range(slot_count):
            base = SLOT_BYTES * slot
            compress_64(slots, base + count, slots, base + start, carriers)
        count += popcount(carriers)
    for slot in range(slot_count):
        store64(slots, SLOT_BYTES * slot + count, U64(0))


@kernel
def spread_carriers(slots, symbols, n, slot_count, spread):
    """Undo `drop_zeros` into `spread`: remainders to their symbols, 0 to every symbol 0."""
    count = 0
    for start in range(0, n, 64):
        carriers = ~equal_mask(symbols, start, U8(0)) & _first(n - start)
        for slot in range(slot_count):
            base = SLOT_BYTES * slot
            expand_64(spread, base + start, slots, base + count, carriers)
        count += popcount(carriers)


@kernel
def _first(count):
    """A mask of the first `count` >= 1 of 64 bits."""
    return ~U64(0) if count >= 64 else (U64(1) << U64(count)) - U64(1)


@kernel
def common_sign(slots, n, slot, bits):
    """0 if the signs of `n` >= 1 values differ, 1 if all are positive, 2 if all are negative."""
    any_bits, all_bits = U8(0), U8(255)
    part = slots[SLOT_BYTES * slot : SLOT_BYTES * slot + n]
    for i in range(n):
        any_bits |= part[i]
        all_bits &= part[i]
    sign = U8(1 << (bits - 1))
    if not any_bits & sign:
        return 1
    return 2 if all_bits & sign else 0


@kernel
def is_constant(slots, n, slot):
    """Whether all `n` >= 1 bytes of a slot are equal."""
    part = slots[SLOT_BYTES * slot : SLOT_BYTES * slot + n]
    first = part[0]
    if part[n - 1] != first or part[n >> 1] != first:
        return False
    differ = U8(0)
    for i in range(n):
        differ |= part[i] ^ first
    return differ == 0


@kernel
def pack_remainders(slots, n, per_beat, slot_count, last_bits, plane_flags, out):
    """Write the remainders section; returns its bytes, without padding.

    `last_bits` is the width of the last slot after the sign is dropped. `out` needs 8 spare bytes.
    """
    at = 0
    if slot_count == 1:
        if last_bits < 8:
            return pack_fields(slots, 0, n, last_bits, out, 0)
        if plane_flags == 0:
            copy(out, 0, slots, 0, n)
            return n
        return 0
    for first in range(0, n, per_beat):
        count = min(per_beat, n - first)
        for slot in range(slot_count):
            start = SLOT_BYTES * slot + first
            if slot == slot_count - 1 and last_bits < 8:
                at = pack_fields(slots, start, count, last_bits, out, at)
            elif not plane_flags >> slot & 1:
                if count == 16:
                    copy(out, at, slots, start, 16)
                else:
                    copy(out, at, slots, start, count)
                at += count
    return at


@kernel
def unpack_remainders(data, n, per_beat, slot_count, last_bits, plane_flags, constants, slots):
    """Undo `pack_remainders` from the start of `data`; returns the bytes read, or -1.

    -1 says that padding bits are not zero. `constants` holds the byte of each constant plane.
    """
    for slot in range(slot_count):
        if plane_flags >> slot & 1:
            slots[SLOT_BYTES * slot : SLOT_BYTES * slot + n] = constants[slot]
    if slot_count == 1:
        if last_bits < 8:
            return unpack_fields(data, 0, n, last_bits, slots, 0)
        if plane_flags == 0:
            copy(slots, 0, data, 0, n)
            return n
        return 0
    at = 0
    for first in range(0, n, per_beat):
        count = min(per_beat, n - first)
        for slot in range(slot_count):
            start = SLOT_BYTES * slot + first
            if slot == slot_count - 1 and last_bits < 8:
                at = unpack_fields(data, at, count, last_bits, slots, start)
                if at < 0:
                    return -1
            elif not plane_flags >> slot & 1:
                if count == 16:
                    copy(slots, start, data, at, 16)
                else:
                    copy(slots, start, data, at, count)
                at += count
    return at


@kernel
def pack_fields(source, start, count, bits, out, at):
    """Pack the low `bits` of `count` bytes, behind which must be zeros; returns the new `at`."""
    mask = field_mask(bits)
    end = at + ((count * bits + 7) >> 3)
    for i in range(0, count, 8):
        store64(out, at, gather_bits(load64(source, start + i), mask))
        at += bits
    return end


@kernel
def unpack_fields(data, at, count, bits, out, start):
    """Undo `pack_fields`. Returns the new `at`, or -1 if padding bits are not zero."""
    mask = field_mask(bits)
    end = at + ((count * bits + 7) >> 3)
    for i in range(0, count, 8):
        store64(out, start + i, scatter_bits(load64(data, at), mask))
        at += bits
    if count * bits & 7 and data[end - 1] >> (count * bits & 7):
        return -1
    return end


@kernel
def field_mask(bits):
    """The low `bits` of each byte of a word."""
    return U64(0x0101010101010101) * U64((1 << bits) - 1)


@kernel
def _split_bf16(values, slots, symbols, n):
    for i in range(n):
        v = values[i]
        slots[i] = U8((U16(v >> U16(8)) & U16(0x80)) | (v & U16(0x7F)))
        symbols[i] = U8(v >> U16(7))


@kernel
def _merge_bf16(slots, symbols, values, n):
    for i in range(n):
        r = U16(slots[i])
        values[i] = ((r & U16(0x80)) << U16(8)) | (U16(symbols[i]) << U16(7)) | (r & U16(0x7F))


@kernel
def _split_fp16(values, slots, symbols, n):
    low, top = slots[:SLOT_BYTES], slots[SLOT_BYTES : 2 * SLOT_BYTES]
    for i in range(n):
        v = values[i]
        low[i] = U8(v)
        top[i] = U8((U16(v >> U16(8)) & U16(3)) | (U16(v >> U16(13)) & U16(4)))
        symbols[i] = U8(U16(v >> U16(10)) & U16(31))


@kernel
def _merge_fp16(slots, symbols, values, n):
    low, top = slots[:SLOT_BYTES], slots[SLOT_BYTES : 2 * SLOT_BYTES]
    for i in range(n):
        t = U16(top[i])
        high = ((t & U16(3)) << U16(8)) | ((t & U16(4)) << U16(13))
        values[i] = U16(low[i]) | high | (U16(symbols[i]) << U16(10))


@kernel
def _split_fp32(values, slots, symbols, n):
    low, middle = slots[:SLOT_BYTES], slots[SLOT_BYTES : 2 * SLOT_BYTES]
    high = slots[2 * SLOT_BYTES :]
    for i in range(n):
        low[i] = U8(values[i])
    for i in range(n):
        middle[i] = U8(values[i] >> U32(8))
    for i in range(n):
        v = values[i]
        high[i] = U8((U32(v >> U32(24)) & U32(0x80)) | (U32(v >> U32(16)) & U32(0x7F)))
    for i in range(n):
        symbols[i] = U8(values[i] >> U32(23))


@kernel
def _merge_fp32(slots, symbols, values, n):
    low, middle = slots[:SLOT_BYTES], slots[SLOT_BYTES : 2 * SLOT_BYTES]
    high = slots[2 * SLOT_BYTES :]
    for i in range(n):
        h = U32(high[i])
        top = ((h & U32(0x80)) << U32(24)) | ((h & U32(0x7F)) << U32(16))
        mantissa = U32(low[i]) | (U32(middle[i]) << U32(8))
        values[i] = top | mantissa | (U32(symbols[i]) << U32(23))


@kernel
def _split_fp8(values, slots, symbols, n, mantissa_bits):
    mask = U8((1 << mantissa_bits) - 1)
    symbol_mask = U8((1 << (7 - mantissa_bits)) - 1)
    for i in range(n):
        v = values[i]
        slots[i] = U8((v & mask) | (U8(v >> U8(7)) << mantissa_bits))
        symbols[i] = U8(U8(v >> mantissa_bits) & symbol_mask)


@kernel
def _merge_fp8(slots, symbols, values, n, mantissa_bits):
    mask = U8((1 << mantissa_bits) - 1)
    for i in range(n):
        r = slots[i]
        sign = U8(U8(r >> mantissa_bits) << U8(7))
        values[i] = U8(sign | U8(symbols[i] << mantissa_bits) | (r & mask))
