# SPDX-License-Identifier: Apache-2.0
"""wz_order and its parts against the reference's order and the coders' sums."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from codec.elements import ElementType
from tests.rtl import blocks as make
from tests.rtl import first_pass
from tests.rtl.blocks import ALL_TYPES, Block, symbols
from tests.rtl.dut import Dut, Integers, Sink, Source
from tests.rtl.structs import pack, unpack

BF16_ALONE = 0b000010
# From a block's last word to its order and to its range.
TWO_SIDES, ONE_SIDE = (33, 38), (34, 39)


def _few(steps: int) -> tuple[int, int]:
    """Where the list has all values after up to 15 steps."""
    return 13 + steps, 7 + steps


@pytest.fixture(scope="module", params=[ALL_TYPES, BF16_ALONE])
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    wrapper = Path(__file__).with_name("order_fed.sv")
    return Dut("order_fed", parameters={"TYPES": types}, extra=[wrapper])


class Run:
    """Blocks through the module."""

    def __init__(
        self, dut: Dut, types: int, blocks: Sequence[Block], stalls: tuple[float, float] = (0, 0)
    ) -> None:
        dut.reset()
        self.words = Source("s", **_words(blocks, types), stall=stalls[0], burst=9)
        shapes = [pack(first_pass.SHAPE, **first_pass.shape(block)) for block in blocks]
        shape = Source("s_shape", tdata=shapes, stall=stalls[0], burst=20)
        self.orders = Sink("m_order", stall=stalls[1], burst=30)
        self.ranges = Sink("m_range", stall=stalls[1], burst=30)
        self.table = Sink("table", fields=("bank", "symbol", "step"), valid="we", ready=None)
        dut.stream(self.words, shape, self.orders, self.ranges, self.table, seed=4)
        self.check(blocks)

    def check(self, blocks: Sequence[Block]) -> None:
        orders, ranges = self.orders.integers("tdata"), self.ranges.integers("tdata")
        assert len(orders) == len(blocks)
        ranked = [i for i, block in enumerate(blocks) if first_pass.shape(block)["ranked"]]
        assert len(ranges) == len(ranked)
        memory = np.full((4, 32), -1)
        at = 0
        for i, block in enumerate(blocks):
            where = f"block {i}: {block.element.name}"
            got = unpack(orders[i], first_pass.ORDER)
            bank = got["bank"]
            wanted = first_pass.order(block)
            assert got | {"bank": 0} == wanted | {"bank": 0}, where
            if not first_pass.shape(block)["ranked"]:
                continue
            number = ranked.index(i)
            while at < len(self.table) and self.table.clocks[at] <= self.ranges.clocks[number]:
                write = (self.table["bank"][at], self.table["symbol"][at])
                memory[write] = self.table["step"][at]
                at += 1
            interval = unpack(ranges[number], first_pass.RANGE)
            present = set(symbols(first_pass.stored(block), block.element).tolist()) - {0}
            both = zip(first_pass.spans(wanted), first_pass.ranges(block, wanted), strict=True)
            for name, symbols_ranked in both:
                low, high = interval[f"{name}_lo"], interval[f"{name}_hi"]
                inside = {symbol for symbol in present if low <= symbol <= high}
                assert inside == present & set(symbols_ranked), where
                for step, symbol in enumerate(symbols_ranked):
                    if symbol in present:
                        assert memory[bank, symbol % 32] == step, where


def _words(blocks: Sequence[Block], types: int) -> dict[str, Integers]:
    """What wz_histogram gives: words of the groups in which symbols lie."""
    bits = 12 if types == BF16_ALONE else 13
    rows = []
    for block in blocks:
        counts = np.zeros(256, np.int64)
        if block.code and block.element != ElementType.RAW:
            counts += np.bincount(symbols(block.values, block.element), minlength=256)
        groups = [g for g in range(8) if counts[32 * g : 32 * g + 32].any()]
        words = [8 * g + i for g in groups for i in range(8)] or [0]
        mask = sum(1 << g for g in groups)
        for word in words:
            packed = sum(int(counts[4 * word + i]) << bits * i for i in range(4))
            rows.append((word == words[0], word == words[-1], word, mask, packed))
    first, last, word, groups, packed = zip(*rows, strict=True)
    return {"first": first, "last": last, "word": word, "groups": groups, "counts": packed}


def _blocks(types: int, count: int, seed: int, longest: int = 4096) -> list[Block]:
    tags = [tag for tag in ElementType if types >> tag & 1]
    found = [b for tag in tags for b in make.blocks(tag, count, seed, longest=longest)]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order]


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0), (0, 0.8)])
def test_orders(dut: Dut, types: int, stalls: tuple[float, float]) -> None:
    Run(dut, types, [*_blocks(types, 12, 1), *_blocks(types, 50, 2, 300)], stalls)


def _spread(rng: np.random.Generator, base: int, top: int, element: ElementType) -> Block:
    """Falling counts on either side of the base, with ties, gaps and strays."""
    count = 2048 // element.width_bytes
    distance = rng.geometric(rng.choice([0.05, 0.1, 0.3]), count)
    symbol = base + distance * rng.choice([-1, 1], count)
    symbol[rng.random(count) < 0.3] = base
    symbol = np.where((symbol < 0) | (symbol > top), rng.integers(0, top + 1, count), symbol)
    return Block(make.with_symbols(symbol.astype(np.int64), element), element)


def test_ends_of_the_symbols(dut: Dut, types: int) -> None:
    """Bases near either end, where the walk has one side alone."""
    rng = np.random.default_rng(3)
    blocks = []
    for tag in ElementType:
        if tag != ElementType.RAW and types >> tag & 1:
            top = (1 << tag.layout.exponent_bits) - 1
            for base in {
                *range(0, min(top, 33), 3),
                1,
                2,
                14,
                15,
                16,
                *range(max(1, top - 31), top + 1, 3),
                top,
            }:
                if base <= top:
                    blocks.append(_spread(rng, base, top, tag))
    Run(dut, types, blocks)


def test_zero_ranks(dut: Dut, types: int) -> None:
    """Symbol 0 at every rank, by ties and without."""
    blocks = []
    element = ElementType.BF16
    for zeros in range(1, 40):
        counts = {0: zeros} | {100 + i: 2 + 2 * i for i in range(17)}
        symbol = np.repeat(list(counts), list(counts.values()))
        blocks.append(Block(make.with_symbols(symbol, element), element))
    Run(dut, types, blocks)
    ranks = {first_pass.order(block)["zero_rank"] for block in blocks}
    assert ranks == set(range(16))


def _latency(run: Run, number: int) -> tuple[int, int]:
    """From the last word of a block to its order and its range."""
    last = np.flatnonzero(run.words.fields["last"])[number]
    clock = run.words.clocks[last]
    return run.orders.clocks[number] - clock, run.ranges.clocks[number] - clock


def _one(counts: NDArray[np.int64]) -> Block:
    symbol = np.repeat(np.arange(256), counts)
    return Block(make.with_symbols(symbol, ElementType.BF16), ElementType.BF16)


def test_clocks(dut: Dut, types: int) -> None:
    counts = np.full(256, 8)
    counts[0] = 0
    one_sided, two_sided = _one(counts), _one(counts + (np.arange(256) == 128))
    for block, clocks in ((two_sided, TWO_SIDES), (one_sided, ONE_SIDE)):
        assert _latency(Run(dut, types, [block]), 0) == clocks
    # Blocks back to back: the words set the pace.
    run = Run(dut, types, [two_sided, one_sided] * 4)
    assert np.diff(run.orders.clocks).max() <= 64 + 2


@pytest.mark.parametrize("symbols_found", [1, 2, 3, 6, 9, 13, 14, 15])
def test_clocks_of_few_symbols(dut: Dut, types: int, symbols_found: int) -> None:
    """A walk ends when it has all values, and the next runs while its order is worked out."""
    block = _one(np.bincount(100 + np.arange(2000) % symbols_found, minlength=256))
    run = Run(dut, types, [block] * 20)
    steps = max(2, symbols_found)
    assert _latency(Run(dut, types, [block]), 0) == _few(steps)
    assert np.diff(run.orders.clocks[4:]).max() <= max(10, steps + 3)


@pytest.mark.parametrize(("symbols_found", "clocks"), [(16, 24), (17, 26), (19, 30), (31, 34)])
def test_rate_of_pairs(dut: Dut, types: int, symbols_found: int, clocks: int) -> None:
    """Behind step 14 the table sets the pace."""
    block = _one(np.bincount(100 + np.arange(2000) % symbols_found, minlength=256))
    assert np.diff(Run(dut, types, [block] * 20).orders.clocks[4:]).max() == clocks


def test_reset_in_a_walk(dut: Dut, types: int) -> None:
    blocks = _blocks(types, 8, 9)
    words = _words(blocks, types)
    shapes = [pack(first_pass.SHAPE, **first_pass.shape(block)) for block in blocks]
    for clocks in (20, 45, 77):
        dut.reset()
        sinks = Sink("m_order"), Sink("m_range")
        dut.stream(Source("s", **words), Source("s_shape", tdata=shapes), *sinks, clocks=clocks)
        Run(dut, types, blocks)
