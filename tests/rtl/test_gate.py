# SPDX-License-Identifier: Apache-2.0
"""wz_gate: bypass, the way through the core, cuts, changes of configuration and flushes."""

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.test_width import FIELDS, beats

BYTES = 16
CUT = 256


@pytest.fixture(scope="module")
def dut() -> Dut:
    parameters = {"DATA_W": 8 * BYTES, "S_USER_W": 9, "CONFIG_W": 3, "CUT_BYTES": CUT}
    return Dut("wz_gate", parameters=parameters)


def configure(dut: Dut, want: int) -> None:
    dut.reset()
    dut["want"] = want
    dut.clock(8)
    assert dut["active"] == want


def packets(count: int, longest: int = 400) -> list[bytes]:
    random = np.random.default_rng(count)
    return [random.bytes(int(size)) for size in random.integers(1, longest, count)]


def source(prefix: str, what: list[bytes], **options: float) -> Source:
    return Source(prefix, **beats(what, BYTES), **options)


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3), (0.05, 0.8)])
def test_bypass(dut: Dut, stalls: tuple[float, float]) -> None:
    configure(dut, 0b110)
    sent = source("s_axis", packets(200), stall=stalls[0])
    got, core = Sink("m_axis", fields=FIELDS, stall=stalls[1]), Sink("m_core")
    dut.stream(sent, got, core)
    assert len(core) == 0
    for field in ("tdata", "tkeep", "tlast"):
        assert got.integers(field) == beats(packets(200), BYTES)[field], field
    assert not any(got["tuser"])
    if stalls == (0, 0):
        assert np.array_equal(got.clocks, sent.clocks + 1)
        assert np.array_equal(np.diff(sent.clocks), np.ones(sent.taken - 1))
    assert not dut["busy"]


@pytest.mark.parametrize("stall", [0, 0.3])
def test_through_the_core(dut: Dut, stall: float) -> None:
    configure(dut, 0b001)
    there = packets(100, 1000)
    blocks = [
        (number, packet[at : at + CUT])
        for number, packet in enumerate(there)
        for at in range(0, len(packet), CUT)
    ]
    answers = packets(len(blocks))
    sent = source("s_axis", there, stall=stall)
    core = Sink("m_core", fields=FIELDS, stall=stall)
    columns = beats(answers, BYTES)
    columns["tuser"] = [number & 1 for number in columns["tuser"]]
    # No answer before its question; a core that holds so many packets is not needed here.
    late = dut.clocks + (12_000 if stall else 900)
    back = Source("s_core", **columns, stall=stall, not_before=[late] * len(columns["tlast"]))
    got = Sink("m_axis", fields=FIELDS, stall=stall)
    dut.stream(sent, core, back, got, patience=20_000)
    expected = beats([block for _, block in blocks], BYTES)
    for field in ("tdata", "tkeep", "tlast"):
        assert core.integers(field) == expected[field], field
    # At the first beat of a block tuser is that of its packet.
    firsts = [0, *(np.flatnonzero(expected["tlast"])[:-1] + 1)]
    assert [core.integers("tuser")[i] for i in firsts] == [number for number, _ in blocks]
    for field in FIELDS:
        assert got.integers(field) == columns[field], field
    assert not dut["busy"]


def test_a_change_waits_for_the_path(dut: Dut) -> None:
    configure(dut, 0b001)
    packet = beats([bytes(100)], BYTES)
    first = {field: values[:3] for field, values in packet.items()}
    rest = {field: values[3:] for field, values in packet.items()}
    dut.stream(Source("s_axis", **first), Sink("m_core"), clocks=5)
    dut["want"] = 0b100
    dut.clock(10)
    assert (dut["active"], dut["busy"], dut["pending"]) == (0b001, 1, 1)
    dut["m_core_tready"] = 1
    dut.eval()
    assert dut["s_axis_tready"]
    after = source("s_axis", [bytes(20)])
    dut.stream(Source("s_axis", **rest), Sink("m_core"), clocks=10)
    # The packet is in; the next one waits until the first has left.
    dut.stream(after, Sink("m_core"), clocks=50)
    assert (after.taken, dut["active"], dut["busy"]) == (0, 0b001, 1)
    got = Sink("m_axis", fields=("tlast",))
    answer = Source("s_core", **{**packet, "tuser": [1] * len(packet["tuser"])})
    dut["s_axis_tvalid"] = 0
    dut.stream(answer, got)
    assert (len(got), dut["active"], dut["busy"]) == (answer.beats, 0b100, 0)
    assert not dut["pending"]
    dut.stream(source("s_axis", [bytes(20)]), got)
    assert len(got) == 2


def test_flush_drops_what_is_inside(dut: Dut) -> None:
    configure(dut, 0b001)
    packet = beats([bytes(240)], BYTES)
    first = {field: values[:6] for field, values in packet.items()}
    rest = {field: values[6:] for field, values in packet.items()}
    dut.stream(Source("s_axis", **first), Sink("m_core"), clocks=8)
    dut.stream(Source("s_core", **{**first, "tuser": [1] * 6}), clocks=8)
    assert dut["m_axis_tvalid"]
    dut["flush"] = 1
    dut.clock()
    dut["flush"] = 0
    resets = 0
    for _ in range(10):
        dut.clock()
        resets += dut["core_rst"]
    assert resets == 4
    assert not dut["m_axis_tvalid"]
    core, got = Sink("m_core", fields=("tdata",)), Sink("m_axis")
    sent = Source("s_axis", **rest)
    dut.stream(sent, core, got)
    assert (sent.taken, len(core), len(got), dut["busy"]) == (sent.beats, 0, 0, 0)
    dut.stream(source("s_axis", [bytes(20)]), core, got)
    assert len(core) == 2


def test_a_reset_of_one_clock_is_enough(dut: Dut) -> None:
    # It comes while packets of a beat pass in bypass: nothing is counted as inside or as passed.
    configure(dut, 0b110)
    dut.stream(source("s_axis", [b"\x07"] * 100), Sink("m_axis"), clocks=20)
    assert dut["bypassed"]
    dut["s_axis_tvalid"] = 0
    dut.reset(1)
    for _ in range(10):
        assert (dut["busy"], dut["bypassed"], dut["m_axis_tvalid"]) == (0, 0, 0)
        dut.clock()
    assert (dut["active"], dut["pending"], dut["s_axis_tready"]) == (0b110, 0, 1)
    sent = source("s_axis", [b"\x07"] * 100)
    dut.stream(sent, Sink("m_axis"))
    assert np.array_equal(np.diff(sent.clocks), np.ones(99))


def test_reset_forgets_the_packet(dut: Dut) -> None:
    configure(dut, 0b001)
    first = {field: values[:3] for field, values in beats([bytes(100)], BYTES).items()}
    dut.stream(Source("s_axis", **first), Sink("m_core"), clocks=5)
    configure(dut, 0)
    assert not dut["busy"]
    got = Sink("m_axis", fields=("tdata",))
    dut.stream(source("s_axis", [b"\x07" * 20]), got)
    assert len(got) == 2
