# SPDX-License-Identifier: Apache-2.0
"""wz_axis_check accepts what AXI4-Stream allows, and nothing else."""

from collections.abc import Sequence

import pytest

from tests.rtl.dut import Dut

FULL = 0xFFFF
PORTS = ("tvalid", "tready", "tdata", "tkeep", "tlast", "tuser")
# Per clock: valid, ready, data, keep, last, user.
GOOD = [
    (0, 0, 7, 0, 0, 1),
    (1, 0, 1, FULL, 0, 1),
    (1, 0, 1, FULL, 0, 1),
    (1, 1, 1, FULL, 0, 1),
    (1, 1, 2, 0x0001, 1, 0),
    (1, 1, 3, FULL, 1, 0),
    (0, 1, 0, 0, 0, 0),
    (1, 1, 5, 0x7FFF, 1, 0),
]
BAD = {
    "valid falls": [(1, 0, 1, FULL, 0, 0), (0, 0, 1, FULL, 0, 0)],
    "data change": [(1, 0, 1, FULL, 0, 0), (1, 0, 2, FULL, 0, 0)],
    "keep changes": [(1, 0, 1, FULL, 1, 0), (1, 0, 1, 0x7FFF, 1, 0)],
    "last changes": [(1, 0, 1, FULL, 0, 0), (1, 0, 1, FULL, 1, 0)],
    "user changes": [(1, 0, 1, FULL, 0, 0), (1, 0, 1, FULL, 0, 1)],
    "partial without last": [(1, 1, 1, 0x7FFF, 0, 0)],
    "gap": [(1, 1, 1, 0x0005, 1, 0)],
    "not from bit 0": [(1, 1, 1, 0xFFFE, 1, 0)],
    "empty": [(1, 1, 1, 0, 1, 0)],
}


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_axis_check", parameters={"DATA_W": 128})


def drive(dut: Dut, clocks: Sequence[Sequence[int]]) -> None:
    dut["tvalid"] = 0
    dut.reset()
    for values in clocks:
        for port, value in zip(PORTS, values, strict=True):
            dut[port] = value
        dut.clock()
    dut.clock()


def test_accepts_what_is_allowed(dut: Dut) -> None:
    drive(dut, GOOD)
    # A reset may withdraw a beat.
    dut["tvalid"], dut["tready"], dut["tkeep"] = 1, 0, FULL
    dut.clock()
    drive(dut, GOOD)


@pytest.mark.parametrize("case", BAD)
def test_finds_what_is_not(dut: Dut, case: str) -> None:
    with pytest.raises(AssertionError, match="wz_axis_check"):
        drive(dut, BAD[case])
