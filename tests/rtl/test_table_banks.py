# SPDX-License-Identifier: Apache-2.0
"""wz_table_banks: a bank is free when no walk and no plan in the second pass has it."""

from collections import deque
from random import Random

from tests.rtl.dut import Dut

PLANS = 16


def test_banks_are_handed_out_and_come_back() -> None:
    dut = Dut("wz_table_banks", parameters={"PLANS": PLANS})
    dut.reset()
    rng = Random("banks")
    taken: deque[int] = deque()  # by walks whose plan has not left
    sent: deque[int | None] = deque()  # plans that are not released: the bank that each uses
    busy = [False] * 4
    waited = {True: 0, False: 0}
    for clock in range(20_000):
        # Long stretches in which the second pass is slow, and such in which it is not.
        slow = clock // 500 % 2
        dut["s_take"] = take = int(dut["m_free"] and rng.random() < 0.4)
        if take:
            bank = dut["m_bank"]
            assert not busy[bank]
            busy[bank] = True
        dut["s_plan_valid"] = plan = int(dut["m_plan_room"] and rng.random() < 0.3)
        takes = bool(plan and taken and rng.random() < 0.7)
        uses = takes and rng.random() < 0.7
        dut["s_plan_takes"], dut["s_plan_uses"] = takes, uses
        dut["s_plan_bank"] = taken[0] if takes else rng.getrandbits(2)
        dut["s_release"] = release = int(bool(sent) and rng.random() < (0.02 if slow else 0.5))
        if release:
            released = sent.popleft()
            if released is not None:
                busy[released] = False
        if plan:
            sent.append(taken[0] if uses else None)
        if takes:
            bank = taken.popleft()
            if not uses:
                busy[bank] = False
        if take:
            taken.append(dut["m_bank"])
        dut.clock()
        # A bank that is free is said to be so soon; one that is not, never.
        free = not all(busy)
        assert free or not dut["m_free"]
        waited[True] = waited[True] + 1 if free and not dut["m_free"] else 0
        assert waited[True] <= 4
        waited[False] = waited[False] + 1 if len(sent) < PLANS - 3 and not dut["m_plan_room"] else 0
        assert waited[False] <= 4
        assert len(sent) <= PLANS
    dut.reset()
    dut["s_take"] = dut["s_plan_valid"] = dut["s_release"] = 0
    dut.clock()
    assert dut["m_free"]
    assert dut["m_plan_room"]
