# SPDX-License-Identifier: Apache-2.0
"""Symbol counts to order, coder and exact section sizes (`docs/format.md`, sections 7 and 8)."""

import numpy as np

from codec import format as f
from codec.format import Coder
from codec.kernels.compile import kernel
from codec.kernels.intrinsics import (
    above_mask,
    count_four,
    equal_mask,
    load64,
    popcount,
    trailing_zeros,
)

U8, U16, U64, I32, I64 = np.uint8, np.uint16, np.uint64, np.int32, np.int64

R0, R1, R2, F2 = int(Coder.R0), int(Coder.R1), int(Coder.R2), int(Coder.F2)
LOW_BITS = np.array(f.CODER_LOW_BITS, np.int64)
RANKS = np.array(f.CODER_RANKS, np.int64)
RANKS_MAX = max(f.CODER_RANKS)
RANKS_FEW = min(f.CODER_RANKS)

# How many symbols are counted by comparison, and how few values are then counted one by one.
WINDOW = 16
FEW = 16

# Counts lie between margins that a walk over RANKS_MAX symbols cannot leave; -1 marks "no symbol".
MARGIN = 32
COUNTS_SIZE = 256 + 2 * MARGIN

# Places in the int64 array that `choose` fills.
BASE, PATH, ZERO_RANK, CODER, ESCAPES, UNARY_BYTES, LOW_BYTES, CODED_BYTES = range(8)
CHOICE_SIZE = 8


@kernel
def clear_counts(counts):
    """Mark every place as no symbol; once, before the first `count_symbols`."""
    for i in range(COUNTS_SIZE):
        counts[i] = I32(-1)


@kernel
def count_symbols(symbols, n, partial, counts):
    """Histogram of `n` >= 1 symbols into `counts[MARGIN + symbol]`.

    Most blocks use few neighbouring symbols: those below the largest are counted by comparing 64
    values at a time, the rest one by one. `symbols` must be 0 behind `n` up to a multiple of 64.
    `partial` is scratch, uint16 (1024,).
    """
    for i in range(256):
        counts[MARGIN + i] = I32(0)
    top = U8(0)
    for i in range(n):
        top = max(top, symbols[i])
    behind = -n & 63
    counts[MARGIN] = _count(symbols, n, U8(0)) - behind
    left = n - counts[MARGIN]
    symbol = I64(top)
    last = max(symbol - WINDOW, 3)
    while left > FEW and symbol > last:
        # Four at a time share their loads.
        a, b, c, d = count_four(symbols, (n + 63) >> 6, U8(symbol))
        counts[MARGIN + symbol] = a
        counts[MARGIN + symbol - 1] = b
        counts[MARGIN + symbol - 2] = c
        counts[MARGIN + symbol - 3] = d
        left -= a + b + c + d
        symbol -= 4
    if left > n >> 4:
        _count_all(symbols, n, partial, counts)
    elif left > 0:
        for start in range(0, n, 64):
            below = ~above_mask(symbols, start, U8(symbol)) & above_mask(symbols, start, U8(0))
            while below:
                place = start + trailing_zeros(below)
                counts[MARGIN + symbols[place]] += I32(1)
                below &= below - U64(1)


@kernel
def _count(symbols, n, symbol):
    count = 0
    for i in range(0, n, 64):
        count += popcount(equal_mask(symbols, i, symbol))
    return count


@kernel
def _count_all(symbols, n, partial, counts):
    """Count in four tables by turns, since adding to one place twice in a row is slow."""
    byte = U64(255)
    for i in range(1024):
        partial[i] = U16(0)
    whole = n & ~7
    for i in range(0, whole, 8):
        w = load64(symbols, i)
        partial[w & byte] += U16(1)
        partial[U64(256) + ((w >> U64(8)) & byte)] += U16(1)
        partial[U64(512) + ((w >> U64(16)) & byte)] += U16(1)
        partial[U64(768) + ((w >> U64(24)) & byte)] += U16(1)
        partial[(w >> U64(32)) & byte] += U16(1)
        partial[U64(256) + ((w >> U64(40)) & byte)] += U16(1)
        partial[U64(512) + ((w >> U64(48)) & byte)] += U16(1)
        partial[U64(768) + (w >> U64(56))] += U16(1)
    for i in range(whole, n):
        partial[U64(symbols[i])] += U16(1)
    for i in range(256):
        counts[MARGIN + i] = (
            I32(partial[i]) + I32(partial[256 + i]) + I32(partial[512 + i]) + I32(partial[768 + i])
        )


