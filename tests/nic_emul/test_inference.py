# SPDX-License-Identifier: Apache-2.0
"""The element type that is inferred from bytes, at every phase."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.elements import ElementType
from codec.engine import get_engine
from nic_emul.inference import infer

_DTYPES = {
    ElementType.BF16: ml_dtypes.bfloat16,
    ElementType.FP16: np.float16,
    ElementType.FP32: np.float32,
}


def _normal(element: ElementType, count: int) -> np.ndarray:
    """The bytes of `count` normal numbers, uint8, of the size that gradients have."""
    values = np.random.default_rng(count).normal(0, 0.02, count).astype(_DTYPES[element])
    return values.view(np.uint8)


@pytest.mark.parametrize("size", [512, 1448, 4096, 8948])
@pytest.mark.parametrize("element", _DTYPES)
def test_type_and_phase_of_normal_numbers(element: ElementType, size: int) -> None:
    whole = _normal(element, size)
    for cut in range(element.width_bytes):
        payload = whole[cut : cut + size]
        assert infer(payload) == (element, -cut % element.width_bytes)


@pytest.mark.parametrize("cut", range(4))
def test_a_widened_type_is_told_from_the_narrow_one(cut: int) -> None:
    narrow = _normal(ElementType.BF16, 1024).view(ml_dtypes.bfloat16)
    payload = narrow.astype(np.float32).view(np.uint8)[cut:1448]
    assert infer(payload) == (ElementType.FP32, -cut % 4)


def test_noise_and_short_payloads_are_raw() -> None:
    generator = np.random.default_rng(1)
    for size in (64, 512, 1448, 8948):
        payload = generator.integers(0, 256, size, dtype=np.uint8)
        assert infer(payload) == (ElementType.RAW, 0)
    assert infer(_normal(ElementType.BF16, 512)[:63]) == (ElementType.RAW, 0)


@given(payload=st.binary(max_size=300), copies=st.integers(1, 8))
def test_any_guess_is_one_that_the_codec_takes_and_restores(payload: bytes, copies: int) -> None:
    data = np.frombuffer(payload * copies, np.uint8)
    element, phase = infer(data)
    assert 0 <= phase < element.width_bytes
    engine = get_engine("numba")
    packets = engine.encode(data, element, 4096, phase=phase, bare=True)
    out = np.empty_like(data)
    engine.decode(packets, element, 4096, out, phase=phase, bare=True)
    assert out.tobytes() == data.tobytes()
