# SPDX-License-Identifier: Apache-2.0
"""wz_analyze against the reference encoder: value beats, plans, rank tables, clocks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from codec.format import CODER_RANKS, ZERO_RANK_NONE, Mode
from tests.rtl import blocks as make
from tests.rtl.blocks import Block, packets, symbols
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import PLAN
from tests.rtl.plans import Plan
from tests.rtl.structs import unpack

BF16_ALONE = 0b000010
WRAPPER = Path(__file__).with_name("analyze_released.sv")
BUILDS = {
    "all types": {"LANES": 32},
    "BF16 alone": {"LANES": 32, "TYPES": BF16_ALONE},
    "8 lanes": {"LANES": 8},
    "64 lanes": {"LANES": 64},
}


class Analyzer:
    """The module, with a second pass that frees rank tables, and what comes out of it."""

    def __init__(self, build: str) -> None:
        self.built = BUILDS[build].get("TYPES", 0b111111)
        self.lanes = BUILDS[build]["LANES"]
        self.dut = Dut("analyze_released", parameters=BUILDS[build], extra=[WRAPPER])

    def run(
        self,
        blocks: Sequence[Block],
        *,
        stalls: tuple[float, float, float] = (0, 0, 0),
        bare: bool = False,
        min_bytes: int = 0,
        seed: int = 1,
        not_before: Sequence[int] | None = None,
    ) -> None:
        """Send blocks; `stalls` of the input, of the outputs, of the freeing of tables."""
        dut = self.dut
        dut["bare"] = bare
        dut["min_bytes"] = min_bytes
        dut.reset()
        self.sent = Source(
            "s_axis", **packets(blocks), stall=stalls[0], burst=9, not_before=not_before
        )
        self.beats = Sink("m_beat", stall=stalls[1], burst=9)
        self.plans = Sink(
            "m_plan",
            fields=("tdata", "order_lo", "order_hi", "table_bank"),
            stall=stalls[1],
            burst=99,
        )
        self.table = Sink("table", fields=("bank", "symbol", "step"), valid="we", ready=None)
        self.released = Source(
            "s_release", token=np.zeros(len(blocks), np.uint8), stall=stalls[2], burst=199
        )
        dut.stream(self.sent, self.beats, self.plans, self.table, self.released, seed=seed)
        self.wanted = [
            block.as_built(self.built).plan(bare=bare, min_bytes=min_bytes) for block in blocks
        ]


def check(analyzer: Analyzer, blocks: Sequence[Block]) -> None:
    """Everything that came out of the latest run."""
    wanted = analyzer.wanted
    assert np.array_equal(analyzer.beats["tdata"], np.concatenate([plan.beats for plan in wanted]))
    got = [unpack(word, PLAN) for word in analyzer.plans.integers("tdata")]
    assert len(got) == len(blocks)
    for i, (found, plan) in enumerate(zip(got, wanted, strict=True)):
        differing = {
            name: (found[name], value)
            for name, value in plan.fields.items()
            # Which beats are stored has a meaning in coded plans alone.
            if found[name] != value and (name, found["mode"]) not in _FREE
        }
        assert not differing, f"block {i}: {blocks[i].element.name}: {differing}"
    ends = np.cumsum([len(plan.beats) for plan in wanted])
    for end, clock in zip(ends, analyzer.plans.clocks, strict=True):
        assert end == 0 or analyzer.beats.clocks[end - 1] < clock
    _check_tables(analyzer, blocks)


_FREE = {("stored_beats", Mode.RAW), ("stored_beats", Mode.CONSTANT)}


def _check_tables(analyzer: Analyzer, blocks: Sequence[Block]) -> None:
    """Between a plan and its release its table has the step of every ranked symbol of the block."""
    table = analyzer.table
    writes = list(zip(table.clocks, table["bank"], table["symbol"], table["step"], strict=True))
    memory = np.full((4, 32), -1)
    at = 0
    for i, (plan, block) in enumerate(zip(analyzer.wanted, blocks, strict=True)):
        while at < len(writes) and writes[at][0] <= analyzer.plans.clocks[i]:
            memory[writes[at][1], writes[at][2]] = writes[at][3]
            at += 1
        if not plan.steps:
            continue
        bank = analyzer.plans["table_bank"][i]
        for clock, written, _, _ in writes[at:]:
            if clock > analyzer.released.clocks[i]:
                break
            assert written != bank, f"block {i}"
        low, high = analyzer.plans["order_lo"][i], analyzer.plans["order_hi"][i]
        escape = CODER_RANKS[plan.fields["coder"]]
        found = np.unique(symbols(block.values, block.element))
        for symbol in found[found > 0]:
            ranked = low <= symbol <= high
            assert (
                ranked == (symbol in plan.steps) or _rank(memory[bank, symbol % 32], plan) >= escape
            )
            if symbol in plan.steps:
                assert memory[bank, symbol % 32] == plan.steps[symbol], f"block {i}: {symbol}"


def _rank(step: int, plan: Plan) -> int:
    zero_rank = plan.fields["zero_rank"]
    return step + (zero_rank != ZERO_RANK_NONE and step >= zero_rank)


@pytest.fixture(scope="module", params=list(BUILDS))
def analyzer(request: pytest.FixtureRequest) -> Analyzer:
    return Analyzer(request.param)


@pytest.fixture(scope="module")
def alone() -> Analyzer:
    return Analyzer("BF16 alone")


def _mixed(analyzer: Analyzer, count: int, seed: int, longest: int = 4096) -> list[Block]:
    """Blocks of all types, those that are not built as well."""
    tags = [t for t in ElementType if analyzer.built == 0b111111 or t <= ElementType.FP16]
    found = [b for tag in tags for b in make.blocks(tag, count, seed, longest=longest)]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order]


@pytest.mark.parametrize(
    "stalls", [(0, 0, 0), (0.3, 0, 0), (0, 0.3, 0), (0, 0, 0.5), (0.2, 0.2, 0.2)]
)
@pytest.mark.parametrize("bare", [False, True])
def test_blocks(analyzer: Analyzer, stalls: tuple[float, float, float], bare: bool) -> None:
    blocks = [*_mixed(analyzer, 6, 1), *_mixed(analyzer, 30, 2, 300)]
    analyzer.run(blocks, stalls=stalls, bare=bare, seed=3)
    check(analyzer, blocks)


@pytest.mark.parametrize("min_bytes", [40, 200])
@pytest.mark.parametrize("stalls", [(0, 0, 0), (0, 0.5, 0.5)])
def test_blocks_as_they_are(
    analyzer: Analyzer, stalls: tuple[float, float, float], min_bytes: int
) -> None:
    """Between blocks that are coded, in their order."""
    blocks = [*_mixed(analyzer, 3, 7), *_mixed(analyzer, 60, 8, 300)]
    analyzer.run(blocks, stalls=stalls, bare=True, min_bytes=min_bytes, seed=3)
    check(analyzer, blocks)


@pytest.mark.parametrize("bare", [False, True])
def test_short_blocks(analyzer: Analyzer, bare: bool) -> None:
    """Every length up to more than a beat, in every phase."""
    rng = np.random.default_rng(4)
    blocks = [
        Block(make.with_symbols(rng.integers(1, 4, 90), tag)[:size], tag, phase)
        for tag in ElementType
        for phase in range(tag.width_bytes)
        for size in range(1, 90, 1 if tag == ElementType.BF16 else 5)
    ]
    blocks = [block for block in blocks if block.data]
    analyzer.run(blocks, bare=bare)
    check(analyzer, blocks)


def test_reset_in_a_block(alone: Analyzer) -> None:
    blocks = _mixed(alone, 4, 5)
    for clocks in (80, 150, 205, 263):
        alone.dut.reset()
        sent = Source("s_axis", **packets(blocks))
        alone.dut.stream(sent, Sink("m_beat"), Sink("m_plan"), clocks=clocks)
        alone.run(blocks)
        check(alone, blocks)


def _uniform(symbol: np.ndarray) -> Block:
    return Block(make.with_symbols(symbol, ElementType.BF16), ElementType.BF16)


RNG = np.random.default_rng(6)
NEAR = 127 - RNG.geometric(0.4, 2048).clip(0, 31)
WIDE = RNG.permutation(np.append(np.arange(2040) % 256, [128] * 8))


def _ramp(first: int, count: int) -> np.ndarray:
    """The first symbol most often; the order goes up from it before it alternates."""
    return first + np.arange(2048) % count


# Clocks from a block's last beat to its plan.
LATENCY = {
    "one symbol": (_ramp(127, 1), 37 + 2),
    "two symbols": (_ramp(100, 2), 37 + 2),
    "13 symbols": (_ramp(100, 13), 37 + 13),
    "15 symbols": (_ramp(100, 15), 37 + 15),
    "15 symbols and a pair": (_ramp(100, 17), 37 + 17),
    "15 symbols and two pairs": (_ramp(100, 19), 37 + 19),
    "15 symbols and four pairs of one side": (_ramp(1, 23), 57),
    "more symbols": (_ramp(96, 32), 57),
    "a partial beat": (_ramp(100, 13)[:-1], 37 + 13 + 8),
    "two groups": (_ramp(96, 64), 57 + 8),
    "all groups": (WIDE, 57 + 7 * 8),
    "all groups, one side": (WIDE * (WIDE != 128), 58 + 7 * 8),
}


@pytest.mark.parametrize("kind", LATENCY)
def test_latency(alone: Analyzer, kind: str) -> None:
    symbol, clocks = LATENCY[kind]
    block = _uniform(symbol)
    # The memories are cleared after a reset, so the second block is the one to look at.
    start = alone.dut.clocks + 600
    alone.run([block, block], not_before=[0] * 64 + [start] * 64)
    assert alone.sent.clocks[127] - alone.sent.clocks[64] == 63
    assert alone.plans.clocks[1] - alone.sent.clocks[127] == clocks


def test_rate(alone: Analyzer) -> None:
    """Clocks a block, back to back."""
    for symbol, clocks in (
        (NEAR, 64),
        (WIDE, 66),
        (NEAR[:512], 16),
        (NEAR[:32], 14),
        (WIDE[:32], 64),
        (_ramp(100, 15)[:512], 18),
    ):
        blocks = [_uniform(symbol)] * 24
        alone.run(blocks)
        check(alone, blocks)
        assert np.diff(alone.plans.clocks[4:]).mean() <= clocks


def test_rate_of_blocks_as_they_are(alone: Analyzer) -> None:
    """A beat a clock: not to be coded, too short by the policy, too short to gain."""
    beat = make.with_symbols(NEAR[:32], ElementType.BF16)
    for data, code, min_bytes in ((beat, False, 0), (beat, True, 65), (beat[:32], True, 0)):
        blocks = [Block(data, ElementType.BF16, code=code)] * 99
        alone.run(blocks, bare=True, min_bytes=min_bytes)
        check(alone, blocks)
        assert set(np.diff(alone.plans.clocks)) == {1}
