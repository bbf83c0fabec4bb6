# SPDX-License-Identifier: Apache-2.0
"""wz_sections: every section of every golden frame, verdicts on bad ones, rates and latencies."""

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from codec.errors import CorruptFrame, ReferenceMismatch, TruncatedFrame, UnsupportedFrame
from codec.format import Mode
from codec.header import parse_header
from tests.conformance import blocks
from tests.conformance.vectors import load_bad, load_good
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Error, Packet, Sections
from tests.rtl.structs import unpack

GOOD = [v for v in load_good() if parse_header(v.frame).mode != Mode.REFERENCE]
BAD = load_bad()
CLASSES = {
    TruncatedFrame: Error.TRUNCATED,
    CorruptFrame: Error.CORRUPT,
    UnsupportedFrame: Error.UNSUPPORTED,
    ReferenceMismatch: Error.UNSUPPORTED,
}
STALLS = [(0.0, 0.0), (0.3, 0.3), (0.0, 0.8), (0.8, 0.0)]
BF16 = ElementType.BF16


@dataclass
class Streams:
    """What came out, a list of integers a stream, and the clocks."""

    source: Source
    plan: Sink
    carrier: Sink
    low: Sink
    unary: Sink
    escape: Sink
    status: Sink


@pytest.fixture(scope="module", params=[32, 8, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_sections", parameters={"LANES": lanes})


@pytest.fixture(scope="module")
def wide() -> Dut:
    return Dut("wz_sections", parameters={"LANES": 32})


def run(
    dut: Dut,
    sent: list[Packet],
    *,
    stalls: tuple[float, float] = (0.0, 0.0),
    seed: int = 1,
    bare: bool = False,
    rng: Random | None = None,
) -> Streams:
    dut.reset()
    dut["bare"] = int(bare)
    out = stalls[1]
    streams = Streams(
        Source("s_axis", stall=stalls[0], burst=6, **packets.beats(sent, rng)),
        Sink("m_plan", stall=out, burst=6),
        Sink("m_carrier", stall=out, burst=30),
        Sink("m_low", stall=out, burst=6),
        Sink("m_unary", fields=("tdata", "tlast"), stall=out, burst=6),
        Sink("m_escape", stall=out, burst=6),
        Sink("m_status", fields=("tdata", "late"), stall=out, burst=6),
    )
    dut.stream(*vars(streams).values(), seed=seed, drain=2500 if out else 300)
    return streams


def check(sent: list[Packet], streams: Streams, lanes: int, *, bare: bool = False) -> None:
    """Compare everything with the reference; which packets are refused is read from the plans."""
    plans = [unpack(value, packets.PLAN) for value in streams.plan.integers("tdata")]
    statuses = streams.status.integers("tdata")
    assert len(plans) == len(statuses) == len(sent)
    carriers = iter(streams.carrier.integers("tdata"))
    low = iter(streams.low.integers("tdata"))
    unary = iter(streams.unary.integers("tdata"))
    last = iter(streams.unary.integers("tlast"))
    escapes = iter(streams.escape.integers("tdata"))
    late = streams.status.integers("late")
    for i, (packet, plan, status) in enumerate(zip(sent, plans, statuses, strict=True)):
        found = packets.outcome(packet, bare=bare)
        where = f"packet {i}: {packet.payload[:16].hex()} of {len(packet.payload)}, {found}"
        if isinstance(found, bytes):
            assert status == Error.NONE, where
        elif late[i]:
            assert status == Error.TRUNCATED, where
            assert found in (TruncatedFrame, CorruptFrame), where
        elif status == Error.NONE:
            assert found is CorruptFrame, where
        else:
            assert status == CLASSES[found], where
        if plan["block_bytes"] == 0:
            assert plan["coded"] == 0, where
            assert status != Error.NONE, where
            continue
        want = packets.expected(packet, lanes)
        got = Sections(
            {name: plan[name] for name in want.plan},
            [next(carriers) for _ in want.carriers],
            [next(low) for _ in want.low],
            [next(unary) for _ in want.unary],
            b"".join(next(escapes).to_bytes(64, "little") for _ in range(0, len(want.escapes), 64))[
                : len(want.escapes)
            ],
        )
        assert got == want, where
        assert [next(last) for _ in want.unary] == [0] * (len(want.unary) - 1) + [1] * bool(
            want.unary
        ), where
    for rest in (carriers, low, unary, escapes):
        assert not list(rest)


def packet_of(vector, **other: object) -> Packet:
    length = len(vector.block) if hasattr(vector, "block") else vector.block_bytes
    fields = {
        "payload": vector.frame,
        "expect": True,
        "element": vector.element,
        "phase": vector.phase,
        "block_bytes": length,
    }
    return Packet(**(fields | other))  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize("stalls", STALLS)
def test_good_vectors(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    sent = [packet_of(v) for v in GOOD]
    Random(4).shuffle(sent)
    check(sent, run(dut, sent, stalls=stalls, rng=Random(5)), lanes)


@pytest.mark.full
@pytest.mark.parametrize("stalls", STALLS[:2])
def test_bad_vectors(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    sent = [packet_of(v) for v in BAD if v.frame]
    check(sent, run(dut, sent, stalls=stalls), lanes)


@pytest.mark.full
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("stalls", STALLS[:2])
def test_damaged_frames(dut: Dut, lanes: int, stalls: tuple[float, float], bare: bool) -> None:
    rng = Random(f"damage {bare}")
    small = [v for v in GOOD if len(v.frame) < 1200]
    sent = []
    for _ in range(600):
        vector = rng.choice(small if rng.random() < 0.9 else GOOD)
        payload = packets.damaged(rng, vector.frame) if rng.random() < 0.7 else vector.frame
        sent.append(packet_of(vector, payload=payload, expect=rng.random() < 0.5))
        if rng.random() < 0.2:
            block = vector.block + bytes(rng.choice((0, 0, 1, 5000)))
            sent.append(packet_of(vector, payload=block, coded=False, expect=rng.random() < 0.5))
    check(sent, run(dut, sent, stalls=stalls, bare=bare), lanes, bare=bare)


@pytest.mark.full
def test_every_cut_of_a_frame(wide: Dut) -> None:
    names = {"sections/FP32-extras-phase-3", "codes/BF16-escapes-16", "unusual/coder-F2"}
    for vector in (v for v in GOOD if v.name in names):
        sent = [packet_of(vector, payload=vector.frame[:n]) for n in range(1, len(vector.frame))]
        streams = run(wide, sent)
        check(sent, streams, 32)
        assert set(streams.status.integers("tdata")) == {Error.TRUNCATED}
        streams = run(wide, sent, rng=Random(1))
        assert set(streams.status.integers("tdata")) == {Error.TRUNCATED}


@pytest.mark.full
def test_other_blocks_than_expected(wide: Dut) -> None:
    sent = []
    for vector in GOOD[::7]:
        sent += [
            packet_of(vector, element=ElementType((vector.element + 1) % 6)),
            packet_of(vector, block_bytes=len(vector.block) % 4096 + 1),
            packet_of(vector, phase=vector.phase ^ 1),
            packet_of(vector),
        ]
    check(sent, run(wide, sent), 32)


def big_frame(seed: int = 1, n: int = 2048) -> bytes:
    rng = Random(seed)
    symbols = rng.choices(range(100, 130), [2.0 ** -abs(s - 122) for s in range(100, 130)], k=n)
    frame = reference.encode_frame(blocks.with_symbols(rng, BF16, symbols), BF16)
    assert parse_header(frame).mode == Mode.CODED
    return frame


def test_a_few_packets(wide: Dut) -> None:
    sent = [packet_of(v) for v in [*GOOD[::9], *BAD[::9]] if v.frame]
    Random(8).shuffle(sent)
    check(sent, run(wide, sent, stalls=(0.1, 0.2)), 32)


def test_unary_latency(wide: Dut) -> None:
    """3 clocks from the beat that holds a word, when the sink does not hold it up."""
    frame = big_frame()
    streams = run(wide, [Packet(frame)])
    header = parse_header(frame)
    start = (len(frame) - header.escapes - header.unary_bytes) // 16
    words = -(-header.unary_bytes // 16)
    took = streams.unary.clocks
    assert len(took) == words
    for i in range(words):
        arrived = streams.source.clocks[(start + i) // 4]
        assert took[i] >= arrived + 3
        assert took[i] == max(arrived + 3, took[i - 1] + 1 if i else 0)
    assert streams.plan.clocks[0] - streams.source.clocks[0] == 19


@pytest.mark.full
def test_keeps_up_with_large_frames(wide: Dut) -> None:
    sent = [Packet(big_frame(seed)) for seed in range(12)]
    streams = run(wide, sent)
    check(sent, streams, 32)
    # 64 beats of carriers a frame, and the input is never the bottleneck.
    assert streams.carrier.clocks[-1] - streams.carrier.clocks[0] <= 12 * 64 + 1


@pytest.mark.full
@pytest.mark.parametrize("kind", ["plain", "raw", "constant", "coded"])
def test_smallest_packets(wide: Dut, kind: str) -> None:
    rng = Random(kind)
    block = blocks.noise(rng, 48)
    clocks = 1.01
    if kind == "plain":
        sent = [Packet(block, coded=False)] * 500
    elif kind == "raw":
        sent = [Packet(reference.encode_frame(block, BF16))] * 500
    elif kind == "constant":
        sent = [Packet(reference.encode_frame(b"\x80\x3f" * 30, BF16))] * 500
    else:
        frame = reference.encode_frame(blocks.with_symbols(rng, BF16, [127, 126] * 20), BF16)
        assert parse_header(frame).mode == Mode.CODED
        sent = [Packet(frame)] * 500
        clocks = 3.5
    streams = run(wide, sent)
    check(sent, streams, 32)
    assert streams.status.clocks[-1] - streams.status.clocks[0] <= clocks * len(sent)


@pytest.mark.full
def test_reset_in_mid_frame(wide: Dut) -> None:
    sent = [Packet(big_frame(seed)) for seed in range(3)]
    for clocks in (5, 30, 60, 100):
        wide.reset()
        wide.stream(Source("s_axis", **packets.beats(sent)), Sink("m_plan"), clocks=clocks)
        check(sent, run(wide, sent), 32)
        for stream in ("plan", "carrier", "low", "unary", "escape", "status"):
            assert not wide[f"m_{stream}_tvalid"]


@pytest.mark.full
def test_one_type_built() -> None:
    dut = Dut("wz_sections", parameters={"TYPES": 1 << BF16})
    rng = Random(9)
    sent = [packet_of(v) for v in GOOD if v.element == BF16]
    sent += [packet_of(v, payload=packets.damaged(rng, v.frame)) for v in GOOD if v.element == BF16]
    rng.shuffle(sent)
    check(sent, run(dut, sent, stalls=(0.2, 0.2)), 32)
    others = [packet_of(v) for v in GOOD if v.element != BF16]
    streams = run(dut, others)
    assert set(streams.status.integers("tdata")) == {Error.UNSUPPORTED}
    assert not len(streams.carrier)
    assert np.all(streams.status.integers("late") == np.zeros(len(others)))
