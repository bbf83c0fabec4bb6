# SPDX-License-Identifier: Apache-2.0
"""Text as bytes, and batches that depend on nothing but the seed and the step.

The default text needs no download: the sources of Python's standard library, sorted by path. It
differs between Python versions, so its SHA-256 belongs to every result.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.config import DataConfig
from training.errors import DataError


@dataclass(frozen=True)
class Corpus:
    """The text of a run.

    Attributes:
        tokens: uint8 `(bytes,)`.
        files: number of files that it came from.
        sha256: hash over path, length and content of each file, in order.
    """

    tokens: NDArray[np.uint8]
    files: int
    sha256: str


def load_corpus(config: DataConfig) -> Corpus:
    """Read the text that `config` names, up to `max_bytes`.

    Raises:
        DataError: nothing is there to read.
    """
    if config.text == "stdlib":
        root = Path(sysconfig.get_path("stdlib"))
        paths = list(_standard_library(root))
    else:
        root = Path(config.text)
        paths = [path for path in (root, *root.rglob("*")) if path.is_file()]
    named = sorted((path.relative_to(root).as_posix(), path) for path in paths)
    return _read(named, max_bytes=config.max_bytes, source=str(root))


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
                f"data.text: expected more than {self.context} bytes; "
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
