# SPDX-License-Identifier: Apache-2.0
"""The order-0 bound: what coding each exponent by its frequency alone could reach at best.

Signs and mantissas count in full, and nothing is elided: no header, no table, no zero beats. A
codec with zero-elision, constant planes or a model beyond order 0 may fall below it.
"""

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.engine import U8

# What is looked at in one step, to bound memory.
_VALUES = 1 << 20
_GROUP_BYTES = 1 << 22
_WORDS = {1: "<u1", 2: "<u2", 4: "<u4"}


def tensor_bound_bytes(data: U8, element: ElementType) -> float:
    """Bytes of `data` with one frequency table for all of it.

    Args:
        data: uint8 `(n,)`; bytes behind the last whole element count in full.
        element: what they are.
    """
    return block_bound_bytes(data, element, max(data.size, 1))


def block_bound_bytes(data: U8, element: ElementType, block_bytes: int) -> float:
    """Bytes of `data` with a frequency table of its own for every block.

    The sum over blocks of n * (entropy of the exponent + remainder bits) / 8, with n the whole
    elements of the block. Bytes of elements that a block boundary cuts count in full.

    Args:
        data: uint8 `(n,)`.
        element: what the bytes are.
        block_bytes: any size from 1 on.
    """
    layout = element.layout
    if not layout.exponent_bits:
        return float(data.size)
    width = layout.width_bytes
    symbols = data[: data.size // width * width].view(_WORDS[width])
    bits, whole = 0.0, 0
    blocks = -(-data.size // block_bytes)
    group = max(_GROUP_BYTES // block_bytes, 1)
    for block in range(0, blocks, group):
        end = min((block + group) * block_bytes, data.size)
        first, last = -(-block * block_bytes // width), end // width
        counts = np.zeros((min(group, blocks - block), 1 << layout.exponent_bits), np.int64)
        for start in range(first, last, _VALUES):
            part = symbols[start : min(start + _VALUES, last)] >> layout.mantissa_bits
            part = (part & (counts.shape[1] - 1)).astype(np.int64)
            _count(part, start * width - block * block_bytes, width, block_bytes, counts)
        values = counts.sum(axis=1)
        whole += int(values.sum())
        # n times the entropy is n log n less the sum of c log c.
        bits += float(_x_log_x(values).sum() - _x_log_x(counts).sum())
    return (bits + whole * layout.remainder_bits) / 8 + (data.size - whole * width)


def _count(
    symbols: NDArray[np.int64],
    offset: int,
    width: int,
    block_bytes: int,
    counts: NDArray[np.int64],
) -> None:
    """Add the symbols to the rows of `counts`, one a block, but for elements that two blocks share.

    `offset` is where the first symbol's element begins, in bytes from the first block.
    """
    starts = offset + width * np.arange(symbols.size)
    blocks = starts // block_bytes
    if block_bytes % width:
        inside = blocks == (starts + (width - 1)) // block_bytes
        blocks, symbols = blocks[inside], symbols[inside]
    places = blocks * counts.shape[1] + symbols
    counts += np.bincount(places, minlength=counts.size).reshape(counts.shape)


def _x_log_x(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    x = counts.astype(np.float64)
    return x * np.log2(np.maximum(x, 1))
