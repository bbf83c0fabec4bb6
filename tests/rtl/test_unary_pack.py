# SPDX-License-Identifier: Apache-2.0
"""wz_unary_pack: unary sections of any codes, against the reference codec."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from codec import format as f
from codec import reference
from codec.format import Coder
from tests.rtl import rows
from tests.rtl.dut import Dut, Source

LATENCY = {8: 10, 16: 11, 32: 12, 64: 13}
ROWS = 64


def pack(dut: Dut, lanes: int, frames: Sequence[tuple[Coder, int, list[int]]]) -> None:
    """Pack frames of (coder, start in 16 bytes, ranks) back to back and compare."""
    groups, not_before, expected, written = [], [], [], []
    rng = Random(1)
    clock = dut.clocks + 10
    for coder, start, ranks in frames:
        section = reference._pack_bits(reference._unary(reference._quotients(ranks, coder)))
        config = rows.codes(coder=coder, unary_start=start, unary_any=section != b"")
        if section:
            expected.append((16 * start, section))
        for at in range(0, len(ranks), lanes):
            group = ranks[at : at + lanes]
            word = sum(r << 5 * i for i, r in enumerate(group))
            word |= rng.getrandbits(5 * lanes) >> 5 * len(group) << 5 * len(group)
            last = at + lanes >= len(ranks)
            groups.append((word, (1 << len(group)) - 1, at == 0, last, config))
            not_before.append(clock)
            written.append(section != b"")
            clock += 1
        # Where the end may need a write of its own.
        clock += coder == Coder.R0
    names = ("rank", "present", "first", "last", "codes")
    columns: dict[str, Any] = dict(zip(names, zip(*groups, strict=True), strict=True))
    source = Source("s", valid="valid", ready=None, not_before=not_before, **columns)
    writes = rows.write_port()
    dut.stream(source, writes, drain=20)
    first = [clock for clock, there in zip(source.clocks, written, strict=True) if there]
    assert set(np.array(first) + LATENCY[lanes]) <= set(writes.clocks)
    row_lanes = dut.ports["w_lanes"]
    taken = rows.read(writes, lanes=row_lanes, lane_bytes=2, rows=ROWS)
    for start, content in expected:
        assert rows.section(taken, start, len(content)) == content
    assert not taken


@pytest.fixture(params=[32, 8, 16, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def dut(lanes: int) -> Dut:
    dut = Dut("wz_unary_pack", parameters={"LANES": lanes, "ROWS": ROWS})
    dut.reset()
    return dut


def draw(rng: Random, coder: Coder) -> Callable[[], int]:
    escape = f.CODER_RANKS[coder]
    top = rng.choice([0, 1, 2, 4, 8, escape])
    choices: list[Callable[[], int]] = [
        lambda: rng.randint(0, min(top, escape)),
        lambda: min(int(rng.expovariate(0.6)), escape),
        lambda: escape if rng.random() < 0.5 else 0,
        lambda: escape,
    ]
    return rng.choice(choices)


def test_sections(dut: Dut, lanes: int) -> None:
    rng = Random(lanes)
    frames = []
    for _ in range(250):
        coder = rng.choice(list(Coder))
        one = draw(rng, coder)
        count = rng.choice([rng.randint(1, 6) * lanes, rng.randint(1, 6 * lanes)])
        frames.append((coder, rng.randrange(4), [one() for _ in range(count)]))
    pack(dut, lanes, frames)


def test_longest_codes(dut: Dut, lanes: int) -> None:
    """Groups that reach round to the word they began in, also at the end of a frame."""
    rng = Random(lanes)
    frames = []
    for shift in range(16):
        for last in (1, 2, 3):
            # The first group brings every bit of a word to the turn.
            ranks = [0] * (lanes - 1) + [shift % 15] + [15] * (lanes * last)
            frames.append((Coder.R0, rng.randrange(4), ranks))
            tail = [rng.choice([14, 15]) for _ in range(lanes)]
            frames.append((Coder.R0, rng.randrange(4), ranks + tail))
    pack(dut, lanes, frames)
