# SPDX-License-Identifier: Apache-2.0
"""wz_traits and wz_period, behind wz_align, against the reference's rules."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl import blocks as make
from tests.rtl import first_pass
from tests.rtl.blocks import ALL_TYPES, Block
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import unpack

BF16_ALONE = 0b000010
LATENCY = 4


@pytest.fixture(scope="module", params=[ALL_TYPES, BF16_ALONE])
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    wrapper = Path(__file__).with_name("align_traits.sv")
    return Dut("align_traits", parameters={"TYPES": types}, extra=[wrapper])


def _check(dut: Dut, types: int, blocks: Sequence[Block], stalls: tuple[float, float]) -> None:
    blocks = [block.as_built(types) for block in blocks]
    dut.reset()
    sent = Source("s_axis", **make.packets(blocks), stall=stalls[0], burst=5)
    go = Source("go", token=np.zeros(sent.beats, np.uint8), stall=stalls[1], burst=5)
    got = Sink("m", fields=("traits", "shape"), valid="valid", ready=None)
    dut.stream(sent, go, got, seed=5, drain=20)
    assert len(got) == len(blocks)
    both = zip(got.integers("traits"), got.integers("shape"), blocks, strict=True)
    for i, (traits, shape, block) in enumerate(both):
        where = f"block {i}: {block.element.name}, {len(block.data)} bytes, phase {block.phase}"
        found = unpack(traits, first_pass.TRAITS.items())
        for plane in range(2):
            if not found["plane_flags"] >> plane & 1:
                found["plane_bytes"] &= ~(0xFF << 8 * plane)
        assert found == first_pass.traits(block), where
        assert unpack(shape, first_pass.SHAPE.items()) == first_pass.shape(block), where
    if stalls == (0, 0):
        last = np.flatnonzero(sent.fields["tlast"])
        assert np.array_equal(got.clocks, sent.clocks[last] + 2 + LATENCY)


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_blocks(dut: Dut, types: int, stalls: tuple[float, float]) -> None:
    found = []
    for tag in ElementType:
        found += [*make.blocks(tag, 8, 1), *make.blocks(tag, 60, 2, longest=300)]
    order = np.random.default_rng(1).permutation(len(found))
    _check(dut, types, [found[i] for i in order], stalls)


def test_zero_beats(dut: Dut, types: int) -> None:
    """Whole and partial ones, with and without others, and a stray bit in each place."""
    rng = np.random.default_rng(2)
    blocks = []
    for tag in ElementType:
        for size in (64, 65, 128, 190, 192, 193, 250, 256, 260):
            for _ in range(4):
                data = np.frombuffer(rng.bytes(size), np.uint8).copy()
                for at in range(0, size, 64):
                    if rng.random() < 0.6:
                        data[at : at + 64] = 0
                if rng.random() < 0.5:
                    data[rng.integers(size)] = 1 << rng.integers(8)
                blocks.append(Block(data.tobytes(), tag, int(rng.integers(tag.width_bytes))))
    _check(dut, types, blocks, (0, 0.2))


def test_periods(dut: Dut, types: int) -> None:
    """Blocks that repeat, and those that differ in one byte."""
    rng = np.random.default_rng(3)
    blocks = []
    for tag in ElementType:
        for period in (1, 2, 4, 8):
            for size in (1, 2, 3, 4, 5, 8, 63, 64, 65, 66, 130, 4096):
                data = bytearray((rng.bytes(period) * size)[:size])
                blocks.append(Block(bytes(data), tag, int(rng.integers(tag.width_bytes))))
                data[rng.integers(size)] ^= 1 << rng.integers(8)
                blocks.append(Block(bytes(data), tag, int(rng.integers(tag.width_bytes))))
    _check(dut, types, blocks, (0, 0.1))


def test_reset_in_a_block(dut: Dut, types: int) -> None:
    blocks = make.blocks(ElementType.BF16, 3, 4)
    dut.reset()
    sent = Source("s_axis", **make.packets(blocks))
    dut.stream(sent, Source("go", token=np.zeros(99, np.uint8)), clocks=90)
    _check(dut, types, blocks, (0, 0))
