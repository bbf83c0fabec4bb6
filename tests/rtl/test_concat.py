# SPDX-License-Identifier: Apache-2.0
"""wz_concat: chunks become sections."""

from random import Random

import numpy as np

from tests.rtl import rows
from tests.rtl.dut import Dut, Source

LATENCY = 4


def test_chunks_become_sections() -> None:
    rng = Random(1)
    chunks, expected = [], []
    for _ in range(400):
        start = rng.randrange(64)
        sizes = [rng.choice([rng.randint(0, 64), 64, 28, 48]) for _ in range(rng.randint(1, 12))]
        sizes[0] = sizes[0] or 1
        content = rng.randbytes(sum(sizes))
        expected.append((start, content))
        at = 0
        for i, size in enumerate(sizes):
            data = content[at : at + size] + rng.randbytes(64 - size)
            chunks.append((data, size, i == 0, start, i == len(sizes) - 1))
            at += size
    dut = Dut("wz_concat")
    dut.reset()
    columns = list(zip(*chunks, strict=True))
    source = Source(
        "s",
        data=np.frombuffer(b"".join(columns[0]), np.uint8).reshape(-1, 64),
        bytes=columns[1],
        first=columns[2],
        start=columns[3],
        last=columns[4],
        valid="valid",
        ready=None,
        stall=0.1,
    )
    writes = rows.write_port(lanes=False)
    dut.stream(source, writes, drain=20)
    assert np.array_equal(writes.clocks, source.clocks + LATENCY)
    taken = rows.read(writes, lanes=64, lane_bytes=1, rows=32)
    for start, content in expected:
        assert rows.section(taken, start, len(content)) == content
    assert not taken
