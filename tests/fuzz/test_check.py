# SPDX-License-Identifier: Apache-2.0
"""The fuzz target itself: it runs over the golden vectors, and finds a decoder that is wrong."""

from pathlib import Path

import numpy as np
import pytest

from codec.engine import Packets
from tests.conformance.vectors import load_bad, load_good
from tests.fuzz.check import CONTROL_BYTES, Checker, Disagreement, pack, unpack

FRAMES = Path(__file__).with_name("frames.bin")
VECTORS = [vector for vector in load_good() if vector.resident is None][::4]


def test_golden_vectors_are_accepted() -> None:
    checker = Checker()
    assert all(checker.check(pack(vector)) for vector in VECTORS)


def test_bad_vectors_do_no_harm() -> None:
    checker = Checker()
    for vector in load_bad():
        checker.check(bytes([1, 5]) + vector.frame)


def test_a_wrong_checksum_is_put_right() -> None:
    data = bytearray(pack(VECTORS[0]))
    data[CONTROL_BYTES + 4] ^= 1
    assert Checker().check(bytes(data))


def test_short_inputs_offer_nothing() -> None:
    assert unpack(b"") is None
    assert not Checker().check(bytes(9))


def test_a_wrong_decoder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Checker()

    def decode(packets: Packets, element: object, size: int, out: np.ndarray, **_: object) -> None:
        out[:] = 7

    monkeypatch.setattr(checker._numba, "decode", decode)
    with pytest.raises(Disagreement, match="numba gives 07 07"):
        checker.check(pack(VECTORS[-1]))


def test_frames_that_fuzzing_kept() -> None:
    """Inputs that reached something new; `frames.bin` has each behind its length, 2 bytes."""
    data = FRAMES.read_bytes()
    checker = Checker()
    accepted = count = at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        accepted += checker.check(data[at + 2 : at + 2 + size])
        count += 1
        at += 2 + size
    assert 0 < accepted < count
    assert count > 200
