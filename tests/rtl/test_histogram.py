# SPDX-License-Identifier: Apache-2.0
"""wz_histogram against NumPy's counts; clocks of counting and of reading."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from codec.elements import ElementType
from tests.rtl import blocks as make
from tests.rtl.blocks import ALL_TYPES, Block, symbols
from tests.rtl.dut import Dut, Integers, Sink, Source

BF16_ALONE = 0b000010
BUILDS = [(32, ALL_TYPES), (32, BF16_ALONE), (8, ALL_TYPES), (64, ALL_TYPES), (16, BF16_ALONE)]
CLEARING = 66


class Histogram:
    def __init__(self, lanes: int, types: int) -> None:
        self.lanes = lanes
        self.types = types
        self.dut = Dut("wz_histogram", parameters={"LANES": lanes, "TYPES": types})
        self.scan_latency = {8: 4, 16: 5, 32: 5, 64: 6}[lanes]

    def run(self, blocks: Sequence[Block], stall: float = 0, *, reset: bool = True) -> None:
        if reset:
            self.dut.reset()
        self.dut["m_room"] = 1
        self.sent = Source("s", **_beats(blocks), stall=stall, burst=7)
        self.words = Sink(
            "m", fields=("first", "last", "word", "groups", "counts"), valid="valid", ready=None
        )
        self.dut.stream(self.sent, self.words, seed=9, drain=100)

    def steps(self, element: ElementType) -> int:
        """Clocks that a beat takes."""
        return max(1, 64 // element.width_bytes // self.lanes)


def _beats(blocks: Sequence[Block]) -> dict[str, Integers]:
    """What wz_align makes of the blocks; those without values are one empty beat."""
    data, keep, last, element = [], [], [], []
    for block in blocks:
        values = block.values
        beats = [values[i : i + 64] for i in range(0, len(values), 64)] or [b""]
        for i, beat in enumerate(beats):
            data.append(np.frombuffer(beat.ljust(64, b"\0"), np.uint8))
            keep.append((1 << len(beat)) - 1)
            last.append(i == len(beats) - 1)
            element.append(block.element)
    return {
        "tdata": np.stack(data),
        "tkeep": np.array(keep, np.uint64),
        "tlast": np.array(last, np.uint8),
        "format": np.array([_format(tag) for tag in element], np.uint8),
    }


def _format(element: ElementType) -> int:
    """`format_t`."""
    symbol_bits = element.layout.exponent_bits
    return element.width_bytes << 2 | (symbol_bits == 5) << 1 | (symbol_bits == 4)


@pytest.fixture(scope="module", params=BUILDS, ids=lambda build: f"{build[0]}-{build[1]:06b}")
def histogram(request: pytest.FixtureRequest) -> Histogram:
    return Histogram(*request.param)


def _counts(words: Sink, bits: int) -> list[NDArray[np.int64]]:
    """The counts of each block."""
    out: list[NDArray[np.int64]] = []
    packed = words.integers("counts")
    for i, word in enumerate(packed):
        if words["first"][i]:
            assert not out or words["last"][i - 1]
            out.append(np.zeros(256, np.int64))
        at = 4 * int(words["word"][i])
        assert words["groups"][i] >> at // 32 & 1
        out[-1][at : at + 4] = [word >> bits * j & (1 << bits) - 1 for j in range(4)]
    return out


def _check(histogram: Histogram, blocks: Sequence[Block]) -> None:
    bits = 12 if histogram.types == BF16_ALONE else 13
    got = _counts(histogram.words, bits)
    assert len(got) == len(blocks)
    for found, block in zip(got, blocks, strict=True):
        wanted = np.bincount(symbols(block.values, block.element), minlength=256)
        assert np.array_equal(found, wanted)


def _blocks(histogram: Histogram, count: int, seed: int, longest: int = 4096) -> list[Block]:
    tags = [tag for tag in ElementType if histogram.types >> tag & 1 and tag != ElementType.RAW]
    found = [b for tag in tags for b in make.blocks(tag, count, seed, longest=longest)]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order]


@pytest.mark.parametrize("stall", [0, 0.3])
def test_counts(histogram: Histogram, stall: float) -> None:
    blocks = [*_blocks(histogram, 10, 1), *_blocks(histogram, 30, 2, 200)]
    histogram.run(blocks, stall)
    _check(histogram, blocks)


def test_the_same_symbol_over_and_over(histogram: Histogram) -> None:
    """Counts of a lane follow each other with and without a gap, and reach their maximum."""
    blocks = []
    for tag in ElementType:
        if histogram.types >> tag & 1 and tag != ElementType.RAW:
            count = 4096 // tag.width_bytes
            top = (1 << tag.layout.exponent_bits) - 1
            for pattern in ([1], [1, 2], [top, top, 0], [0], [1] * 64 + [2] * 64):
                blocks.append(Block(make.with_symbols(np.resize(pattern, count), tag), tag))
    for stall in (0, 0.5):
        histogram.run(blocks, stall)
        _check(histogram, blocks)


def test_clocks(histogram: Histogram) -> None:
    """A beat takes its steps; a block's words come 8 a group, soon after its last beat."""
    rng = np.random.default_rng(3)
    element = ElementType.BF16
    near = [Block(make.with_symbols(rng.integers(100, 120, 2048), element), element)] * 6
    histogram.run(near)
    _check(histogram, near)
    steps = histogram.steps(element)
    assert np.array_equal(np.diff(histogram.sent.clocks[1:]), np.full(6 * 64 - 2, steps))
    first = np.flatnonzero(histogram.words["first"])
    ends = histogram.sent.clocks[63::64]
    latency = histogram.scan_latency + 3
    assert np.array_equal(histogram.words.clocks[first], ends + latency)
    assert len(histogram.words) == 6 * 8

    wide = [Block(make.with_symbols(rng.integers(0, 256, 2048), element), element)] * 6
    histogram.run(wide)
    _check(histogram, wide)
    assert len(histogram.words) == 6 * 64
    # Reading a whole histogram costs no more than 2 clocks beyond a block of 64 beats.
    total = histogram.sent.clocks[-1] - histogram.sent.clocks[64 * 2]
    assert total <= 4 * max(66, 64 * steps)


def test_room_holds_reading(histogram: Histogram) -> None:
    blocks = _blocks(histogram, 4, 5, 400)
    dut = histogram.dut
    dut.reset()
    dut["m_room"] = 0
    words = Sink("m", fields=("word",), valid="valid", ready=None)
    sent = Source("s", **_beats(blocks))
    dut.stream(sent, words, clocks=1000)
    # Two blocks are held, and no word has come.
    assert len(words) == 0
    assert sent.taken == np.flatnonzero(sent.fields["tlast"])[1] + 1


def test_reset_clears(histogram: Histogram) -> None:
    blocks = _blocks(histogram, 3, 6)
    histogram.dut.reset()
    histogram.dut["m_room"] = 1
    histogram.dut.stream(Source("s", **_beats(blocks)), clocks=CLEARING + 150)
    histogram.run(blocks)
    _check(histogram, blocks)
    assert histogram.sent.clocks[0] >= CLEARING - 3
