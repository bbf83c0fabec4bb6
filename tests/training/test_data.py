# SPDX-License-Identifier: Apache-2.0
"""Batches depend on the text, the seed and the step, and on nothing else."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tools import require_module
from training.config import DataConfig
from training.data import Batches, Corpus, load_corpus
from training.errors import DataError

BYTES = np.random.default_rng(0).integers(0, 256, 5000).astype(np.uint8)


def batches(seed: int = 1, batch_size: int = 8) -> Batches:
    return Batches(Corpus(BYTES, 1, ""), context=32, batch_size=batch_size, seed=seed)


def test_the_parts_of_the_ranks_are_the_whole_batch() -> None:
    whole = batches().at(5, rank=0, world_size=1)
    for world_size in (2, 4, 8):
        parts = [batches().at(5, rank=rank, world_size=world_size) for rank in range(world_size)]
        for index in (0, 1):
            assert torch.equal(torch.cat([part[index] for part in parts]), whole[index])


def test_targets_are_the_next_bytes_of_the_text() -> None:
    inputs, targets = batches().at(0, rank=0, world_size=1)
    assert inputs.shape == targets.shape == (8, 32)
    assert inputs.dtype == torch.int64
    text = bytes(BYTES)
    for row, following in zip(inputs, targets, strict=True):
        assert bytes([*row.tolist(), following[-1].item()]) in text
        assert torch.equal(row[1:], following[:-1])


def test_steps_and_seeds_differ_and_repeat() -> None:
    first = batches().at(0, rank=0, world_size=1)[0]
    assert torch.equal(first, batches().at(0, rank=0, world_size=1)[0])
    assert not torch.equal(first, batches().at(1, rank=0, world_size=1)[0])
    assert not torch.equal(first, batches(seed=2).at(0, rank=0, world_size=1)[0])


def test_the_last_window_of_the_text_can_be_drawn() -> None:
    short = Batches(Corpus(BYTES[:33], 1, ""), context=32, batch_size=4, seed=0)
    inputs, targets = short.at(0, rank=0, world_size=1)
    assert bytes(inputs[0].tolist()) == bytes(BYTES[:32])
    assert targets[0, -1] == BYTES[32]


def test_standard_library_is_sorted_hashed_and_bounded() -> None:
    config = DataConfig(max_bytes=300_000)
    corpus = load_corpus(config)
    assert corpus.tokens.size == 300_000
    assert corpus.tokens.dtype == np.uint8
    assert corpus.files > 1
    again = load_corpus(config)
    assert (again.sha256, again.files) == (corpus.sha256, corpus.files)
    assert load_corpus(DataConfig(max_bytes=299_999)).sha256 != corpus.sha256
    # The first file in sorted order.
    assert bytes(corpus.tokens[:60]).startswith(b'"""Record of phased-in incompatible language')


def test_the_hash_is_over_names_lengths_and_contents(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_bytes(b"second")
    (tmp_path / "a.txt").write_bytes(b"first")
    (tmp_path / "sub/c.txt").write_bytes(b"third")
    corpus = load_corpus(DataConfig(text=str(tmp_path), max_bytes=1000))
    assert bytes(corpus.tokens) == b"firstsecondthird"
    stream = b"a.txt\x005\0firstb.txt\x006\0secondsub/c.txt\x005\0third"
    assert corpus.sha256 == hashlib.sha256(stream).hexdigest()
    (tmp_path / "a.txt").rename(tmp_path / "A.txt")
    assert load_corpus(DataConfig(text=str(tmp_path), max_bytes=1000)).sha256 != corpus.sha256


def test_one_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"hello world")
    assert bytes(load_corpus(DataConfig(text=str(path), max_bytes=5)).tokens) == b"hello"


def test_a_larger_vocabulary_is_fitted_to_the_text() -> None:
    tokenizers = require_module("tokenizers")
    config = DataConfig(max_bytes=100_000)
    corpus = load_corpus(config, vocabulary=512)
    text = load_corpus(config)
    assert corpus.tokens.dtype == np.uint16
    assert corpus.tokens.max() < 512
    assert corpus.tokens.size < text.tokens.size / 2
    assert corpus.sha256 == text.sha256
    again = load_corpus(config, vocabulary=512)
    assert np.array_equal(again.tokens, corpus.tokens)
    # The same text comes back.
    fitted = tokenizers.ByteLevelBPETokenizer()
    lines = bytes(text.tokens).decode(errors="replace").splitlines(keepends=True)
    fitted.train_from_iterator(lines, vocab_size=512, show_progress=False)
    assert fitted.decode(corpus.tokens.tolist()) == "".join(lines)


def test_a_text_too_small_for_the_vocabulary(tmp_path: Path) -> None:
    require_module("tokenizers")
    (tmp_path / "a.txt").write_text("ab ab")
    with pytest.raises(DataError, match=r"data\.text: expected enough text for 4096 entries"):
        load_corpus(DataConfig(text=str(tmp_path)), vocabulary=4096)


@pytest.mark.parametrize("name", ["missing", "."])
def test_no_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"data\.text: expected text in .*; found none"):
        load_corpus(DataConfig(text=str(tmp_path / name)))


def test_text_shorter_than_a_sequence() -> None:
    with pytest.raises(DataError, match="expected more than 32 tokens; found 32"):
        Batches(Corpus(BYTES[:32], 1, ""), context=32, batch_size=1, seed=0)
