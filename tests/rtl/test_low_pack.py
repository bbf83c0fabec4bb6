# SPDX-License-Identifier: Apache-2.0
"""wz_low_pack: low parts of ranks, against the reference codec."""

from random import Random
from typing import Any

import pytest

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder
from tests.rtl import rows
from tests.rtl.dut import Dut, Source

LATENCY = 2


@pytest.mark.parametrize(
    ("lanes", "types"), [(32, 63), (8, 63), (16, 63), (64, 63), (32, 2), (64, 2), (64, 0b110000)]
)
def test_low_parts(lanes: int, types: int) -> None:
    rng = Random(lanes + types)
    elements = [e for e in ElementType if types >> e & 1 and e.layout.exponent_bits]
    groups, expected, stored = [], [], []
    for _ in range(120):
        element, coder = rng.choice(elements), rng.choice(list(Coder))
        size = min(lanes, 64 // element.width_bytes)
        start = rng.randrange(4)
        count = rng.choice([rng.randint(1, 12) * size, rng.randint(1, 12 * size)])
        escape = f.CODER_RANKS[coder]
        ranks = [rng.randint(0, rng.choice([escape, 3])) for _ in range(count)]
        config = rows.codes(element=element, coder=coder, low_start=start)
        for at in range(0, count, size):
            group = ranks[at : at + size]
            word = sum(r << 5 * i for i, r in enumerate(group))
            word |= rng.getrandbits(5 * lanes) >> 5 * len(group) << 5 * len(group)
            groups.append((word, (1 << len(group)) - 1, at == 0, at + size >= count, config))
            stored.append(coder != Coder.R0)
        if coder != Coder.R0:
            bits = f.CODER_LOW_BITS[coder]
            fields = [b for r in ranks for b in reference._field(reference._low(r, coder), bits)]
            expected.append((16 * start, reference._pack_bits(fields)))
    dut = Dut("wz_low_pack", parameters={"LANES": lanes, "TYPES": types})
    dut.reset()
    names = ("rank", "present", "first", "last", "codes")
    columns: dict[str, Any] = dict(zip(names, zip(*groups, strict=True), strict=True))
    source = Source("s", valid="valid", ready=None, stall=0.1, **columns)
    writes = rows.write_port(next_row=False)
    dut.stream(source, writes, drain=10)
    assert list(writes.clocks) == [
        clock + LATENCY for clock, there in zip(source.clocks, stored, strict=True) if there
    ]
    row_lanes = dut.ports["w_lanes"]
    taken = rows.read(writes, lanes=row_lanes, lane_bytes=64 // row_lanes, rows=32)
    for start, content in expected:
        assert rows.section(taken, start, len(content)) == content
    assert not taken
