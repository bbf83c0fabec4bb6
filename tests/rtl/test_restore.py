# SPDX-License-Identifier: Apache-2.0
"""wz_restore: blocks from sections, every type, coder and length; errors that it finds; rates."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from codec.format import Coder, Mode
from codec.header import parse_header
from tests.conformance import blocks, builder
from tests.conformance.vectors import load_bad, load_good
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Error, Packet

BF16 = ElementType.BF16
GOOD = [v for v in load_good() if parse_header(v.frame).mode != Mode.REFERENCE]
# What wz_sections leaves to wz_restore.
MINE = (
    "bad/codes-",
    "bad/rank-",
    "bad/unary-limit",
    "bad/escape-count-3",
    "bad/escape-count-0",
    "bad/escape-FP16",
    "bad/escape-E",
    "bad/crc",
    "bad/bare-zeros-R",
    "bad/bare-zeros-F2",
    "bad/bare-zeros-BF16-no-remainders-1",
    "bad/bare-zeros-without",
    "bad/bare-zeros-some",
    "bad/bare-zeros-and",
)
BAD = [
    v
    for v in load_bad()
    if v.name.startswith(MINE) and "-RAW" not in v.name and v.name[-4:] != "-129"
]
SINK = ("tdata", "tkeep", "tlast", "tuser")


@pytest.fixture(scope="module", params=[32, 8, 16, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_restore", parameters={"LANES": lanes})


@pytest.fixture(scope="module")
def wide() -> Dut:
    return Dut("wz_restore", parameters={"LANES": 32})


def sources(
    sent: Sequence[Packet | None],
    lanes: int,
    statuses: Sequence[Error] | None = None,
    stall: float = 0.0,
    late: Sequence[int] | None = None,
) -> list[Source]:
    """Sections of packets; None is a refused one."""
    rng = Random("filler")
    plans, carriers, low, unary, last, escapes = [], [], [], [], [], []
    for packet in sent:
        sections = packets.Sections(plan={})
        if packet is not None:
            sections = packets.expected(packet, lanes)
        assert sections.plan is not None
        word = 0
        for name, width in packets.PLAN:
            word = word << width | int(sections.plan.get(name, 0)) & (1 << width) - 1
        plans.append(word)
        carriers += sections.carriers
        low += sections.low
        unary += sections.unary
        last += [i == len(sections.unary) - 1 for i in range(len(sections.unary))]
        for at in range(0, len(sections.escapes), 64):
            part = sections.escapes[at : at + 64]
            escapes.append(int.from_bytes(part + rng.randbytes(64 - len(part)), "little"))
    if statuses is None:
        statuses = [Error.UNSUPPORTED if packet is None else Error.NONE for packet in sent]
    options = {"stall": stall, "burst": 6}
    late = late or [0] * len(sent)
    return [
        Source("s_plan", tdata=plans, **options),
        Source("s_carrier", tdata=carriers, **options),
        Source("s_low", tdata=low, **options),
        Source("s_unary", tdata=unary, tlast=last, **options),
        Source("s_escape", tdata=escapes, **options),
        Source("s_status", tdata=list(map(int, statuses)), late=late, **options),
    ]


def received(got: Sink) -> list[tuple[bytes, Error]]:
    """Blocks and how they are marked."""
    out, block = [], b""
    keeps = got.integers("tkeep")
    for i, keep in enumerate(keeps):
        size = int(keep).bit_length()
        assert size
        assert int(keep) == (1 << size) - 1
        assert size == 64 or got["tlast"][i]
        block += got["tdata"][i][:size].tobytes()
        if got["tlast"][i]:
            out.append((block, Error(int(got["tuser"][i]))))
            block = b""
        else:
            assert got["tuser"][i] == 0
    assert not block
    return out


def run(
    dut: Dut, sent: Sequence[Packet | None], lanes: int, stall: float = 0, out: float = 0
) -> tuple[list[Source], Sink]:
    dut.reset()
    streams = sources(sent, lanes, stall=stall)
    got = Sink("m_axis", fields=SINK, stall=out, burst=6)
    dut.stream(*streams, got)
    return streams, got


def check_blocks(got: Sink, expected: Sequence[bytes]) -> None:
    found = received(got)
    assert len(found) == len(expected)
    for i, (block, (data, error)) in enumerate(zip(expected, found, strict=True)):
        assert error == Error.NONE, i
        assert data == block, i


def frames(data: Sequence[bytes], element: ElementType = BF16) -> list[Packet]:
    return [Packet(reference.encode_frame(block, element)) for block in data]


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3), (0, 0.8), (0.8, 0)])
def test_golden_frames(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    chosen = GOOD if stalls == (0, 0) else GOOD[:: 2 if lanes == 32 else 5]
    _, got = run(dut, [Packet(v.frame) for v in chosen], lanes, *stalls)
    found = received(got)
    assert len(found) == len(chosen)
    for vector, (data, error) in zip(chosen, found, strict=True):
        assert error == Error.NONE, vector.name
        assert data == vector.block, vector.name


def test_blocks_as_they_are(dut: Dut, lanes: int) -> None:
    rng = Random(1)
    data = [rng.randbytes(n) for n in (1, 63, 64, 65, 4095, 4096, 2, 128)]
    _, got = run(dut, [Packet(block, coded=False) for block in data], lanes, out=0.2)
    check_blocks(got, data)


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3)])
def test_bad_frames(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    """Each is marked, the good frames between them are not, and lengths are right."""
    good = frames([blocks.weights(Random(9), BF16, 700)])[0]
    sent = [packet for v in BAD for packet in (Packet(v.frame), good)]
    _, got = run(dut, sent, lanes, *stalls)
    found = received(got)
    assert len(found) == len(sent)
    for i, vector in enumerate(BAD):
        data, error = found[2 * i]
        assert error == Error.CORRUPT, vector.name
        assert len(data) == vector.block_bytes, vector.name
        assert found[2 * i + 1][1] == Error.NONE, f"after {vector.name}"


def test_refused_and_statuses(wide: Dut) -> None:
    good = frames([blocks.weights(Random(9), BF16, 300)])[0]
    bad = Packet(next(v.frame for v in BAD if v.name == "bad/codes-missing"))
    wrong = Packet(next(v.frame for v in BAD if v.name == "bad/crc"))
    cases = [
        (good, Error.NONE, 0, Error.NONE),
        (None, Error.UNSUPPORTED, 0, Error.UNSUPPORTED),
        (None, Error.CORRUPT, 0, Error.CORRUPT),
        (good, Error.TRUNCATED, 0, Error.TRUNCATED),
        (bad, Error.TRUNCATED, 0, Error.TRUNCATED),
        (bad, Error.TRUNCATED, 1, Error.CORRUPT),
        (wrong, Error.TRUNCATED, 1, Error.TRUNCATED),
        (good, Error.TRUNCATED, 1, Error.TRUNCATED),
        (bad, Error.NONE, 0, Error.CORRUPT),
        (good, Error.NONE, 0, Error.NONE),
    ]
    wide.reset()
    got = Sink("m_axis", fields=SINK)
    streams = sources(
        [case[0] for case in cases],
        32,
        statuses=[case[1] for case in cases],
        late=[case[2] for case in cases],
    )
    wide.stream(*streams, got)
    found = received(got)
    assert [error for _, error in found] == [case[3] for case in cases]
    assert [len(data) for data, _ in found] == [
        1 if case[0] is None else 300 if case[0] is good else 256 if case[0] is bad else 512
        for case in cases
    ]


def _rate(got: Sink) -> float:
    """In the steady state: the first block's last beat waits for its verdict, later ones do not."""
    ends = np.flatnonzero(got["tlast"])
    return (ends[-1] - ends[0]) / int(got.clocks[ends[-1]] - got.clocks[ends[0]])


