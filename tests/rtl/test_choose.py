# SPDX-License-Identifier: Apache-2.0
"""wz_choose against the reference encoder's headers and frame sizes."""

from collections.abc import Sequence

import numpy as np
import pytest

from codec.elements import ElementType
from codec.format import Coder, Mode
from codec.reference import crc32c
from tests.rtl import blocks as make
from tests.rtl import first_pass
from tests.rtl.blocks import ALL_TYPES, Block
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import PLAN
from tests.rtl.structs import pack, unpack

BF16_ALONE = 0b000010
LATENCY = 7
BLOCK_CLOCKS = 8


@pytest.fixture(scope="module", params=[ALL_TYPES, BF16_ALONE])
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    dut = Dut("wz_choose", parameters={"TYPES": types})
    dut["plan_room"] = 1
    return dut


class Run:
    """Blocks through the module."""

    def __init__(
        self,
        dut: Dut,
        blocks: Sequence[Block],
        *,
        bare: bool = False,
        min_bytes: int = 0,
        stalls: tuple[float, float] = (0, 0),
    ) -> None:
        dut.reset()
        dut["bare"] = bare
        policy = {"bare": bare, "min_bytes": min_bytes}
        self.traits = [first_pass.traits(block, **policy) for block in blocks]
        orders = [
            first_pass.order(b, min_bytes=min_bytes) | {"bank": i & 3} for i, b in enumerate(blocks)
        ]
        traits = [pack(first_pass.TRAITS, **found) for found in self.traits]
        states = [crc32c(_padded(block.data)) ^ 0xFFFFFFFF for block in blocks]
        self.order = Source(
            "s_order",
            tdata=[
                pack(first_pass.ORDER, **order)
                for order, found in zip(orders, self.traits, strict=True)
                if found["walked"]
            ],
            stall=stalls[0],
            burst=20,
        )
        self.got = Sink(
            "m_plan",
            fields=("tdata", "order_lo", "order_hi", "table_bank"),
            stall=stalls[1],
            burst=20,
        )
        self.told = Sink("plan", fields=("takes", "uses", "bank"), valid="valid", ready=None)
        ranges = [
            first_pass.ranges(b, o) if o["base"] else ([1], [1])
            for b, o in zip(blocks, orders, strict=True)
        ]
        words = [
            _range(order, *both)
            for order, both, found in zip(orders, ranges, self.traits, strict=True)
            if found["walked"] and found["code"] and order["base"]
        ]
        rest = [
            Source(name, tdata=data, stall=stalls[0], burst=20)
            for name, data in (("s_traits", traits), ("s_range", words), ("s_crc", states))
        ]
        dut.stream(self.order, self.got, self.told, *rest, seed=6, drain=300)
        self._check(blocks, ranges, policy)

    def _check(
        self,
        blocks: Sequence[Block],
        ranges: Sequence[tuple[list[int], list[int]]],
        policy: dict[str, int],
    ) -> None:
        words = self.got.integers("tdata")
        assert len(words) == len(self.told) == len(blocks)
        wanted_plans = [
            block.plan(bare=bool(policy["bare"]), min_bytes=policy["min_bytes"]) for block in blocks
        ]
        self.kinds = make.kinds(wanted_plans)
        for i, block in enumerate(blocks):
            where = f"block {i}: {block.element.name}, {len(block.data)} bytes"
            found, wanted = unpack(words[i], PLAN), wanted_plans[i].fields
            if wanted["mode"] != Mode.CODED:
                wanted = wanted | {"stored_beats": 0}
            assert found == wanted, where
            uses = bool(wanted["base"])
            assert self.told["uses"][i] == uses, where
            shape = first_pass.shape(block, min_bytes=policy["min_bytes"])
            takes = self.traits[i]["walked"] and shape["ranked"]
            assert self.told["takes"][i] == takes, where
            assert self.told["bank"][i] == self.got["table_bank"][i] or not uses, where
            if uses:
                ranked = ranges[i][wanted["coder"] == Coder.R2]
                assert self.got["order_lo"][i] == min(ranked), where
                assert self.got["order_hi"][i] == max(ranked), where


def _range(order: dict[str, int], short: list[int], long: list[int]) -> int:
    """`range_t`, of no meaning in the intervals that do not hold for the order."""
    fields = dict.fromkeys(first_pass.RANGE, 0xA5)
    for name, ranked in zip(first_pass.spans(order), (short, long), strict=True):
        fields |= {f"{name}_lo": min(ranked), f"{name}_hi": max(ranked)}
    return pack(first_pass.RANGE, **fields)


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // 64) * 64, b"\0")


def _blocks(types: int, count: int, seed: int, longest: int = 4096) -> list[Block]:
    tags = [tag for tag in ElementType if types >> tag & 1]
    found = [b for tag in tags for b in make.blocks(tag, count, seed, longest=longest)]
    order = np.random.default_rng(seed).permutation(len(found))
    return [found[i] for i in order]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("min_bytes", [0, 100])
@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0), (0, 0.7)])
def test_plans(
    dut: Dut, types: int, stalls: tuple[float, float], bare: bool, min_bytes: int
) -> None:
    blocks = [*_blocks(types, 15, 1), *_blocks(types, 60, 2, 300)]
    run = Run(dut, blocks, bare=bare, min_bytes=min_bytes, stalls=stalls)
    wanted = {"R0", "R1", "R2", "CONSTANT", "BARE", "bitmap", "sign_flag", "bare_zeros", "escapes"}
    assert wanted <= {kind for kind, count in run.kinds.items() if count}


def test_limits(dut: Dut, types: int) -> None:
    """Escapes around one in 32, and unary sections around 3 bits a value."""
    element = ElementType.BF16
    blocks = []
    for count in (32, 33, 64, 65, 500, 2048):
        allowed = -(-count // 32)
        for escapes in range(max(0, allowed - 1), allowed + 2):
            symbol = np.full(count, 100)
            symbol[: count // 3] = 101
            symbol[count - escapes :] = 200
            blocks.append(Block(make.with_symbols(symbol, element), element))
        for spread in range(2, 31):
            symbol = 100 + np.arange(count) % spread
            blocks.append(Block(make.with_symbols(symbol, element), element))
    run = Run(dut, blocks)
    assert run.kinds["RAW"]
    assert run.kinds["R2"]
    assert run.kinds["escapes"]


def test_clocks(dut: Dut, types: int) -> None:
    blocks = [b for b in make.blocks(ElementType.BF16, 20, 5, longest=200) if b.code]
    run = Run(dut, blocks)
    assert run.got.clocks[0] == run.order.clocks[0] + LATENCY
    assert set(np.diff(run.got.clocks)) == {BLOCK_CLOCKS}
    # Without a walk, and without being coded at all.
    run = Run(dut, [Block(bytes(20), ElementType.BF16)] * 9, bare=True)
    assert set(np.diff(run.got.clocks)) == {BLOCK_CLOCKS}
    run = Run(dut, [Block(bytes(range(20)), ElementType.BF16)] * 9, bare=True)
    assert set(np.diff(run.got.clocks)) == {1}


def test_no_room_holds_plans(dut: Dut, types: int) -> None:
    blocks = make.blocks(ElementType.BF16, 3, 6, longest=200)
    dut["plan_room"] = 0
    try:
        with pytest.raises(AssertionError):
            Run(dut, blocks)
    finally:
        dut["plan_room"] = 1
    Run(dut, blocks)
