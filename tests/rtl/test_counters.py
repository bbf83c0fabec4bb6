# SPDX-License-Identifier: Apache-2.0
"""wz_counters: sums, carries, snapshots at one clock, clearing, and how long a request takes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rtl.dut import Dut, Sink, Source

WIDE = 0x0060_0060
PASS_CLOCKS = 128


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_counters", parameters={"WIDE": WIDE})


def request(dut: Dut, *names: str) -> int:
    """Ask for something and wait; how many clocks it took."""
    for name in names:
        dut[name] = 1
    dut.clock()
    for name in names:
        dut[name] = 0
    clocks = 1
    while dut["busy"]:
        dut.clock()
        clocks += 1
    assert clocks <= 2 * PASS_CLOCKS + 5
    return clocks


def read(dut: Dut) -> list[int]:
    """The last snapshot."""
    sent = Source("read", address=np.arange(64), valid="req", ready=None)
    got = Sink("read", fields=("data",), valid="ack", ready=None)
    dut.stream(sent, got, drain=5)
    assert np.array_equal(got.clocks, sent.clocks + 2)
    halves = got["data"].astype(object)
    return list(halves[::2] + (halves[1::2] << 32))


def some_steps(clocks: int) -> NDArray[np.int64]:
    random = np.random.default_rng(clocks)
    limit = np.array([65 if WIDE >> i & 1 else 2 for i in range(32)])
    steps = random.integers(0, limit, (clocks, 32))
    steps[:, [0, 5]] = limit[[0, 5]] - 1  # as fast as they can
    steps[:, [3, 22]] = 0
    return steps


def run(dut: Dut, steps: NDArray[np.int64]) -> None:
    shifts = [sum(int(v) << 7 * i for i, v in enumerate(row)) for row in steps]
    dut.stream(Source("step", step=shifts, valid=None, ready=None), clocks=len(steps))
    dut["step"] = 0


def test_counts_and_clears(dut: Dut) -> None:
    dut.reset()
    while dut["busy"]:
        dut.clock()
    assert read(dut) == [0] * 32
    steps = some_steps(5000)
    run(dut, steps)
    request(dut, "snapshot")
    assert read(dut) == list(steps.sum(axis=0))
    run(dut, steps)
    assert read(dut) == list(steps.sum(axis=0))
    request(dut, "snapshot", "clear")
    assert read(dut) == list(2 * steps.sum(axis=0))
    run(dut, steps[:77])
    request(dut, "snapshot")
    assert read(dut) == list(steps[:77].sum(axis=0))
    request(dut, "clear")
    request(dut, "snapshot")
    assert read(dut) == [0] * 32


def test_counts_from_the_first_clock_after_reset(dut: Dut) -> None:
    dut.reset()
    steps = some_steps(300)
    run(dut, steps)
    request(dut, "snapshot")
    assert read(dut) == list(steps.sum(axis=0))


def test_snapshot_is_of_one_clock(dut: Dut) -> None:
    dut.reset()
    dut["step"] = sum(1 << 7 * i for i in range(32))
    for wait in (1, 50, 127, 128, 129, 300):
        dut.clock(wait)
        request(dut, "snapshot")
        assert len(set(read(dut))) == 1, wait
    dut["step"] = 0


def test_carries_into_the_high_half(dut: Dut) -> None:
    dut.reset()
    dut["step"] = 64 << 7 * 5
    dut.stream(clocks=(1 << 26) // 100)
    # 2^32 bytes need 2^26 clocks; a hundredth shows the carry within the low half.
    dut["step"] = 0
    request(dut, "snapshot")
    assert read(dut)[5] == 64 * ((1 << 26) // 100)
