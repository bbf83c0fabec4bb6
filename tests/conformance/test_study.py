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
