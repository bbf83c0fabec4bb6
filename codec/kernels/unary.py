# SPDX-License-Identifier: Apache-2.0
"""Ranks to low bits and unary codes and back (`docs/format.md`, section 8).

Codes are packed from tables that hold four small quotients (or two large ones) at once, and read
a byte at a time: a table gives the up to eight quotients that end in a byte, and the zeros left at
its end are carried into the next byte's first quotient.
"""

import numpy as np
from numba import njit

from codec.kernels.intrinsics import (
    gather_bits,
    leading_zeros,
    load64,
    popcount,
    scatter_bits,
    store16,
    store64,
)
from codec.kernels.order import F2, R0, R1

U8, U32, U64, I64 = np.uint8, np.uint32, np.uint64, np.int64

LSB = U64(0x0101010101010101)
NO_RANK = 255


def _code_table(bits, count):
    """Codes of `count` quotients of `bits` bits each: uint64 words, and their lengths."""
    index = np.arange(1 << bits * count, dtype=np.uint64)
    words = np.zeros(index.size, np.uint64)
    lengths = np.zeros(index.size, np.uint64)
    for place in range(count):
        q = index >> U64(bits * place) & U64((1 << bits) - 1)
        words |= U64(1) << (lengths + q)
        lengths += q + U64(1)
    return words, lengths.astype(np.uint8)


_WORDS, QUAD_LENGTHS = _code_table(3, 4)
QUADS = _WORDS.astype(np.uint32)
_WORDS, PAIR_LENGTHS = _code_table(4, 2)
PAIRS = _WORDS.astype(np.uint32)


def _byte_table():
    """For each byte of a unary section: quotients that end in it, their number, zeros left."""
    quotients = np.zeros(256, np.uint64)
    counts = np.zeros(256, np.uint8)
    left = np.zeros(256, np.uint8)
    for byte in range(256):
        zeros = 0
        for i in range(8):
            if byte >> i & 1:
                quotients[byte] |= U64(zeros) << U64(8 * counts[byte])
                counts[byte] += 1
                zeros = 0
            else:
                zeros += 1
        left[byte] = zeros
    return quotients, counts, left


BYTE_QUOTIENTS, BYTE_COUNTS, BYTE_ZEROS = _byte_table()


@njit(nogil=True, cache=True)
def rank_few(symbols, order, ranks, n):
    """Ranks under an order of 15 symbols, 15 for every other symbol; clears 8 bytes behind."""
    s0, s1, s2, s3, s4 = order[0], order[1], order[2], order[3], order[4]
    s5, s6, s7, s8, s9 = order[5], order[6], order[7], order[8], order[9]
    s10, s11, s12, s13, s14 = order[10], order[11], order[12], order[13], order[14]
    # A chain of selects becomes vector code, which a table look-up does not.
    for i in range(n):
        s = symbols[i]
        r = U8(15)
        r = U8(14) if s == s14 else r
        r = U8(13) if s == s13 else r
        r = U8(12) if s == s12 else r
        r = U8(11) if s == s11 else r
        r = U8(10) if s == s10 else r
        r = U8(9) if s == s9 else r
        r = U8(8) if s == s8 else r
        r = U8(7) if s == s7 else r
        r = U8(6) if s == s6 else r
        r = U8(5) if s == s5 else r
        r = U8(4) if s == s4 else r
        r = U8(3) if s == s3 else r
        r = U8(2) if s == s2 else r
        r = U8(1) if s == s1 else r
        r = U8(0) if s == s0 else r
        ranks[i] = r
    store64(ranks, n, U64(0))


@njit(nogil=True, cache=True)
def unrank_few(ranks, order, symbols, n):
    """Symbols of ranks 0 to 14; what it writes for larger ones means nothing."""
    s0, s1, s2, s3, s4 = order[0], order[1], order[2], order[3], order[4]
    s5, s6, s7, s8, s9 = order[5], order[6], order[7], order[8], order[9]
    s10, s11, s12, s13, s14 = order[10], order[11], order[12], order[13], order[14]
    for i in range(n):
        r = ranks[i]
        s = s0
        s = s1 if r == U8(1) else s
        s = s2 if r == U8(2) else s
        s = s3 if r == U8(3) else s
        s = s4 if r == U8(4) else s
        s = s5 if r == U8(5) else s
        s = s6 if r == U8(6) else s
        s = s7 if r == U8(7) else s
        s = s8 if r == U8(8) else s
        s = s9 if r == U8(9) else s
        s = s10 if r == U8(10) else s
        s = s11 if r == U8(11) else s
        s = s12 if r == U8(12) else s
        s = s13 if r == U8(13) else s
        s = s14 if r == U8(14) else s
        symbols[i] = s


