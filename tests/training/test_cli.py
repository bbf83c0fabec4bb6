# SPDX-License-Identifier: Apache-2.0
"""The command: help everywhere, one line for what users get wrong, nothing loaded in vain."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nic_emul.capture import read
from tests.tools import require_module
from tests.training.runs import ROOT, wirezip
from training.cli import COMMANDS


def imports_of(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after `code`."""
    program = f"{code}\nimport sys; print('MODULES', *sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(result.stdout.rsplit("MODULES", 1)[1].split())


def test_version_and_help_load_no_torch() -> None:
    code = "from training.cli import main\nmain(['--version'])\nmain(['--help'])\nmain(['nope'])"
    assert not {"torch", "matplotlib", "numba", "nic_emul"} & imports_of(code)


def test_options_of_a_command_load_no_torch() -> None:
    code = (
        "from training.cli import main\n"
        "for name in ('train', 'compare', 'demo', 'testbed', 'report', 'doctor'):\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass"
    )
    assert not {"torch", "matplotlib", "numba"} & imports_of(code)


def test_the_codec_loads_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(10_000))
    arguments = ["compress", str(path), "--dtype", "bf16"]
    code = f"from training.cli import main\nassert main({arguments}) == 0"
    assert not {"torch", "matplotlib", "nic_emul"} & imports_of(code)
    assert (tmp_path / "data.wz").stat().st_size < 1000


def test_the_launcher_loads_no_torch() -> None:
    assert "torch" not in imports_of("import training.compare, training.report, training.progress")


def test_help_lists_every_command() -> None:
    result = wirezip("--help")
    assert result.returncode == 0
    for name, (_, _, purpose) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(purpose)}$", result.stdout, re.M)
    bare = wirezip()
    assert (bare.returncode, bare.stdout) == (2, result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_its_options(name: str) -> None:
    result = wirezip(name, "--help")
    assert result.returncode == 0
    assert f"usage: wirezip {name}" in result.stdout
    assert "--json PATH" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], r"command: expected one of compress, .*; found 'nope'"),
        (["train", "nope"], r"preset: expected a \.toml file or one of .*; found 'nope'"),
        (["compare", "tiny", "--engine", "null"], r"network\.engine: expected an engine .*"),
        (["compare", "tiny", "--steps", "0"], r"options: steps: expected at least 1; found 0"),
        (["train", "tiny", "--world-size", "3"], r"options: data\.batch_size: expected .*"),
        (["report", "/nowhere"], r"/nowhere: expected a run folder or .*; found no run"),
        (["report"], r"folders: expected at least one run folder; found none"),
    ],
)
def test_what_users_get_wrong_is_one_line(arguments: list[str], message: str) -> None:
    result = wirezip(*arguments)
    assert result.returncode == 2
    assert re.fullmatch(rf"wirezip: error: {message}\n", result.stderr)
    assert result.stdout == ""


def test_an_option_that_does_not_parse() -> None:
    result = wirezip("train", "tiny", "--steps", "many")
    assert result.returncode == 2
    assert "--steps" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_doctor_says_what_is_there() -> None:
    result = wirezip("doctor", "--json", "-")
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    assert result.returncode == 0, result.stderr
    for name in ("python >= 3.11", "torch 2.13", "loopback sockets", "engine null"):
        assert checks[name]["passed"]
        assert checks[name]["required"]
    for name in ("engine rtl", "network namespaces", "TAP devices"):
        assert not checks[name]["required"]
    assert "engine numba" in result.stderr


def test_doctor_fails_without_what_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    from training import cli, doctor

    def broken(name: str) -> object:
        raise ImportError("no such thing")

    monkeypatch.setattr(doctor, "get_engine", broken)
    assert cli.main(["doctor"]) == 1


@pytest.mark.ranks
def test_train_with_one_rank_on_a_text_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 50)
    preset = tmp_path / "mine.toml"
    preset.write_text(
        f"steps = 2\nworld_size = 1\n[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n"
        f'[data]\ntext = "{tmp_path / "text.txt"}"\n'
    )
    out, report = tmp_path / "out", tmp_path / "deep" / "report.json"
    result = wirezip("train", str(preset), "--out", str(out), "--json", str(report))
    assert result.returncode == 0, result.stderr
    summary = json.loads(report.read_text())
    assert (summary["preset"], summary["engine"], summary["steps"]) == ("mine", "numba", 2)
    assert len(summary["losses"]) == 2
    assert str(out) in result.stdout


@pytest.mark.ranks
@pytest.mark.full
def test_train_with_a_capture(tmp_path: Path) -> None:
    require_module("scapy")
    pcap, out = tmp_path / "new" / "wire.pcap", tmp_path / "out"
    arguments = ["tiny", "--engine", "null", "--steps", "1", "--pcap", str(pcap)]
    result = wirezip("train", *arguments, "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert str(pcap) in result.stdout
    summary = json.loads((out / "summary.json").read_text())
    frames = [frame for _, frame in read(pcap)]
    # Ranks also meet before the first step and compare hashes after the last.
    assert sum(frame[42] != 0x11 for frame in frames) > summary["totals"]["packets"]
    assert list(pcap.parent.iterdir()) == [pcap]


@pytest.mark.ranks
@pytest.mark.full
def test_demo(tmp_path: Path) -> None:
    result = wirezip(
        "demo", "--steps", "3", "--out", str(tmp_path / "demo"), "--json", "-", timeout=280
    )
    assert result.returncode == 0, result.stderr
    reports = json.loads(result.stdout)
    assert [report["strategy"] for report in reports] == ["zero2", "zero3"]
    assert all(report["identical"] for report in reports)
    for strategy in ("zero2", "zero3"):
        assert (tmp_path / "demo" / strategy / "plots" / "losses.png").is_file()
        assert str(Path("demo") / strategy / "plots" / "bytes.png") in result.stderr
    assert result.stderr.count("bit for bit") == 2
