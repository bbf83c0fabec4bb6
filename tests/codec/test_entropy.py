# SPDX-License-Identifier: Apache-2.0
"""The order-0 bounds against the formula, written out for one block at a time."""

import math
from collections import Counter

import ml_dtypes
import numpy as np
import pytest

from codec.elements import ElementType
from codec.entropy import block_bound_bytes, tensor_bound_bytes


def bound_of_block(block: bytes, element: ElementType, phase: int) -> float:
    """n * (entropy of the exponent + remainder bits) / 8, and 1 for every other byte."""
    layout, width = element.layout, element.width_bytes
    head = min(phase, len(block))
    n = (len(block) - head) // width
    exponents: Counter[int] = Counter()
    for i in range(head, head + n * width, width):
        word = int.from_bytes(block[i : i + width], "little")
        exponents[word >> layout.mantissa_bits & (1 << layout.exponent_bits) - 1] += 1
    entropy = sum(-c / n * math.log2(c / n) for c in exponents.values())
    return n * (entropy + layout.remainder_bits) / 8 + len(block) - n * width


def bound_of_tensor(data: bytes, element: ElementType, block_bytes: int) -> float:
    starts = range(0, len(data), block_bytes)
    width = element.width_bytes
    return sum(bound_of_block(data[s : s + block_bytes], element, -s % width) for s in starts)


@pytest.mark.parametrize("element", list(ElementType))
@pytest.mark.parametrize("block_bytes", [1, 3, 64, 1000, 1023, 4096, 5000])
@pytest.mark.parametrize("size", [0, 1, 4095, 9001])
def test_block_bound(element: ElementType, block_bytes: int, size: int) -> None:
    values = np.random.default_rng(3).standard_normal(size // 2 + 1).astype(ml_dtypes.bfloat16)
    data = values.view(np.uint8)[:size]
    expected = bound_of_tensor(data.tobytes(), element, block_bytes)
    assert block_bound_bytes(data, element, block_bytes) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("element", list(ElementType))
def test_tensor_bound_is_that_of_one_block(element: ElementType) -> None:
    data = np.random.default_rng(4).integers(0, 256, 6001, np.uint8)
    expected = bound_of_block(data.tobytes(), element, 0)
    assert tensor_bound_bytes(data, element) == pytest.approx(expected, abs=1e-6)


def test_blocks_on_both_sides_of_a_step() -> None:
    # More bytes than are looked at in one step, in blocks that share elements and that do not.
    scales = np.repeat(2.0 ** np.arange(20), 120_000).astype(np.float32)
    values = scales * np.random.default_rng(5).standard_normal(scales.size, np.float32)
    data = values.view(np.uint8)
    for block_bytes in (400_000, 399_999):
        whole = [
            bound
            for start in range(0, data.size, block_bytes)
            for bound in [_numpy_bound(data[start : start + block_bytes], -start % 4)]
        ]
        found = block_bound_bytes(data, ElementType.FP32, block_bytes)
        assert found == pytest.approx(sum(whole), rel=1e-9)


def _numpy_bound(block: np.ndarray, phase: int) -> float:
    n = (block.size - phase) // 4
    words = np.frombuffer(block[phase : phase + 4 * n].tobytes(), "<u4")
    shares = np.unique(words >> 23 & 255, return_counts=True)[1] / n
    return float(n * (24 - (shares * np.log2(shares)).sum()) / 8 + block.size - 4 * n)


def test_a_constant_exponent_costs_nothing() -> None:
    ones = np.ones(1000, ml_dtypes.bfloat16).view(np.uint8)
    assert tensor_bound_bytes(ones, ElementType.BF16) == 1000
    assert tensor_bound_bytes(ones, ElementType.RAW) == 2000
