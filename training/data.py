# SPDX-License-Identifier: Apache-2.0
"""Text as tokens, and batches that depend on nothing but the seed and the step.

The default text needs no download: the sources of Python's standard library, sorted by path. It
differs between Python versions, so its SHA-256 belongs to every result. Tokens are its bytes, or
entries of a byte-level BPE that is fitted to it.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config import BYTE_VALUES, DataConfig
from training.errors import DataError


@dataclass(frozen=True)
class Corpus:
    """The text of a run.

    Attributes:
        tokens: uint8 `(bytes,)`, or uint16 `(tokens,)` of a larger vocabulary.
        files: number of files that it came from.
        sha256: hash over path, length and content of each file, in order.
    """

    tokens: NDArray[np.uint8] | NDArray[np.uint16]
    files: int
    sha256: str


def load_corpus(config: DataConfig, *, vocabulary: int = BYTE_VALUES) -> Corpus:
    """Read the text that `config` names, up to `max_bytes`, as tokens of a vocabulary of that size.

    Raises:
        DataError: nothing is there to read, or it is too little for the vocabulary.
    """
    if config.text == "stdlib":
        root = Path(sysconfig.get_path("stdlib"))
        paths = list(_standard_library(root))
    else:
        root = Path(config.text)
        paths = [path for path in (root, *root.rglob("*")) if path.is_file()]
    named = sorted((path.relative_to(root).as_posix(), path) for path in paths)
    corpus = _read(named, max_bytes=config.max_bytes, source=str(root))
    if vocabulary == BYTE_VALUES:
        return corpus
    return replace(corpus, tokens=_tokenize(corpus.tokens.tobytes(), vocabulary))


def _tokenize(text: bytes, vocabulary: int) -> NDArray[np.uint16]:
    """Fit a byte-level BPE of `vocabulary` entries to `text`; uint16 `(tokens,)` of it."""
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError:
        raise DataError(
            "model.vocabulary: expected the package tokenizers for more than bytes; found none "
            "(pip install 'wirezip[bench]')"
        ) from None
    lines = text.decode(errors="replace").splitlines(keepends=True)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines, vocab_size=vocabulary, show_progress=False)
    found = tokenizer.get_vocab_size()
    if found != vocabulary:
        raise DataError(
            f"data.text: expected enough text for {vocabulary} entries; found {found} in it"
        )
    encodings = tokenizer.encode_batch(lines)
    return np.concatenate([np.array(encoding.ids, np.uint16) for encoding in encodings])


def _standard_library(root: Path) -> Iterator[Path]:
    """Every Python source below `root`, without going into what was installed later."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("site-packages", "__pycache__")]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _read(named: list[tuple[str, Path]], *, max_bytes: int, source: str) -> Corpus:
    digest = hashlib.sha256()
    parts: list[bytes] = []
    left = max_bytes
    for name, path in named:
        content = path.read_bytes()[:left]
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
        parts.append(content)
        left -= len(content)
        if left == 0:
            break
    tokens = np.frombuffer(b"".join(parts), np.uint8)
    if tokens.size == 0:
        raise DataError(f"data.text: expected text in {source}; found none")
    return Corpus(tokens, files=len(parts), sha256=digest.hexdigest())


@dataclass(frozen=True)
class Batches:
    """Random windows of the corpus: the same on every rank and strategy for one seed and step.

    Attributes:
        corpus: the text.
        context: tokens in a sequence.
        batch_size: sequences in a step over all ranks, a multiple of the ranks.
        seed: seed of the run.
    """

    corpus: Corpus
    context: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        if self.corpus.tokens.size <= self.context:
            raise DataError(
                f"data.text: expected more than {self.context} tokens; "
                f"found {self.corpus.tokens.size}"
            )

    def at(self, step: int, *, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of one rank, int64 `(batch_size / world_size, context)` each.

        The ranks' parts, one after the other, are the batch of a single rank.
        """
        generator = np.random.default_rng([self.seed, step])
        starts = generator.integers(self.corpus.tokens.size - self.context, size=self.batch_size)
        share = self.batch_size // world_size
        mine = starts[rank * share : (rank + 1) * share]
        windows = self.corpus.tokens[mine[:, None] + np.arange(self.context + 1)]
        tokens = torch.from_numpy(windows.astype(np.int64))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
