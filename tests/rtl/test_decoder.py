# SPDX-License-Identifier: Apache-2.0
"""wz_decoder: every golden frame, verdicts on bad and damaged ones, widths, rates and latencies."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from codec.errors import CorruptFrame, ReferenceMismatch, TruncatedFrame, UnsupportedFrame
from codec.format import CODER_LOW_BITS, CODER_RANKS, Coder, Mode
from codec.header import parse_header
from tests.conformance import blocks, builder
from tests.conformance.vectors import Bad, Good, load_bad, load_good
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Error, Packet

BF16, FP32, E5M2 = ElementType.BF16, ElementType.FP32, ElementType.E5M2
GOOD = [v for v in load_good() if parse_header(v.frame).mode != Mode.REFERENCE]
BAD = [v for v in load_bad() if v.frame]
CLASSES = {
    TruncatedFrame: Error.TRUNCATED,
    CorruptFrame: Error.CORRUPT,
    UnsupportedFrame: Error.UNSUPPORTED,
    ReferenceMismatch: Error.UNSUPPORTED,
}
SINK = ("tdata", "tkeep", "tlast", "tuser")


@pytest.fixture(scope="module", params=[512, 256, 128])
def width(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(width: int) -> Dut:
    return Dut("wz_decoder", parameters={"DATA_W": width})


@pytest.fixture(scope="module")
def wide() -> Dut:
    return Dut("wz_decoder", parameters={"DATA_W": 512})


def packet_of(vector: Good | Bad, **other: object) -> Packet:
    length = len(vector.block) if isinstance(vector, Good) else vector.block_bytes
    fields = {
        "payload": vector.frame,
        "expect": True,
        "element": vector.element,
        "phase": vector.phase,
        "block_bytes": length,
    }
    return Packet(**(fields | other))  # type: ignore[arg-type]


def source(sent: Sequence[Packet], width: int, stall: float = 0.0) -> Source:
    """The packets in beats of `width` bits; what does not count is random."""
    rng = Random("filler")
    size = width // 8
    data, keep, last, user = [], [], [], []
    for packet in sent:
        for at in range(0, len(packet.payload), size):
            part = packet.payload[at : at + size]
            data.append(part + rng.randbytes(size - len(part)))
            keep.append((1 << len(part)) - 1)
            last.append(at + size >= len(packet.payload))
            user.append(rng.getrandbits(19) if at else packet.user)
    return Source(
        "s_axis",
        tdata=np.frombuffer(b"".join(data), np.uint8).reshape(-1, size),
        tkeep=keep,
        tlast=last,
        tuser=user,
        stall=stall,
        burst=6,
    )


def run(
    dut: Dut,
    sent: Sequence[Packet],
    *,
    width: int = 512,
    bare: bool = False,
    stalls: tuple[float, float] = (0.0, 0.0),
) -> tuple[Source, Sink]:
    dut.reset()
    dut["bare"] = int(bare)
    given = source(sent, width, stalls[0])
    got = Sink("m_axis", fields=SINK, stall=stalls[1], burst=12)
    dut.stream(given, got, drain=3000 if stalls[1] else 500)
    return given, got


def received(got: Sink) -> list[tuple[bytes, Error]]:
    out, block = [], b""
    for i, keep in enumerate(got.integers("tkeep")):
        size = int(keep).bit_length()
        assert size
        assert int(keep) == (1 << size) - 1
        assert size == got["tdata"].shape[1] or got["tlast"][i]
        block += got["tdata"][i][:size].tobytes()
        if got["tlast"][i]:
            out.append((block, Error(int(got["tuser"][i]))))
            block = b""
    assert not block
    return out


def check(sent: Sequence[Packet], got: Sink, *, bare: bool = False) -> None:
    """Blocks and classes of errors are the reference codec's."""
    found = received(got)
    assert len(found) == len(sent)
    for i, (packet, (block, error)) in enumerate(zip(sent, found, strict=True)):
        want = packets.outcome(packet, bare=bare)
        where = f"packet {i}: {packet.payload[:16].hex()} of {len(packet.payload)}, {want}"
        if isinstance(want, bytes):
            assert error == Error.NONE, where
            assert block == want, where
        else:
            assert error == CLASSES[want], where
            assert len(block) <= 4096, where


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3), (0, 0.8), (0.8, 0)])
def test_golden_frames(dut: Dut, width: int, stalls: tuple[float, float]) -> None:
    sent = [packet_of(v) for v in (GOOD if stalls == (0, 0) else GOOD[::3])]
    Random(4).shuffle(sent)
    _, got = run(dut, sent, width=width, stalls=stalls)
    check(sent, got)


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3)])
def test_bad_frames(dut: Dut, width: int, stalls: tuple[float, float]) -> None:
    sent = [packet_of(v) for v in BAD]
    _, got = run(dut, sent, width=width, stalls=stalls)
    check(sent, got)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3)])
