# SPDX-License-Identifier: Apache-2.0
"""Ranks to low bits and unary codes and back (`docs/format.md`, section 8).

Codes are packed from a table that holds four short ones at once. They are read by finding where the
ones are: a code is as long as its 1 is away from the 1 before.
"""

import numpy as np

from codec.format import CODE_BITS_MAX, ZERO_RANK_NONE
from codec.kernels.compile import kernel
from codec.kernels.intrinsics import (
    above_mask,
    cast32,
    compress_64,
    equal_mask,
    expand_64,
    leading_zeros,
    load64,
    look_up_32,
    odd_mask,
    popcount,
    store64,
    store_bits,
)
from codec.kernels.order import F2, LOW_BITS, R0, R1, R2, RANKS_FEW
from codec.kernels.split import clear_group

U8, U16, U32, U64, I64 = np.uint8, np.uint16, np.uint32, np.uint64, np.int64


def _quad_table():
    """uint32 `(4096,)`: the codes of four lengths of three bits each, one after the other.

    A code of length 0 is empty. All others end in a 1, so the highest 1 tells the sum of lengths.
    """
    index = np.arange(4096, dtype=np.uint64)
    words = np.zeros(4096, np.uint64)
    place = np.zeros(4096, np.uint64)
    for quarter in range(4):
        length = index >> U64(3 * quarter) & U64(7)
        code = np.where(length > 0, U64(1) << (np.maximum(length, U64(1)) - U64(1)), U64(0))
        words |= code << place
        place += length
    return words.astype(np.uint32)


QUADS = _quad_table()
LENGTH_MAX = U8(7)


PLACES = np.arange(256, dtype=np.uint8)


@kernel
def rank_few(symbols, order, known, zero_rank, table, ranks, n):
    """Ranks under an order of up to 15 symbols, 15 for every other symbol.

    Symbols other than zero follow each other without a hole, so their distance from the
    lowest finds the rank. `table` is scratch; `ranks` is cleared up to a multiple of 64.
    """
    lowest = 255
    for r in range(known):
        if r != zero_rank:
            lowest = min(lowest, order[r])
    for i in range(16):
        table[i] = U8(RANKS_FEW)
    for r in range(known):
        if r != zero_rank:
            table[order[r] - lowest] = U8(r)
    low = U8(lowest)
    for i in range(n):
        ranks[i] = min(U8(symbols[i] - low), U8(15))
    for i in range(0, n, 32):
        look_up_32(table, ranks, i, ranks)
    if zero_rank < ZERO_RANK_NONE:
        z = U8(zero_rank)
        for i in range(n):
            ranks[i] = z if symbols[i] == U8(0) else ranks[i]
    clear_group(ranks, n)


@kernel
def rank_many(symbols, order, known, escape, table, ranks, n):
    """Ranks under any order, `escape` for symbols that it lacks; `table` is scratch."""
    for s in range(256):
        table[s] = U8(escape)
    for r in range(known - 1, -1, -1):
        table[order[r]] = U8(r)
    for i in range(n):
        ranks[i] = table[symbols[i]]
    clear_group(ranks, n)


@kernel
def unrank(coder, ranks, order, symbols, n):
    """Symbols of ranks; what it writes for escapes means nothing. `order` has 32 entries."""
    if coder == R2:
        for i in range(n):
            symbols[i] = order[ranks[i] & U8(31)]
    else:
        for i in range(0, n, 32):
            look_up_32(order, ranks, i, symbols)


@kernel
def pack_low(coder, ranks, n, scratch, low):
    """Write the low bits; `ranks` must be cleared behind `n`. Needs 64 spare bytes in `low`."""
    if LOW_BITS[coder] == 1:
        for i in range(0, n, 64):
            store64(low, i >> 3, odd_mask(ranks, i))
    elif LOW_BITS[coder] == 2:
        groups = (n + 63) & ~63
        if coder == F2:
            for i in range(groups):
                scratch[i] = min(ranks[i], U8(3))
        else:
            for i in range(groups):
                scratch[i] = ranks[i] & U8(3)
        words = cast32(scratch)
        for i in range(groups >> 2):
            w = words[i]
            low[i] = U8(w | U32(w >> U32(6)) | U32(w >> U32(12)) | U32(w >> U32(18)))


