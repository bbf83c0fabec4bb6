# SPDX-License-Identifier: Apache-2.0
"""The front door: every target is listed, every command that the documents show exists."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
PHONY = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.MULTILINE))
INHERITED = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "hw/**/*.md", "codec/*.py", ".ci/run")
    for path in ROOT.glob(pattern)
)


def make(folder: Path, *arguments: str) -> str:
    # The tests may run under make themselves; this one must not take itself for its child.
    own = {name: value for name, value in os.environ.items() if name not in INHERITED}
    command = ["make", *arguments]
    result = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_help_lists_every_target_with_one_line() -> None:
    lines = make(ROOT).splitlines()
    assert make(ROOT, "help").splitlines() == lines
    listed = {line.split()[0] for line in lines}
    assert listed == PHONY
    assert {"demo", "test", "all"} <= listed
    assert len(lines) == len(listed)
    assert all(len(line.split(maxsplit=1)[1]) > 10 and len(line) <= 100 for line in lines)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_only_targets_that_exist(path: Path) -> None:
    shown = re.findall(r"(?:^|`|=1 exec )make ([a-z-]+)", path.read_text(), re.MULTILINE)
    assert set(shown) <= PHONY


def test_the_two_commands_stand_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert re.search(r"^make demo\b", text, re.MULTILINE)
    assert re.search(r"^make test\b", text, re.MULTILINE)


def test_pip_arguments_and_the_torch_pin_reach_every_installation() -> None:
    commands = make(ROOT, "-n", "-B", "test", "PIP_INDEX_ARGS=--index-url=there").splitlines()
    installations = [command for command in commands if " pip " in command]
    assert len(installations) == 3
    for command in installations:
        assert "--index-url=there" in command
        assert "-c constraints.txt" in command
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile, an environment, and things that running leaves behind."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (".venv/.make", ".venv/bin", "codec/__pycache__", "runs/mine", ".mypy_cache"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "codec/format.py").touch()
    return tmp_path


def test_clean_removes_what_make_made(checkout: Path) -> None:
    (checkout / ".venv/.make/created").touch()
    make(checkout, "clean")
    left = {str(path.relative_to(checkout)) for path in checkout.rglob("*")}
    assert left == {"Makefile", "codec", "codec/format.py", "runs", "runs/mine"}


def test_clean_keeps_an_environment_that_someone_else_made(checkout: Path) -> None:
    make(checkout, "clean")
    assert (checkout / ".venv/bin").is_dir()
    assert not (checkout / ".venv/.make").exists()
