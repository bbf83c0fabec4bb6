# SPDX-License-Identifier: Apache-2.0
"""wz_carrier_place: carriers and symbols of all types, bare zeros, beats left out, wrong counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import pack

JOB = {
    "element": 3,
    "symbols": 1,
    "bare": 1,
    "no_carriers": 1,
    "carrier_last_beat": 6,
    "carrier_last_value": 6,
    "stored_beats": 64,
    "value_beats": 7,
    "last_beat": 6,
}
TYPES = list(ElementType)


@dataclass
class Frame:
    element: ElementType
    values: int  # of the block
    beats: int  # of the block, those behind the values too
    stored: int  # a bit a beat of values
    symbols: np.ndarray  # of stored values; all 0 for RAW
    rest: np.ndarray  # their other bits
    bare: bool
    change: int = 0  # carriers too many

    @property
    def per_beat(self) -> int:
        return 64 // self.element.width_bytes

    @property
    def value_beats(self) -> int:
        return -(-self.values // self.per_beat)

    @property
    def has_symbols(self) -> bool:
        return bool(self.element.layout.exponent_bits and len(self.symbols))

    @property
    def carriers(self) -> np.ndarray:
        kept = self.rest[self.symbols != 0] if self.bare else self.rest
        if self.change < 0:
            return kept[: self.change]
        return np.concatenate([kept, np.full(self.change, 1)])

    @property
    def job(self) -> int:
        last = max(0, len(self.carriers) - 1)
        fields = {
            "element": self.element,
            "symbols": self.has_symbols,
            "bare": self.bare and self.has_symbols,
            "no_carriers": not len(self.carriers),
            "carrier_last_beat": last // self.per_beat,
            "carrier_last_value": last % self.per_beat,
            "stored_beats": self.stored,
            "value_beats": self.value_beats,
            "last_beat": self.beats - 1,
        }
        return pack(JOB, **fields)

    @property
    def blocks(self) -> bytes:
        """Value beats."""
        shift = self.element.layout.mantissa_bits
        kept = (self.symbols != 0) | (not self.bare)
        stored = self.symbols << shift | np.where(kept, self.rest, 0)
        out, at = b"", 0
        for beat in range(self.beats):
            size = min(self.per_beat, max(0, self.values - beat * self.per_beat))
            part = np.zeros(size, np.int64)
            if self.stored >> beat & 1:
                part = stored[at : at + size]
                at += size
            out += part.astype(f"<u{self.element.width_bytes}").tobytes().ljust(64, b"\0")
        return out


def frame(
    rng: np.random.Generator,
    *,
    element: ElementType | None = None,
    beats: int = 0,
    zeros: float = 0.3,
    change: int = 0,
    left_out: float = 0.3,
) -> Frame:
    element = TYPES[int(rng.integers(6))] if element is None else element
    layout, per_beat = element.layout, 64 // element.width_bytes
    beats = beats or int(rng.integers(1, 8))
    values = beats * per_beat - int(rng.integers(per_beat)) * int(rng.integers(2))
    stored = sum(int(rng.random() >= left_out) << b for b in range(beats))
    count = sum(min(per_beat, values - b * per_beat) for b in range(beats) if stored >> b & 1)
    symbols = rng.integers(0, 1 << layout.exponent_bits, count)
    symbols[rng.random(count) < zeros] = 0
    mantissa = (1 << layout.mantissa_bits) - 1
    rest = rng.integers(0, 1 << 8 * element.width_bytes, count)
    sign = 0 if element == ElementType.RAW else 1 << 8 * element.width_bytes - 1
    rest &= sign | mantissa
    if element == ElementType.RAW:
        rest &= 255
    bare = bool(rng.integers(2)) and element != ElementType.RAW
    # Bits above the beats must not count.
    stored |= int(rng.integers(2)) << beats
    more = int(rng.integers(2))
    return Frame(element, values, beats + more, stored, symbols, rest, bare, change * bare)


@pytest.fixture(scope="module", params=[32, 8, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut(
        "place_registered",
        parameters={"LANES": lanes},
        extra=[Path(__file__).with_name("place_registered.sv")],
    )


def _sources(frames: Sequence[Frame], lanes: int, stall: float) -> list[Source]:
    symbols: dict[str, list[int]] = {
        name: [] for name in ("tdata", "nonzero", "bad_codes", "bad", "tlast")
    }
    carriers = []
    for one in frames:
        width = one.element.width_bytes
        group = min(lanes, one.per_beat)
        if one.has_symbols:
            starts = range(0, len(one.symbols), group)
            for at in starts:
                part = one.symbols[at : at + group]
                symbols["tdata"].append(sum(int(x) << 8 * i for i, x in enumerate(part)))
                symbols["nonzero"].append(sum(int(x != 0) << i for i, x in enumerate(part)))
                symbols["bad_codes"].append(len(symbols["tdata"]) % 29 == 0)
                symbols["bad"].append(len(symbols["tdata"]) % 31 == 0)
                symbols["tlast"].append(at == starts[-1])
        data = one.carriers.astype(f"<u{width}").tobytes()
        carriers += [int.from_bytes(data[at : at + 64], "little") for at in range(0, len(data), 64)]
    return [
        Source("s_job", tdata=[one.job for one in frames], stall=stall),
        Source("s_symbol", **symbols, stall=stall, burst=3),
        Source("s_carrier", tdata=carriers, stall=stall, burst=3),
    ]


def _run(
    dut: Dut, frames: Sequence[Frame], lanes: int, stall: float = 0.0, out: float = 0.0
) -> tuple[list[Source], Sink]:
    dut.reset()
    streams = _sources(frames, lanes, stall)
    got = Sink("m", fields=("tdata", "bad_codes", "bad", "tlast"), stall=out, burst=4)
    dut.stream(*streams, got)
    at = groups = 0
    for number, one in enumerate(frames):
        rows = np.arange(at, at + one.beats)
        where = f"frame {number}: {one}"
        if not one.change:
            assert got["tdata"][rows].tobytes() == one.blocks, where
        assert got["tlast"][rows].tolist() == [0] * (len(rows) - 1) + [1], where
        count = -(-len(one.symbols) // min(lanes, one.per_beat)) if one.has_symbols else 0
        mine = np.arange(groups + 1, groups + 1 + count)
        assert got["bad_codes"][rows].any() == (mine % 29 == 0).any(), where
        wrong = one.change and one.bare and one.has_symbols
        assert got["bad"][rows].any() == ((mine % 31 == 0).any() or wrong), where
        at += len(rows)
        groups += count
    assert at == len(got)
    return streams, got


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_beats(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    _run(dut, [frame(rng) for _ in range(150)], lanes, *stalls)


@pytest.mark.parametrize("stalls", [(0, 0), (0.3, 0.3)])
def test_one_type_built(stalls: tuple[float, float]) -> None:
    """Half of the bits are dealt out; blocks as they are keep theirs."""
    dut = Dut(
        "place_registered",
        parameters={"LANES": 32, "TYPES": 1 << ElementType.BF16},
        extra=[Path(__file__).with_name("place_registered.sv")],
    )
    rng = np.random.default_rng(6)
    elements = [ElementType.BF16, ElementType.BF16, ElementType.RAW]
    _run(dut, [frame(rng, element=elements[i % 3]) for i in range(150)], 32, *stalls)


def test_small_frames(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(2)
    _run(dut, [frame(rng, beats=1) for _ in range(300)], lanes)


def test_wrong_numbers_of_carriers(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(3)
    frames = []
    for i in range(200):
        one = frame(rng, change=[0, 1, -1, 40, 0, 200][i % 6])
        if one.change < 0 and (not one.has_symbols or not len(one.carriers)):
            one.change = 0
        if not one.has_symbols:
            one.change = 0
        frames.append(one)
    _run(dut, frames, lanes, 0.1, 0.1)


@pytest.mark.parametrize("element", TYPES)
def test_rate_and_latency(dut: Dut, lanes: int, element: ElementType) -> None:
    rng = np.random.default_rng(4)
    frames = [frame(rng, element=element, beats=30, left_out=0) for _ in range(4)]
    streams, got = _run(dut, frames, lanes)
    clocks = max(1, 64 // element.width_bytes // lanes) if element.layout.exponent_bits else 1
    assert got.clocks[-1] - got.clocks[0] <= clocks * (len(got) - 1) + 2
    one = frame(rng, element=ElementType.BF16, beats=1, left_out=0)
    one.bare = False
    dut.reset()
    streams = _sources([one], lanes, 0)
    streams[1].not_before = np.full(streams[1].beats, dut.clocks + 20)
    got = Sink("m", fields=("tdata",))
    dut.stream(*streams, got)
    # The register behind it is in the count.
    assert got.clocks[0] - streams[1].clocks[-1] == 4


def test_reset_in_mid_frame(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(5)
    frames = [frame(rng) for _ in range(30)]
    dut.reset()
    dut.stream(*_sources(frames, lanes, 0), Sink("m", fields=("tdata",)), clocks=33)
    _run(dut, frames, lanes)
