# SPDX-License-Identifier: Apache-2.0
"""wz_peak: the base of the order, as the format defines it, and the count of symbol 0."""

from random import Random

from tests.rtl.dut import Dut, Sink, Source

WIDTH = 13
LATENCY = 3


def histogram(rng: Random) -> dict[int, int]:
    """Counts of a block of at most 4,096 values, in words of four that may have gaps between."""
    kind = rng.randrange(5)
    if kind == 0:
        return {rng.randrange(256): 4096}
    if kind == 1:
        return {0: rng.randrange(1, 4096)}
    symbols = rng.sample(range(256), rng.randrange(1, 60))
    # Few different counts, so that several are the highest.
    return {symbol: rng.randrange(1, 4 if kind == 2 else 60) for symbol in symbols}


def test_bases() -> None:
    dut = Dut("wz_peak", parameters={"COUNT_W": WIDTH})
    dut.reset()
    rng = Random("peaks")
    rows: dict[str, list[int]] = {
        name: [] for name in ("word", "first", "last", "groups", "counts")
    }
    ends, expected = [], []
    for _ in range(400):
        counts = histogram(rng)
        groups = rng.getrandbits(8) | bool(counts.get(0))
        words = range(min(counts) // 4, max(counts) // 4 + 1)
        for word in words:
            rows["word"].append(word)
            rows["first"].append(word == words[0])
            rows["last"].append(word == words[-1])
            rows["groups"].append(groups)
            rows["counts"].append(sum(counts.get(4 * word + i, 0) << WIDTH * i for i in range(4)))
        ends.append(len(rows["word"]) - 1)
        others = {symbol: count for symbol, count in counts.items() if symbol}
        most = max(others.values(), default=0)
        base = min((s for s, count in others.items() if count == most), default=1)
        zeros = counts.get(0, 0) if words[0] == 0 else 0
        expected.append((base, most, zeros, groups))
    for stall in (0.0, 0.4):
        sent = Source("s", **rows, valid="valid", ready=None, stall=stall)
        fields = ("symbol", "count", "zeros", "groups")
        got = Sink("m", fields=fields, valid="valid", ready=None)
        dut.stream(sent, got, drain=20)
        assert list(zip(*(got.integers(name) for name in fields), strict=True)) == expected
        assert [int(clock) for clock in got.clocks - sent.clocks[ends]] == [LATENCY] * len(ends)


def test_reset_in_a_block() -> None:
    dut = Dut("wz_peak", parameters={"COUNT_W": WIDTH})
    dut["s_valid"] = dut["s_first"] = dut["s_last"] = 1
    dut.clock()
    dut.reset()
    dut["s_valid"] = 0
    for _ in range(5):
        assert not dut["m_valid"]
        dut.clock()
