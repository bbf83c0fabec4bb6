# SPDX-License-Identifier: Apache-2.0
"""wz_record: the bytes of records, against the reference codec."""

from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from tests.rtl import rows
from tests.rtl.dut import Dut, Sink, Source

LATENCY = 2
Beat = tuple[bytes, int, int, int, int]


def beats_of(rng: Random, element: ElementType, raw: bool) -> tuple[list[Beat], bytes, int]:
    """A frame's beats (data, count, first, last, record), its remainders, and how many chunks."""
    layout = element.layout
    per_beat = 64 // element.width_bytes
    sign_flag = int(layout.signed and rng.random() < 0.5)
    planes, top_bits = divmod(layout.remainder_bits - sign_flag, 8)
    flags = rng.getrandbits(3) & (1 << planes) - 1
    if raw:
        sign_flag = flags = 0
    count = rng.choice([rng.randint(1, 5) * per_beat, rng.randint(1, 4 * per_beat)])
    kind = 1 << element
    config = rows.record(raw=raw, kind=kind, sign_flag=sign_flag, plane_flags=flags, start=5)
    values = [rng.getrandbits(8 * element.width_bytes) for _ in range(count)]
    records = [values[i : i + per_beat] for i in range(0, count, per_beat)]
    beats = []
    for i, record in enumerate(records):
        data = b"".join(v.to_bytes(element.width_bytes, "little") for v in record).ljust(64, b"\0")
        size = len(record) * (element.width_bytes if raw else 1)
        beats.append((data, size, int(i == 0), int(i == len(records) - 1), config))
    if raw:
        return beats, b"".join(b[0][: b[1]] for b in beats), len(beats)
    mask = (1 << layout.remainder_bits - sign_flag) - 1
    remainders = [[reference._split(v, element)[1] & mask for v in record] for record in records]
    content = reference._encode_remainders(remainders, layout.remainder_bits - sign_flag, flags)
    parts = planes - flags.bit_count() + (top_bits > 0)
    if parts == 0:
        return [], b"", 0
    partial = count % per_beat != 0
    return beats, content, len(beats) + partial * (parts - 1)


@pytest.mark.parametrize("types", [0b111111, 0b000010, 0b001000, 0b000101])
def test_records(types: int) -> None:
    rng = Random(types)
    elements = [element for element in ElementType if types >> element & 1]
    sent: list[Beat] = []
    expected, not_before, chunks, clock = b"", [], [], 20
    for _ in range(300):
        beats, content, count = beats_of(rng, rng.choice(elements), rng.random() < 0.2)
        expected += content
        sent += beats
        chunks.append(count)
        clock += rng.choice([0, 0, 1])
        not_before += [clock + i for i in range(len(beats))]
        clock += count
    columns = list(zip(*sent, strict=True))
    dut = Dut("wz_record", parameters={"TYPES": types})
    dut.reset()
    source = Source(
        "s",
        data=np.frombuffer(b"".join(columns[0]), np.uint8).reshape(-1, 64),
        count=columns[1],
        first=columns[2],
        last=columns[3],
        record=columns[4],
        valid="valid",
        ready=None,
        not_before=not_before,
    )
    sink = Sink("m", fields=("data", "bytes", "first", "start", "last"), valid="valid", ready=None)
    dut.stream(source, sink, drain=10)
    got = b"".join(
        row[: int(size)].tobytes() for row, size in zip(sink["data"], sink["bytes"], strict=True)
    )
    assert got == expected
    # A chunk a clock: a full record takes one, the parts of a partial one follow each other.
    assert len(sink) == sum(chunks)
    assert sink["first"].sum() == sink["last"].sum() == sum(count > 0 for count in chunks)
    assert sink.clocks[0] == source.clocks[0] + LATENCY
    assert set(sink["start"]) == {5}
