# SPDX-License-Identifier: Apache-2.0
"""wz_pack: plans and value beats in, the reference codec's frames out."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from codec.elements import ElementType
from codec.format import Coder
from tests.conformance import blocks
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import Plan, bare_plan, payloads, plan

BENCH = Path(__file__).with_name("pack_bench.sv")
ALL = 0b111111
BF16 = 0b000010
FIELDS = ("tdata", "tkeep", "tlast", "tuser", "mode")


def bench(lanes: int = 32, types: int = ALL) -> Dut:
    dut = Dut("pack_bench", parameters={"LANES": lanes, "TYPES": types}, extra=(BENCH,))
    dut.reset()
    return dut


def run(dut: Dut, plans: Sequence[Plan], *, stall: float = 0.0, seed: int = 1) -> Sink:
    """Pack the blocks and compare every packet."""
    plan_source, beats = sources(plans, stall)
    sink = Sink("m_axis", fields=FIELDS, stall=stall, burst=9)
    dut.stream(plan_source, beats, sink, seed=seed)
    got = payloads(sink["tdata"], sink["tkeep"], sink["tlast"])
    for i, (packet, plan_) in enumerate(zip(got, plans, strict=False)):
        assert packet == plan_.payload, difference(i, packet, plan_)
    assert len(got) == len(plans)
    ends = np.flatnonzero(sink["tlast"])
    assert list(sink["tuser"][ends]) == [plan.fields["coded"] for plan in plans]
    assert list(sink["mode"][ends]) == [plan.fields["mode"] for plan in plans]
    return sink


def sources(plans: Sequence[Plan], stall: float) -> tuple[Source, Source]:
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
    data = np.concatenate([plan.beats for plan in plans])
    return plan_source, Source("s_beat", tdata=data, stall=stall, burst=5)


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


@pytest.fixture(scope="module")
def all_types() -> Dut:
    return Dut("pack_bench", parameters={"LANES": 32, "TYPES": ALL}, extra=(BENCH,))


@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_all_types(all_types: Dut, stall: float) -> None:
    all_types.reset()
    run(all_types, sample(1, 300, elements=list(ElementType), longest=1500), stall=stall)


@pytest.mark.full
def test_full_blocks(all_types: Dut) -> None:
    for seed, stall in ((2, 0.0), (3, 0.1)):
        all_types.reset()
        run(all_types, sample(seed, 120, elements=list(ElementType), longest=4096), stall=stall)


@pytest.mark.full
@pytest.mark.parametrize(("lanes", "types"), [(8, ALL), (16, ALL), (64, ALL), (32, BF16)])
def test_builds(lanes: int, types: int) -> None:
    elements = [element for element in ElementType if types >> element & 1]
    dut = bench(lanes, types)
    for seed, stall in ((4, 0.0), (5, 0.3)):
        dut.reset()
        run(dut, sample(seed, 150, elements=elements, longest=2500), stall=stall)


def test_reset_in_mid_frame(all_types: Dut) -> None:
    plans = sample(6, 40, elements=list(ElementType), longest=600)
    for clocks in (20, 41, 77, 130, 199):
        all_types.reset()
        plan_source, beats = sources(plans, 0.0)
        sink = Sink("m_axis", stall=0.3)
        all_types.stream(plan_source, beats, sink, clocks=clocks)
        all_types.reset()
        run(all_types, plans)


def test_smallest_frames(all_types: Dut) -> None:
    """One word each, also such as no encoder writes."""
    rng = Random(7)
    plans = []
    for _ in range(400):
        element = rng.choice(list(ElementType))
        phase = rng.randrange(element.width_bytes)
        block = blocks.noise(rng, rng.randint(1, 10))
        if rng.random() < 0.5:
            plans.append(bare_plan(block, element, phase))
        else:
            plans.append(plan(block, element, phase, bare=False))
    all_types.reset()
    sink = run(all_types, plans)
    per_frame = (sink.clocks[-1] - sink.clocks[0]) / (len(plans) - 1)
    assert per_frame < 2


def full_block(symbols: Sequence[int], element: ElementType, seed: int) -> Plan:
    """A plan for 4096 bytes of values with these symbols."""
    rng = Random(seed)
    count = 4096 // element.width_bytes
    picked = [symbols[i % len(symbols)] for i in range(count)]
    return plan(blocks.with_symbols(rng, element, picked), element)


def normal(element: ElementType, seed: int) -> Plan:
    rng = Random(seed)
    top = (1 << element.layout.exponent_bits) * 3 // 4
    picked = rng.choices([top - i for i in range(len(blocks.NORMAL))], blocks.NORMAL, k=4096)
    return full_block([max(symbol, 1) for symbol in picked], element, seed)


def bursts(common: int, rare: int, count: int, seed: int) -> Plan:
    """BF16 with `count` times the symbol `rare`, one behind the other."""
    start = Random(seed).randrange(2048 - count)
    symbols = [common] * 2048
    symbols[start : start + count] = [rare] * count
    return full_block(symbols, ElementType.BF16, seed)


def clocks_a_block(dut: Dut, plans: Sequence[Plan]) -> float:
    dut.reset()
    sink = run(dut, plans)
    ends = sink.clocks[np.flatnonzero(sink["tlast"])]
    return float(np.diff(ends)[3:-1].mean())


@pytest.mark.parametrize("element", [ElementType.BF16, ElementType.FP16, ElementType.FP32])
def test_rate(all_types: Dut, element: ElementType) -> None:
    """As many clocks as beats, or as words of the frame."""
    plans = [normal(element, seed) for seed in range(12)]
    assert clocks_a_block(all_types, plans) == 64


def test_rate_of_raw_blocks(all_types: Dut) -> None:
    rng = Random(8)
    noise = [blocks.noise(rng, 4096) for _ in range(12)]
    bare = [bare_plan(block, ElementType.BF16) for block in noise]
    assert clocks_a_block(all_types, bare) == 64
    framed = [plan(block, ElementType.BF16, bare=False) for block in noise]
    assert clocks_a_block(all_types, framed) == 65


def test_rate_of_worst_cases(all_types: Dut) -> None:
    # Codes of 15 bits in a row, as many as the limit of 3 bits a value allows; every escape of a
    # block in a row; a bare zero in every other frame.
    long_codes = [bursts(100, 86, 290, seed) for seed in range(10)]
    assert {p.fields["coder"] for p in long_codes} == {Coder.R0}
    assert max(p.fields["unary_bytes"] for p in long_codes) > 720
    assert clocks_a_block(all_types, long_codes) == 64
    escapes = [bursts(100, 200, 64, seed) for seed in range(10)]
    assert {p.fields["escapes"] for p in escapes} == {64}
    assert clocks_a_block(all_types, escapes) == 64
    zeros = []
    for seed in range(12):
        block = bytearray(normal(ElementType.BF16, seed).block)
        if seed % 2:
            block[100:102] = bytes(2)
        zeros.append(plan(bytes(block), ElementType.BF16))
    assert {p.fields["bare_zeros"] for p in zeros} == {0, 1}
    assert clocks_a_block(all_types, zeros) == 64


def test_latency() -> None:
    """From the plan to the first word, with the beats waiting."""
    dut = Dut("wz_pack")
    for bare_zeros, latency in ((False, 14), (True, 22)):
        made = normal(ElementType.BF16, 1)
        if bare_zeros:
            block = bytearray(made.block)
            block[100:102] = bytes(2)
            made = plan(bytes(block), ElementType.BF16)
        dut.reset()
        for symbol, step in made.steps.items():
            dut["table_we"], dut["table_symbol"], dut["table_step"] = 1, symbol % 32, step
            dut.clock()
        dut["table_we"] = 0
        dut["s_plan_order_lo"], dut["s_plan_order_hi"] = made.order
        plan_source = Source("s_plan", tdata=[made.word])
        beats = Source("s_beat", tdata=made.beats)
        sink = Sink("m_axis", fields=("tdata", "tkeep", "tlast"))
        dut.stream(plan_source, beats, sink)
        assert payloads(sink["tdata"], sink["tkeep"], sink["tlast"]) == [made.payload]
        assert sink.clocks[0] - plan_source.clocks[0] == latency
