# SPDX-License-Identifier: Apache-2.0
"""wz_escape_insert: escapes in their places, wrong numbers of them, symbols that do not exist."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl.dut import Dut, Sink, Source

TYPES = [ElementType.BF16, ElementType.FP16, ElementType.FP32, ElementType.E4M3, ElementType.E5M2]


@dataclass
class Frame:
    element: ElementType
    symbols: np.ndarray  # (groups, lanes)
    escaped: np.ndarray
    escapes: np.ndarray  # what the section has

    @property
    def last(self) -> int:
        return (1 << self.element.layout.exponent_bits) - 1


@pytest.fixture(scope="module", params=[32, 8, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut(
        "escape_registered",
        parameters={"LANES": lanes},
        extra=[Path(__file__).with_name("escape_registered.sv")],
    )


def _pack(values: np.ndarray, width: int) -> int:
    return sum(int(value) << width * i for i, value in enumerate(values))


def _sources(frames: Sequence[Frame], stall: float) -> list[Source]:
    rng = np.random.default_rng(7)
    jobs, words = [], []
    for frame in frames:
        if not len(frame.escapes):
            continue
        jobs.append(int(frame.element) << 8 | len(frame.escapes))
        for at in range(0, len(frame.escapes), 64):
            part = frame.escapes[at : at + 64]
            words.append(_pack(np.concatenate([part, rng.integers(0, 256, 64 - len(part))]), 8))
    symbols = np.concatenate([frame.symbols for frame in frames])
    escaped = np.concatenate([frame.escaped for frame in frames])
    last = np.concatenate([np.arange(len(x.symbols)) == len(x.symbols) - 1 for x in frames])
    none = np.concatenate([np.full(len(x.symbols), not len(x.escapes)) for x in frames])
    marks = np.arange(len(symbols))
    groups = Source(
        "s",
        symbol=[_pack(row, 8) for row in symbols],
        nonzero=[_pack(row != 0, 1) for row in symbols],
        escape=[_pack(row, 1) for row in escaped],
        no_escapes=none,
        bad_codes=marks % 17 == 0,
        bad_symbols=(marks % 13 == 0).astype(np.uint8) << marks % (symbols.shape[1] // 8),
        tlast=last,
        stall=stall,
        burst=3,
    )
    return [
        Source("s_job", tdata=jobs, stall=stall),
        Source("s_escape", tdata=words, stall=stall),
        groups,
    ]


def _run(
    dut: Dut, frames: Sequence[Frame], lanes: int, stall: float = 0.0, out: float = 0.0
) -> tuple[list[Source], Sink]:
    dut.reset()
    streams = _sources(frames, stall)
    got = Sink(
        "m", fields=("symbol", "nonzero", "bad_codes", "bad_symbol", "tlast"), stall=out, burst=4
    )
    dut.stream(*streams, got)
    at = 0
    symbols, nonzero = got.integers("symbol"), got.integers("nonzero")
    for frame in frames:
        rows = np.arange(at, at + len(frame.symbols))
        want = frame.symbols.copy()
        asked = int(frame.escaped.sum())
        right = asked == len(frame.escapes)
        if right:
            want[frame.escaped] = frame.escapes
            for row, values in zip(rows, want, strict=True):
                assert symbols[row] == _pack(values, 8)
                assert nonzero[row] == _pack(values != 0, 1)
        marked = (rows % 17 == 0).any()
        assert got["bad_codes"][rows].any() == (marked or not right)
        if right:
            bad = (rows % 13 == 0).any() or (frame.escapes > frame.last).any()
            assert got["bad_symbol"][rows].any() == bad
        assert got["tlast"][rows].tolist() == [0] * (len(rows) - 1) + [1]
        at += len(rows)
    assert at == len(got)
    return streams, got


def _frame(
    rng: np.random.Generator, lanes: int, share: float, change: int = 0, wrong: bool = False
) -> Frame:
    element = TYPES[int(rng.integers(5))]
    last = (1 << element.layout.exponent_bits) - 1
    shape = (int(rng.integers(1, 6)), lanes)
    escaped = rng.random(shape) < share
    count = min(max(0, int(escaped.sum()) + change), 255)
    escapes = rng.integers(0, last + 1, count)
    if wrong and count and last < 255:
        escapes[int(rng.integers(count))] = last + 1 + int(rng.integers(255 - last))
    return Frame(element, rng.integers(0, last + 1, shape), escaped, escapes)


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_escapes(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    shares = [0, 0.02, 0.1, 0.5, 0.7] * 16
    _run(dut, [_frame(rng, lanes, share) for share in shares], lanes, *stalls)


def test_wrong_numbers_and_symbols(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(2)
    frames = []
    for i, change in enumerate([0, 1, -1, 60, -60, 0, 130, 0, -3] * 12):
        frames.append(_frame(rng, lanes, rng.choice([0, 0.05, 0.4]), change, wrong=i % 3 == 0))
    _run(dut, frames, lanes, 0.1, 0.1)


def test_rate_and_latency(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(3)
    frames = []
    for _ in range(12):
        escaped = np.zeros((64, lanes), bool)
        escaped[rng.integers(64, size=64), rng.integers(lanes, size=64)] = True
        symbols = rng.integers(1, 256, (64, lanes))
        escapes = rng.integers(0, 256, int(escaped.sum()))
        frames.append(Frame(ElementType.BF16, symbols, escaped, escapes))
    _, got = _run(dut, frames, lanes)
    assert len(got) / (got.clocks[-1] - got.clocks[0] + 1) > 0.98
    frames = [Frame(ElementType.BF16, np.ones((9, lanes), int), escaped[:9] & False, np.zeros(0))]
    streams, got = _run(dut, frames, lanes)
    # The register behind it is in the count.
    assert np.array_equal(got.clocks - streams[2].clocks, np.full(9, 3))


def test_reset_in_mid_frame(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(5)
    frames = [_frame(rng, lanes, 0.3) for _ in range(20)]
    dut.reset()
    dut.stream(*_sources(frames, 0), Sink("m", fields=("symbol",)), clocks=15)
    _run(dut, frames, lanes)
