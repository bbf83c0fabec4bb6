# SPDX-License-Identifier: Apache-2.0
"""wz_analyze against the reference encoder: value beats, plans, rank tables, clocks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codec.format import CODER_RANKS, ZERO_RANK_NONE, Mode
from tests.rtl import plans
from tests.rtl.blocks import Block, packets, symbols
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import Plan

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
        seed: int = 1,
        not_before: Sequence[int] | None = None,
    ) -> None:
        """Send blocks; `stalls` of the input, of the outputs, of the freeing of tables."""
        dut = self.dut
        dut["bare"] = bare
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
        self.wanted = [block.as_built(self.built).plan(bare=bare) for block in blocks]


def check(analyzer: Analyzer, blocks: Sequence[Block]) -> None:
    """Everything that came out of the latest run."""
    wanted = analyzer.wanted
    assert np.array_equal(analyzer.beats["tdata"], np.concatenate([plan.beats for plan in wanted]))
    got = [plans.unpack(word) for word in analyzer.plans.integers("tdata")]
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
    memory = np.full((2, 32), -1)
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