@njit(nogil=True, cache=True)
def rank_many(symbols, order, length, escape, table, ranks, n):
    """Ranks under any order, `escape` for symbols that it lacks; `table` is scratch, uint8 (256,)."""
    for s in range(256):
        table[s] = U8(escape)
    for r in range(length - 1, -1, -1):
        table[order[r]] = U8(r)
    for i in range(n):
        ranks[i] = table[symbols[i]]
    store64(ranks, n, U64(0))


@njit(nogil=True, cache=True)
def unrank_many(ranks, order, symbols, n):
    """Symbols of ranks below 32; what it writes for larger ones means nothing."""
    for i in range(n):
        symbols[i] = order[ranks[i] & U8(31)]


@njit(nogil=True, cache=True)
def pack_f2(ranks, n, low, nibbles, unary):
    """Low bits and unary section of coder F2; returns the unary section's bits.

    `nibbles` is scratch for the quotients, four bits each. Every buffer needs 16 spare bytes.
    """
    at = 0
    count = 0
    kept = U64(0)
    for i in range(0, n, 8):
        r = load64(ranks, i)
        # Bytes are at most 15, so adding 0x7D sets the top bit where the rank is at least 3.
        large = ((r + U64(0x7D) * LSB) >> U64(7)) & LSB
        small_mask = (LSB - large) * U64(3)
        store16(low, at, gather_bits((r & small_mask) | (large * U64(3)), LSB * U64(3)))
        at += 2
        packed = gather_bits(r - large * U64(3), large * U64(15))
        kept |= packed << U64(4 * (count & 1))
        store64(nibbles, count >> 1, kept)
        grown = count + popcount(large)
        kept >>= U64(8 * ((grown >> 1) - (count >> 1)))
        count = grown
    return _pack_nibbles(nibbles, count, unary)


@njit(nogil=True, cache=True)
def pack_r0(ranks, n, nibbles, unary):
    """Unary section of coder R0; returns its bits."""
    for i in range(0, n, 8):
        r = load64(ranks, i)
        store64(nibbles, i >> 1, gather_bits(r, LSB * U64(15)))
    return _pack_nibbles(nibbles, n, unary)


@njit(nogil=True, cache=True)
def _pack_nibbles(nibbles, count, unary):
    acc = U64(0)
    filled = U64(0)
    at = 0
    i = 0
    while i + 8 <= count:
        w = load64(nibbles, i >> 1) & U64(0xFFFFFFFF)
        if w & U64(0x88888888):
            for _ in range(4):
                pair = w & U64(255)
                w >>= U64(8)
                acc |= U64(PAIRS[pair]) << filled
                filled += U64(PAIR_LENGTHS[pair])
                store64(unary, at, acc)
                at += I64(filled >> U64(3))
                acc >>= filled & U64(0x38)
                filled &= U64(7)
        else:
            quads = gather_bits(w, U64(0x77777777))
            a, b = quads & U64(0xFFF), quads >> U64(12)
            a_length, b_length = U64(QUAD_LENGTHS[a]), U64(QUAD_LENGTHS[b])
            acc |= U64(QUADS[a]) << filled
            filled += a_length
            if filled + b_length > U64(63):
                store64(unary, at, acc)
                at += I64(filled >> U64(3))
                acc >>= filled & U64(0x38)
                filled &= U64(7)
            acc |= U64(QUADS[b]) << filled
            filled += b_length
            store64(unary, at, acc)
            at += I64(filled >> U64(3))
            acc >>= filled & U64(0x38)
            filled &= U64(7)
        i += 8
    while i < count:
        q = U64((nibbles[i >> 1] >> U8(4 * (i & 1))) & U8(15))
        acc |= U64(1) << (filled + q)
        filled += q + U64(1)
        store64(unary, at, acc)
        at += I64(filled >> U64(3))
        acc >>= filled & U64(0x38)
        filled &= U64(7)
        i += 1
    return 8 * at + I64(filled)


