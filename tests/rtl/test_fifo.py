# SPDX-License-Identifier: Apache-2.0
"""wz_fifo, both memories: order, capacity, level, latency, a word a clock, reset."""

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source

DEPTH = 16
LATENCY = {"lut": 2, "block": 3}


@pytest.fixture(scope="module", params=["lut", "block"])
def memory(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def dut(memory: str) -> Dut:
    return Dut("wz_fifo", parameters={"W": 72, "DEPTH": DEPTH, "MEMORY": memory})


@pytest.mark.parametrize("stalls", [(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.3), (0.05, 0.9), (0.9, 0)])
def test_words_pass_in_order(dut: Dut, memory: str, stalls: tuple[float, float]) -> None:
    words = np.random.default_rng(1).integers(0, 256, (5000, 9), np.uint8)
    dut.reset()
    sent = Source("s", tdata=words, stall=stalls[0], burst=8)
    got = Sink("m", stall=stalls[1], burst=40)
    dut.stream(sent, got, seed=2, drain=3000)
    assert np.array_equal(got["tdata"], words)
    if stalls[1] == 0:
        assert np.array_equal(got.clocks, sent.clocks + LATENCY[memory])
    if stalls == (0, 0):
        assert np.array_equal(np.diff(sent.clocks), np.ones(len(words) - 1))


def test_holds_its_depth_and_counts(dut: Dut) -> None:
    dut.reset()
    sent = Source("s", tdata=np.arange(DEPTH + 5))
    dut.stream(sent, clocks=DEPTH + 20)
    assert sent.taken == DEPTH
    assert dut["level"] == DEPTH
    for left in reversed(range(DEPTH)):
        dut["m_tready"] = 1
        dut.clock()
        dut["m_tready"] = 0
        assert dut["level"] == left
        assert dut["s_tready"]
    assert not dut["m_tvalid"]


def test_keeps_its_rate_when_full(dut: Dut) -> None:
    dut.reset()
    sent = Source("s", tdata=np.arange(DEPTH))
    dut.stream(sent, clocks=DEPTH + 5)
    got = Sink("m")
    dut.stream(Source("s", tdata=np.arange(DEPTH, 500)), got)
    assert np.array_equal(got.integers("tdata"), np.arange(500))
    assert np.array_equal(np.diff(got.clocks), np.ones(499))


def test_reset_empties(dut: Dut) -> None:
    dut.reset()
    dut.stream(Source("s", tdata=[1, 2, 3, 4, 5, 6, 7]), clocks=6)
    dut.reset()
    assert not dut["m_tvalid"]
    assert dut["s_tready"]
    assert dut["level"] == 0
    got = Sink("m")
    dut.stream(Source("s", tdata=[8, 9]), got)
    assert got.integers("tdata") == [8, 9]
