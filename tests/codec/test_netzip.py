# SPDX-License-Identifier: Apache-2.0
"""The NetZIP pipeline: groupings by hand, exact arms return every bit, lossy ones are marked."""

import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from codec.checkpoint import Tensor
from codec.elements import ElementType
from codec.errors import InvalidInput
from codec.netzip import ARMS, DELTAS, GROUPINGS, Row, add, group, measure, subtract, ungroup
from tests.tools import require_module

EVERY_PATTERN = np.arange(1 << 16, dtype=np.uint16)
RNG = np.random.default_rng(4)
EXACT = {"none", "previous-int"}


def patterns(count: int, scale: float = 0.02) -> np.ndarray:
    values = (scale * RNG.standard_normal(count)).astype(ml_dtypes.bfloat16)
    return values.view(np.uint16)


def tensor(name: str, values: np.ndarray) -> Tensor:
    data = values.view(np.uint8)
    return Tensor(Path("f"), name, ElementType.BF16, "BF16", values.shape, data)


def test_there_are_twelve_arms() -> None:
    assert len(set(ARMS)) == len(DELTAS) * len(GROUPINGS) == 12


def test_groupings_by_hand() -> None:
    values = np.array([0x0201, 0x0403, 0x8005], np.uint16)
    assert group(values, "none") == bytes([1, 2, 3, 4, 5, 0x80])
    assert group(values, "byte") == bytes([1, 3, 5, 2, 4, 0x80])
    planes = group(values, "bit")
    assert len(planes) == 16
    # Plane 0 holds the lowest bits, first value in the lowest place: all three are odd.
    assert (planes[0], planes[1], planes[2], planes[15]) == (0b111, 0b010, 0b100, 0b100)


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 2048, 2051])
def test_groupings_are_undone(grouping: str, count: int) -> None:
    values = EVERY_PATTERN[::-1][:count].copy()
    data = group(values, grouping)
    assert len(data) == (16 * -(-count // 8) if grouping == "bit" else 2 * count)
    np.testing.assert_array_equal(ungroup(data, count, grouping), values)


@pytest.mark.parametrize("delta", sorted(EXACT))
def test_exact_differences_return_every_pattern(delta: str) -> None:
    previous = RNG.permutation(EVERY_PATTERN)
    sent = subtract(EVERY_PATTERN, delta, previous=previous, base=np.float32(-3))
    back = add(sent, delta, previous=previous, base=np.float32(-3))
    np.testing.assert_array_equal(back, EVERY_PATTERN)


def test_a_base_value_rounds_small_values_away() -> None:
    values = np.array([-1.0, 1e-4, 0.5], ml_dtypes.bfloat16).view(np.uint16)
    nothing = np.zeros_like(values)
    sent = subtract(values, "base", previous=nothing, base=np.float32(-1))
    assert sent.view(ml_dtypes.bfloat16).astype(float).tolist() == [0.0, 1.0, 1.5]
    back = add(sent, "base", previous=nothing, base=np.float32(-1))
    assert back.view(ml_dtypes.bfloat16).astype(float).tolist() == [-1.0, 0.0, 0.5]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    require_module("cramjam")
    new = [tensor("a/1", patterns(3000)), tensor("a/2", patterns(17)), tensor("b/1", patterns(9))]
    old = [tensor(t.name, patterns(t.data.size // 2)) for t in new]
    return measure("file", new, old)


def test_every_arm_and_codec_is_measured(rows: list[Row]) -> None:
    keys = {(r.role, r.unit, r.delta, r.grouping, r.compressor) for r in rows}
    codecs = ("lz4", "snappy", "zlib-1", "zstd-1")
    expected = {
        (role, unit, arm.delta, arm.grouping, codec)
        for role in "ab"
        for unit in ("tensor", "packet")
        for arm in ARMS
        for codec in codecs
    }
    assert keys == expected | {(role, "packet", "none", "none", "wirezip") for role in "ab"}
    assert len(rows) == len(keys)
    assert {row.original_bytes for row in rows if row.role == "a"} == {2 * 3017}


def test_lossy_arms_are_marked_and_exact_ones_are_not(rows: list[Row]) -> None:
    for row in rows:
        assert row.lossless == (row.mismatches == 0)
        if row.delta in EXACT:
            assert row.lossless, row
        elif row.role == "a" and row.unit == "tensor":
            assert not row.lossless, row
        assert (row.base == "minimum") == (row.delta == "base")


def test_sizes_are_those_of_the_codec_with_the_base(rows: list[Row]) -> None:
    values = patterns(4096)
    zeros = np.zeros_like(values)
    made = measure("f", [tensor("t", values)], [tensor("t", zeros)])
    sizes = {(r.unit, r.delta, r.grouping): r for r in made if r.compressor == "zlib-1"}
    data = values.view(np.uint8).reshape(-1, 2).T.tobytes()
    assert sizes["tensor", "none", "byte"].compressed_bytes == len(zlib.compress(data, 1))
    base = values.view(ml_dtypes.bfloat16).astype(np.float32).min()
    sent = subtract(values, "base", previous=zeros, base=base).tobytes()
    assert sizes["tensor", "base", "none"].compressed_bytes == len(zlib.compress(sent, 1)) + 2


def test_a_packet_that_does_not_shrink_travels_as_it_is() -> None:
    require_module("cramjam")
    noise = RNG.integers(0, 1 << 16, 2048 + 5, np.uint16)
    for row in measure("f", [tensor("t", noise)], [tensor("t", noise[::-1].copy())]):
        if row.unit == "packet":
            assert row.compressed_bytes <= row.original_bytes
        if row.unit == "packet" and row.grouping == "none" and row.delta == "none":
            assert (row.compressed_bytes, row.lossless) == (2 * noise.size, True)


def test_what_cannot_be_measured() -> None:
    one, other = tensor("t", patterns(4)), tensor("t", patterns(5))
    with pytest.raises(InvalidInput, match="tensors: expected at least one"):
        measure("f", [], [])
    with pytest.raises(InvalidInput, match="expected 't' of 8 bytes; found 10"):
        measure("f", [one], [other])
    with pytest.raises(InvalidInput, match="found no such tensor"):
        measure("f", [one], [])
    wide = Tensor(Path("f"), "t", ElementType.FP32, "F32", (2,), np.zeros(8, np.uint8))
    with pytest.raises(InvalidInput, match=r"t: expected BF16 \(--cast bf16\); found F32"):
        measure("f", [wide], [wide])
