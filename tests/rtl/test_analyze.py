# SPDX-License-Identifier: Apache-2.0
"""wz_analyze against the reference encoder: value beats, plans, rank tables, clocks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from codec import format as f
from codec.elements import ElementType
from codec.format import Coder, Mode
from tests.rtl import plans
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import Block

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
    ) -> None:
        """Send blocks; `stalls` of the input, of the outputs, of the freeing of tables."""
        dut = self.dut
        dut["bare"] = bare
        dut.reset()
        self.sent = Source("s_axis", **plans.packets(blocks), stall=stalls[0], burst=9)
        self.beats = Sink("m_beat", stall=stalls[1], burst=9)
        self.plans = Sink(
            "m_plan",
            fields=("tdata", "order_lo", "order_hi", "table_bank"),
            stall=stalls[1],
            burst=99,
        )
        self.table = Sink("table", fields=("bank", "symbol", "step"), valid="we", ready=None)
        self.wanted = [plans.plan(block, bare=bare, built=self.built) for block in blocks]
        ranked = sum(map(_has_table, self.wanted))
        self.released = Source(
            "s_release", token=np.zeros(ranked, np.uint8), stall=stalls[2], burst=199
        )
        streams = [self.sent, self.beats, self.plans, self.table]
        if ranked:
            streams.append(self.released)
        dut.stream(*streams, seed=seed, drain=400)


def _has_table(plan: dict[str, int]) -> bool:
    return plan["mode"] == Mode.CODED and plan["element"] != 0 and plan["stored_values"] > 0


def check(analyzer: Analyzer, blocks: Sequence[Block]) -> None:
    """Everything that came out of the latest run."""
    parts = [plans.shape(_as_built(block, analyzer.built)) for block in blocks]
    beats = b"".join(beat.ljust(64, b"\0") for part in parts for beat in part.beats)
    assert analyzer.beats["tdata"].tobytes() == beats
    got = [plans.unpack(word, "plan_t") for word in analyzer.plans.integers("tdata")]
    assert len(got) == len(blocks)
    for i, (found, wanted) in enumerate(zip(got, analyzer.wanted, strict=True)):
        differing = {k: (found[k], v) for k, v in wanted.items() if found[k] != v}
        assert not differing, f"block {i}: {blocks[i].element.name}: {differing}"
    _check_last_beats(analyzer, parts)
    _check_tables(analyzer, blocks)


def _as_built(block: Block, built: int) -> Block:
    if built >> block.element & 1:
        return block
    tag = min(tag for tag in ElementType if built >> tag & 1)
    return Block(block.data, tag, block.phase % tag.width_bytes, code=False)


def _check_last_beats(analyzer: Analyzer, parts: Sequence[plans.Shape]) -> None:
    """A plan comes after the last beat of its block."""
    ends = np.cumsum([len(part.beats) for part in parts])
    for end, clock in zip(ends, analyzer.plans.clocks, strict=True):
        assert end == 0 or analyzer.beats.clocks[end - 1] < clock


def _check_tables(analyzer: Analyzer, blocks: Sequence[Block]) -> None:
    """Between a plan and the release of its table the table ranks every symbol of the block."""
    table = analyzer.table
    events = list(
        zip(table.clocks, table["bank"], table["symbol"], table["step"], strict=True)
    )
    users = [i for i, plan in enumerate(analyzer.wanted) if _has_table(plan)]
    memory = np.full((2, 32), -1)
    at = 0
    for user, release in zip(users, analyzer.released.clocks, strict=True):
        wanted = analyzer.wanted[user]
        taken = analyzer.plans.clocks[user]
        bank = analyzer.plans["table_bank"][user]
        while at < len(events) and events[at][0] <= taken:
            memory[events[at][1], events[at][2]] = events[at][3]
            at += 1
        for clock, written, _, _ in events[at:]:
            if clock > release:
                break
            assert written != bank
        _check_ranks(
            blocks[user],
            wanted,
            memory[bank],
            int(analyzer.plans["order_lo"][user]),
            int(analyzer.plans["order_hi"][user]),
        )


def _check_ranks(
    block: Block, wanted: dict[str, int], steps: np.ndarray, low: int, high: int
) -> None:
    order = plans.ranks(block, wanted)
    escape = f.CODER_RANKS[Coder(wanted["coder"])]
    zero_rank = wanted["zero_rank"]
    stored = b"".join(
        beat
        for i, beat in enumerate(plans.shape(block).beats)
        if wanted["stored_beats"] >> i & 1
    )
    for symbol in np.unique(plans.symbols(stored, block.element)):
        if symbol == 0:
            rank = escape if zero_rank == f.ZERO_RANK_NONE else zero_rank
        else:
            step = int(steps[symbol % 32])
            rank = step + (zero_rank != f.ZERO_RANK_NONE and step >= zero_rank)
            if rank >= escape or not low <= symbol <= high:
                rank = escape
        assert rank == order.get(int(symbol), escape)


@pytest.fixture(scope="module", params=list(BUILDS))
def analyzer(request: pytest.FixtureRequest) -> Analyzer:
    return Analyzer(request.param)
