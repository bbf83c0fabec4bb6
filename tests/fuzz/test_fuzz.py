# SPDX-License-Identifier: Apache-2.0
"""The fuzz targets themselves: they take what is right, and find a reader that is wrong."""

import importlib
from typing import Any

import numpy as np
import pytest

from codec import checkpoint, container, stream
from codec.engine import Packets
from tests.conformance.vectors import load_bad, load_good
from tests.fuzz.common import Disagreement
from tests.fuzz.frames import CONTROL_BYTES, Checker, pack, unpack
from tests.fuzz.kept import read_kept

TARGETS = ["frames", "streams", "containers", "checkpoints"]
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


def target(name: str) -> Any:
    return importlib.import_module(f"tests.fuzz.{name}")


@pytest.mark.parametrize("name", TARGETS[1:])
def test_seeds_of_other_targets(name: str) -> None:
    checker = target(name).Checker()
    seeds = list(target(name).seeds())
    some = seeds[:: 1 + len(seeds) // 40]
    accepted = sum(checker.check(seed) for seed in some)
    assert accepted > len(some) // 2
    assert all(len(seed) <= target(name).MAX_BYTES for seed in seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_fuzzing_kept(name: str) -> None:
    """Inputs that reached something new."""
    checker = target(name).Checker()
    kept = read_kept(name)
    accepted = sum(checker.check(data) for data in kept)
    assert 0 < accepted < len(kept)
    assert len(kept) > 50


@pytest.mark.parametrize(
    ("name", "module", "function", "wrong"),
    [
        ("streams", stream, "decode_ranges", lambda *_, **__: None),
        ("containers", container.Container, "read_range", lambda *_: np.zeros(9, np.uint8)),
        ("checkpoints", checkpoint.Tensor, "read", lambda tensor, begin, size: tensor.elements),
    ],
)
def test_a_wrong_reader_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, module: object, function: str, wrong: object
) -> None:
    seed = next(iter(target(name).seeds()))
    checker = target(name).Checker()
    assert checker.check(seed)
    monkeypatch.setattr(module, function, wrong)
    with pytest.raises(Disagreement):
        checker.check(seed)
