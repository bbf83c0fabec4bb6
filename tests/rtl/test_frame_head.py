# SPDX-License-Identifier: Apache-2.0
"""wz_frame_head: first bytes and layouts of frames, against the reference codec's."""

from random import Random

import numpy as np
import pytest

from codec.elements import ElementType
from codec.format import Mode
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.layouts import Layout, without_places_of_nothing
from tests.rtl.plans import Plan
from tests.rtl.test_pack import sample

HEAD_BYTES = 48
LATENCY = 6


def first_bytes(plan: Plan) -> bytes:
    """What precedes the sections."""
    fields = plan.fields
    if not fields["coded"]:
        return plan.payload[: fields["head_bytes"]]
    if fields["mode"] == Mode.RAW:
        return plan.payload[: 8 + fields["head_bytes"]]
    if fields["mode"] == Mode.CONSTANT:
        return plan.payload
    return plan.payload[: 16 + fields["extras_bytes"]]


def layout(plan: Plan) -> Layout:
    fields = plan.fields
    size = len(plan.payload)
    places = {}
    if not fields["coded"] or fields["mode"] == Mode.RAW:
        places["remainders"] = range(len(first_bytes(plan)), size)
    elif fields["mode"] == Mode.CODED:
        at = 16 + fields["extras_bytes"]
        for name, count in (
            ("remainders", fields["remainder_bytes"]),
            ("low", fields["low_bytes"]),
            ("unary", fields["unary_bytes"]),
        ):
            at = -(-at // 16) * 16
            places[name] = range(at, at + count)
            at += count
        places["escapes"] = range(at, at + fields["escapes"])
        assert places["escapes"].stop == size or not fields["escapes"]
    return Layout(size, fields["coded"], Mode(fields["mode"]), places)


def check(plans: list[Plan], stall: float) -> None:
    dut = Dut("wz_frame_head")
    dut.reset()
    sent = Source("s", plan=[plan.word for plan in plans], valid="valid", ready=None, stall=stall)
    got = Sink("m", fields=("head", "layout"), valid="valid", ready=None)
    dut.stream(sent, got, seed=2)
    assert np.array_equal(got.clocks, sent.clocks + LATENCY)
    for plan, head, found in zip(plans, got["head"], got.integers("layout"), strict=True):
        expected = first_bytes(plan)
        assert head.tobytes() == expected + bytes(HEAD_BYTES - len(expected)), plan.fields
        assert without_places_of_nothing(found) == layout(plan).word, plan.fields


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_frames(stall: float) -> None:
    """Plans a clock, coded, constant, raw and not coded."""
    plans = sample(7, 120, elements=list(ElementType), longest=600)
    assert {plan.fields["mode"] for plan in plans} == set(Mode) - {Mode.REFERENCE}
    check(plans, stall)


@pytest.mark.full
def test_full_blocks() -> None:
    check(sample(8, 300, elements=list(ElementType), longest=4096), 0.0)


def test_lengths() -> None:
    """Every length of the first bytes."""
    rng = Random(9)
    plans = [
        plan
        for seed in range(3)
        for plan in sample(rng.getrandbits(30) + seed, 60, elements=list(ElementType), longest=130)
    ]
    check(plans, 0.0)
