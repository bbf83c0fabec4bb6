# SPDX-License-Identifier: Apache-2.0
"""Files take their names only once complete, and writers do not get into each other's way."""

import os
import secrets
from pathlib import Path

import pytest

from codec.errors import InvalidInput
from codec.files import writing, writing_folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_writers_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with writing(path) as first:
        first.write(b"first")
        with writing(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


def test_the_file_of_another_writer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)
    with writing(tmp_path / "first") as first:
        first.write(b"first")
        with pytest.raises(FileExistsError), writing(tmp_path / "second"):
            pass
    assert (tmp_path / "first").read_bytes() == b"first"


def test_names_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    with writing(path) as target:
        target.write(b"long")
    assert path.read_bytes() == b"long"


def test_the_mode_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o640)
    with writing(path) as target:
        assert os.fstat(target.fileno()).st_mode & 0o7777 == 0o640
    assert path.stat().st_mode & 0o7777 == 0o640


def test_the_modes_of_a_folder_stay(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(0o700)
    (folder / "a").touch(0o600)
    with writing_folder(folder) as temporary:
        assert temporary.stat().st_mode & 0o7777 == 0o700
        (temporary / "a").write_bytes(b"secret")
    assert (folder / "a").read_bytes() == b"secret"
    assert (folder / "a").stat().st_mode & 0o7777 == 0o600
    assert folder.stat().st_mode & 0o7777 == 0o700


def test_the_content_is_on_the_disk_before_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []

    def sync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, any(p.exists() for p in outputs)))

    outputs = (tmp_path / "file", tmp_path / "folder")
    monkeypatch.setattr(os, "fsync", sync)
    with writing(outputs[0]) as target:
        target.write(b"abc")
    outputs[0].unlink()
    with writing_folder(outputs[1]) as folder:
        (folder / "a").write_bytes(b"abcd")
    assert synced == [(3, False), (4, False)]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="found a folder"), writing(tmp_path):
        pass
    assert names(tmp_path) == []


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "a").write_bytes(b"old")

    def write() -> None:
        with writing_folder(path) as folder:
            (folder / "a").write_bytes(b"new")
            raise OSError("disk is full")

    with pytest.raises(OSError, match="disk is full"):
        write()
    assert (path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["folder"]
