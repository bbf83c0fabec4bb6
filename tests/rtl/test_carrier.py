# SPDX-License-Identifier: Apache-2.0
"""wz_carrier: carriers close up, beats without bare zeros pass."""

from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from tests.rtl import rows
from tests.rtl.dut import Dut, Sink, Source

Beat = tuple[bytes, int, int, int, int, int]  # data, count, first, last, record, drop
NETWORK = {0: 6, 1: 5, 2: 4}  # by log2 of the narrowest element's bytes


def frame(rng: Random, element: ElementType, share: float) -> tuple[list[Beat], list[int]]:
    """Beats of a frame with bare zeros, and its carriers."""
    per_beat = 64 // element.width_bytes
    count = rng.choice([per_beat * rng.randint(1, 4), rng.randint(1, 5 * per_beat)])
    symbols = element.layout.exponent_bits
    values = []
    for _ in range(count):
        value = rng.getrandbits(8 * element.width_bytes) | 1 << element.layout.mantissa_bits
        values.append(0 if rng.random() < share else value)
    assert symbols
    config = rows.record(kind=1 << element, start=rng.randrange(64))
    groups = [values[i : i + per_beat] for i in range(0, count, per_beat)]
    beats = []
    for i, group in enumerate(groups):
        data = b"".join(v.to_bytes(element.width_bytes, "little") for v in group).ljust(64, b"\0")
        beats.append((data, len(group), int(i == 0), int(i == len(groups) - 1), config, 1))
    carriers = [v for v in values if reference._split(v, element)[0]]
    return beats, carriers


@pytest.mark.parametrize("types", [0b111111, 0b000010, 0b001000])
def test_carriers_close_up(types: int) -> None:
    rng = Random(types)
    elements = [e for e in ElementType if types >> e & 1 and e.layout.exponent_bits]
    sent: list[Beat] = []
    expected: list[tuple[ElementType, list[int]]] = []
    for _ in range(300):
        element = rng.choice(elements)
        beats, carriers = frame(rng, element, rng.choice([0.0, 0.01, 0.3, 0.9, 1.0]))
        sent += beats
        expected.append((element, carriers))
    dut = Dut("wz_carrier", parameters={"TYPES": types})
    dut.reset()
    dut["s_network"] = 1
    columns = list(zip(*sent, strict=True))
    source = Source(
        "s",
        data=np.frombuffer(b"".join(columns[0]), np.uint8).reshape(-1, 64),
        count=columns[1],
        first=columns[2],
        last=columns[3],
        record=columns[4],
        drop=columns[5],
        valid="valid",
        ready=None,
        stall=0.1,
    )
    sink = Sink("m", fields=("data", "count", "first", "last", "record"), valid="valid", ready=None)
    dut.stream(source, sink, drain=20)
    at = 0
    for element, carriers in expected:
        width = element.width_bytes
        per_beat = 64 // width
        layout = element.layout
        # What carries: the network need not move the symbol.
        kept = ~((1 << layout.exponent_bits) - 1 << layout.mantissa_bits)
        got: list[int] = []
        assert sink["first"][at] == 1
        while True:
            row, size = sink["data"][at].tobytes(), int(sink["count"][at])
            numbers = [int.from_bytes(row[i : i + width], "little") for i in range(0, 64, width)]
            got += numbers[:size]
            at += 1
            if sink["last"][at - 1]:
                assert not any(number & kept for number in numbers[size:])
                break
            assert size == per_beat
        assert [v & kept for v in got] == [v & kept for v in carriers]
    assert at == len(sink)
    ends = source.clocks[np.array(columns[3], bool)]
    network = NETWORK[min(e.width_bytes.bit_length() - 1 for e in elements)]
    assert np.array_equal(sink.clocks[np.array(sink["last"], bool)], ends + network + 3)


def test_others_pass() -> None:
    dut = Dut("wz_carrier")
    dut.reset()
    random = np.random.default_rng(1)
    data = random.integers(0, 256, (50, 64), np.uint8)
    source = Source(
        "s",
        data=data,
        count=[64] * 50,
        record=[rows.record(raw=1)] * 50,
        valid="valid",
        ready=None,
        stall=0.3,
    )
    sink = Sink("m", fields=("data", "count"), valid="valid", ready=None)
    dut.stream(source, sink, drain=5)
    assert np.array_equal(sink["data"], data)
    assert np.array_equal(sink.clocks, source.clocks + 1)
    assert dut["idle"]
    dut["s_network"], dut["s_valid"], dut["s_last"] = 1, 1, 1
    dut.clock()
    dut["s_valid"] = 0
    for _ in range(NETWORK[0] + 2):
        assert not dut["idle"]
        dut.clock()
    assert dut["m_valid"]
    dut.clock()
    assert dut["idle"]
