# SPDX-License-Identifier: Apache-2.0
"""wz_intake: first beats, lengths, what is kept of long packets, and room in the rings."""

from random import Random

import pytest

from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Packet
from tests.rtl.structs import pack


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_intake")


def streams(sent: list[Packet], stall: float) -> tuple[Source, Sink, Sink, Sink]:
    beats = packets.beats(sent, Random(1))
    beats["tdata"] = beats["tdata"][:, :48]
    return (
        Source("s_axis", **beats, stall=stall),
        Sink("m_first", valid="valid", ready=None, fields=("m_first",)),
        Sink("m_end", valid="valid", ready=None, fields=("bytes",)),
        Sink("write", valid="write", ready=None, fields=("write_address", "progress")),
    )


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_packets(dut: Dut, stall: float) -> None:
    rng = Random(str(stall))
    sent = [
        Packet(
            rng.randbytes(rng.choice((1, 63, 64, 65, 4104, 9000, rng.randint(1, 700)))),
            coded=rng.random() < 0.5,
            expect=rng.random() < 0.5,
            block_bytes=rng.randint(1, 4096),
        )
        for _ in range(120)
    ]
    dut.reset()
    # Nothing is ever held: every reader is where the writer is.
    dut["held"] = 0
    total = 0
    wanted, starts = [], []
    for number, packet in enumerate(sent):
        starts.append(total)
        place = {"packet": number % 64, "start": total % 512}
        size = len(packet.payload)
        wanted.append(
            pack(
                packets.FIRST,
                bytes=int.from_bytes(packet.payload[:48].ljust(48, b"\0"), "little"),
                user=packet.user,
                has_short=int(size >= 8),
                has_long=int(size >= 16),
                **place,
            )
        )
        total += min(65, -(-size // 64))
    # The rings are as large as all that: more is the matter of test_room.
    kept = [p for p, s in zip(sent, starts, strict=True) if s + 65 < 240]
    beats, first, end, written = streams(kept, stall)
    dut.stream(beats, first, end, written)
    short = [len(p.payload) for p in kept]
    found = first.integers("m_first")
    for got, want, packet in zip(found, wanted, kept, strict=False):
        size = min(48, len(packet.payload))
        # Bytes without keep are whatever they were.
        unknown = (1 << 384) - (1 << 8 * size) if size < 48 else 0
        assert got & ~(unknown << 36) == want & ~(unknown << 36)
    assert len(found) == len(kept)
    # The number of beats saturates at 127.
    assert end.integers("bytes") == [64 * min(126, (n - 1) // 64) + (n - 1) % 64 + 1 for n in short]
    assert written.integers("write_address") == list(
        range(sum(min(65, -(-n // 64)) for n in short))
    )
    ends = [i for i, last in enumerate(packets.beats(kept)["tlast"]) if last]
    assert [int(c) for c in end.clocks] == [int(beats.clocks[i]) + 2 for i in ends]


def test_long_packets_saturate(dut: Dut) -> None:
    dut["held"] = 0
    dut.reset()
    beats, first, end, written = streams([Packet(bytes(64 * 200)), Packet(bytes(5))], 0)
    dut.stream(beats, first, end, written)
    assert end.integers("bytes") == [8128, 5]
    assert len(written) == 65 + 1


def test_room(dut: Dut) -> None:
    """As long as a reader holds a packet, no beat of it is overwritten."""
    dut["held"] = 0
    dut.reset()
    sent = [Packet(bytes(4096))] * 5
    beats, first, end, written = streams(sent, 0)
    dut.stream(beats, first, end, written, clocks=400)
    assert 250 <= len(written) <= 256
    before = len(written)
    for pointer in (10, 64):
        # Four readers, 9 bits each; one lags behind.
        dut["held"] = sum((70 if reader else pointer) << 9 * reader for reader in range(4))
        dut.clock(3)
        assert dut["s_axis_tready"]
    more = Sink("write", valid="write", ready=None, fields=("write_address",))
    dut.stream(Source("s_axis", **beats.fields), more, clocks=300)
    assert 250 + 64 <= before + len(more) <= 256 + 64


def test_stall(dut: Dut) -> None:
    dut["held"] = 0
    dut.reset()
    dut["stall"] = 1
    dut.clock(2)
    assert not dut["s_axis_tready"]
    dut["stall"] = 0
    dut.clock(2)
    assert dut["s_axis_tready"]


def test_block_without_a_length_waits_for_its_end(dut: Dut) -> None:
    dut["held"] = 0
    dut.reset()
    beats, first, end, written = streams([Packet(bytes(640), coded=False)] * 2, 0)
    dut.stream(beats, first, end, written)
    assert [int(c) for c in first.clocks] == [int(beats.clocks[i]) + 1 for i in (9, 19)]
