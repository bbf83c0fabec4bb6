# SPDX-License-Identifier: Apache-2.0
"""wz_escape_words: every shift and number of escapes, stalls, a word a clock."""

from random import Random

import pytest

from tests.rtl.dut import Dut, Sink, Source

FIELDS = ("tdata", "shift", "first", "last", "flush")


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_escape_words")


def frames(rng: Random, cases: list[tuple[int, int]]) -> tuple[dict[str, list[int]], list[bytes]]:
    """16-byte words that hold the escapes of each (shift, number), and the escapes."""
    sent: dict[str, list[int]] = {name: [] for name in FIELDS}
    wanted = []
    for shift, count in cases:
        escapes = rng.randbytes(count)
        words = -(-(shift + count) // 16)
        data = (rng.randbytes(shift) + escapes).ljust(16 * words, b"\xee")
        for i in range(words):
            word = int.from_bytes(data[16 * i : 16 * i + 16], "little")
            flush = words == -(-count // 16)
            for name, value in zip(
                FIELDS, (word, shift, i == 0, i == words - 1, flush), strict=True
            ):
                sent[name].append(int(value))
        wanted.append(escapes)
    return sent, wanted


def check(got: Sink, wanted: list[bytes]) -> None:
    words = iter(got.integers("tdata"))
    for escapes in wanted:
        data = b"".join(next(words).to_bytes(64, "little") for _ in range(0, len(escapes), 64))
        assert data[: len(escapes)] == escapes
    assert not list(words)


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_every_shift(dut: Dut, stalls: tuple[float, float]) -> None:
    rng = Random(str(stalls))
    cases = [(shift, n) for shift in range(16) for n in (1, 15, 16, 17, 48, 63, 64, 65, 128, 255)]
    rng.shuffle(cases)
    sent, wanted = frames(rng, cases)
    dut.reset()
    source = Source("s", **sent, stall=stalls[0])
    got = Sink("m", stall=stalls[1])
    dut.stream(source, got, seed=2)
    check(got, wanted)
    if stalls == (0, 0):
        # A word a clock, and one more where the last makes a quarter by itself.
        flushes = sum(
            last and flush for last, flush in zip(sent["last"], sent["flush"], strict=True)
        )
        assert source.clocks[-1] - source.clocks[0] <= len(sent["tdata"]) + flushes


def test_latency(dut: Dut) -> None:
    sent, wanted = frames(Random(1), [(3, 13)])
    dut.reset()
    source, got = Source("s", **sent), Sink("m")
    dut.stream(source, got)
    check(got, wanted)
    assert got.clocks[0] == source.clocks[0] + 3
