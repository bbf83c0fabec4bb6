# SPDX-License-Identifier: Apache-2.0
"""wz_sum: sums of numbers of any size, a clock for every factor of four."""

from pathlib import Path
from random import Random

import pytest

from tests.rtl.dut import Dut, Sink, Source

BENCH = Path(__file__).with_name("sum_bench.sv")


@pytest.mark.parametrize(
    ("count", "clocks"),
    [(32, 3), *(pytest.param(n, c, marks=pytest.mark.full) for n, c in ((4, 1), (5, 2), (64, 3)))],
)
def test_sums(count: int, clocks: int) -> None:
    width = 7
    sum_width = (count * 127).bit_length()
    parameters = {"COUNT": count, "W": width, "SUM_W": sum_width}
    dut = Dut("sum_bench", parameters=parameters, extra=(BENCH,))
    rng = Random(count)
    vectors = [[rng.getrandbits(width) for _ in range(count)] for _ in range(200)]
    vectors += [[0] * count, [127] * count, [0] * (count - 1) + [127]]
    packed = [sum(value << width * i for i, value in enumerate(vector)) for vector in vectors]
    # One sum a clock; what comes behind the last vector does not count.
    sent = Source("s", data=packed + [0] * clocks, valid=None, ready=None)
    got = Sink("m", fields=("sum",), valid=None, ready=None)
    dut.stream(sent, got, clocks=len(packed) + clocks)
    assert got.integers("sum")[clocks:] == [sum(vector) for vector in vectors]
