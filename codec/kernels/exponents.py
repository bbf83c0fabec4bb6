# SPDX-License-Identifier: Apache-2.0
"""Count what would be the exponents of some bytes, were they elements of one type or another.

One pass serves all types of two and four bytes: the upper two bytes of an FP32 are laid out as a
BF16, and the exponent of an FP16 is the upper five bits of where a BF16 has its eight.
"""

import math

from codec.kernels.compile import kernel
from codec.kernels.intrinsics import view8

# Rows of `counts`, 256 wide: pairs of bytes that start at 0 to 3 modulo 4, and single bytes.
PAIRS = 4
BYTES = 4
ROWS = 5
# Results: BF16 at phase 0 and 1, FP16 at 0 and 1, FP32 at 0 to 3, E4M3, E5M2.
CANDIDATES = 10


@kernel
def saved_bits(address, size, counts, lanes, saved):
    """Fill `saved`, float64 `(CANDIDATES,)`: bits that coding the exponents alone would save.

    `counts`, int32 `(ROWS, 256)`, and `lanes`, uint8 `(4,)`, are scratch. `size` is 8 or more.
    """
    data = view8(address, size)
    for row in range(ROWS):
        for symbol in range(256):
            counts[row, symbol] = 0
    for lane in range(4):
        lanes[lane] = 0
    for i in range(size - 1):
        counts[i & 3, (data[i + 1] & 0x7F) << 1 | data[i] >> 7] += 1
        counts[BYTES, (data[i] & 0x7F) >> 2] += 1
        lanes[i & 3] |= data[i]
    for phase in range(2):
        saved[phase] = _saved(counts, phase, phase + 2, 8, 0)
        saved[2 + phase] = _saved(counts, phase, phase + 2, 5, 3)
    for phase in range(4):
        upper = (phase + 2) & 3
        saved[4 + phase] = _saved(counts, upper, upper, 8, 0)
        # An FP32 that was a narrower type before has planes of zeros, which the codec leaves out.
        if lanes[phase] == 0:
            planes = 2 if lanes[(phase + 1) & 3] == 0 else 1
            saved[4 + phase] += 8 * planes * (size // 4)
    saved[8] = _saved(counts, BYTES, BYTES, 4, 1)
    saved[9] = _saved(counts, BYTES, BYTES, 5, 0)


@kernel
def _saved(counts, first, second, exponent_bits, shift):
    """Exponent bits less their entropy, over one row or the sum of two different ones.

    Few values look more regular than their source is; the second term of the entropy (Miller and
    Madow, 1955) makes up for it.
    """
    total = 0
    used = 0
    weighted = 0.0
    for symbol in range(1 << exponent_bits):
        count = 0
        for place in range(symbol << shift, (symbol + 1) << shift):
            count += counts[first, place]
            if second != first:
                count += counts[second, place]
        if count > 0:
            total += count
            used += 1
            weighted += count * math.log2(count)
    entropy = total * math.log2(total) - weighted + (used - 1) * 0.5 / math.log(2.0)
    return total * exponent_bits - entropy
