# SPDX-License-Identifier: Apache-2.0
"""wz_monitor: what happens at two streams, as steps of sixteen counters."""

import numpy as np
import pytest

from codec.format import Mode
from tests.rtl.dut import Dut, Sink, Source

CLOCKS = 2000


@pytest.mark.parametrize("data_w", [512, pytest.param(128, marks=pytest.mark.full)])
def test_steps(data_w: int) -> None:
    dut = Dut("wz_monitor", parameters={"DATA_W": data_w})
    random = np.random.default_rng(data_w)
    ports = ("in_tvalid", "in_tready", "out_tvalid", "out_tready", "busy", "bypassed")
    ports += ("event_valid", "event_good", "event_coded")
    bits = {name: random.integers(0, 2, CLOCKS) for name in ports}
    sizes = {name: random.integers(1, data_w // 8 + 1, CLOCKS) for name in ("in", "out")}
    keeps = {f"{name}_tkeep": [(1 << int(n)) - 1 for n in size] for name, size in sizes.items()}
    mode, other = random.integers(0, 4, CLOCKS), random.integers(0, 8, CLOCKS)
    dut.reset()
    sent = Source("x", **bits, **keeps, event_mode=mode, other=other, valid=None, ready=None)
    got = Sink("x", fields=("step",), valid=None, ready=None)
    dut.stream(sent, got, clocks=CLOCKS)

    good = bits["event_valid"] & bits["event_good"]
    coded = good & bits["event_coded"]
    taken = {name: bits[f"{name}_tvalid"] & bits[f"{name}_tready"] for name in ("in", "out")}
    expected = [
        bits["busy"],
        *(bits[f"{name}_tvalid"] & ~bits[f"{name}_tready"] for name in ("in", "out")),
        *taken.values(),
        *(taken[name] * sizes[name] for name in ("in", "out")),
        bits["bypassed"],
        good & ~bits["event_coded"],
        *(coded & (mode == m) for m in (Mode.RAW, Mode.CONSTANT, Mode.CODED, Mode.REFERENCE)),
        *(other >> i & 1 for i in range(3)),
    ]
    steps = [[step >> 7 * i & 127 for i in range(16)] for step in got.integers("step")]
    assert np.array_equal(np.array(steps)[2:], np.array(expected).T[:-2])
