# SPDX-License-Identifier: Apache-2.0
"""The lengths that the walk computes from headers, against the golden frames of every mode."""

import numpy as np
import pytest

from codec.format import Mode
from codec.header import parse_header
from codec.kernels import walk
from tests.conformance.vectors import Good, load_good

VECTORS = load_good()


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("tail", [b"", b"\0" * 40, b"\xff" * 40], ids=["end", "zeros", "ones"])
def test_length_of_every_golden_frame_whatever_follows(tail: bytes) -> None:
    wrong = [
        v.name for v in VECTORS if walk.frame_bytes(as_array(v.frame + tail), 0) != len(v.frame)
    ]
    assert not wrong
    assert {parse_header(v.frame).mode for v in VECTORS} == set(Mode)


def test_length_behind_other_bytes() -> None:
    frames = [v.frame for v in VECTORS[::7]]
    buffer = as_array(b"".join(frames))
    at = 0
    for frame in frames:
        assert walk.frame_bytes(buffer, at) == len(frame)
        at += len(frame)


def test_cut_frames_have_their_length_or_none_but_never_a_shorter_one() -> None:
    for vector in VECTORS[::5]:
        for size in (0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 31, len(vector.frame) - 1):
            if size < len(vector.frame):
                found = walk.frame_bytes(as_array(vector.frame[:size]), 0)
                assert found in (-1, len(vector.frame)), (vector.name, size)


@pytest.mark.parametrize("mode", list(Mode))
def test_sections_add_up(mode: Mode) -> None:
    vector = _first(mode)
    sections = walk.frame_sections(as_array(vector.frame), 0)
    header = parse_header(vector.frame)
    assert len(sections) == walk.SECTIONS
    assert sections[walk.HEADER] == header.size
    assert sections[walk.UNARY] == header.unary_bytes
    assert sum(sections) == len(vector.frame)


def test_a_walk_finds_every_mode() -> None:
    for mode in Mode:
        vector = _first(mode)
        lengths, modes = np.zeros(1, np.int32), np.zeros(1, np.uint8)
        sections, coders = np.zeros((len(Mode), walk.SECTIONS), np.int64), np.zeros(4, np.int64)
        frame, size = as_array(vector.frame), len(vector.block)
        element = int(vector.element)
        found = walk.walk(frame, 0, element, size, size, lengths, modes, sections, coders)
        assert found == (1, frame.size)
        assert (lengths.tolist(), modes.tolist()) == ([frame.size], [mode])
        assert sections[mode].sum() == sections.sum() == frame.size
        assert coders.sum() == (mode == Mode.CODED)


def _first(mode: Mode) -> Good:
    """The first golden frame of a mode, of a block that begins with an element."""
    return next(v for v in VECTORS if parse_header(v.frame).mode == mode and v.phase == 0)
