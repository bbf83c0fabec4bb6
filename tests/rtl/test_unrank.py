# SPDX-License-Identifier: Apache-2.0
"""wz_unrank: ranks of all coders, group sizes, all that can be wrong with a unary section."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from codec import format as f
from codec.elements import ElementType
from codec.format import Coder
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import pack

JOB = {"element": 3, "coder": 2, "values": 13, "unary_bytes": 11, "no_escapes": 1}
TYPES = [ElementType.BF16, ElementType.FP16, ElementType.FP32, ElementType.E4M3, ElementType.E5M2]


@dataclass
class Frame:
    element: ElementType
    coder: Coder
    ranks: np.ndarray  # those that the codes say, also invalid ones
    more_bytes: int = 0  # of padding
    overflow: bool = False
    extra: int = 0  # codes too many; too few if negative

    lanes: int = field(default=32, kw_only=True)

    @property
    def group(self) -> int:
        return min(64 // self.element.width_bytes, self.lanes)

    @property
    def low(self) -> np.ndarray:
        if self.coder == Coder.F2:
            return np.minimum(self.ranks, 3)
        return self.ranks & (1 << f.CODER_LOW_BITS[self.coder]) - 1

    @property
    def codes(self) -> np.ndarray:
        if self.coder == Coder.F2:
            codes = self.ranks[self.ranks >= 3] - 3
        else:
            codes = self.ranks >> f.CODER_LOW_BITS[self.coder]
        if self.extra < 0:
            return codes[: self.extra]
        return np.concatenate([codes, np.zeros(self.extra, int)])

    @property
    def bits(self) -> int:
        return int(self.codes.sum()) + len(self.codes)

    @property
    def unary_bytes(self) -> int:
        return -(-self.bits // 8) + self.more_bytes

    @property
    def bad_codes(self) -> bool:
        many = self.bits > 3 * len(self.ranks)
        return bool(self.extra or self.overflow or self.more_bytes or many)

    @property
    def escape_rank(self) -> int:
        return f.CODER_RANKS[self.coder]


@pytest.fixture(scope="module", params=[32, 8, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_unrank", parameters={"LANES": lanes})


def _sources(frames: Sequence[Frame], lanes: int, stall: float) -> list[Source]:
    jobs, low = [], []
    codes: dict[str, list[int]] = {
        name: [] for name in ("tdata", "tcount", "overflow", "found", "position", "tlast")
    }
    for number, frame in enumerate(frames):
        fields = {
            "element": frame.element,
            "coder": frame.coder,
            "values": len(frame.ranks),
            "unary_bytes": frame.unary_bytes,
            "no_escapes": number % 2,
        }
        jobs.append(pack(JOB, **fields))
        if frame.coder != Coder.R0:
            for at in range(0, len(frame.ranks), frame.group):
                part = frame.low[at : at + frame.group]
                low.append(sum(int(x) << 2 * i for i, x in enumerate(part)))
        if not frame.unary_bytes:
            continue
        for at in range(0, max(1, len(frame.codes)), lanes):
            part = frame.codes[at : at + lanes]
            last = at + lanes >= len(frame.codes)
            # The last 1 in the section's last word of 128 bits.
            words = -(-frame.unary_bytes // 16)
            found = last and frame.bits > 128 * (words - 1)
            codes["tdata"].append(sum(int(x) % 16 << 4 * i for i, x in enumerate(part)))
            codes["tcount"].append(len(part))
            codes["overflow"].append(last and frame.overflow)
            codes["found"].append(found)
            codes["position"].append((frame.bits - 1) % 128 if found else 0)
            codes["tlast"].append(last)
    return [
        Source("s_job", tdata=jobs, stall=stall),
        Source("s_low", tdata=low, stall=stall, burst=3),
        Source("s_code", **codes, stall=stall, burst=3),
    ]


def _run(
    dut: Dut, frames: Sequence[Frame], lanes: int, stall: float = 0.0, out: float = 0.0
) -> tuple[list[Source], Sink]:
    dut.reset()
    streams = _sources(frames, lanes, stall)
    names = ("rank", "value", "escape", "no_escapes", "bad_codes", "bad_rank", "tlast")
    got = Sink("m", fields=names, stall=out, burst=4)
    dut.stream(*streams, got)
    at = 0
    ranks, values, escapes = (got.integers(name) for name in names[:3])
    for number, frame in enumerate(frames):
        rows = range(at, at + -(-len(frame.ranks) // frame.group))
        where = f"frame {number}: {frame.element.name} {frame.coder.name} of {len(frame.ranks)}"
        assert got["tlast"][at : rows[-1] + 1].tolist() == [0] * (len(rows) - 1) + [1], where
        assert (got["no_escapes"][at : rows[-1] + 1] == number % 2).all(), where
        assert got["bad_codes"][at : rows[-1] + 1].any() == frame.bad_codes, where
        limit = frame.escape_rank
        if not frame.extra:
            bad = (frame.ranks > limit).any()
            assert got["bad_rank"][at : rows[-1] + 1].any() == bad, where
        for group, row in enumerate(rows):
            part = frame.ranks[group * frame.group : (group + 1) * frame.group]
            assert values[row] == (1 << len(part)) - 1, where
            if frame.extra < 0:
                continue
            want = sum(1 << i for i, rank in enumerate(part) if rank == limit)
            assert escapes[row] == want, where
            for lane, rank in enumerate(part):
                if rank <= limit:
                    assert ranks[row] >> 5 * lane & 31 == rank, where
        at = rows[-1] + 1
    assert at == len(got)
    return streams, got


def _ranks(rng: np.random.Generator, coder: Coder, count: int) -> np.ndarray:
    """With at most 3 unary bits a value."""
    limit = f.CODER_RANKS[coder]
    ranks = np.minimum(rng.geometric(0.4, count) - 1, limit)
    ranks[rng.random(count) < 0.03] = limit
    ranks[: count // 3] = np.minimum(ranks[: count // 3], 1)
    return ranks


def _frames(rng: np.random.Generator, lanes: int, count: int, **other: int) -> list[Frame]:
    out = []
    for i in range(count):
        size = int(rng.choice([1, 7, 8, 16, 31, 32, 33, 64, 65, 200, 301]))
        coder = Coder(i // 5 % 4)
        ranks = _ranks(rng, coder, size)
        frame = Frame(TYPES[i % 5], coder, ranks, lanes=lanes)
        if frame.bits > 3 * size:
            frame.ranks[:] = 0
        out.append(frame)
    return out


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_ranks(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    _run(dut, _frames(np.random.default_rng(1), lanes, 80), lanes, *stalls)


def test_bad_sections(dut: Dut, lanes: int) -> None:
    frames = _frames(np.random.default_rng(2), lanes, 120)
    for i, frame in enumerate(frames):
        kind = i % 6
        if kind == 0:
            frame.extra = i % 3 + 1
        elif kind == 1 and len(frame.codes) > 1:
            frame.extra = -1
        elif kind == 2 and frame.unary_bytes:
            frame.overflow = True
        elif kind == 3 and frame.unary_bytes:
            frame.more_bytes = 1 + i % 20
    _run(dut, frames, lanes, 0.1, 0.1)


def test_bits_at_the_limit(dut: Dut, lanes: int) -> None:
    frames = []
    for size in [1, 2, 3, 5, 8, 33, 64, 100]:
        for over in (0, 1):
            ranks = np.full(size, 2)
            ranks[-1] += over
            frames.append(Frame(ElementType.BF16, Coder.R0, ranks, lanes=lanes))
    _run(dut, frames, lanes)


def test_bad_ranks(dut: Dut, lanes: int) -> None:
    frames = []
    for coder, rank in [(Coder.R1, 16), (Coder.R1, 31), (Coder.R2, 32), (Coder.F2, 16)]:
        for lane in (0, 6, 39):
            ranks = np.zeros(40, int)
            ranks[lane] = rank
            frames.append(Frame(ElementType.BF16, coder, ranks, lanes=lanes))
    _run(dut, frames, lanes)


@pytest.mark.parametrize("coder", list(Coder))
def test_rate_and_latency(dut: Dut, lanes: int, coder: Coder) -> None:
    rng = np.random.default_rng(3)
    frames = [
        Frame(ElementType.BF16, coder, _ranks(rng, coder, 64 * lanes), lanes=lanes)
        for _ in range(3)
    ]
    streams, got = _run(dut, frames, lanes)
    assert np.array_equal(np.diff(got.clocks), np.ones(len(got) - 1))
    one = Frame(ElementType.BF16, coder, np.full(4, 3), lanes=lanes)
    dut.reset()
    streams = _sources([one], lanes, 0)
    streams[2].not_before = [dut.clocks + 30]
    got = Sink("m", fields=("rank",))
    dut.stream(*streams, got)
    assert got.clocks[0] - streams[2].clocks[0] == 2
    if coder != Coder.R0:
        streams = _sources([one], lanes, 0)
        streams[1].not_before = [dut.clocks + 30]
        dut.stream(*streams, got)
        assert got.clocks[0] - streams[1].clocks[0] == 6


def test_reset_in_mid_frame(dut: Dut, lanes: int) -> None:
    frames = _frames(np.random.default_rng(5), lanes, 30)
    dut.reset()
    dut.stream(*_sources(frames, lanes, 0), Sink("m", fields=("rank",)), clocks=25)
    _run(dut, frames, lanes)
