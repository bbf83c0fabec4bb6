# SPDX-License-Identifier: Apache-2.0
"""Values against a resident copy and back (`docs/format.md`, section 9).

Numbers, that is `z`, `z - 1` and gaps, are uint32 whatever the element type.
"""

import numpy as np

from codec import format as f
from codec.kernels import split as sp
from codec.kernels.compile import kernel
from codec.kernels.intrinsics import cast16, cast32, load64, store64
from codec.kernels.order import align, escapes_allowed

U8, U16, U32, U64, I64 = np.uint8, np.uint16, np.uint32, np.uint64, np.int64

ESCAPE = f.REFERENCE_QUOTIENT_ESCAPE
SHIFT_MAX = (1 << f.SHIFT_BITS) - 1

# Places in the int64 array that describes how a block is coded.
SHIFT, GAP_SHIFT, GAPS, ENTRIES, LOW_BITS, UNARY_BITS, ESCAPES, ESCAPE_BYTES, BYTES = range(9)
PLAN_SIZE = 9


@kernel
def difference(element, values, resident, numbers, n):
    """`z` of `n` values, given as bytes, against as many resident ones."""
    width = sp.WIDTHS[element]
    if width == 4:
        _difference32(cast32(values), cast32(resident), numbers, n)
    elif width == 2:
        _difference16(cast16(values), cast16(resident), numbers, n)
    else:
        _difference8(values, resident, numbers, n, sp.SIGNED[element] == 1)


@kernel
def restore(element, numbers, resident, values, n):
    """Undo `difference`."""
    width = sp.WIDTHS[element]
    if width == 4:
        _restore32(numbers, cast32(resident), cast32(values), n)
    elif width == 2:
        _restore16(numbers, cast16(resident), cast16(values), n)
    else:
        _restore8(numbers, resident, values, n, sp.SIGNED[element] == 1)


@kernel
def stored_beats(numbers, n, per_beat):
    """Bitmap of the beats that are not zero, and whether a complete beat is zero."""
    bitmap = U64(0)
    whole_zero = False
    beat = 0
    for first in range(0, n, per_beat):
        last = min(first + per_beat, n)
        any_bits = U32(0)
        for i in range(first, last):
            any_bits |= numbers[i]
        if any_bits != U32(0):
            bitmap |= U64(1) << U64(beat)
        elif last - first == per_beat:
            whole_zero = True
        beat += 1
    return bitmap, whole_zero


@kernel
def keep_beats(numbers, n, per_beat, bitmap, kept):
    """Copy the numbers of the stored beats; returns how many there are."""
    count = 0
    beat = 0
    for first in range(0, n, per_beat):
        if (bitmap >> U64(beat)) & U64(1):
            for i in range(first, min(first + per_beat, n)):
                kept[count] = numbers[i]
                count += 1
        beat += 1
    return count


@kernel
def find_gaps(numbers, n, gaps, rest):
    """Run lengths of zeros before each non-zero number, and the number less one."""
    count = 0
    run = 0
    for i in range(n):
        if numbers[i] != U32(0):
            gaps[count] = U32(run)
            rest[count] = numbers[i] - U32(1)
            count += 1
            run = 0
        else:
            run += 1
    return count


@kernel
def plan_dense(numbers, count, element, plan):
    """Choose the shift without gaps for `count` stored values; False where a limit is broken."""
    for i in range(PLAN_SIZE):
        plan[i] = 0
    plan[SHIFT] = _add_sequence(numbers, count, element, sp.WIDTHS[element], plan)
    return _within_limits(plan, count)


@kernel
def plan_gaps(gaps, rest, count, n, element, plan):
    """Choose the shifts with gaps for `count` of `n` values; False where a limit is broken."""
    for i in range(PLAN_SIZE):
        plan[i] = 0
    plan[GAPS] = 1
    plan[ENTRIES] = count
    plan[GAP_SHIFT] = _add_sequence(gaps, count, element, f.GAP_ESCAPE_BYTES, plan)
    plan[SHIFT] = _add_sequence(rest, count, element, sp.WIDTHS[element], plan)
    return _within_limits(plan, n)


@kernel
def write(numbers, count, shift, escape_bytes, low, low_at, unary, unary_at, escapes, escapes_at):
    """Append the codes of one sequence to three zeroed buffers; returns the new bit places."""
    mask = U32((1 << shift) - 1)
    for i in range(count):
        x = numbers[i]
        q = min(x >> U32(shift), U32(ESCAPE))
        if q < U32(ESCAPE):
            _put(low, low_at, U64(x & mask))
        else:
            for byte in range(escape_bytes):
                escapes[escapes_at + byte] = U8(x >> U32(8 * byte))
            escapes_at += escape_bytes
        low_at += shift
        unary_at += I64(q)
        unary[unary_at >> 3] |= U8(1 << (unary_at & 7))
        unary_at += 1
    return low_at, unary_at, escapes_at


@kernel
def read(frame, low_at, quotients, first, count, shift, escape_bytes, escapes_at, numbers):
    """Undo `write` from quotients; returns the new places, the second negative on bad low bits."""
    mask = U64((1 << shift) - 1)
    for i in range(count):
        low = (load64(frame, low_at >> 3) >> U64(low_at & 7)) & mask
        low_at += shift
        q = I64(quotients[first + i])
        if q < ESCAPE:
            numbers[i] = U32(q << shift) | U32(low)
        else:
            if low != U64(0):
                return low_at, -1
            x = U32(0)
            for byte in range(escape_bytes):
                x |= U32(frame[escapes_at + byte]) << U32(8 * byte)
            numbers[i] = x
            escapes_at += escape_bytes
    return low_at, escapes_at


