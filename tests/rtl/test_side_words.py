# SPDX-License-Identifier: Apache-2.0
"""wz_side_words: low bits and escapes from one ring, one not held up by the other."""

from pathlib import Path
from random import Random

import pytest

from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Packet
from tests.rtl.structs import pack

BENCH = Path(__file__).with_name("side_bench.sv")


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("side_bench", extra=(BENCH,))


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_both_streams(dut: Dut, stall: float) -> None:
    rng = Random(str(stall))
    sent, lows, escapes, firsts = [], [], [], []
    low_words, escape_words = [], []
    start = 0
    for number in range(120):
        payload = rng.randbytes(rng.randint(1, 4104))
        kept = -(-len(payload) // 64)
        place = {"packet": number % 64, "start": start % 512}

        def word_at(at: int, data: bytes = payload) -> int:
            return int.from_bytes(data[16 * at : 16 * at + 16].ljust(16, b"\0"), "little")

        at, words = rng.randrange(4 * kept + 2), rng.choice((0, 1, 2, 64, rng.randint(0, 65)))
        remainder, used = rng.choice((0, 5)), rng.choice((0, 77))
        emit = rng.randrange(2)
        lows.append(
            pack(
                packets.LOW_JOB,
                **place,
                word=(4 * start + at) % 2048,
                words=words,
                remainder_used=remainder,
                low_used=used,
                emit=emit,
            )
        )
        for i in range(max(1, words)):
            first, last = i == 0 and bool(remainder), i >= words - 1
            low_words.append(
                (
                    word_at(at + i) if words else 0,
                    remainder if first else used if last else 0,
                    int(first),
                    int(bool(words) and bool(emit) and not first),
                    int(last),
                )
            )
        at, words = rng.randrange(4 * kept + 2), rng.choice((0, 0, 1, 2, 17))
        shift, flush = rng.randrange(16), rng.randrange(2)
        escapes.append(
            pack(
                packets.ESCAPE_JOB,
                **place,
                word=(4 * start + at) % 2048,
                words=words,
                shift=shift,
                flush=flush,
            )
        )
        for i in range(words):
            escape_words.append((word_at(at + i), shift, int(i == 0), int(i == words - 1), flush))
        firsts.append(sum(-(-len(p.payload) // 64) for p in sent))
        sent.append(Packet(payload))
        start += kept
    dut.reset()
    dut["room"] = 1
    beats = packets.beats(sent)
    beats.pop("tuser")
    times = [dut.clocks + 20 + first + 150 * i for i, first in enumerate(firsts)]
    low = Sink("m_low", ready=None, fields=("tdata", "used", "remainder", "emit", "last"))
    escape = Sink("m_escape", stall=stall, fields=("tdata", "shift", "first", "last", "flush"))
    dut.stream(
        Source("s_axis", **beats),
        Source("s", low=lows, valid="low_valid", ready="low_ready", not_before=times),
        Source("s", escape=escapes, valid="escape_valid", ready="escape_ready", not_before=times),
        low,
        escape,
        drain=1000,
    )
    # Words of empty jobs are not of interest.
    found = list(zip(*(low.integers(name) for name in low.fields), strict=True))
    assert len(found) == len(low_words)
    for got, want in zip(found, low_words, strict=True):
        assert got == want
    assert list(zip(*(escape.integers(n) for n in escape.fields), strict=True)) == escape_words
    # A word of low bits a clock, whatever the escapes do.
    assert low.clocks[-1] - low.clocks[0] < 150 * 120 + sum(firsts[-1:]) + 200
