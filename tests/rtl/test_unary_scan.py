# SPDX-License-Identifier: Apache-2.0
"""wz_unary_scan: codes of unary sections, ends of sections, overflow, rate and latency."""

from dataclasses import dataclass

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source

FIELDS = ("tdata", "tcount", "tlast", "overflow", "found", "position")


@pytest.fixture(scope="module", params=[8, 16, 32, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut("wz_unary_scan", parameters={"LANES": lanes})


@dataclass
class Section:
    bits: np.ndarray

    @property
    def words(self) -> np.ndarray:
        size = -(-max(1, self.bits.size) // 128) * 128
        padded = np.zeros(size, np.uint8)
        padded[: self.bits.size] = self.bits
        return np.packbits(padded, bitorder="little").reshape(-1, 16)

    @property
    def codes(self) -> np.ndarray:
        ones = np.flatnonzero(self.bits)
        return np.diff(ones, prepend=-1) - 1

    @property
    def overflows(self) -> bool:
        return bool((self.codes > 15).any())


def section(codes: np.ndarray) -> Section:
    bits = np.zeros(int(codes.sum()) + len(codes), np.uint8)
    bits[np.cumsum(codes + 1) - 1] = 1
    return Section(bits)


def _sections(rng: np.random.Generator, count: int, longest: int = 700) -> list[Section]:
    out = []
    for i in range(count):
        size = int(rng.integers(1, longest)) if i % 3 else int(rng.integers(1, 70))
        kind = i % 5
        if kind == 0:
            codes = np.zeros(size, int)
        elif kind == 1:
            codes = np.minimum(rng.geometric(0.55, size) - 1, 15)
        elif kind == 2:
            codes = rng.integers(0, 16, size)
        elif kind == 3:
            codes = np.repeat([4, 0], [size // 2, size - size // 2])
        else:
            codes = rng.choice([0, 15], size, p=[0.8, 0.2])
        out.append(section(codes))
    return out


def _source(sections: list[Section], **options: object) -> Source:
    words = np.concatenate([s.words for s in sections])
    last = np.concatenate([np.arange(len(s.words)) == len(s.words) - 1 for s in sections])
    return Source("s", tdata=words, tlast=last, **options)


def _check(sections: list[Section], got: Sink, lanes: int) -> None:
    at = 0
    data = got["tdata"]
    width = lanes // 2
    vectors = (data if data.ndim == 2 else data.astype("<u8").view(np.uint8).reshape(len(data), 8))[
        :, :width
    ]
    ends = np.flatnonzero(got["tlast"]) + 1
    assert len(ends) == len(sections)
    for number, one in enumerate(sections):
        codes = one.codes
        rows = max(1, -(-len(codes) // lanes))
        assert ends[number] - at == rows, number
        nibbles = np.stack([vectors[at : at + rows] & 15, vectors[at : at + rows] >> 4], axis=-1)
        flat = nibbles.reshape(-1)
        counts = got["tcount"][at : at + rows]
        assert (counts[:-1] == lanes).all(), number
        assert counts.sum() == len(codes), number
        if not one.overflows:
            assert np.array_equal(flat[: len(codes)], codes), number
        assert got["overflow"][at + rows - 1] == one.overflows, number
        bits = np.unpackbits(one.words[-1], bitorder="little")
        assert got["found"][at + rows - 1] == bits.any()
        if bits.any():
            assert got["position"][at + rows - 1] == np.flatnonzero(bits)[-1], number
        at += rows
    assert len(got) == at


def _run(
    dut: Dut, lanes: int, sections: list[Section], stall: float = 0, out: float = 0
) -> tuple[Source, Sink]:
    dut.reset()
    source, got = _source(sections, stall=stall, burst=4), Sink("m", fields=FIELDS, stall=out)
    dut.stream(source, got)
    _check(sections, got, lanes)
    return source, got


@pytest.mark.parametrize("stalls", [(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.3), (0, 0.9)])
def test_codes(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    _run(dut, lanes, _sections(rng, 60), *stalls)


def test_short_sections(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(2)
    sections = [section(np.zeros(int(n), int)) for n in rng.integers(1, 140, 300)]
    sections += [section(rng.integers(0, 16, int(n))) for n in rng.integers(1, 9, 300)]
    _run(dut, lanes, sections, out=0.2)


def test_too_many_zeros(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(3)
    sections = []
    for zeros in [15, 16, 17, 22, 23, 24, 31, 40, 127, 128, 300]:
        for before in range(9):
            codes = np.concatenate([rng.integers(0, 3, before), [zeros], rng.integers(0, 3, 40)])
            sections += [section(codes), section(np.zeros(3, int))]
    _run(dut, lanes, sections)


def test_sections_without_codes_and_padding(dut: Dut, lanes: int) -> None:
    sections = []
    for zeros in [1, 8, 128, 129, 400]:
        sections.append(Section(np.zeros(zeros, np.uint8)))
        for ones in [1, lanes - 1, lanes, 128]:
            sections.append(Section(np.repeat([1, 0], [ones, zeros]).astype(np.uint8)))
    _run(dut, lanes, sections)


@pytest.mark.parametrize("codes", [(4, 1024), (15, 273), (14, 290)])
def test_rate_of_the_longest_sections(dut: Dut, lanes: int, codes: tuple[int, int]) -> None:
    """3 bits a code, long codes first or shuffled: a vector of LANES codes a clock."""
    rng = np.random.default_rng(4)
    values = 64 * lanes
    long = values * codes[1] // 2048
    block = np.repeat([codes[0], 0], [long, values - long])
    blocks = [block if i % 3 else rng.permutation(block) for i in range(30)]
    _, got = _run(dut, lanes, [section(b) for b in blocks])
    clocks = got.clocks[-1] - got.clocks[0]
    # 128 bits a clock are 2 bits a code with 64 lanes.
    best = 1.0 if lanes < 64 else 2 / 3
    assert len(got) / clocks > 0.97 * best


def test_latency(dut: Dut, lanes: int) -> None:
    dut.reset()
    one = section(np.zeros(8, int))
    source, got = _source([one]), Sink("m", fields=FIELDS)
    dut.stream(source, got)
    # A word is taken with its last part.
    assert got.clocks[0] - source.clocks[0] == 7


def test_reset_in_mid_section(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(6)
    dut.reset()
    sections = _sections(rng, 10)
    dut.stream(_source(sections), Sink("m", fields=FIELDS), clocks=37)
    _run(dut, lanes, sections)
