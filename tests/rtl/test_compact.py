# SPDX-License-Identifier: Apache-2.0
"""wz_compact, with wz_prefix and wz_banyan in it, against NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rtl.dut import Dut, Sink, Source

WIDTH = 16
LATENCY = {4: 2, 8: 3, 16: 4, 32: 5, 64: 6}
BASE_DELAY = {4: 1, 8: 1, 16: 2, 32: 2, 64: 3}
VECTORS = 3000


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_kept_elements_move_together(lanes: int) -> None:
    dut = Dut("wz_compact", parameters={"LANES": lanes, "W": WIDTH, "USER_W": 12})
    random = np.random.default_rng(lanes)
    data = random.integers(0, 1 << WIDTH, (VECTORS, lanes), np.uint16)
    keep = masks(random, lanes)
    dut.reset()
    dut["en"] = 1
    sent = Source(
        "s",
        data=data.view(np.uint8),
        keep=pack(keep),
        user=np.arange(VECTORS),
        valid="valid",
        ready=None,
        stall=0.1,
    )
    # Another base in each clock, whether a vector comes or not.
    bases = Source("base", s_base=random.integers(0, lanes, 2 * VECTORS), valid=None, ready=None)
    fields = ("data", "taken", "wrapped", "user")
    got = Sink("m", fields=fields, valid="valid", ready=None)
    dut.stream(sent, bases, got, seed=5, drain=20)

    assert np.array_equal(got.clocks, sent.clocks + LATENCY[lanes])
    assert np.array_equal(got["user"], np.arange(VECTORS))
    result = got["data"].reshape(VECTORS, -1).view(np.uint8)[:, : 2 * lanes].copy().view(np.uint16)
    taken = np.array(got.integers("taken"), object)
    wrapped = np.array(got.integers("wrapped"), object)
    base = np.array(bases.fields["s_base"])[sent.clocks - bases.clocks[0] + BASE_DELAY[lanes]]
    for i in range(VECTORS):
        place = int(base[i]) + np.arange(int(keep[i].sum()))
        assert taken[i] == sum(1 << int(p) for p in place % lanes)
        assert wrapped[i] == sum(1 << int(p) for p in place[place >= lanes] - lanes)
        assert np.array_equal(result[i][place % lanes], data[i][keep[i]])


@pytest.mark.full
def test_clock_enable_holds() -> None:
    dut = Dut("wz_compact", parameters={"LANES": 8, "W": WIDTH, "USER_W": 12})
    dut.reset()
    dut["en"] = 1
    dut["s_data"], dut["s_keep"], dut["s_base"], dut["s_valid"] = 0xABCD << 16, 2, 7, 1
    dut.clock()
    dut["s_keep"] = dut["s_data"] = dut["s_valid"] = 0
    for _ in range(LATENCY[8] - 1):
        assert not dut["m_valid"]
        dut["en"] = 0
        dut.clock(5)
        dut["en"] = 1
        dut.clock()
    assert (dut["m_valid"], dut["m_taken"], dut["m_wrapped"]) == (1, 0x80, 0)
    assert dut["m_data"] >> 112 == 0xABCD
    dut.reset()
    assert not dut["m_valid"]


def masks(random: np.random.Generator, lanes: int) -> NDArray[np.bool_]:
    """Of all densities, with none and all among them."""
    density = random.choice([0, 0.05, 0.3, 0.5, 0.8, 0.97, 1], (VECTORS, 1))
    return random.random((VECTORS, lanes)) < density


def pack(mask: NDArray[np.bool_]) -> list[int]:
    return [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in mask]
