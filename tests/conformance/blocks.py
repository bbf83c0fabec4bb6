# SPDX-License-Identifier: Apache-2.0
"""Blocks with a stated content, the same on every machine and with every library version.

Only `random.Random.random` and `getrandbits` are drawn from: Python keeps both stable, which NumPy
does not promise. Symbols are exponents; see `docs/format.md`, section 3.
"""

from collections.abc import Sequence
from random import Random

from codec.elements import ElementType

FLOATS = (
    ElementType.BF16,
    ElementType.FP16,
    ElementType.FP32,
    ElementType.E4M3,
    ElementType.E5M2,
)

# Share in 1/1000 of each exponent of normally distributed numbers, from the largest down: the
# first is [2, 4) standard deviations, the second [1, 2), and so on.
NORMAL = (45, 272, 300, 185, 98, 50, 25, 12, 6, 3, 2, 1, 1)


def noise(rng: Random, size: int) -> bytes:
    return rng.getrandbits(8 * size).to_bytes(size, "little") if size else b""


def join(values: Sequence[int], element: ElementType) -> bytes:
    """The bytes of `values`."""
    return b"".join(v.to_bytes(element.width_bytes, "little") for v in values)


def value(element: ElementType, sign: int, symbol: int, mantissa: int) -> int:
    layout = element.layout
    return (sign << layout.exponent_bits | symbol) << layout.mantissa_bits | mantissa


def with_symbols(
    rng: Random,
    element: ElementType,
    symbols: Sequence[int],
    *,
    sign: int | None = None,
    clear: int = 0,
) -> bytes:
    """Values of these symbols, in this order; mantissas are random, and so are signs unless given.

    Bits of the mantissa in `clear` are zero.
    """
    bits = element.layout.mantissa_bits
    return join(
        [
            value(
                element,
                rng.getrandbits(1) if sign is None else sign,
                symbol,
                rng.getrandbits(bits) & ~clear,
            )
            for symbol in symbols
        ],
        element,
    )


def with_counts(rng: Random, element: ElementType, counts: dict[int, int]) -> bytes:
    """Values with exactly `counts[s]` of symbol `s`, shuffled; none of them is zero."""
    symbols = [s for s, count in counts.items() for _ in range(count)]
    for i in range(len(symbols) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        symbols[i], symbols[j] = symbols[j], symbols[i]
    bits = element.layout.mantissa_bits
    values = [
        value(element, rng.getrandbits(1), s, rng.getrandbits(bits) | int(s == 0)) for s in symbols
    ]
    return join(values, element)


def sprinkled(
    rng: Random,
    element: ElementType,
    symbols: Sequence[int],
    *,
    zeros: float,
    sign: int | None = 0,
    clear: int = 0,
) -> bytes:
    """Values as in `with_symbols`, a share of which is then set to zero, as by a ReLU."""
    width = element.width_bytes
    data = with_symbols(rng, element, symbols, sign=sign, clear=clear)
    return b"".join(
        bytes(width) if rng.random() < zeros else data[i : i + width]
        for i in range(0, len(data), width)
    )


def draw(rng: Random, weights: Sequence[int], count: int) -> list[int]:
    """`count` indices, index `i` with a share of `weights[i]`."""
    total = sum(weights)
    out = []
    for _ in range(count):
        left = int(rng.random() * total)
        index = 0
        while left >= weights[index]:
            left -= weights[index]
            index += 1
        out.append(index)
    return out


def normal_symbols(
    rng: Random, element: ElementType, count: int, top: int | None = None
) -> list[int]:
    """Exponents of normal numbers whose largest is `top`; below 0 they are 0."""
    if top is None:
        top = (1 << element.layout.exponent_bits) // 2 - 1
    return [max(0, top - i) for i in draw(rng, NORMAL, count)]


def weights(rng: Random, element: ElementType, size: int, *, phase: int = 0) -> bytes:
    """`size` bytes of weights-like content, starting `phase` bytes before the end of an element."""
    if element == ElementType.RAW:
        return bytes(draw(rng, (40, 20, 10, 5, 5, 5, 5, 5, 5), size))
    width = element.width_bytes
    count = size // width + 2
    data = with_symbols(rng, element, normal_symbols(rng, element, count))
    start = (width - phase) % width
    return data[start : start + size]


def moved(rng: Random, block: bytes, element: ElementType, share: float, step: int) -> bytes:
    """`block` after a small update: a `share` of its elements moved by at most `step` codes."""
    width = element.width_bytes
    mask = (1 << 8 * width) - 1
    out = b""
    for i in range(0, len(block), width):
        x = int.from_bytes(block[i : i + width], "little")
        if rng.random() < share:
            x = x + int(rng.random() * (2 * step + 1)) - step & mask
        out += (x & (1 << 8 * len(block[i : i + width])) - 1).to_bytes(
            len(block[i : i + width]), "little"
        )
    return out
