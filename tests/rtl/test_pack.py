# SPDX-License-Identifier: Apache-2.0
"""wz_pack: plans and value beats in, the reference codec's frames out."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from codec.elements import ElementType
from tests.conformance import blocks
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import Plan, payloads, plan

BENCH = Path(__file__).with_name("pack_bench.sv")
ALL = 0b111111
BF16 = 0b000010


def bench(lanes: int = 32, types: int = ALL) -> Dut:
    dut = Dut("pack_bench", parameters={"LANES": lanes, "TYPES": types}, extra=(BENCH,))
    dut.reset()
    return dut


def run(dut: Dut, plans: Sequence[Plan], *, stall: float = 0.0, seed: int = 1) -> Sink:
    """Pack the blocks and compare every packet."""
    steps = [
        sum(step << 5 * (symbol % 32) for symbol, step in plan.steps.items()) for plan in plans
    ]
    plan_source = Source(
        "s_plan",
        tdata=[plan.word for plan in plans],
        order_lo=[plan.order[0] for plan in plans],
        order_hi=[plan.order[1] for plan in plans],
        steps=steps,
        ranked=[bool(plan.steps) for plan in plans],
        stall=stall,
        burst=9,
    )
    beats = Source(
        "s_beat", tdata=np.concatenate([plan.beats for plan in plans]), stall=stall, burst=5
    )
    sink = Sink("m_axis", fields=("tdata", "tkeep", "tlast", "tuser", "mode"), stall=stall, burst=9)
    dut.stream(plan_source, beats, sink, seed=seed)
    got = payloads(sink["tdata"], sink["tkeep"], sink["tlast"])
    for i, (packet, plan_) in enumerate(zip(got, plans, strict=False)):
        assert packet == plan_.payload, difference(i, packet, plan_)
    assert len(got) == len(plans)
    ends = np.flatnonzero(sink["tlast"])
    assert list(sink["tuser"][ends]) == [plan.fields["coded"] for plan in plans]
    assert list(sink["mode"][ends]) == [plan.fields["mode"] for plan in plans]
    return sink


def difference(number: int, packet: bytes, plan_: Plan) -> str:
    expected = plan_.payload
    at = next(
        (i for i, (a, b) in enumerate(zip(packet, expected, strict=False)) if a != b),
        min(len(packet), len(expected)),
    )
    fields = {name: value for name, value in plan_.fields.items() if value and name != "header"}
    return (
        f"packet {number}: {len(packet)} bytes, expected {len(expected)}; byte {at} differs: "
        f"{packet[at : at + 16].hex(' ')} for {expected[at : at + 16].hex(' ')}; {fields}"
    )


def mixed(rng: Random, element: ElementType, length: int, phase: int) -> bytes:
    """A block like a tensor's, with some of the features that a plan can have."""
    count = length // element.width_bytes + 1
    layout = element.layout
    if element == ElementType.RAW:
        choices = [rng.getrandbits(8) for _ in range(rng.choice([1, 2, 200]))]
        body = bytearray(rng.choice(choices) for _ in range(count))
    else:
        top = rng.randint(1, (1 << layout.exponent_bits) - 1)
        spread = rng.choice([0.3, 1, 2, 5, 40])
        low = rng.choice([0, 0, 1])
        symbols = [
            min(max(top - int(rng.expovariate(1 / spread)), low), (1 << layout.exponent_bits) - 1)
            for _ in range(count)
        ]
        sign = rng.choice([None, None, 0, 1])
        clear = rng.choice([0, 0, 0xFF, 0xFF00, 0x7FFFFF]) & (1 << layout.mantissa_bits) - 1
        body = bytearray(blocks.with_symbols(rng, element, symbols, sign=sign, clear=clear))
        if rng.random() < 0.6:  # zeros that need no remainder
            width = element.width_bytes
            share = rng.choice([0.001, 0.05, 0.5, 0.95])
            for i, symbol in enumerate(symbols):
                if symbol == 0 or rng.random() < share:
                    body[i * width : (i + 1) * width] = bytes(width)
    if rng.random() < 0.3:
        for start in range(0, len(body), 64):
            if rng.random() < 0.3:
                body[start : start + 64] = bytes(len(body[start : start + 64]))
    return (blocks.noise(rng, phase) + bytes(body))[:length]


def sample(seed: int, count: int, *, elements: Sequence[ElementType], longest: int) -> list[Plan]:
    rng = Random(seed)
    out = []
    for _ in range(count):
        element = rng.choice(elements)
        phase = rng.randrange(element.width_bytes)
        length = rng.choice([rng.randint(1, 80), rng.randint(1, longest), longest])
        kind = rng.random()
        if kind < 0.1:
            block = blocks.noise(rng, length)
        elif kind < 0.15:
            block = (blocks.noise(rng, element.width_bytes) * length)[:length]
        else:
            block = mixed(rng, element, length, phase)
        out.append(plan(block, element, phase, bare=rng.random() < 0.7))
    return out


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_all_types(stall: float) -> None:
    plans = sample(1, 150, elements=list(ElementType), longest=1500)
    run(bench(), plans, stall=stall)
