# SPDX-License-Identifier: Apache-2.0
"""wz_low_unpack: 1 and 2 bits a value, every size of group, partial groups, a group a clock."""

from random import Random

import pytest

from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import pack


@pytest.fixture(scope="module", params=[32, 8, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_low_unpack", parameters={"LANES": lanes})


def frames(rng: Random, lanes: int, count: int) -> tuple[list[int], list[int], list[int]]:
    """Words, what comes beside them, and the groups that they hold."""
    words, beside, groups = [], [], []
    for _ in range(count):
        width = rng.choice((1, 2))
        group = rng.choice([g for g in (8, 16, 32, 64) if g <= lanes])
        values = rng.choice((1, group, group + 1, rng.randint(1, 600)))
        fields = [rng.randrange(1 << width) for _ in range(values)]
        packed = sum(field << width * i for i, field in enumerate(fields))
        used = -(-values * width // 128)
        words += [packed >> 128 * i & (1 << 128) - 1 for i in range(used)]
        spec = pack(
            packets.UNPACK,
            two_bits=width - 1,
            group_log2=group.bit_length() - 4,
            groups=(values - 1) // group,
        )
        beside += [spec] * used
        for at in range(0, values, group):
            groups.append(sum(f << 2 * i for i, f in enumerate(fields[at : at + group])))
    return words, beside, groups


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_groups(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    words, beside, groups = frames(Random(f"{lanes} {stalls}"), lanes, 300)
    dut.reset()
    sent = Source("s", tdata=words, unpack=beside, stall=stalls[0])
    got = Sink("m", stall=stalls[1])
    dut.stream(sent, got, seed=3)
    assert got.integers("tdata") == groups
    if stalls == (0, 0):
        assert got.clocks[0] == sent.clocks[0] + 2
        # A group a clock, also where words and frames end.
        assert got.clocks[-1] - got.clocks[0] == len(groups) - 1


def test_reset_in_mid_frame(dut: Dut, lanes: int) -> None:
    words, beside, groups = frames(Random(5), lanes, 20)
    dut.reset()
    dut.stream(Source("s", tdata=words, unpack=beside), Sink("m"), clocks=7)
    dut.reset()
    got = Sink("m")
    dut.stream(Source("s", tdata=words, unpack=beside), got)
    assert got.integers("tdata") == groups