@kernel
def fit(numbers, count, width):
    """Whether every number is below `2^(8 width)`."""
    any_bits = U32(0)
    for i in range(count):
        any_bits |= numbers[i]
    return width == 4 or U64(any_bits) >> U64(8 * width) == U64(0)


@kernel
def _add_sequence(numbers, count, element, escape_bytes, plan):
    """Add the cost of a sequence to the plan, coded with its best shift; returns that shift."""
    if count == 0:
        return 0
    shift_max = min(8 * sp.WIDTHS[element] - 1, SHIFT_MAX)
    total = U64(0)
    for i in range(count):
        total += U64(numbers[i])
    start = 0
    while start < shift_max and total >> U64(start + 1) > U64(count):
        start += 1
    quotients, escapes = _sums(numbers, count, start)
    best, best_quotients, best_escapes = start, quotients, escapes
    best_cost = count * (start + 1) + quotients + 8 * escape_bytes * escapes
    # A larger shift spends its low bits at least; a smaller one has no smaller quotients.
    shift = start + 1
    while shift <= shift_max and count * (shift + 1) < best_cost:
        quotients, escapes = _sums(numbers, count, shift)
        cost = count * (shift + 1) + quotients + 8 * escape_bytes * escapes
        if cost < best_cost:
            best, best_cost = shift, cost
            best_quotients, best_escapes = quotients, escapes
        shift += 1
    quotients, escapes = _sums(numbers, count, start)
    shift = start - 1
    while shift >= 0 and count + quotients + 8 * escape_bytes * escapes <= best_cost:
        quotients, escapes = _sums(numbers, count, shift)
        cost = count * (shift + 1) + quotients + 8 * escape_bytes * escapes
        if cost <= best_cost:
            best, best_cost = shift, cost
            best_quotients, best_escapes = quotients, escapes
        shift -= 1
    plan[LOW_BITS] += count * best
    plan[UNARY_BITS] += count + best_quotients
    plan[ESCAPES] += best_escapes
    plan[ESCAPE_BYTES] += best_escapes * escape_bytes
    return best


@kernel
def _sums(numbers, count, shift):
    """Sum of the quotients, and the number of escapes."""
    quotients = U32(0)
    escapes = U32(0)
    for i in range(count):
        q = min(U32(numbers[i] >> U32(shift)), U32(ESCAPE))
        quotients += q
        escapes += U32(q == U32(ESCAPE))
    return I64(quotients), I64(escapes)


@kernel
def _within_limits(plan, values):
    plan[BYTES] = (
        align((plan[LOW_BITS] + 7) >> 3) + ((plan[UNARY_BITS] + 7) >> 3) + plan[ESCAPE_BYTES]
    )
    return plan[UNARY_BITS] <= f.UNARY_BITS_PER_VALUE_MAX * values and plan[
        ESCAPES
    ] <= escapes_allowed(values)


@kernel
def _put(buffer, bit, value):
    at = bit >> 3
    store64(buffer, at, load64(buffer, at) | (value << U64(bit & 7)))


@kernel
def _difference32(values, resident, numbers, n):
    top = U32(0x80000000)
    for i in range(n):
        v, r = values[i], resident[i]
        key = v ^ (U32(0xFFFFFFFF) if v & top else top)
        d = U32(key - (r ^ (U32(0xFFFFFFFF) if r & top else top)))
        numbers[i] = U32(d << U32(1)) ^ (U32(0xFFFFFFFF) if d & top else U32(0))


@kernel
def _restore32(numbers, resident, values, n):
    top = U32(0x80000000)
    for i in range(n):
        z, r = numbers[i], resident[i]
        d = U32(z >> U32(1)) ^ (U32(0xFFFFFFFF) if z & U32(1) else U32(0))
        key = U32(d + (r ^ (U32(0xFFFFFFFF) if r & top else top)))
        values[i] = key ^ (top if key & top else U32(0xFFFFFFFF))


@kernel
def _difference16(values, resident, numbers, n):
    top, ones = U16(0x8000), U16(0xFFFF)
    for i in range(n):
        v, r = values[i], resident[i]
        key = v ^ (ones if v & top else top)
        d = U16(key - (r ^ (ones if r & top else top)))
        numbers[i] = U32(U16(U16(d << U16(1)) ^ (ones if d & top else U16(0))))


@kernel
def _restore16(numbers, resident, values, n):
    top, ones = U16(0x8000), U16(0xFFFF)
    for i in range(n):
        z, r = U16(numbers[i]), resident[i]
        d = U16(z >> U16(1)) ^ (ones if z & U16(1) else U16(0))
        key = U16(d + (r ^ (ones if r & top else top)))
        values[i] = key ^ (top if key & top else ones)


@kernel
def _difference8(values, resident, numbers, n, signed):
    top, ones = U8(0x80), U8(0xFF)
    for i in range(n):
        v, r = values[i], resident[i]
        if signed:
            v ^= ones if v & top else top
            r ^= ones if r & top else top
        d = U8(v - r)
        numbers[i] = U32(U8(U8(d << U8(1)) ^ (ones if d & top else U8(0))))


@kernel
def _restore8(numbers, resident, values, n, signed):
    top, ones = U8(0x80), U8(0xFF)
    for i in range(n):
        z, r = U8(numbers[i]), resident[i]
        if signed:
            r ^= ones if r & top else top
        v = U8(r + (U8(z >> U8(1)) ^ (ones if z & U8(1) else U8(0))))
        if signed:
            v ^= top if v & top else ones
        values[i] = v
