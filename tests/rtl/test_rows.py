# SPDX-License-Identifier: Apache-2.0
"""wz_rows: lanes are written to two rows at once and come out as whole rows."""

from random import Random
from typing import Any

import numpy as np

from tests.rtl.dut import Dut, Sink, Source

LANES, ROWS = 8, 8


def writes(rng: Random, count: int) -> tuple[Source, bytes]:
    """Runs of bytes, one behind the other, as a packer writes them; they end with a row."""
    fields: dict[str, Any] = {"lanes": [], "next": [], "row": [], "data": [], "done": []}
    content, place, row = b"", 0, 0
    for i in range(count):
        size = LANES - place if i == count - 1 else rng.randint(0, LANES)
        run = rng.randbytes(size)
        content += run
        lanes = after = data = 0
        for k, byte in enumerate(run):
            lane = (place + k) % LANES
            lanes |= 1 << lane
            after |= (place + k >= LANES) << lane
            data |= byte << 8 * lane
        place += size
        done = place // LANES
        for name, value in zip(fields, (lanes, after, row, data, done), strict=True):
            fields[name].append(value)
        place %= LANES
        row = (row + done) % ROWS
    return Source("w", valid="valid", ready=None, stall=0.2, **fields), content


def test_rows_in_order() -> None:
    dut = Dut("wz_rows", parameters={"LANES": LANES, "LANE_W": 8, "ROWS": ROWS})
    dut.reset()
    source, content = writes(Random(1), 3000)
    sink = Sink("r", fields=("data",), valid="valid", ready="ready")
    dut.stream(source, sink, drain=10)
    expected = np.frombuffer(content, "<u8")
    assert np.array_equal(sink["data"], expected)
    complete = source.clocks[np.array(source.fields["done"]) > 0]
    assert np.array_equal(sink.clocks, complete + 1)


def test_rows_wait() -> None:
    """As many as fit beside the one that is being written."""
    dut = Dut("wz_rows", parameters={"LANES": LANES, "LANE_W": 8, "ROWS": ROWS})
    dut.reset()
    count = ROWS - 1
    source = Source(
        "w",
        valid="valid",
        ready=None,
        lanes=[2**LANES - 1] * count,
        next=[0] * count,
        row=range(count),
        data=range(count),
        done=[1] * count,
    )
    dut.stream(source, drain=5)
    assert (dut["r_valid"], dut["r_row"], dut["r_data"]) == (1, 0, 0)
    sink = Sink("r", fields=("data",), valid="valid", ready="ready", stall=0.5)
    dut.stream(sink, drain=20)
    assert list(sink["data"]) == list(range(count))
    assert not dut["r_valid"]
