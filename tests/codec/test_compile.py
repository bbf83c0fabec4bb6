# SPDX-License-Identifier: Apache-2.0
"""Where compiled kernels are kept."""

from pathlib import Path

import pytest

from codec.kernels import compile as kernels


def test_the_folder_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = kernels._make_cache_folder()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert kernels._make_cache_folder().parent != tmp_path


def test_no_home_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(kernels.Path, "home", fail)
    monkeypatch.setattr(kernels.tempfile, "gettempdir", lambda: str(tmp_path))
    assert kernels._make_cache_folder().parent.parent == tmp_path


def test_the_folder_depends_on_every_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "codec" / "kernels"
    sources.mkdir(parents=True)
    for file in (sources / "a.py", sources.parent / "elements.py", sources.parent / "format.py"):
        file.write_text("x = 1\n")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "_SOURCES", sources)
    seen = {kernels._make_cache_folder()}
    for file in (sources / "a.py", sources.parent / "format.py"):
        file.write_text("x = 2\n")
        seen.add(kernels._make_cache_folder())
    monkeypatch.setattr(kernels, "NATIVE", not kernels.NATIVE)
    seen.add(kernels._make_cache_folder())
    assert len(seen) == 4


def test_no_folder_at_all_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(kernels, "_cache_bases", lambda: iter([file / "below"]))
    with pytest.raises(OSError, match="expected a folder of our own"):
        kernels._make_cache_folder()
