# SPDX-License-Identifier: Apache-2.0
"""wz_crc32c against the reference codec's checksum."""

import numpy as np
import pytest

from codec.reference import crc32c
from tests.rtl.dut import Dut, Sink, Source

LATENCY = 3


@pytest.fixture(scope="module")
def dut() -> Dut:
    dut = Dut("wz_crc32c")
    dut.reset()
    dut["en"] = 1
    return dut


@pytest.mark.parametrize("stall", [0, 0.4])
def test_state_after_every_beat(dut: Dut, stall: float) -> None:
    random = np.random.default_rng(3)
    lengths = [1, 1, 64, 2, 1, *random.integers(1, 65, 20)]
    beats = random.integers(0, 256, (sum(lengths), 64), np.uint8)
    first = np.zeros(len(beats), np.uint8)
    first[np.cumsum([0, *lengths[:-1]])] = 1
    expected = []
    block = b""
    for beat, begins in zip(beats, first, strict=True):
        block = beat.tobytes() if begins else block + beat.tobytes()
        expected.append(crc32c(block) ^ 0xFFFFFFFF)
    sent = Source("s", tdata=beats, s_first=first, valid="valid", ready=None, stall=stall, burst=4)
    got = Sink("m", fields=("state",), valid="valid", ready=None)
    dut.stream(sent, got, seed=4, drain=20)
    assert got.integers("state") == expected
    assert np.array_equal(got.clocks, sent.clocks + LATENCY)


def test_clock_enable_holds(dut: Dut) -> None:
    dut.reset()
    dut["s_tdata"], dut["s_first"], dut["s_valid"] = 0x0123, 1, 1
    dut.clock()
    dut["s_valid"] = 0
    dut["s_tdata"] = (1 << 512) - 1
    for _ in range(LATENCY - 1):
        assert not dut["m_valid"]
        dut["en"] = 0
        dut.clock(5)
        dut["en"] = 1
        dut.clock()
    assert dut["m_valid"]
    assert dut["m_state"] == crc32c((0x0123).to_bytes(64, "little")) ^ 0xFFFFFFFF
