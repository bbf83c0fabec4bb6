# SPDX-License-Identifier: Apache-2.0
"""The cost study behind `docs/decisions/` is exact: lengths follow from the counts of a block."""

import importlib.util
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from tests.conformance import blocks

PATH = Path(__file__).parents[2] / "docs" / "decisions" / "study.py"
BLOCK = 4096


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("study", PATH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["study"] = module
    spec.loader.exec_module(module)
    return module


def tensor(element: ElementType) -> bytes:
    """A block of each kind: weights, zero beats, a constant sign, and so on."""
    rng = Random(f"study {element.name}")
    count = BLOCK // element.width_bytes
    plain = blocks.weights(rng, element, BLOCK)
    symbols = blocks.normal_symbols(rng, element, count)
    escaping = [1 if i % 100 == 0 else s for i, s in enumerate(symbols)]
    low = (1 << element.layout.mantissa_bits) - 1
    normal = [max(1, s) for s in symbols]
    relu = blocks.sprinkled(rng, element, normal, zeros=0.4)
    dropout = blocks.sprinkled(rng, element, normal, zeros=0.1, sign=None, clear=low)
    subnormal = (1).to_bytes(element.width_bytes, "little")
    return b"".join(
        [
            plain,
            plain[:1000].ljust(2000, b"\0").ljust(3000, plain[:1]).ljust(BLOCK, b"\0"),
            blocks.with_symbols(rng, element, symbols, sign=1),
            blocks.with_symbols(rng, element, symbols, clear=low),
            blocks.with_symbols(rng, element, escaping),
            relu,
            dropout,
            relu[: -element.width_bytes] + subnormal,
            blocks.noise(rng, BLOCK),
            plain[: element.width_bytes] * count,
        ]
    )


@pytest.mark.parametrize("element", blocks.FLOATS)
def test_coded_lengths(study: ModuleType, element: ElementType) -> None:
    data = np.frombuffer(tensor(element), np.uint8)
    values = data.view(f"<u{element.width_bytes}")
    summary = study.summarise(values, element, study.Variant())
    found = study.frame_bytes(summary, element, study.Variant())
    assert found.tolist() == reference.ENGINE.encode(data, element, BLOCK).lengths.tolist()


@pytest.mark.parametrize("element", [ElementType.BF16, ElementType.FP32])
def test_resident_lengths(study: ModuleType, element: ElementType) -> None:
    rng = Random(f"study resident {element.name}")
    width = element.width_bytes
    old = blocks.weights(rng, element, BLOCK)
    for share, step in ((0, 1), (0.01, 2), (0.1, 3), (1, 2), (1, 100)):
        new = blocks.moved(rng, old, element, share, step)
        arrays = [np.frombuffer(b, np.uint8).view(f"<u{width}") for b in (new, old)]
        z = study.zigzag(*arrays, width)
        coded = len(reference.encode_frame(new, element))
        found = min(coded, study.dense_bytes(z, width), study.gap_bytes(z, width))
        assert found == len(reference.encode_frame(new, element, 0, old))


def test_low_bits_that_are_zero(study: ModuleType) -> None:
    halves = np.random.default_rng(1).standard_normal(2 * BLOCK // 4).astype(np.float16)
    values = halves.astype(np.float32).view("<u4")
    values[BLOCK // 4] |= 1
    without = study.summarise(values, ElementType.FP32, study.Variant(low_bits=True))
    # 13 of 24 bits; in the second block one value needs them all.
    assert without.remainder_bytes.tolist() == [BLOCK // 4 * 11 // 8, BLOCK // 4 * 3]
    assert without.extras_bytes.tolist() == [0, 0]
    plain = study.summarise(values, ElementType.FP32, study.Variant())
    assert plain.remainder_bytes.tolist() == [BLOCK // 4 * 2, BLOCK // 4 * 3]


def test_bounds_of_parts(study: ModuleType) -> None:
    # Two symbols, the sign that of the symbol, the lowest mantissa bit 0, the others even.
    symbols = np.tile(np.repeat([7, 8], 8), BLOCK // 16)
    mantissas = np.tile([0, 2, 4, 6], BLOCK // 4)
    values = ((symbols == 8) << 7 | symbols << 3 | mantissas).astype("<u1")
    found = study.bounds_of_parts(values, ElementType.E4M3)
    assert study.bound(values, ElementType.E4M3) == pytest.approx((1 + 1 + 3) / 8)
    assert found == pytest.approx(
        {
            "bound: and signs, by symbol": (1 + 3) / 8,
            "bound: and each mantissa bit": (1 + 2) / 8,
            "bound: of whole elements": (1 + 2) / 8,
        }
    )