def test_damaged_frames(dut: Dut, width: int, stalls: tuple[float, float], bare: bool) -> None:
    rng = Random(f"damage {bare}")
    small = [v for v in GOOD if len(v.frame) < 1200]
    sent = []
    for _ in range(500):
        vector = rng.choice(small if rng.random() < 0.9 else GOOD)
        payload = packets.damaged(rng, vector.frame) if rng.random() < 0.7 else vector.frame
        sent.append(packet_of(vector, payload=payload, expect=rng.random() < 0.5))
        if rng.random() < 0.2:
            block = vector.block + bytes(rng.choice((0, 0, 1, 5000)))
            sent.append(packet_of(vector, payload=block, coded=False, expect=rng.random() < 0.5))
    _, got = run(dut, sent, width=width, bare=bare, stalls=stalls)
    check(sent, got, bare=bare)


@pytest.mark.full
def test_every_cut_of_a_frame(wide: Dut) -> None:
    names = {"sections/FP32-extras-phase-3", "codes/BF16-escapes-16", "unusual/coder-F2"}
    for vector in (v for v in GOOD if v.name in names):
        sent = [packet_of(vector, payload=vector.frame[:n]) for n in range(1, len(vector.frame))]
        _, got = run(wide, sent)
        check(sent, got)


@pytest.mark.full
def test_every_bit_of_a_frame(wide: Dut) -> None:
    names = {"sections/FP32-extras-phase-3", "codes/BF16-escapes-16", "unusual/coder-F2"}
    for vector in (v for v in GOOD if v.name in names):
        sent = []
        for bit in range(8 * len(vector.frame)):
            data = bytearray(vector.frame)
            data[bit // 8] ^= 1 << bit % 8
            sent.append(packet_of(vector, payload=bytes(data), expect=bool(bit % 2)))
        _, got = run(wide, sent)
        check(sent, got)


def _rate(sent: Sequence[Packet], given: Source, got: Sink) -> float:
    """max(input beats, output beats) / clocks between the ends of the first and the last block."""
    ends = np.flatnonzero(got["tlast"])
    clocks = int(got.clocks[ends[-1]] - got.clocks[ends[0]])
    beats_in = sum(-(-len(packet.payload) // 64) for packet in sent[1:])
    return max(int(ends[-1] - ends[0]), beats_in) / clocks


def _frames(data: Sequence[bytes], element: ElementType = BF16) -> list[Packet]:
    return [Packet(reference.encode_frame(block, element)) for block in data]


def _load(kind: str) -> list[Packet]:
    rng = Random(kind)
    if kind == "weights":
        return _frames([blocks.weights(rng, BF16, 4096) for _ in range(8)])
    if kind == "FP32":
        return _frames([blocks.weights(rng, FP32, 4096) for _ in range(8)], FP32)
    if kind == "relu":
        symbols = blocks.normal_symbols(rng, BF16, 2048)
        return _frames([blocks.sprinkled(rng, BF16, symbols, zeros=0.5) for _ in range(8)])
    if kind == "bare":
        return [Packet(blocks.noise(rng, 4096), coded=False) for _ in range(8)]
    if kind == "raw":
        return [Packet(builder.raw(blocks.noise(rng, 4096), BF16).frame()) for _ in range(8)]
    if kind == "small bare":
        return [Packet(blocks.noise(rng, 64), coded=False) for _ in range(200)]
    if kind == "escapes":
        block = blocks.with_symbols(rng, BF16, [200] * 64 + [127] * 1984)
        draft = builder.coded(block, BF16, base=127, zero_rank=15, coder=Coder.R2)
    else:
        block = blocks.with_symbols(rng, BF16, [96] * 1024 + [100] * 1024)
        draft = builder.coded(block, BF16, base=100, path=0x3FFF, zero_rank=15)
        assert draft.used_bits == 3 * 2048
    assert draft.within_limits
    return [Packet(draft.frame())] * 8


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("weights", 0.99),
        ("FP32", 0.99),
        ("relu", 0.99),
        ("bare", 0.99),
        ("raw", 0.99),
        ("small bare", 0.99),
        ("escapes", 0.9),
        ("unary", 0.9),
    ],
)
def test_rate(wide: Dut, kind: str, least: float) -> None:
    sent = _load(kind)
    given, got = run(wide, sent)
    check(sent, got)
    assert _rate(sent, given, got) >= least


@pytest.mark.parametrize(
    ("element", "most"), [(BF16, 62), (FP32, 76), (ElementType.FP16, 74), (E5M2, 90)]
)
@pytest.mark.parametrize("coder", list(Coder))
def test_latency(wide: Dut, element: ElementType, coder: Coder, most: int) -> None:
    """First beat in to first beat out, blocks of 4 KiB."""
    rng = Random(3)
    top = min(127, (1 << element.layout.exponent_bits) - 1)
    symbols = [top - (i % 5) for i in range(4096 // element.width_bytes)]
    block = blocks.with_symbols(rng, element, symbols)
    draft = builder.coded(block, element, base=top, path=0x3FFF, zero_rank=15, coder=coder)
    sent = [Packet(draft.frame())]
    given, got = run(wide, sent)
    check(sent, got)
    assert got.clocks[0] - given.clocks[0] <= most


@pytest.mark.parametrize(
    ("coder", "most"), [(Coder.R0, 66), (Coder.R1, 70), (Coder.R2, 74), (Coder.F2, 74)]
)
def test_latency_where_the_first_values_escape(wide: Dut, coder: Coder, most: int) -> None:
    """Their symbols come last, behind a unary section as long as the format allows."""
    low_bits = CODER_LOW_BITS[coder]
    fixed = 3 if coder == Coder.F2 else 0

    def code_bits(rank: int) -> int:
        return (rank - fixed >> (low_bits if not fixed else 0)) + 1 if rank >= fixed else 0

    count, escapes = 2048, 64
    symbols = [200] * escapes
    left = 3 * count - escapes * code_bits(CODER_RANKS[coder])
    for rest in range(count - escapes, 0, -1):
        rank = max(r for r in range(CODER_RANKS[coder]) if code_bits(r) * rest <= left)
        symbols.append(127 - rank)
        left -= code_bits(rank)
    block = blocks.with_symbols(Random(1), BF16, symbols)
    draft = builder.coded(block, BF16, base=127, path=0x3FFF, zero_rank=15, coder=coder)
    assert draft.within_limits
    sent = [Packet(draft.frame())]
    given, got = run(wide, sent)
    check(sent, got)
    assert got.clocks[0] - given.clocks[0] == most


def test_reset_in_mid_frame(wide: Dut) -> None:
    sent = _load("weights")[:3]
    for clocks in (5, 30, 60, 100):
        wide.reset()
        wide.stream(source(sent, 512), Sink("m_axis", fields=SINK), clocks=clocks)
        _, got = run(wide, sent)
        check(sent, got)


@pytest.mark.full
def test_one_type_built() -> None:
    dut = Dut("wz_decoder", parameters={"TYPES": 1 << BF16})
    rng = Random(9)
    sent = [packet_of(v) for v in GOOD if v.element == BF16]
    sent += [packet_of(v, payload=packets.damaged(rng, v.frame)) for v in GOOD if v.element == BF16]
    rng.shuffle(sent)
    _, got = run(dut, sent, stalls=(0.2, 0.2))
    check(sent, got)
    others = [packet_of(v) for v in GOOD if v.element != BF16]
    _, got = run(dut, others)
    assert {error for _, error in received(got)} == {Error.UNSUPPORTED}
