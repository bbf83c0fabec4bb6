# SPDX-License-Identifier: Apache-2.0
"""wz_skid: order, a word a clock, one clock of latency, back-pressure, reset."""

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_skid", parameters={"W": 72})


@pytest.mark.parametrize("stalls", [(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.3), (0.05, 0.9)])
def test_words_pass_in_order(dut: Dut, stalls: tuple[float, float]) -> None:
    words = np.random.default_rng(1).integers(0, 256, (5000, 9), np.uint8)
    dut.reset()
    sent = Source("s", tdata=words, stall=stalls[0], burst=3)
    got = Sink("m", stall=stalls[1], burst=3)
    dut.stream(sent, got, seed=2)
    assert np.array_equal(got["tdata"], words)
    if stalls[1] == 0:
        assert np.array_equal(got.clocks, sent.clocks + 1)
    if stalls == (0, 0):
        assert np.array_equal(np.diff(sent.clocks), np.ones(len(words) - 1))


def test_holds_two_words(dut: Dut) -> None:
    dut.reset()
    sent = Source("s", tdata=[1, 2, 3])
    dut.stream(sent, clocks=10)
    assert sent.taken == 2


def test_reset_empties(dut: Dut) -> None:
    dut.reset()
    dut.stream(Source("s", tdata=[1, 2, 3]), clocks=10)
    dut.reset()
    assert not dut["m_tvalid"]
    assert dut["s_tready"]
    got = Sink("m")
    dut.stream(Source("s", tdata=[4, 5]), got)
    assert got.integers("tdata") == [4, 5]
