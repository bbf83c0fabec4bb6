# SPDX-License-Identifier: Apache-2.0
"""The layer that drives modules: it delivers, it notes clocks, and it notices what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source, Stuck

PROBE = Path(__file__).with_name("wz_probe.sv")
FIELDS = ("tdata", "tuser")


def probe(*, seed: int = 1, **parameters: int | str) -> Dut:
    dut = Dut("wz_probe", parameters=parameters, extra=(PROBE,), seed=seed)
    dut.reset()
    return dut


def beats(count: int, bits: int) -> list[int]:
    rng = np.random.default_rng(count)
    return [int.from_bytes(rng.bytes(-(-bits // 8)), "little") >> (-bits % 8) for _ in range(count)]


@pytest.mark.parametrize("bits", [1, 8, 16, 33, 64, 65, 130, 512])
def test_every_width_arrives(bits: int) -> None:
    dut = probe(W=bits)
    assert dut.ports["s_tdata"] == bits
    data, users = beats(100, bits), beats(100, 6)
    sent = Source("s", tdata=data, tuser=users, stall=0.3)
    got = Sink("m", fields=FIELDS, stall=0.3, burst=4)
    dut.stream(sent, got, seed=2)
    assert got.integers("tdata") == data
    assert got.integers("tuser") == users
    assert len(got) == sent.taken == 100
    # One port at a time sees the same.
    dut["s_tdata"], dut["s_tvalid"] = data[0], 1
    dut.clock()
    assert (dut["m_tdata"], dut["m_tvalid"], dut["s_tready"]) == (data[0], 1, 0)


def test_arrays_of_bytes_and_of_integers() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (50, 17), np.uint8)
    rows[:, 16] &= 3
    users = (np.arange(50) % 64).astype(np.uint8)
    got = Sink("m", fields=FIELDS)
    probe().stream(Source("s", tdata=rows, tuser=users), got)
    assert np.array_equal(got["tdata"], rows)
    assert np.array_equal(got["tuser"], users)


def test_clocks_are_those_of_a_register() -> None:
    dut = probe()
    sent, got = Source("s", tdata=range(40), tuser=range(40)), Sink("m")
    passed = dut.stream(sent, got, drain=10)
    assert passed == 40 + 1 + 10
    assert np.all(np.diff(got.clocks) == 1)
    assert np.all(got.clocks - sent.clocks == 1)
    late = Source("s", tdata=[1, 2], tuser=[0, 0], not_before=[dut.clocks + 5, dut.clocks + 9])
    start = dut.clocks
    dut.stream(late, got)
    assert (late.clocks - start).tolist() == [5, 9]


def test_runs_follow_their_seed() -> None:
    runs = []
    for seed in (3, 3, 4):
        sent = Source("s", tdata=range(200), tuser=[0] * 200, stall=0.5)
        got = Sink("m", stall=0.5)
        probe().stream(sent, got, seed=seed)
        runs.append(got.clocks.tolist())
    assert runs[0] == runs[1] != runs[2]


def test_flops_without_a_reset_start_at_random() -> None:
    assert len({probe(seed=seed)["unset"] for seed in range(1, 9)}) > 4
    assert probe(seed=5)["unset"] == probe(seed=5)["unset"]


def test_streams_without_a_handshake() -> None:
    dut = probe()
    sent = Source("s", tdata=range(20), tuser=[0] * 20)
    every = Sink("", fields=("passed",), valid=None, ready=None)
    seen = Sink("m", ready=None, fields=FIELDS)
    dut["m_tready"] = 1
    dut.stream(sent, every, seen, clocks=25)
    assert every["passed"].tolist() == [0, 0, *range(1, 21), 20, 20, 20]
    assert seen.integers("tdata") == list(range(20))


def test_leaving_off_in_the_middle() -> None:
    dut = probe()
    sent, got = Source("s", tdata=range(100), tuser=[0] * 100), Sink("m")
    assert dut.stream(sent, got, clocks=30) == 30
    assert (sent.taken, len(got)) == (30, 29)
    dut.reset()
    assert dut["m_tvalid"] == 0
    dut.stream(Source("s", tdata=[9], tuser=[0]), got)
    assert got.integers("tdata") == [9]


def test_a_stream_that_stands_still() -> None:
    with pytest.raises(Stuck, match="beats: s 1 of 5"):
        probe().stream(Source("s", tdata=range(5), tuser=[0] * 5))


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("payload", "m: payload changed before the beat was taken"),
        ("valid", "m: valid fell before the beat was taken"),
        ("assertion", r".*wz_probe\.sv:\d+: assertion failed"),
    ],
)
def test_mistakes_are_found(mistake: str, said: str) -> None:
    dut = probe(MISTAKE=mistake)
    sent = Source("s", tdata=[0x70 + i % 8 for i in range(50)], tuser=[0] * 50)
    with pytest.raises(AssertionError, match=rf"clock \d+: {said}"):
        dut.stream(sent, Sink("m", stall=0.5))


def test_assertions_fail_outside_of_streams_too() -> None:
    dut = probe(MISTAKE="assertion")
    dut["s_tdata"], dut["s_tvalid"] = 0x77, 1
    with pytest.raises(AssertionError, match="assertion failed"):
        dut.clock(2)


def test_what_does_not_fit_is_refused() -> None:
    dut = probe(W=9)
    with pytest.raises(ValueError, match="s_tdata: expected 9 bits; found 0x200"):
        dut["s_tdata"] = 512
    with pytest.raises(ValueError, match="s_tuser: expected 6 bits"):
        dut.stream(Source("s", tdata=[1], tuser=[64]))
    with pytest.raises(ValueError, match="expected fields of one length"):
        Source("s", tdata=[1], tuser=[1, 2])
    with pytest.raises(ValueError, match="found s_nothing"):
        dut.stream(Source("s", nothing=[1]))
