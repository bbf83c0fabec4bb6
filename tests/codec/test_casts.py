# SPDX-License-Identifier: Apache-2.0
"""Casts of checkpoint tensors: types, rounding, scale, and what is left as it is."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codec.checkpoint import Tensor, cast_fp8, cast_fp16
from codec.elements import ElementType

VALUES = np.array([0.0, -0.0, 1.0, -3.14159, 1e-3, 70.0, np.nan], np.float32)
FP8 = [(ElementType.E4M3, ml_dtypes.float8_e4m3fn), (ElementType.E5M2, ml_dtypes.float8_e5m2)]


def tensor(values: np.ndarray, element: ElementType, tag: str) -> Tensor:
    return Tensor(Path("f"), "t", element, tag, values.shape, values.view(np.uint8))


def test_fp16_is_rounded_to_nearest() -> None:
    cast = cast_fp16(tensor(VALUES, ElementType.FP32, "F32"))
    assert (cast.element, cast.dtype, cast.shape) == (ElementType.FP16, "F16", VALUES.shape)
    np.testing.assert_array_equal(cast.data.view(np.float16), VALUES.astype(np.float16))
    halves = VALUES.astype(ml_dtypes.bfloat16)
    cast = cast_fp16(tensor(halves, ElementType.BF16, "BF16"))
    expected = halves.astype(np.float32).astype(np.float16)
    np.testing.assert_array_equal(cast.data.view(np.float16), expected)


@pytest.mark.parametrize(("element", "dtype"), FP8)
def test_fp8_is_scaled_to_the_largest_number(element: ElementType, dtype: type) -> None:
    cast = cast_fp8(tensor(VALUES, ElementType.FP32, "F32"), element)
    assert (cast.element, cast.dtype) == (element, f"F8_{element.name}")
    found = cast.data.view(dtype).astype(np.float32)
    largest = float(ml_dtypes.finfo(dtype).max)
    assert np.nanmax(found) == largest
    assert np.isnan(found[-1])
    assert np.signbit(found[1])
    expected = (VALUES * np.float32(largest / 70)).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("element", "dtype"), FP8)
def test_fp8_without_a_scale(element: ElementType, dtype: type) -> None:
    zeros = np.zeros(5, np.float16)
    cast = cast_fp8(tensor(zeros, ElementType.FP16, "F16"), element)
    assert cast.data.tobytes() == bytes(5)
    infinite = np.array([np.inf, 2.0], np.float32)
    found = cast_fp8(tensor(infinite, ElementType.FP32, "F32"), element).data.view(dtype)
    assert float(found[1]) == float(ml_dtypes.finfo(dtype).max)
    tiny = np.array([0, 1e-45, -1e-40], np.float32)
    found = cast_fp8(tensor(tiny, ElementType.FP32, "F32"), element).data.view(dtype)
    assert found[0] == 0
    assert np.isfinite(found.astype(np.float32)).all()
    empty = np.zeros(0, np.float32)
    assert cast_fp8(tensor(empty, ElementType.FP32, "F32"), element).data.size == 0


def test_narrower_and_other_types_are_left_alone() -> None:
    half = tensor(VALUES.astype(np.float16), ElementType.FP16, "F16")
    assert cast_fp16(half) is half
    integers = tensor(np.arange(3), ElementType.RAW, "I64")
    assert cast_fp16(integers) is integers
    assert cast_fp8(integers, ElementType.E4M3) is integers
