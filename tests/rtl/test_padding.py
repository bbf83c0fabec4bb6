# SPDX-License-Identifier: Apache-2.0
"""wz_padding: bits beyond the used ones, found where they are, and told once a frame."""

from random import Random

import pytest

from tests.rtl.dut import Dut, Sink, Source


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_padding")


def test_findings(dut: Dut) -> None:
    rng = Random(1)
    rows: list[tuple[int, int, int, int]] = []  # data, used, remainder, last
    wanted = []
    for _ in range(2000):
        bad = [0, 0]
        words = rng.choice((1, 2, 5))
        for i in range(words):
            remainder = int(i == 0 and rng.random() < 0.5)
            used = rng.choice((0, 1, 7, 8, 9, 127, rng.randrange(128)))
            data = rng.getrandbits(128)
            if used and rng.random() < 0.7:
                data &= (1 << used) - 1
                if rng.random() < 0.3:
                    data |= 1 << rng.randrange(used, 128)
            bad[remainder] |= int(used and data >> used != 0)
            rows.append((data, used, remainder, int(i == words - 1)))
        wanted.append(tuple(bad))
    data, used, remainder, last = (list(column) for column in zip(*rows, strict=True))
    dut.reset()
    sent = Source(
        "s", valid="valid", ready=None, data=data, used=used, remainder=remainder, last=last
    )
    got = Sink("m", valid="valid", ready=None, fields=("low_bad", "remainder_bad"))
    dut.stream(sent, got)
    assert list(zip(got.integers("low_bad"), got.integers("remainder_bad"), strict=True)) == wanted
    ends = [clock for clock, end in zip(sent.clocks, last, strict=True) if end]
    assert [int(clock) for clock in got.clocks] == [int(clock) + 3 for clock in ends]
