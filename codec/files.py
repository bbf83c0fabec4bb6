# SPDX-License-Identifier: Apache-2.0
"""Files that are read piece by piece, and files and folders that appear only once complete."""

import os
import secrets
import shutil
import stat
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
    """A file that takes the name `path` once it is complete; on an error nothing remains.

    A file that has the name already lends it its mode, and is as it was until then.

    Raises:
        InvalidInput: it is a folder.
    """
    if path.is_dir():
        raise InvalidInput(f"{path}: expected a file to write, or nothing yet; found a folder")
    if path.exists() and not path.is_file():
        # A device or pipe, which a new file must not take the place of.
        with path.open("wb") as target:
            yield target
        return
    path = path.resolve()
    temporary = _temporary(path)
    # A name that exists is another writer's and not to be removed, so this comes before `try`.
    target = temporary.open("xb")
    try:
        with target:
            _take_mode(temporary, path)
            yield target
            _sync(target)
        _take_mode(temporary, path)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """A folder to fill with files that takes the name `path` in the end; on an error nothing
    remains.

    If there is a folder of that name, the files move into it in the end: they replace those of the
    same name, and all others stay.

    Raises:
        InvalidInput: `path` is a file, or a folder of which one is in the place of a file.
    """
    if path.exists() and not path.is_dir():
        raise InvalidInput(f"{path}: expected a folder, or nothing yet; found a file")
    path = path.resolve()
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        _take_mode(temporary, path)
        yield temporary
        files = sorted(temporary.iterdir())
        for file in files:
            with file.open("rb") as written:
                _sync(written)
        if not path.exists():
            temporary.replace(path)
            return
        for file in files:
            if (path / file.name).is_dir():
                raise InvalidInput(f"{path / file.name}: expected a file; found a folder")
        for file in files:
            _take_mode(file, path / file.name)
            file.replace(path / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _take_mode(temporary: Path, path: Path) -> None:
    """Give a file or folder the mode of the one that it replaces: before there is anything in it,
    so that nobody reads here what they may not read there."""
    if path.exists():
        temporary.chmod(stat.S_IMODE(path.stat().st_mode))


def _sync(file: IO[bytes]) -> None:
    """Have the content on the disk before the name is, so that no crash leaves a name alone."""
    file.flush()
    os.fsync(file.fileno())


def _temporary(path: Path) -> Path:
    """A name beside `path` that no other writer has, short whatever the length of its own."""
    return path.with_name(f".wirezip-{secrets.token_hex(8)}.part")
