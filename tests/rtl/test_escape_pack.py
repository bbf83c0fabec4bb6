# SPDX-License-Identifier: Apache-2.0
"""wz_escape_pack: escaped symbols, in order, however they are spread."""

from random import Random

import numpy as np
import pytest

from tests.rtl import rows
from tests.rtl.dut import Dut, Source

LATENCY = 8


@pytest.mark.parametrize("lanes", [32, 8, 64])
def test_escapes_in_order(lanes: int) -> None:
    rng = Random(lanes)
    groups, not_before, expected = [], [], []
    # Nobody reads the rows: there are enough.
    dut = Dut("wz_escape_pack", parameters={"LANES": lanes, "ROWS": 1024})
    dut.reset()
    clock = dut.clocks + 10
    for _ in range(200):
        count = rng.randint(1, 12)
        share = rng.choice([0, 0.02, 0.1, 1 if rng.random() < 0.1 else 0.3])
        masks = [sum((rng.random() < share) << i for i in range(lanes)) for _ in range(count)]
        total = sum(mask.bit_count() for mask in masks)
        if total > 255:
            continue
        start = rng.randrange(64)
        symbols = [rng.randbytes(lanes) for _ in masks]
        config = rows.codes(escape_start=start, escapes=total)
        content = bytes(
            symbol[i]
            for mask, symbol in zip(masks, symbols, strict=True)
            for i in range(lanes)
            if mask >> i & 1
        )
        if content:
            expected.append((start, content))
        for mask, symbol in zip(masks, symbols, strict=True):
            groups.append((mask, int.from_bytes(symbol, "little"), config))
            not_before.append(clock)
            clock += 1
        # A byte a clock must be able to keep up.
        clock += max(0, total - count)
    source = Source(
        "s",
        escape=[group[0] for group in groups],
        symbol=[group[1] for group in groups],
        codes=[group[2] for group in groups],
        valid="valid",
        ready=None,
        not_before=not_before,
    )
    writes = rows.write_port(next_row=False)
    # Rows are taken late, but in time: the test frees them all.
    dut.stream(source, writes, drain=300)
    taken = rows.read(writes, lanes=64, lane_bytes=1, rows=1024, broadcast=True)
    for start, content in expected:
        assert rows.section(taken, start, len(content)) == content
    assert not taken
    first = next(i for i, group in enumerate(groups) if group[0])
    assert writes.clocks[0] - source.clocks[first] == LATENCY


def test_bytes_wait_for_rows() -> None:
    dut = Dut("wz_escape_pack")
    dut.reset()
    config = rows.codes(escapes=1)
    source = Source(
        "s",
        escape=[1] * 24,
        symbol=range(24),
        codes=[config] * 24,
        valid="valid",
        ready=None,
    )
    writes = rows.write_port(next_row=False)
    dut.stream(source, writes, drain=50)
    held = len(writes)
    assert held <= 15
    got = list(writes["data"])
    for row in range(1, 24):
        dut["r_row"] = row % 16
        more = rows.write_port(next_row=False)
        dut.stream(more, clocks=30)
        got += list(more["data"])
    assert got == list(range(24))
    assert np.all(np.diff(got) == 1)
