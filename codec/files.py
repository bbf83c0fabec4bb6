# SPDX-License-Identifier: Apache-2.0
"""Files that are read piece by piece, and files and folders that appear only once complete."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from codec.engine import U8
from codec.errors import InvalidInput


class SourceFile:
    """A file that is read at any place, by any thread, without being mapped.

    Mapped pages count as memory of the process, and reading one of a file that has meanwhile
    become shorter ends it; reading into memory has neither fault.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, begin: int, size: int) -> U8:
        """uint8 `(size,)`, read-only.

        Raises:
            InvalidInput: the file ends before.
        """
        pieces = []
        at, end = begin, begin + size
        while at < end:
            piece = os.pread(self._descriptor, end - at, at)
            if not piece:
                raise InvalidInput(
                    f"{self.path}: expected {end} bytes; found {at}: it has become shorter"
                )
            pieces.append(piece)
            at += len(piece)
        return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)

    def close(self) -> None:
        """Close the file; nothing can be read any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the name `path` once it is complete; on an error nothing remains."""
    if path.exists() and not path.is_file():
        # A device or pipe, which a new file must not take the place of.
        with path.open("wb") as target:
            yield target
        return
    path = path.resolve()
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as target:
            yield target
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the name `path` in the end; on an error nothing remains.

    A folder that has the name already makes room for it.
    """
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path}: expected a folder, or nothing yet; found a file")
    path = path.resolve()
    temporary, old = _temporary(path), path.with_name(f".{path.name}.{os.getpid()}.old")
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            path.replace(old)
        temporary.replace(path)
    finally:
        if old.exists() and not path.exists():
            old.replace(path)
        for folder in (temporary, old):
            shutil.rmtree(folder, ignore_errors=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")
