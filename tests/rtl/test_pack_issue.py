# SPDX-License-Identifier: Apache-2.0
"""wz_pack_issue: what it hands out of plans and beats, when, and the clocks it leaves free."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from codec.elements import ElementType
from codec.format import Coder, Mode
from tests.rtl import rows
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import Plan
from tests.rtl.test_pack import normal, sample

LATENCY = 3
BEAT = ("m_data", "m_count", "first", "last", "m_record", "m_drop")
GROUP = ("m_data", "m_group", "count", "first", "last", "m_codes")


class Expected:
    """What leaves for one plan: beats to the remainder path, groups to the symbol path."""

    def __init__(self, plan: Plan, bank: int, lanes: int) -> None:
        fields = plan.fields
        self.plan = plan
        self.element = ElementType(fields["element"])
        self.coded = bool(fields["coded"]) and fields["mode"] == Mode.CODED
        self.raw = not fields["coded"] or fields["mode"] == Mode.RAW
        self.beats: list[tuple[Any, ...]] = []
        self.groups: list[tuple[Any, ...]] = []
        width = self.element.width_bytes
        per_beat = 64 // width
        counts = [
            min(per_beat, fields["values"] - at) for at in range(0, fields["values"], per_beat)
        ]
        if not self.coded:
            stored = list(range(len(counts))) if self.raw else []
        else:
            stored = [i for i in range(len(counts)) if fields["stored_beats"] >> i & 1]
        self._places()
        record = rows.record(
            raw=self.raw,
            kind=1 << self.element,
            sign_flag=fields["sign_flag"],
            plane_flags=fields["plane_flags"],
            start=self.starts["remainders"] % 64,
        )
        drop = self.coded and fields["bare_zeros"] != 0
        tail = fields["tail_bytes"] if self.raw else 0
        if self.raw or (self.coded and fields["remainder_bytes"]):
            for number, i in enumerate(stored):
                last = i == stored[-1] and not tail
                count = counts[i] * (width if self.raw else 1)
                data = plan.beats[i].tobytes()
                self.beats.append((data, count, number == 0, last, record, drop))
        if tail:
            data = fields["tail"].to_bytes(3, "little")[:tail]
            self.beats.append((data, tail, not stored, True, record, drop))
        if self.coded and self.element.layout.exponent_bits:
            codes = self._codes(bank)
            for i in stored:
                parts = range(0, counts[i], lanes)
                for number, at in enumerate(parts):
                    first = i == stored[0] and at == 0
                    last = i == stored[-1] and at == parts[-1]
                    count = min(lanes, counts[i] - at)
                    self.groups.append((plan.beats[i].tobytes(), number, count, first, last, codes))

    def _places(self) -> None:
        fields = self.plan.fields
        self.starts = {}
        if not self.coded:
            self.starts["remainders"] = fields["head_bytes"] + 8 * fields["coded"]
            return
        at = 16 + fields["extras_bytes"]
        for name, size in (
            ("remainders", fields["remainder_bytes"]),
            ("low", fields["low_bytes"]),
            ("unary", fields["unary_bytes"]),
        ):
            at = -(-at // 16) * 16
            self.starts[name] = at
            at += size
        self.starts["escapes"] = at

    def _codes(self, bank: int) -> int:
        fields = self.plan.fields
        return rows.codes(
            element=self.element,
            coder=fields["coder"],
            bank=bank,
            order_lo=self.plan.order[0],
            order_hi=self.plan.order[1],
            zero_rank=fields["zero_rank"],
            low_start=self.starts["low"] // 16 % 4,
            unary_start=self.starts["unary"] // 16 % 4,
            unary_any=fields["unary_bytes"] != 0,
            escape_start=self.starts["escapes"] % 64,
            escapes=fields["escapes"],
        )

    @property
    def parts(self) -> int:
        """Chunks of the last record, if it is partial: clocks that wz_record needs for it."""
        fields = self.plan.fields
        if not self.coded or fields["carriers"] % (64 // self.element.width_bytes) == 0:
            return 1
        planes, tops = divmod(self.element.layout.remainder_bits - fields["sign_flag"], 8)
        return max(1, planes - fields["plane_flags"].bit_count() + (tops != 0))


def run(
    dut: Dut, plans: Sequence[Plan], lanes: int, *, stall: float = 0.0, seed: int = 1
) -> tuple[Source, Sink, Sink, list[Expected]]:
    """Hand out all of `plans`, and compare."""
    rng = np.random.default_rng(seed)
    banks = [int(bank) for bank in rng.integers(0, 4, len(plans))]
    expected = [Expected(one, bank, lanes) for one, bank in zip(plans, banks, strict=True)]
    length = 200 + 6 * sum(len(one.beats) + len(one.groups) + 20 for one in expected)
    go = rng.random(length) >= stall
    idle = rng.random(length) >= stall
    options: dict[str, Any] = {"valid": "valid", "ready": "ready", "burst": 4}
    sent = Source(
        "s_plan",
        s_plan=[one.word for one in plans],
        s_order_lo=[one.order[0] for one in plans],
        s_order_hi=[one.order[1] for one in plans],
        s_bank=banks,
        stall=stall / 4,
        **options,
    )
    data = np.concatenate([one.beats for one in plans])
    fetched = Source("s_beat", s_beat=data, stall=stall / 4, **options)
    beats = Sink("m_beat", fields=(*BEAT, "m_network"), valid="valid", ready=None)
    groups = Sink("m_group", fields=GROUP, valid="valid", ready=None)
    released = Sink("m", fields=("m_drop",), valid="release", ready=None)
    begin = dut.clocks
    dut.stream(
        sent,
        fetched,
        Source("go", go=go, valid=None, ready=None),
        Source("network", network_idle=idle, valid=None, ready=None),
        beats,
        groups,
        released,
        seed=seed,
    )
    assert len(released) == len(plans)
    wanted = [row for one in expected for row in one.beats]
    found = _table(beats, BEAT)
    assert len(found) == len(wanted)
    for left, right in zip(found, wanted, strict=True):
        assert (left[0][: len(right[0])], *left[1:]) == right
    assert _table(groups, GROUP) == [row for one in expected for row in one.groups]
    # One beat or group follows `go` at most.
    for sink in (beats, groups):
        assert go[sink.clocks - 1 - begin].all()
    _check_ends(expected, beats, groups)
    return sent, beats, groups, expected


def _table(sink: Sink, fields: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = [
        [row.tobytes() for row in sink[name]] if name == "m_data" else sink.integers(name)
        for name in fields
    ]
    return list(zip(*columns, strict=True))


def _check_ends(expected: Sequence[Expected], beats: Sink, groups: Sink) -> None:
    """Clocks between frames, and the ways that they may take."""
    at = 0
    for one in expected:
        network = beats["m_network"][at : at + len(one.beats)]
        if one.raw:
            assert not network.any()
        elif one.plan.fields["bare_zeros"]:
            assert network.all()
        assert len(set(network)) <= 1
        at += len(one.beats)
        if one.beats and at < len(beats):
            assert beats.clocks[at] - beats.clocks[at - 1] >= one.parts
    at = 0
    for one in expected:
        fields = one.plan.fields
        at += len(one.groups)
        if one.groups and at < len(groups) and fields["coder"] == Coder.R0:
            # Its last codes may need a write of their own.
            free = fields["escapes"] >= 16
            assert groups.clocks[at] - groups.clocks[at - 1] >= 1 + free


@pytest.fixture(
    scope="module", params=[32, *(pytest.param(n, marks=pytest.mark.full) for n in (8, 64))]
)
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_pack_issue", parameters={"LANES": lanes})


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_any_blocks(dut: Dut, lanes: int, stall: float) -> None:
    dut.reset()
    plans = sample(11, 80, elements=list(ElementType), longest=1000)
    run(dut, plans, lanes, stall=stall, seed=3)


def test_beat_a_clock(dut: Dut, lanes: int) -> None:
    """Across frames too, and three clocks from a plan."""
    dut.reset()
    plans = [normal(ElementType.BF16, seed) for seed in range(6)]
    assert not any(
        one.fields["coder"] == Coder.R0 or one.fields["bare_zeros"] or one.fields["bitmap"]
        for one in plans
    )
    sent, beats, groups, expected = run(dut, plans, lanes)
    clocks = max(1, 32 // lanes)
    assert np.array_equal(np.diff(beats.clocks), np.full(len(beats) - 1, clocks))
    assert np.array_equal(np.diff(groups.clocks), np.ones(len(groups) - 1))
    assert beats.clocks[0] == sent.clocks[0] + LATENCY
    assert len(beats) == 64 * len(expected)


def test_reset_in_mid_frame(dut: Dut, lanes: int) -> None:
    plans = sample(12, 12, elements=list(ElementType), longest=600)
    data = np.concatenate([one.beats for one in plans])
    for clocks in (2, 11, 40):
        dut.reset()
        dut["go"] = 1
        dut["network_idle"] = 1
        dut.stream(
            Source("s_plan", s_plan=[one.word for one in plans], valid="valid", ready="ready"),
            Source("s_beat", s_beat=data, valid="valid", ready="ready"),
            clocks=clocks,
        )
        dut.reset()
        run(dut, plans, lanes)
