# SPDX-License-Identifier: Apache-2.0
"""wz_seal: CRC with both headers, verdicts and what comes first, latency and rate, events."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codec import reference
from codec.format import Mode
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Error
from tests.rtl.structs import pack

JOB = {"header": 128, "mode": 2, "coded": 1}


@dataclass
class Block:
    data: bytes
    header: bytes = b""  # with its CRC; nothing if the block travels as it is
    mode: Mode = Mode.RAW
    status: Error = Error.NONE
    late: int = 0
    bad: int = 0
    bad_codes: int = 0
    wrong_crc: bool = False

    @property
    def beats(self) -> int:
        return -(-len(self.data) // 64)

    @property
    def verdict(self) -> Error:
        if self.late and self.bad_codes:
            return Error.CORRUPT
        if self.status != Error.NONE:
            return self.status
        return Error.CORRUPT if self.bad or self.bad_codes or self.wrong_crc else Error.NONE


def _block(rng: np.random.Generator, size: int, mode: Mode | None, **other: object) -> Block:
    data = rng.bytes(size)
    if mode is None:
        return Block(data, **other)
    header = bytearray(rng.bytes(16 if mode == Mode.CODED else 8))
    header[4:8] = bytes(4)
    crc = reference.checksum(data, bytes(header))
    if other.get("wrong_crc"):
        crc ^= 1 << int(rng.integers(32))
    header[4:8] = crc.to_bytes(4, "little")
    return Block(data, bytes(header), mode, **other)


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("seal_gated", extra=[Path(__file__).with_name("seal_gated.sv")])


def _run(
    dut: Dut, blocks: Sequence[Block], stall: float = 0.0, out: float = 0.0, *, late: int = 0
) -> tuple[Source, Sink]:
    dut.reset()
    data = b"".join(b.data.ljust(64 * b.beats, b"\0") for b in blocks)
    rows = np.frombuffer(data, np.uint8).reshape(-1, 64)
    counts = np.array([b.beats for b in blocks])
    ends = np.cumsum(counts) - 1
    last = np.isin(np.arange(len(rows)), ends)
    last_byte = np.repeat([(len(b.data) - 1) % 64 for b in blocks], counts)
    # Any one beat may be marked.
    marks = np.array([(3 * i) % n for i, n in enumerate(counts)]) + ends + 1 - counts
    bad, bad_codes = np.zeros(len(rows), int), np.zeros(len(rows), int)
    bad[marks] = [b.bad for b in blocks]
    bad_codes[marks] = [b.bad_codes for b in blocks]
    jobs = [
        pack(JOB, header=int.from_bytes(b.header, "little"), mode=b.mode, coded=bool(b.header))
        for b in blocks
    ]
    beats = Source(
        "s",
        tdata=rows,
        last_byte=last_byte,
        bad=bad,
        bad_codes=bad_codes,
        tlast=last,
        stall=stall,
        burst=7,
        not_before=dut.clocks + 5 + np.arange(len(rows)),
    )
    status = Source(
        "s_status",
        tdata=[int(b.status) for b in blocks],
        late=[b.late for b in blocks],
        stall=stall,
        not_before=np.full(len(blocks), dut.clocks + late),
    )
    got = Sink("m_axis", fields=("tdata", "tkeep", "tlast", "tuser"), stall=out, burst=20)
    event = Sink("event", fields=("coded", "mode", "error"), valid="valid", ready=None)
    dut.stream(beats, Source("s_job", tdata=jobs), status, got, event, drain=2000)
    assert np.array_equal(got["tdata"], rows)
    assert np.array_equal(got["tlast"], last)
    want = [b.verdict for b in blocks]
    assert [Error(int(e)) for e in got["tuser"][ends]] == want
    assert not got["tuser"][~last].any()
    keeps = got.integers("tkeep")
    for end, block in zip(ends, blocks, strict=True):
        assert keeps[end] == (1 << (len(block.data) - 1) % 64 + 1) - 1
    assert all(keeps[i] == 2**64 - 1 for i in np.flatnonzero(~last))
    assert np.array_equal(event.clocks, got.clocks[ends] + 1)
    assert [Error(int(e)) for e in event["error"]] == want
    assert event["coded"].tolist() == [bool(b.header) for b in blocks]
    assert event["mode"].tolist() == [b.mode for b in blocks]
    return beats, got


def _blocks(rng: np.random.Generator) -> list[Block]:
    modes = [None, Mode.RAW, Mode.CONSTANT, Mode.CODED]
    out = []
    for i in range(150):
        size = int(rng.choice([1, 63, 64, 65, 128, 129, 700]))
        out.append(_block(rng, size, modes[i % 4]))
        wrong = {
            "status": Error(int(rng.integers(4))),
            "bad": int(rng.integers(2)),
            "bad_codes": int(rng.integers(2)),
        }
        if wrong["status"] == Error.TRUNCATED:
            wrong["late"] = int(rng.integers(2))
        if modes[i % 4] is not None:
            wrong["wrong_crc"] = bool(rng.integers(2))
        if i % 2:
            out.append(_block(rng, size, modes[i % 4], **wrong))
    return out


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.2, 0.3)])
def test_verdicts(dut: Dut, stalls: tuple[float, float]) -> None:
    _run(dut, _blocks(np.random.default_rng(1)), *stalls)


def test_late_status(dut: Dut) -> None:
    """Beats pile up behind a last one; none is lost."""
    rng = np.random.default_rng(2)
    _run(dut, [_block(rng, 640, Mode.CODED) for _ in range(20)], late=300)


def test_latency_and_rate(dut: Dut) -> None:
    rng = np.random.default_rng(3)
    beats, got = _run(dut, [_block(rng, 4096, Mode.CODED) for _ in range(3)])
    took = got.clocks - beats.clocks
    assert (took[:63] == 2).all()
    assert took[63] == 9
    assert np.array_equal(np.diff(got.clocks[63:]), np.ones(128))
    beats, got = _run(dut, [_block(rng, 64, Mode.CODED) for _ in range(100)])
    assert np.array_equal(np.diff(got.clocks), np.ones(99))


def test_reset_in_mid_block(dut: Dut) -> None:
    rng = np.random.default_rng(5)
    blocks = [_block(rng, 500, Mode.CODED) for _ in range(5)]
    dut.reset()
    rows = rng.integers(0, 256, (30, 64), np.uint8)
    dut.stream(Source("s", tdata=rows), Sink("m_axis", fields=("tdata",)), clocks=21)
    _run(dut, blocks)
