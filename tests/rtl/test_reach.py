# SPDX-License-Identifier: Apache-2.0
"""wz_reach: a packet that is being written, one that has ended, and one that ends meanwhile."""

from tests.rtl.dut import Dut


def progress(dut: Dut, packet: int, reached: int, *, ended: bool = False) -> None:
    dut["progress"] = packet << 11 | reached << 2 | ended << 1


def test_limits() -> None:
    dut = Dut("wz_reach")
    dut.reset()
    progress(dut, 0, 5, ended=True)
    dut.clock()
    progress(dut, 1, 7)
    dut["load"], dut["next_packet"] = 1, 0
    dut.clock()
    assert (dut["limit"], dut["ended"]) == (5, 1)
    dut["next_packet"] = 1
    dut.clock()
    assert (dut["limit"], dut["ended"]) == (7, 0)
    dut["load"] = 0
    for reached in (8, 9, 10):
        progress(dut, 1, reached)
        dut.clock()
        assert (dut["limit"], dut["ended"]) == (reached, 0)
    progress(dut, 1, 11, ended=True)
    dut.eval()
    assert (dut["limit_now"], dut["ended_now"]) == (11, 1)
    dut.clock()
    progress(dut, 2, 20)
    dut.clock(3)
    assert (dut["limit"], dut["ended"]) == (11, 1)
    # Loaded in the very clock in which it ends.
    progress(dut, 2, 21, ended=True)
    dut["load"], dut["next_packet"] = 1, 2
    dut.clock()
    assert (dut["limit"], dut["ended"]) == (21, 1)
