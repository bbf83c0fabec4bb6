# SPDX-License-Identifier: Apache-2.0
"""wz_words: runs word for word, held up by grants and by the writer, empty runs, a job a clock."""

from random import Random

from tests.rtl.dut import Dut, Sink, Source

FIELDS = ("bank", "address", "missing", "empty", "first", "last", "user")


def test_runs() -> None:
    dut = Dut("wz_words", parameters={"USER_W": 8})
    rng = Random(1)
    rows, wanted = [], []
    for number in range(200):
        word, words, user = rng.randrange(400), rng.choice((0, 1, 2, 30, 128)), number % 256
        rows.append((0, word, words, user))
        for i in range(max(1, words)):
            at = word + i
            wanted.append(
                (
                    at % 4,
                    at // 4,
                    int(at >= 240),
                    int(not words),
                    int(not i),
                    int(i >= words - 1),
                    user,
                )
            )
    place, word, words, user = (list(column) for column in zip(*rows, strict=True))
    for stall in (0.0, 0.5):
        dut.reset()
        # Packet 0 has ended after 60 beats.
        dut["progress"] = 60 << 2 | 3
        dut.clock()
        dut["progress"] = 1 << 11 | 60 << 2
        got = Sink("m", ready="grant", valid="valid", fields=FIELDS, stall=stall)
        sent = Source(
            "s", valid="valid", ready="ready", place=place, word=word, words=words, user=user
        )
        dut.stream(sent, got)
        columns = [got.integers(name) for name in FIELDS]
        assert list(zip(*columns, strict=True)) == wanted
        if not stall:
            assert got.clocks[0] == sent.clocks[0] + 2
            assert got.clocks[-1] - got.clocks[0] == len(wanted) - 1


def test_waits_for_the_writer() -> None:
    dut = Dut("wz_words", parameters={"USER_W": 8})
    dut.reset()
    dut["progress"] = 1 << 2
    dut["s_word"], dut["s_words"], dut["s_valid"], dut["m_grant"] = 2, 6, 1, 1
    dut.clock()
    dut["s_valid"] = 0
    dut.clock()
    assert dut["m_valid"]
    dut.clock(2)
    # Beat 1 has not been written.
    assert not dut["m_valid"]
    dut.clock(5)
    assert not dut["m_valid"]
    dut["progress"] = 2 << 2 | 1
    dut.clock()
    dut["progress"] = 2 << 2
    assert dut["m_valid"]
    assert not dut["m_missing"]
    # It waits for a grant, and for nothing else.
    dut["m_grant"] = 0
    dut.clock(3)
    assert (dut["m_bank"], dut["m_address"]) == (0, 1)
    dut["m_grant"] = 1
    dut.clock(3)
    assert dut["m_last"]
    dut.clock()
    assert not dut["m_valid"]


def test_last_beat_comes_with_the_job() -> None:
    """Whenever the only beat of a packet is written, its words are there."""
    dut = Dut("wz_words", parameters={"USER_W": 8})
    for when in range(6):
        dut.reset()
        dut["m_grant"] = 1
        dut["s_words"], dut["s_word"] = 1, 4
        for clock in range(12):
            dut["s_valid"] = int(clock == 2)
            # Beat 0 is there from the start, beat 1 is the last.
            dut["progress"] = (1 << 11 | 2 << 2) if clock > when else 1 << 2
            if clock == when:
                dut["progress"] = 2 << 2 | 0b11
            dut.eval()
            if dut["m_valid"]:
                assert not dut["m_missing"], when
                break
            dut.clock()
        else:
            raise AssertionError("no word")
        dut.clock()
