# SPDX-License-Identifier: Apache-2.0
"""wz_unalign: heads, tails, constant blocks and beats that are left out; latency and rate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import pack

JOB = {
    "element": 3,
    "constant": 1,
    "last_beat": 6,
    "last_byte": 6,
    "head_bytes": 2,
    "head": 24,
    "tail_bytes": 2,
    "tail_at": 12,
    "fill": 32,
}


@dataclass
class Block:
    data: bytes
    element: ElementType
    phase: int = 0
    constant: bool = False

    @property
    def beats(self) -> int:
        return -(-len(self.data) // 64)

    @property
    def job(self) -> int:
        width = self.element.width_bytes
        head = min(self.phase, len(self.data))
        tail = (len(self.data) - head) % width
        fields = {
            "element": self.element,
            "constant": self.constant,
            "last_beat": self.beats - 1,
            "last_byte": (len(self.data) - 1) % 64,
            "head_bytes": head,
            "head": int.from_bytes(self.data[:head], "little"),
            "tail_bytes": tail,
            "tail_at": (len(self.data) - head - tail) % 4096,
            "fill": int.from_bytes(self.data[len(self.data) - tail :], "little"),
        }
        if self.constant:
            fields |= {"head_bytes": 0, "tail_bytes": 0}
            fields["fill"] = int.from_bytes(self.data[:width], "little")
        return pack(JOB, **fields)

    @property
    def values(self) -> bytes:
        """Value beats, one for each beat of the block."""
        if self.constant:
            return bytes(64 * self.beats)
        head = min(self.phase, len(self.data))
        size = (len(self.data) - head) // self.element.width_bytes * self.element.width_bytes
        return self.data[head : head + size].ljust(64 * self.beats, b"\0")


# All types; without FP32; and one alone.
BUILDS = {
    0b111111: list(ElementType),
    0b110111: [element for element in ElementType if element != ElementType.FP32],
    0b000010: [ElementType.BF16],
}


@pytest.fixture(scope="module", params=list(BUILDS))
def types(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(types: int) -> Dut:
    return Dut("wz_unalign", parameters={"TYPES": types})


def _run(
    dut: Dut, blocks: Sequence[Block], stall: float = 0.0, room: float = 1.0
) -> tuple[Source, Sink]:
    dut.reset()
    rows = np.frombuffer(b"".join(b.values for b in blocks), np.uint8).reshape(-1, 64)
    bad = np.arange(len(rows)) % 3 == 0
    jobs = Source("s_job", tdata=[b.job for b in blocks], stall=stall)
    beats = Source("s", tdata=rows, bad=bad, bad_codes=~bad, stall=stall, burst=5)
    open_ = np.random.default_rng(3).random(50000) < room
    out = Sink("m", fields=("tdata", "tlast", "last_byte", "bad", "bad_codes"), ready=None)
    gate = Source("gate", room=open_, valid=None, ready=None)
    clocks = int((len(rows) + 60) / ((1 - stall) * room) * 3) + 400
    dut.stream(jobs, beats, out, gate, clocks=clocks)
    want = b"".join(b.data.ljust(64 * b.beats, b"\0") for b in blocks)
    assert out["tdata"].tobytes() == want
    lasts = np.concatenate([np.arange(b.beats) == b.beats - 1 for b in blocks])
    assert np.array_equal(out["tlast"], lasts)
    ends = np.flatnonzero(lasts)
    assert out["last_byte"][ends].tolist() == [(len(b.data) - 1) % 64 for b in blocks]
    assert np.array_equal(out["bad"], bad)
    assert np.array_equal(out["bad_codes"], ~bad)
    return beats, out


def _blocks(rng: np.random.Generator, types: int) -> list[Block]:
    out = []
    for element in BUILDS[types]:
        width = element.width_bytes
        for phase in range(width):
            for size in [1, 2, 3, 4, 5, 61, 62, 63, 64, 65, 66, 67, 68, 127, 128, 131, 200]:
                out.append(Block(rng.bytes(size), element, phase))
        for size in [5, 63, 64, 65, 129]:
            out.append(Block((rng.bytes(width) * size)[:size], element, constant=True))
        out.append(Block(rng.bytes(4096), element, width - 1))
        out.append(Block((rng.bytes(width) * 4096)[:4096], element, constant=True))
    order = rng.permutation(len(out))
    return [out[i] for i in order]


@pytest.mark.parametrize("stalls", [(0, 1), (0.4, 1), (0, 0.5), (0.3, 0.6)])
def test_blocks(dut: Dut, types: int, stalls: tuple[float, float]) -> None:
    _run(dut, _blocks(np.random.default_rng(1), types), *stalls)


def test_latency_and_rate(dut: Dut, types: int) -> None:
    beats, out = _run(dut, _blocks(np.random.default_rng(2), types))
    latency = 2 if ElementType.FP32 in BUILDS[types] else 1
    assert np.array_equal(out.clocks - beats.clocks, np.full(len(out), latency))
    assert np.array_equal(np.diff(beats.clocks), np.ones(len(out) - 1))


def test_reset_in_mid_block(dut: Dut, types: int) -> None:
    rng = np.random.default_rng(4)
    blocks = _blocks(rng, types)[:40]
    dut.reset()
    dut["room"] = 1
    rows = np.frombuffer(b"".join(b.values for b in blocks), np.uint8).reshape(-1, 64)
    jobs = Source("s_job", tdata=[b.job for b in blocks])
    dut.stream(jobs, Source("s", tdata=rows), clocks=13)
    _run(dut, blocks)
