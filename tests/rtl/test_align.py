# SPDX-License-Identifier: Apache-2.0
"""wz_align against the reference's split of a block into head, values and tail."""

from collections.abc import Sequence

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl import blocks as make
from tests.rtl.blocks import ALL_TYPES, Block
from tests.rtl.dut import Dut, Sink, Source

BF16_ALONE = 0b000010
FIELDS = ("tdata", "tkeep", "tfirst", "tlast", "code", "element", "phase", "length_less_one")
FIELDS += ("head", "tail")


@pytest.fixture(scope="module", params=[ALL_TYPES, BF16_ALONE])
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    return Dut("wz_align", parameters={"TYPES": types})


def _blocks(seed: int, count: int, longest: int) -> list[Block]:
    found = [b for tag in ElementType for b in make.blocks(tag, count, seed, longest=longest)]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order]


def _run(dut: Dut, blocks: Sequence[Block], stalls: tuple[float, float]) -> tuple[Source, Sink]:
    dut.reset()
    sent = Source("s_axis", **make.packets(blocks), stall=stalls[0], burst=5)
    got = Sink("m", fields=FIELDS, stall=stalls[1], burst=5)
    raw = Sink("raw", fields=("tdata", "tkeep", "first", "last"), valid="valid", ready=None)
    dut.stream(sent, got, raw, seed=3, drain=20)
    _check_raw(raw, blocks)
    return sent, got


def _check_raw(raw: Sink, blocks: Sequence[Block]) -> None:
    """The blocks again, with zeros around them."""
    padded = [b.data.ljust(-(-len(b.data) // 64) * 64, b"\0") for b in blocks]
    assert raw["tdata"].tobytes() == b"".join(padded)
    ends = np.cumsum([len(data) // 64 for data in padded])
    assert np.array_equal(np.flatnonzero(raw["last"]), ends - 1)
    assert np.array_equal(np.flatnonzero(raw["first"]), [0, *ends[:-1]])
    assert np.array_equal(raw["tkeep"], make.packets(blocks)["tkeep"])


def _check(got: Sink, blocks: Sequence[Block], types: int) -> None:
    at = 0
    for number, block in enumerate(blocks):
        block = block.as_built(types)
        plan = block.plan()
        keeps = [int(keep).bit_count() for keep in got["tkeep"][at:]]
        beats = int(np.argmax(got["tlast"][at:])) + 1
        where = f"block {number}: {block.element.name}, {len(block.data)} bytes, {block.phase}"
        # A last beat without values may follow.
        assert beats in (len(plan.beats), len(plan.beats) + 1), where
        assert np.array_equal(got["tdata"][at : at + len(plan.beats)], plan.beats), where
        assert sum(keeps[:beats]) == len(block.values), where
        assert got["tfirst"][at] == 1, where
        assert not got["tfirst"][at + 1 : at + beats].any(), where
        end = at + beats - 1
        assert got["length_less_one"][end] == len(block.data) - 1, where
        assert got["head"][end] == plan.fields["head"], where
        assert got["tail"][end] == plan.fields["tail"], where
        for beat in range(at, end + 1):
            assert got["element"][beat] == block.element, where
            assert got["code"][beat] == block.code, where
            assert got["phase"][beat] == block.phase, where
        at = end + 1
    assert at == len(got)


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0.4), (0, 0.7), (0.7, 0)])
def test_blocks_are_cut(dut: Dut, types: int, stalls: tuple[float, float]) -> None:
    blocks = [*_blocks(1, 30, 300), *_blocks(2, 4, 4096)]
    sent, got = _run(dut, blocks, stalls)
    _check(got, blocks, types)
    if stalls == (0, 0):
        # A beat a clock, and the last of all leaves 2 clocks after it came.
        assert np.array_equal(np.diff(sent.clocks), np.ones(sent.beats - 1))
        assert got.clocks[-1] == sent.clocks[-1] + 2


def test_every_length_and_phase(dut: Dut, types: int) -> None:
    rng = np.random.default_rng(4)
    blocks = [
        Block(rng.bytes(size), tag, phase)
        for tag in ElementType
        for phase in range(tag.width_bytes)
        for size in [*range(1, 12), *range(60, 72), *range(124, 134), 4092, 4095, 4096]
    ]
    _, got = _run(dut, blocks, (0, 0.1))
    _check(got, blocks, types)


def test_a_long_packet_is_cut(dut: Dut, types: int) -> None:
    """At 4096 bytes, into blocks of the same type and phase."""
    data = np.random.default_rng(6).bytes(3 * 4096 + 70)
    whole = make.packets([Block(data, ElementType.BF16, 1)])
    parts = [Block(data[i : i + 4096], ElementType.BF16, 1) for i in range(0, len(data), 4096)]
    # Only the first beat of a packet says what it is.
    whole["tuser"][1:] = 0
    dut.reset()
    got = Sink("m", fields=FIELDS)
    dut.stream(Source("s_axis", **whole), got, drain=20)
    _check(got, parts, types)


def test_reset_in_a_block(dut: Dut, types: int) -> None:
    blocks = _blocks(3, 3, 4096)
    dut.reset()
    dut.stream(Source("s_axis", **make.packets(blocks)), Sink("m", fields=FIELDS), clocks=100)
    _, got = _run(dut, blocks, (0, 0))
    _check(got, blocks, types)