def _blocks_4k(kind: str) -> list[Packet]:
    rng = Random(kind)
    if kind == "weights":
        return frames([blocks.weights(rng, BF16, 4096) for _ in range(6)])
    if kind == "relu":
        sprinkle = [
            blocks.sprinkled(rng, BF16, blocks.normal_symbols(rng, BF16, 2048), zeros=0.5)
            for _ in range(6)
        ]
        return frames(sprinkle)
    if kind == "raw":
        return [Packet(blocks.noise(rng, 4096), coded=False) for _ in range(6)]
    if kind == "escapes":
        # As many as the format allows, all in the first groups.
        symbols = [200] * 64 + [127] * 1984
        block = blocks.with_symbols(rng, BF16, symbols)
        draft = builder.coded(block, BF16, base=127, zero_rank=15, coder=Coder.R2)
        assert draft.within_limits
        return [Packet(draft.frame())] * 6
    # The longest unary section.
    symbols = [96] * 1024 + [100] * 1024
    block = blocks.with_symbols(rng, BF16, symbols)
    draft = builder.coded(block, BF16, base=100, path=0x3FFF, zero_rank=15)
    assert draft.within_limits
    assert draft.used_bits == 3 * 2048
    return [Packet(draft.frame())] * 6


@pytest.mark.parametrize(
    ("kind", "least"),
    [("weights", 0.99), ("relu", 0.99), ("raw", 0.99), ("escapes", 0.97), ("unary", 0.9)],
)
def test_rate(wide: Dut, kind: str, least: float) -> None:
    _, got = run(wide, _blocks_4k(kind), 32)
    assert all(error == Error.NONE for _, error in received(got))
    assert _rate(got) >= least


@pytest.mark.parametrize("coder", list(Coder))
def test_latency(wide: Dut, coder: Coder) -> None:
    """From the first unary word, with all else there before it."""
    rng = Random(3)
    symbols = [127 - (i % 5) for i in range(2048)]
    block = blocks.with_symbols(rng, BF16, symbols)
    draft = builder.coded(block, BF16, base=127, path=0x3FFF, zero_rank=15, coder=coder)
    wide.reset()
    streams = sources([Packet(draft.frame())], 32)
    unary = next(s for s in streams if s.prefix == "s_unary")
    unary.not_before = wide.clocks + 100 + np.arange(unary.beats)
    got = Sink("m_axis", fields=SINK)
    wide.stream(*streams, got)
    check_blocks(got, [block])
    # The word with the first vector of codes; that of R0 may be the second.
    first = 1 if coder == Coder.R0 else 0
    assert got.clocks[0] - unary.clocks[first] <= 20


@pytest.mark.parametrize("after", [5, 37, 60, 150])
def test_reset_in_mid_frame(wide: Dut, after: int) -> None:
    sent = frames([blocks.weights(Random(after), BF16, 4096) for _ in range(3)])
    wide.reset()
    wide.stream(*sources(sent, 32), Sink("m_axis", fields=SINK), clocks=after)
    _, got = run(wide, sent, 32)
    check_blocks(got, [reference.decode_frame(packet.payload) for packet in sent])