@njit(nogil=True, cache=True)
def pack_rice(ranks, n, k, unary):
    """Unary section of coders R1 and R2 (quotients up to 7); returns its bits."""
    acc = U64(0)
    filled = U64(0)
    at = 0
    mask = (LSB * U64(7)) << U64(k)
    whole = n & ~7
    for i in range(0, whole, 8):
        quads = gather_bits(load64(ranks, i), mask)
        a, b = quads & U64(0xFFF), quads >> U64(12)
        a_length, b_length = U64(QUAD_LENGTHS[a]), U64(QUAD_LENGTHS[b])
        acc |= U64(QUADS[a]) << filled
        filled += a_length
        if filled + b_length > U64(63):
            store64(unary, at, acc)
            at += I64(filled >> U64(3))
            acc >>= filled & U64(0x38)
            filled &= U64(7)
        acc |= U64(QUADS[b]) << filled
        filled += b_length
        store64(unary, at, acc)
        at += I64(filled >> U64(3))
        acc >>= filled & U64(0x38)
        filled &= U64(7)
    for i in range(whole, n):
        q = U64(ranks[i] >> U8(k))
        acc |= U64(1) << (filled + q)
        filled += q + U64(1)
        store64(unary, at, acc)
        at += I64(filled >> U64(3))
        acc >>= filled & U64(0x38)
        filled &= U64(7)
    return 8 * at + I64(filled)


@njit(nogil=True, cache=True)
def read_unary(data, at, size, quotients):
    """Quotients of the unary section at `at`, one byte each; returns how many, or -1.

    -1 says that a run of zeros is longer than any code. `quotients` needs 16 spare bytes.
    """
    count = 0
    carry = U64(0)
    seen = U64(0)
    end = at + size
    while at + 8 <= end:
        w = load64(data, at)
        at += 8
        for _ in range(8):
            byte = w & U64(255)
            w >>= U64(8)
            store64(quotients, count, BYTE_QUOTIENTS[byte] + carry)
            count += I64(BYTE_COUNTS[byte])
            carry = U64(BYTE_ZEROS[byte]) + (carry if byte == U64(0) else U64(0))
            seen |= carry
    while at < end:
        byte = U64(data[at])
        at += 1
        store64(quotients, count, BYTE_QUOTIENTS[byte] + carry)
        count += I64(BYTE_COUNTS[byte])
        carry = U64(BYTE_ZEROS[byte]) + (carry if byte == U64(0) else U64(0))
        seen |= carry
    # Carried zeros of valid codes are at most 15, so no sum of them sets a higher bit.
    return -1 if seen > U64(15) else count


@njit(nogil=True, cache=True)
def unary_bits(data, at, size):
    """Bits up to and with the last 1 of a section whose last byte is not zero."""
    return 8 * (size - 1) + 64 - leading_zeros(U64(data[at + size - 1]))


@njit(nogil=True, cache=True)
def count_large(low, at, n):
    """How many of the `n` two-bit fields at `at` are 3; fields behind them must be zero."""
    count = 0
    for i in range(0, (2 * n + 7) >> 3, 8):
        w = load64(low, at + i)
        left = ((2 * n + 7) >> 3) - i
        if left < 8:
            w &= (U64(1) << U64(8 * left)) - U64(1)
        count += popcount(w & (w >> U64(1)) & U64(0x5555555555555555))
    return count


@njit(nogil=True, cache=True)
def join(coder, low, at, quotients, ranks, n):
    """Low bits at `at` and quotients to ranks, one byte each."""
    if coder == R0:
        for i in range(n):
            ranks[i] = quotients[i]
    elif coder == R1:
        for i in range(0, n, 8):
            part = scatter_bits(U64(low[at]), LSB)
            at += 1
            store64(ranks, i, (load64(quotients, i) << U64(1)) | part)
    elif coder == F2:
        taken = 0
        for i in range(0, n, 8):
            part = scatter_bits(U64(low[at]) | (U64(low[at + 1]) << U64(8)), LSB * U64(3))
            at += 2
            large = part & (part >> U64(1)) & LSB
            store64(ranks, i, part + scatter_bits(load64(quotients, taken), large * U64(255)))
            taken += popcount(large)
    else:
        for i in range(0, n, 8):
            part = scatter_bits(U64(low[at]) | (U64(low[at + 1]) << U64(8)), LSB * U64(3))
            at += 2
            store64(ranks, i, (load64(quotients, i) << U64(2)) | part)


@njit(nogil=True, cache=True)
def largest(ranks, n):
    """The largest of `n` bytes, 0 if there are none."""
    most = U8(0)
    for i in range(n):
        most = max(most, ranks[i])
    return most


@njit(nogil=True, cache=True)
def count_equal(ranks, n, rank):
    """How many of `n` bytes equal `rank`."""
    count = 0
    for start in range(0, n, 128):
        part = U8(0)
        for i in range(start, min(start + 128, n)):
            part = U8(part + U8(ranks[i] == rank))
        count += I64(part)
    return count
