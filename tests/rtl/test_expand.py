# SPDX-License-Identifier: Apache-2.0
"""wz_expand against NumPy, with data at once and as late as it may come."""

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.test_compact import VECTORS, WIDTH, masks, pack

LATENCY = {4: 3, 8: 3, 16: 4, 32: 5, 64: 6}
LATEST = {4: 2, 8: 2, 16: 3, 32: 3, 64: 4}
CASES = [(4, 0), (8, 0), (16, 0), (64, 0), (8, 1), *LATEST.items()]


@pytest.mark.parametrize(
    ("lanes", "late"),
    [(32, 0), *(pytest.param(*case, marks=pytest.mark.full) for case in CASES)],
)
def test_elements_go_to_the_kept_lanes(lanes: int, late: int) -> None:
    parameters = {"LANES": lanes, "W": WIDTH, "USER_W": 12, "DATA_LATENCY": late}
    dut = Dut("wz_expand", parameters=parameters)
    random = np.random.default_rng(lanes)
    data = random.integers(0, 1 << WIDTH, (VECTORS, lanes), np.uint16)
    keep = masks(random, lanes)
    base = random.integers(0, lanes, VECTORS)
    dut.reset()
    dut["en"] = 1
    # The control comes every clock; the data likewise, `late` clocks behind.
    sent = Source(
        "s",
        data=np.vstack([np.zeros((late, lanes), np.uint16), data]).view(np.uint8),
        keep=pack(keep) + [0] * late,
        base=[*base, *[0] * late],
        user=np.arange(VECTORS + late) % 4096,
        valid="valid",
        ready=None,
    )
    got = Sink("m", fields=("data", "keep", "user"), valid="valid", ready=None)
    dut.stream(sent, got, drain=20)

    assert np.array_equal(got.clocks, sent.clocks + LATENCY[lanes])
    assert np.array_equal(got["user"], np.arange(VECTORS + late) % 4096)
    result = got["data"].reshape(VECTORS + late, -1).view(np.uint8)
    result = result[:VECTORS, : 2 * lanes].copy().view(np.uint16)
    place = (base[:, None] + np.cumsum(keep, axis=1) - keep) % lanes
    expected = np.where(keep, np.take_along_axis(data, place, axis=1), 0)
    assert np.array_equal(result, expected)
    assert got.integers("keep")[:VECTORS] == pack(keep)


@pytest.mark.full
def test_clock_enable_holds() -> None:
    dut = Dut("wz_expand", parameters={"LANES": 8, "W": WIDTH, "USER_W": 12, "DATA_LATENCY": 0})
    dut.reset()
    dut["en"] = 1
    dut["s_data"], dut["s_keep"], dut["s_base"], dut["s_valid"] = 0xABCD << 112, 2, 7, 1
    dut.clock()
    dut["s_keep"] = dut["s_data"] = dut["s_valid"] = 0
    for _ in range(LATENCY[8] - 1):
        assert not dut["m_valid"]
        dut["en"] = 0
        dut.clock(5)
        dut["en"] = 1
        dut.clock()
    assert (dut["m_valid"], dut["m_keep"], dut["m_data"]) == (1, 2, 0xABCD << 16)
    dut.reset()
    assert not dut["m_valid"]
