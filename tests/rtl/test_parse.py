# SPDX-License-Identifier: Apache-2.0
"""wz_parse: plans, places and sizes of sections of golden frames, what it refuses, the rate."""

from random import Random

import pytest

from codec.elements import ElementType
from codec.format import CODER_LOW_BITS, Coder, Mode
from codec.header import parse_header
from tests.conformance.vectors import Bad, Good, load_bad, load_good
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Packet
from tests.rtl.structs import pack, unpack

GOOD = [v for v in load_good() if parse_header(v.frame).mode != Mode.REFERENCE]
BAD = [v for v in load_bad() if v.frame]
FIELDS = {
    "counts": packets.COUNTS,
    "record": packets.RECORD_JOB,
    "unary": packets.UNARY_JOB,
    "low": packets.LOW_JOB,
    "escape": packets.ESCAPE_JOB,
    "claim": packets.CLAIM,
}


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_parse")


def parse(dut: Dut, sent: list[Packet], stall: float = 0.0, *, bare: bool = False):
    """What came out for each packet: structs by name."""
    first = [
        pack(
            packets.FIRST,
            bytes=int.from_bytes(p.payload[:48].ljust(48, b"\0"), "little"),
            user=p.user,
            has_short=int(len(p.payload) >= 8),
            has_long=int(len(p.payload) >= 16),
            packet=i % 64,
            start=i * 37 % 512,
        )
        for i, p in enumerate(sent)
    ]
    dut.reset()
    dut["bare"] = int(bare)
    source = Source("s", first=first, valid="valid", ready=None, stall=stall)
    got = Sink("m", valid="valid", ready=None, fields=tuple(FIELDS))
    header = Sink("m", valid="header_valid", ready=None, fields=("header",))
    extras = Sink("m", valid="extras_valid", ready=None, fields=("extras",))
    dut.stream(source, got, header, extras)
    assert [int(c) for c in got.clocks] == [int(c) + 16 for c in source.clocks]
    assert [int(c) for c in header.clocks] == [int(c) + 1 for c in source.clocks]
    assert [int(c) for c in extras.clocks] == [int(c) + 6 for c in source.clocks]
    columns = {name: got.integers(name) for name in FIELDS}
    return [
        {name: unpack(columns[name][i], fields) for name, fields in FIELDS.items()}
        | {"header": header.integers("header")[i]}
        | {"extras": unpack(extras.integers("extras")[i], packets.EXTRAS)}
        for i in range(len(sent))
    ]


def packet_of(vector: Good | Bad) -> Packet:
    size = len(vector.block) if isinstance(vector, Good) else vector.block_bytes
    return Packet(vector.frame, True, True, vector.element, vector.phase, size)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_good_frames(dut: Dut, stall: float) -> None:
    sent = [packet_of(v) for v in GOOD]
    for i, (packet, found) in enumerate(zip(sent, parse(dut, sent, stall), strict=True)):
        want = packets.expected(packet, 32)
        start = i * 37 % 512
        assert want.plan is not None
        assert found["counts"]["coded"] == 1
        claim = found["claim"]
        assert claim["frame_bytes"] == len(packet.payload)
        assert not any(claim[name] for name in claim if name.startswith(("bad_", "too")))
        assert found["record"]["records"] == len(want.carriers)
        assert found["unary"]["words"] == len(want.unary)
        if want.plan["mode"] != Mode.CODED:
            assert found["escape"]["words"] == found["low"]["words"] == 0
            continue
        header = parse_header(packet.payload)
        for name in packets.COUNTS:
            assert found["counts"][name[0]] == want.plan[name[0]]
        for name in packets.EXTRAS:
            assert found["extras"][name[0]] == want.plan[name[0]]
        # Sections from the end of the frame, which holds nothing else.
        escape = len(packet.payload) - header.escapes
        unary = escape - header.unary_bytes
        k = CODER_LOW_BITS[Coder(header.coder)] if want.low or want.unary else 0
        values = want.plan["stored_values"]
        low = unary - -(-values * k // 128) * 16
        assert claim["low_word"] == low // 16
        assert claim["escape_byte"] == escape
        if want.unary:
            assert found["unary"]["word"] == (4 * start + unary // 16) % 2048
            assert found["unary"]["last_bytes"] == header.unary_bytes % 16
        if want.escapes:
            job = found["escape"]
            assert job["word"] == (4 * start + escape // 16) % 2048
            assert job["shift"] == escape % 16
            assert job["words"] == -(-(escape % 16 + header.escapes) // 16)
        if want.low:
            job = found["low"]
            before = int(job["remainder_used"] != 0)
            assert job["word"] == (4 * start + low // 16 - before) % 2048
            assert job["words"] == (unary - low) // 16 + before
            assert job["low_used"] == values * k % 128
            assert job["groups"] + 1 == len(want.low)


def test_bad_frames(dut: Dut) -> None:
    """Refused are those that cannot be valid, whatever follows their first beats."""
    sent = [packet_of(v) for v in BAD]
    for vector, found in zip(BAD, parse(dut, sent), strict=True):
        refused = found["counts"]["block_bytes"] == 0
        claim = found["claim"]
        known = any(claim[n] for n in claim if n.startswith(("bad_", "too", "unsupported")))
        short = len(vector.frame) < (16 if claim["long_header"] else 8)
        assert refused == (known or short), vector.name
        if refused:
            assert not found["counts"]["coded"]
            assert not found["record"]["records"] + found["unary"]["words"]
            assert not found["escape"]["words"] + found["low"]["emit"]


def test_bare(dut: Dut) -> None:
    sent = [packet_of(v) for v in GOOD]
    for packet, found in zip(sent, parse(dut, sent, bare=True), strict=True):
        raw = parse_header(packet.payload).mode == Mode.RAW
        refused = raw or len(packet.payload) >= packet.block_bytes
        assert (found["counts"]["block_bytes"] == 0) == refused


def test_blocks_as_they_are(dut: Dut) -> None:
    rng = Random(1)
    sizes = [1, 63, 64, 65, 4095, 4096, *(rng.randint(1, 4096) for _ in range(40))]
    sent = [Packet(rng.randbytes(n), False, True, ElementType.BF16, 0, n) for n in sizes]
    for size, found in zip(sizes, parse(dut, sent), strict=True):
        assert found["counts"]["block_bytes"] == size
        assert found["record"]["records"] == -(-size // 64)
        assert found["record"]["last"] == (size - 1) % 64 + 1
        assert found["claim"]["frame_bytes"] == size


@pytest.mark.parametrize("size", [0, 1, 700, 4096, 4097, 8128])
def test_length_of_the_packet(dut: Dut, size: int) -> None:
    """Without another one, the length is that of the packet: known a clock later."""
    dut.reset()
    dut["s_first"] = pack(packets.FIRST, has_short=1, has_long=1)
    dut["s_valid"] = 1
    dut.clock()
    dut["s_valid"] = 0
    dut["s_packet_bytes"] = size
    dut.clock()
    dut["s_packet_bytes"] = 77
    dut.clock(14)
    assert dut["m_valid"]
    counts = unpack(dut["m_counts"], packets.COUNTS)
    assert counts["block_bytes"] == (size if 1 <= size <= 4096 else 0)
