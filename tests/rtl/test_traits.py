# SPDX-License-Identifier: Apache-2.0
"""wz_traits and wz_period, behind wz_align, against the reference's rules."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from codec.format import Mode
from codec.header import parse_header
from tests.rtl import blocks as make
from tests.rtl import first_pass
from tests.rtl.blocks import ALL_TYPES, Block
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import unpack

BF16_ALONE = 0b000010
LATENCY = 4


@pytest.fixture(scope="module", params=[ALL_TYPES, BF16_ALONE])
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    wrapper = Path(__file__).with_name("align_traits.sv")
    return Dut("align_traits", parameters={"TYPES": types}, extra=[wrapper])


def _check(
    dut: Dut,
    types: int,
    blocks: Sequence[Block],
    stalls: tuple[float, float],
    *,
    bare: bool = False,
    min_bytes: int = 0,
) -> None:
    blocks = [block.as_built(types) for block in blocks]
    dut["bare"] = bare
    dut["min_bytes"] = min_bytes
    dut.reset()
    sent = Source("s_axis", **make.packets(blocks), stall=stalls[0], burst=5)
    go = Source("go", token=np.zeros(sent.beats, np.uint8), stall=stalls[1], burst=5)
    got = Sink("m", fields=("traits", "shape"), valid="valid", ready=None)
    dut.stream(sent, go, got, seed=5, drain=20)
    assert len(got) == len(blocks)
    both = zip(got.integers("traits"), got.integers("shape"), blocks, strict=True)
    for i, (traits, shape, block) in enumerate(both):
        where = f"block {i}: {block.element.name}, {len(block.data)} bytes, phase {block.phase}"
        found = unpack(traits, first_pass.TRAITS)
        for plane in range(2):
            if not found["plane_flags"] >> plane & 1:
                found["plane_bytes"] &= ~(0xFF << 8 * plane)
        assert found == first_pass.traits(block, bare=bare, min_bytes=min_bytes), where
        if found["walked"]:
            wanted = first_pass.shape(block, min_bytes=min_bytes)
            assert unpack(shape, first_pass.SHAPE) == wanted, where
    if stalls == (0, 0):
        last = np.flatnonzero(sent.fields["tlast"])
        assert np.array_equal(got.clocks, sent.clocks[last] + 2 + LATENCY)


def _mixed() -> list[Block]:
    found = []
    for tag in ElementType:
        found += [*make.blocks(tag, 8, 1), *make.blocks(tag, 60, 2, longest=300)]
    order = np.random.default_rng(1).permutation(len(found))
    return [found[i] for i in order]


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_blocks(dut: Dut, types: int, stalls: tuple[float, float]) -> None:
    _check(dut, types, _mixed(), stalls)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("min_bytes", [0, 1, 2, 30, 63, 64, 65, 128, 200, 4096, 8191])
def test_blocks_as_they_are(dut: Dut, types: int, bare: bool, min_bytes: int) -> None:
    """By the policy, and where a frame cannot be shorter; every length about the bounds."""
    lengths = [1, 2, 29, 30, 31, 32, 33, 62, 63, 64, 65, 66, 127, 128, 199, 200]
    blocks = [
        Block(make.with_symbols(np.full(200, 7 + size % 2), tag)[:size], tag, size % 2)
        for tag in (ElementType.BF16, ElementType.FP16, ElementType.FP32)
        for size in lengths
    ]
    blocks += [
        Block(bytes([value]) * size, tag)
        for tag in (ElementType.RAW, ElementType.BF16)
        for size in lengths
        for value in (0, 5)
    ]
    blocks += _mixed()[:40]
    _check(dut, types, blocks, (0.1, 0), bare=bare, min_bytes=min_bytes)


def test_short_frames_are_not_shorter() -> None:
    """Of blocks of up to BARE_BYTES bytes: what would compress best, in every phase."""
    for tag in ElementType:
        width = tag.width_bytes
        for size in range(1, first_pass.BARE_BYTES + 1):
            for phase in range(width):
                values = [0] * size, [0] * (size - 1) + [1], [1] + [0] * (size - 1)
                repeated = bytes([0x80, 0x3F, 0x80, 0x3F] * size)[:size]
                for data in (*map(bytes, values), repeated, repeated[:-1] + b"\0"):
                    frame = reference.encode_frame(data, tag, phase)
                    if parse_header(frame).mode != Mode.CONSTANT:
                        assert len(frame) >= size


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
