# SPDX-License-Identifier: Apache-2.0
"""Frames that were cut or changed: always an error, never another block, never a write outside."""

from collections.abc import Callable
from itertools import product

import pytest

from codec.engine import Engine
from codec.errors import FrameError, TruncatedFrame, UnsupportedFrame
from codec.format import Mode
from tests.conformance import builder
from tests.conformance.engines import decode_one, outcome, reference_outcome
from tests.conformance.vectors import Good, load_good

GOOD = {vector.name: vector for vector in load_good()}

# Small, so that all their bits are tried in the quick tier, and of every mode and section.
SMALL = [
    "modes/BF16-raw",
    "modes/FP32-constant-66",
    "sections/BF16-zero-beat-middle",
    "sections/FP32-extras-phase-3",
    "sections/FP16-zero-beat-partial",
    "sections/RAW-zero-beat-middle",
    "sections/E4M3-zero-beat-last",
    "sections/E5M2-zero-beat-first",
    "sizes/BF16-66-phase-1",
    "unusual/coder-F2",
    "unusual/escape-ranked",
]
RESIDENT = [
    "resident/BF16-sparse",
    "resident/BF16-bitmap",
    "resident/E4M3-gap-escapes",
    "resident/FP32-phase-3",
    "resident/FP16-value-escapes",
]
LARGE = [
    "contents/BF16-weights",
    "patterns/BF16-00",
    "contents/BF16-special",
    "sizes/FP32-4095",
    "sizes/FP16-4096",
    "sizes/E4M3-4095",
    "sizes/E5M2-4096",
    "order/BF16-path-after-14",
    "codes/BF16-escapes-16",
    "unusual/bitmap-some",
]


@pytest.fixture(params=SMALL)
def small(request: pytest.FixtureRequest) -> Good:
    return GOOD[request.param]


@pytest.fixture(params=LARGE)
def large(request: pytest.FixtureRequest) -> Good:
    return GOOD[request.param]


@pytest.fixture(params=RESIDENT)
def resident(request: pytest.FixtureRequest) -> Good:
    return GOOD[request.param]


def decoder(engine: Engine, vector: Good) -> Callable[[bytes], bytes]:
    size, phase, resident = len(vector.block), vector.phase, vector.resident
    return lambda frame: decode_one(engine, frame, vector.element, size, phase, resident)


def assert_every_cut_is_refused(frame: bytes, decode: Callable[[bytes], bytes]) -> None:
    for size in range(len(frame)):
        with pytest.raises(TruncatedFrame):
            decode(frame[:size])


def assert_flips_are_refused(
    frame: bytes, decode: Callable[[bytes], bytes], stride: int = 1
) -> None:
    """Not one bit is free: the CRC, or a rule on padding, covers each."""
    for bit in range(0, 8 * len(frame), stride):
        data = bytearray(frame)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            decode(bytes(data))


def test_every_cut(engine: Engine, small: Good) -> None:
    assert_every_cut_is_refused(small.frame, decoder(engine, small))


def test_every_flip(engine: Engine, small: Good) -> None:
    assert_flips_are_refused(small.frame, decoder(engine, small))


def test_every_cut_of_a_resident_frame(resident_engine: Engine, resident: Good) -> None:
    assert_every_cut_is_refused(resident.frame, decoder(resident_engine, resident))


def test_every_flip_of_a_resident_frame(resident_engine: Engine, resident: Good) -> None:
    assert_flips_are_refused(resident.frame, decoder(resident_engine, resident))


@pytest.mark.full
def test_every_cut_of_a_large_frame(engine: Engine, large: Good) -> None:
    assert_every_cut_is_refused(large.frame, decoder(engine, large))


@pytest.mark.full
def test_flips_of_a_large_frame(engine: Engine, large: Good) -> None:
    """A stride that is prime to 8 comes by every bit of a byte."""
    assert_flips_are_refused(large.frame, decoder(engine, large), stride=17)


def test_trailing_bytes(engine: Engine, small: Good) -> None:
    for extra in (b"\0", b"\1", bytes(16), small.frame):
        with pytest.raises(FrameError):
            decode_one(engine, small.frame + extra, small.element, len(small.block), small.phase)


@pytest.mark.parametrize("name", [n for n, v in GOOD.items() if v.resident is None][::29])
def test_header_fields_at_extremes(engine: Engine, name: str) -> None:
    """Every field of the header at its least, middle and greatest value, with a CRC that fits."""
    vector = GOOD[name]
    word = int.from_bytes(vector.frame[:16].ljust(16, b"\0"), "little")
    size = 16 if word >> 3 & 3 >= Mode.CODED else 8
    for (lsb, width), value in product(builder.FIELDS.values(), (0, 1, 0.5, 1.0)):
        if lsb >= 8 * size:
            continue
        field = value if isinstance(value, int) else int(((1 << width) - 1) * value)
        changed = word & ~((1 << width) - 1 << lsb) | field << lsb
        header = (changed & (1 << 8 * size) - 1).to_bytes(size, "little")
        bare = header[:4] + bytes(4) + header[8:]
        crc = builder.crc32c(builder.pad(vector.block, 64) + bare).to_bytes(4, "little")
        for frame in (header[:4] + crc + header[8:], header):
            data = frame + vector.frame[size:]
            found = outcome(engine, data, vector.element, len(vector.block), vector.phase)
            expected = reference_outcome(
                engine, data, vector.element, len(vector.block), vector.phase
            )
            assert found == expected
            assert found == vector.block or isinstance(found, type)


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5, 6, 7])
def test_other_versions(engine: Engine, small: Good, version: int) -> None:
    frame = bytes([small.frame[0] & 0xF8 | version]) + small.frame[1:]
    found = outcome(engine, frame, small.element, len(small.block), small.phase)
    assert found is UnsupportedFrame
