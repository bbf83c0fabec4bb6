# SPDX-License-Identifier: Apache-2.0
"""wz_unary_words: runs of words anywhere in packets, cut to their bytes, missing ones, latency."""

from pathlib import Path
from random import Random

import pytest

from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Packet
from tests.rtl.structs import pack

BENCH = Path(__file__).with_name("unary_bench.sv")


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("unary_bench", extra=(BENCH,))


def traffic(rng: Random, count: int) -> tuple[list[Packet], list[int], list[int], list[tuple]]:
    """Packets; the job of each and the beat that it must wait for; words as (data, last)."""
    sent, jobs, firsts, words = [], [], [], []
    start = 0
    for number in range(count):
        payload = rng.randbytes(rng.choice((1, 64, 65, rng.randint(1, 4104))))
        kept = min(65, -(-len(payload) // 64))
        begin = rng.randrange(1, 4 * kept + 1)
        size = rng.choice((0, 1, 15, 16, 17, rng.randint(0, 2047)))
        run = -(-size // 16)
        jobs.append(
            pack(
                packets.UNARY_JOB,
                packet=number % 64,
                start=start % 512,
                word=(4 * start + begin) % 2048,
                words=run,
                last_bytes=size % 16,
            )
        )
        firsts.append(sum(-(-len(p.payload) // 64) for p in sent))
        data = payload[16 * begin : 16 * begin + size].ljust(size, b"\0")
        words += [
            (int.from_bytes(data[i : i + 16], "little"), int(i + 16 >= size))
            for i in range(0, size, 16)
        ]
        sent.append(Packet(payload))
        start += kept
    return sent, jobs, firsts, words


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.5), (0.3, 0.3)])
def test_runs(dut: Dut, stalls: tuple[float, float]) -> None:
    sent, jobs, firsts, words = traffic(Random(str(stalls)), 150)
    dut.reset()
    # Jobs come some clocks behind the first beats; here no sooner than all beats before are in.
    beats = packets.beats(sent)
    beats.pop("tuser")
    source = Source("s_axis", **beats, stall=stalls[0])
    got = Sink("m", fields=("tdata", "tlast"), stall=stalls[1])
    before = dut.clocks
    times = [
        before + 20 + int(first * (1 + 2 * stalls[0])) + 200 * i for i, first in enumerate(firsts)
    ]
    dut.stream(
        source,
        Source("s", job=jobs, valid="job_valid", ready="job_ready", not_before=times),
        got,
        seed=4,
        drain=1500,
    )
    found = list(zip(got.integers("tdata"), got.integers("tlast"), strict=True))
    assert found == words


def test_latency_and_rate(dut: Dut) -> None:
    payload = Random(2).randbytes(64 * 40)
    job = pack(packets.UNARY_JOB, word=4, words=128)
    dut.reset()
    beats = packets.beats([Packet(payload)])
    beats.pop("tuser")
    source = Source("s_axis", **beats, stall=0.5, burst=12)
    got = Sink("m", fields=("tdata",))
    before = dut.clocks
    dut.stream(
        source,
        Source("s", job=[job], valid="job_valid", ready="job_ready", not_before=[before + 3]),
        got,
        seed=1,
    )
    assert len(got) == 128
    for i in range(128):
        arrived = source.clocks[(4 + i) // 4]
        earliest = max(arrived + 3, before + 7, got.clocks[i - 1] + 1 if i else 0)
        assert got.clocks[i] <= earliest
