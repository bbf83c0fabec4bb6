# SPDX-License-Identifier: Apache-2.0
"""The import contract holds, and fails on an import that goes the wrong way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("codec", "hw", "nic_emul", "training")
COMMAND = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "--no-cache", "--no-logo"],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the packages that a test may spoil."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def test_imports_go_one_way(checkout: Path) -> None:
    result = lint_imports(checkout)
    assert result.returncode == 0, result.stdout
    assert "4 kept, 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("codec", "torch"),
        ("codec", "nic_emul"),
        ("codec", "training"),
        ("nic_emul", "training"),
        ("nic_emul", "hw"),
        ("training", "hw"),
    ],
)
def test_an_import_the_wrong_way_is_found(checkout: Path, importer: str, imported: str) -> None:
    (checkout / importer / "spoilt.py").write_text(f"import {imported}\n")
    result = lint_imports(checkout)
    assert result.returncode == 1, result.stdout
    assert f"{importer}.spoilt -> {imported} (l.1)" in result.stdout