@kernel
def choose(counts, n, symbol_max, ranked, choice):
    """Choose order and coder for `n` >= 1 values; False if no coder meets the limits.

    `counts` as `count_symbols` leaves it, margins at -1; its zero symbol is overwritten. `ranked`
    is scratch, int32 (RANKS_MAX + 1,). Fills `choice`.
    """
    zeros = counts[MARGIN]
    counts[MARGIN] = I32(-1)
    for s in range(symbol_max + 1, symbol_max + 1 + MARGIN):
        counts[MARGIN + s] = I32(-1)

    most = I32(0)
    for s in range(1, symbol_max + 1):
        most = max(most, counts[MARGIN + s])
    base = _first_of(counts, most)

    left, right = MARGIN + base - 1, MARGIN + base + 1
    ranked[0] = most
    path = 0
    steps = min(f.PATH_BITS, symbol_max - 1)
    for step in range(steps):
        a, b = counts[U64(left)], counts[U64(right)]
        go_left = 1 if a >= b else 0
        ranked[step + 1] = max(a, b)
        path |= go_left << step
        left -= go_left
        right += 1 - go_left
    length = steps + 1

    zero_rank = f.ZERO_RANK_NONE
    if zeros > 0:
        zero_rank = 0
        for i in range(length):
            if ranked[i] >= zeros:
                zero_rank += 1
        if zero_rank < f.ZERO_RANK_NONE:
            for i in range(length, zero_rank, -1):
                ranked[i] = ranked[i - 1]
            ranked[zero_rank] = zeros
            length += 1

    covered = cost0 = cost1 = cost_f2 = 0
    for i in range(min(length, RANKS_FEW)):
        c = np.int64(ranked[i])
        covered += c
        cost0 += c * (i + 1)
        cost1 += c * ((i >> 1) + 1)
        cost_f2 += c * max(i - 2, 0)
    few = n - covered

    choice[BASE] = base
    choice[PATH] = path
    choice[ZERO_RANK] = zero_rank
    choice[CODED_BYTES] = 1 << 30
    _offer(choice, n, R0, few, cost0 + 16 * few)
    _offer(choice, n, R1, few, cost1 + 8 * few)
    _offer(choice, n, F2, few, cost_f2 + 13 * few)
    # R2 spends at least three bits a value, so there is often no need to look further.
    if choice[CODED_BYTES] >= align((2 * n + 7) >> 3) + ((n + 7) >> 3):
        covered, cost2 = _cost_r2(counts, symbol_max, left, right, steps, length, ranked)
        _offer(choice, n, R2, n - covered, cost2 + 8 * (n - covered))
    return choice[CODED_BYTES] < 1 << 30


@kernel
def _first_of(counts, most):
    """The lowest symbol from 1 on that has the count `most`."""
    start = MARGIN + 1
    while True:
        largest = I32(-1)
        for i in range(start, start + MARGIN):
            largest = max(largest, counts[i])
        if largest == most:
            while counts[start] != most:
                start += 1
            return start - MARGIN
        start += MARGIN


@kernel
def _cost_r2(counts, symbol_max, left, right, steps, length, ranked):
    covered = cost = 0
    for i in range(min(length, RANKS_MAX)):
        c = np.int64(ranked[i])
        covered += c
        cost += c * ((i >> 2) + 1)
    step = steps
    for i in range(length, RANKS_MAX):
        has_left, has_right = left > MARGIN, right <= MARGIN + symbol_max
        if not has_left and not has_right:
            break
        if has_left and (step % 2 == 0 or not has_right):
            c = np.int64(counts[left])
            left -= 1
        else:
            c = np.int64(counts[right])
            right += 1
        covered += c
        cost += c * ((i >> 2) + 1)
        step += 1
    return covered, cost


@kernel
def _offer(choice, n, coder, escapes, unary_bits):
    """Take the coder if it meets the limits and is shorter, or as short with a lower number."""
    if escapes > escapes_allowed(n) or unary_bits > f.UNARY_BITS_PER_VALUE_MAX * n:
        return
    low_bytes = align((n * LOW_BITS[coder] + 7) >> 3)
    unary_bytes = (unary_bits + 7) >> 3
    size = low_bytes + unary_bytes + escapes
    best = choice[CODED_BYTES]
    if size < best or (size == best and coder < choice[CODER]):
        choice[CODER] = coder
        choice[ESCAPES] = escapes
        choice[UNARY_BYTES] = unary_bytes
        choice[LOW_BYTES] = low_bytes
        choice[CODED_BYTES] = size


@kernel
def align(size):
    """`size` bytes of a section with its padding."""
    return (size + f.ALIGN_BYTES - 1) & ~(f.ALIGN_BYTES - 1)


@kernel
def escapes_allowed(values):
    """The most escapes that a frame of so many values may have."""
    return min((values + f.VALUES_PER_ESCAPE - 1) // f.VALUES_PER_ESCAPE, f.ESCAPES_MAX)


@kernel
def fill_order(base, path, zero_rank, ranks, symbol_max, order):
    """Write the symbols by rank into `order`, uint8; returns how many there are, up to `ranks`."""
    length = 0
    left, right = base, base
    step = -1
    while length < ranks:
        if length == zero_rank and zero_rank < f.ZERO_RANK_NONE:
            order[length] = np.uint8(0)
            length += 1
            continue
        if step < 0:
            order[length] = np.uint8(base)
        else:
            has_left, has_right = left > 1, right < symbol_max
            if not has_left and not has_right:
                break
            wants_left = (path >> step) & 1 if step < f.PATH_BITS else 1 - (step & 1)
            if has_left and (wants_left or not has_right):
                left -= 1
                order[length] = np.uint8(left)
            else:
                right += 1
                order[length] = np.uint8(right)
        length += 1
        step += 1
    return length