@kernel
def pack_unary(coder, ranks, n, lengths, quads, unary):
    """Write the unary section; returns its bits.

    `ranks` must be cleared behind `n`. `lengths`, uint8, and `quads`, uint16, are scratch. Needs 16
    spare bytes in `unary`.
    """
    if coder == F2:
        n = _keep_large(ranks, n, lengths)
    else:
        k = U8(LOW_BITS[coder])
        for i in range(n):
            lengths[i] = U8(ranks[i] >> k) + U8(1)
    clear_group(lengths, n)
    _index_quads(lengths, n, quads)
    acc, filled, at = U64(0), U64(0), 0
    for start in range(0, n, 64):
        long = above_mask(lengths, start, LENGTH_MAX)
        for first in range(start, min(start + 64, n), 16):
            if long & U64(0xFFFF):
                for i in range(first, first + 16):
                    length = U64(lengths[i])
                    if length > U64(0):
                        acc |= U64(1) << (filled + length - U64(1))
                        filled += length
                        store64(unary, at, acc)
                        at += I64(filled >> U64(3))
                        acc >>= filled & U64(0x38)
                        filled &= U64(7)
            else:
                q = U64(first >> 2)
                a, b = U64(QUADS[quads[q]]), U64(QUADS[quads[q + U64(1)]])
                c, d = U64(QUADS[quads[q + U64(2)]]), U64(QUADS[quads[q + U64(3)]])
                a_bits, c_bits = U64(64 - leading_zeros(a)), U64(64 - leading_zeros(c))
                front_bits = a_bits + U64(64 - leading_zeros(b))
                back_bits = c_bits + U64(64 - leading_zeros(d))
                front, back = a | (b << a_bits), c | (d << c_bits)
                acc |= front << filled
                filled += front_bits
                if filled + back_bits > U64(63):
                    store64(unary, at, acc)
                    at += I64(filled >> U64(3))
                    acc >>= filled & U64(0x38)
                    filled &= U64(7)
                acc |= back << filled
                filled += back_bits
                store64(unary, at, acc)
                at += I64(filled >> U64(3))
                acc >>= filled & U64(0x38)
                filled &= U64(7)
            long >>= U64(16)
    return 8 * at + I64(filled)


@kernel
def _keep_large(ranks, n, lengths):
    """Code lengths under F2: ranks of at least 3, less 2; returns how many there are."""
    count = 0
    for i in range(0, n, 64):
        large = above_mask(ranks, i, U8(2))
        compress_64(lengths, count, ranks, i, large)
        count += popcount(large)
    for i in range(count):
        lengths[i] -= U8(2)
    return count


@kernel
def _index_quads(lengths, n, quads):
    """Index of each four lengths into `QUADS`; meaningless where one is above `LENGTH_MAX`."""
    words = cast32(lengths)
    for i in range(((n + 63) & ~63) >> 2):
        w = words[i]
        w = U32(w | U32(w >> U32(5))) & U32(0x003F003F)
        quads[i] = U16(U32(w | U32(w >> U32(10))) & U32(0xFFF))


@kernel
def read_unary(data, at, size, places, quotients):
    """Quotients of the unary section at `at`, one byte each; returns how many, or -1.

    -1 says that a code is longer than any valid one. `places` is scratch; it and `quotients` need
    64 spare bytes.
    """
    # First the places of all ones, modulo 256; then the zeros between each and the one before.
    count = 0
    for i in range(0, size, 8):
        w = load64(data, at + i)
        if size - i < 8:
            w &= (U64(1) << U64(8 * (size - i))) - U64(1)
        if w == U64(0):
            return -1
        compress_64(places, count, PLACES, (i & 24) << 3, w)
        count += popcount(w)
    quotients[0] = places[0]
    for i in range(1, count):
        quotients[i] = U8(places[i] - places[i - 1]) - U8(1)
    return -1 if largest(quotients, count) >= CODE_BITS_MAX else count


@kernel
def unary_bits(data, at, size):
    """Bits up to and with the last 1 of a section whose last byte is not zero."""
    return 8 * (size - 1) + 64 - leading_zeros(U64(data[at + size - 1]))


@kernel
def unpack_low(coder, data, at, low, n):
    """Low bits at byte `at` of `data`, one byte each, up to a multiple of 64 values."""
    if LOW_BITS[coder] == 1:
        for i in range(0, n, 64):
            store_bits(low, i, load64(data, at + (i >> 3)))
    elif LOW_BITS[coder] == 2:
        words = cast32(low)
        packed = data[at : at + ((n + 63) >> 6 << 4)]
        for i in range(packed.size):
            w = U32(packed[i])
            w = w | U32(w << U32(6)) | U32(w << U32(12)) | U32(w << U32(18))
            words[i] = w & U32(0x03030303)
    # What was read from behind the section belongs to another one.
    clear_group(low, n)


@kernel
def count_coded(coder, low, n):
    """How many of `n` values have a code in the unary section."""
    if coder != F2:
        return n
    count = 0
    for i in range(0, n, 64):
        count += popcount(equal_mask(low, i, U8(3)))
    return count


@kernel
def join(coder, low, quotients, ranks, n):
    """Low bits and quotients to ranks, one byte each."""
    if coder == F2:
        taken = 0
        for start in range(0, n, 64):
            large = equal_mask(low, start, U8(3))
            expand_64(ranks, start, quotients, taken, large)
            taken += popcount(large)
        for i in range(n):
            ranks[i] += low[i]
    elif coder == R0:
        for i in range(n):
            ranks[i] = quotients[i]
    elif coder == R1:
        for i in range(n):
            ranks[i] = U8(quotients[i] << U8(1)) | low[i]
    else:
        for i in range(n):
            ranks[i] = U8(quotients[i] << U8(2)) | low[i]


@kernel
def largest(ranks, n):
    """The largest of `n` bytes, 0 if there are none."""
    most = U8(0)
    for i in range(n):
        most = max(most, ranks[i])
    return most


@kernel
def count_equal(ranks, n, rank):
    """How many of `n` bytes equal `rank`."""
    count = 0
    for i in range(n):
        count += ranks[i] == rank
    return count
