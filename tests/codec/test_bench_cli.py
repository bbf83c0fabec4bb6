# SPDX-License-Identifier: Apache-2.0
"""`wirezip bench` on dumps, its plots, and `wirezip netzip`."""

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from safetensors.numpy import save_file

from codec import bench, cli
from tests.tools import require_module
from training.cli import main

RNG = np.random.default_rng(6)


@pytest.fixture
def steps(tmp_path: Path) -> tuple[Path, Path]:
    """Tensors of a step and of the step before."""
    paths = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    for path in paths:
        values = (0.02 * RNG.standard_normal((2, 600))).astype(np.float32)
        save_file({"gradient/head/w": values[0], "activation/residual/0": values[1]}, path)
    return paths


def test_groups_are_shown_and_plotted(
    steps: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = steps
    arguments = ["--reference", str(old), "--groups", "--cast", "e5m2", "--plot", str(tmp_path)]
    codecs = ["--codecs", "wirezip", "wirezip-ref", "xor-zstd-1", "--repeats", "0"]
    assert main(["bench", str(new), *arguments, *codecs]) == 0
    shown = capsys.readouterr().out
    for name in ("gradient/*", "gradient/head/*", "activation/residual/*", "wirezip-ref"):
        assert name in shown
    assert (tmp_path / "bench-bound.png").stat().st_size > 10_000
    # Nothing was timed.
    assert not (tmp_path / "bench-speed.png").exists()


def test_a_row_a_line_and_the_command(
    steps: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.json"
    arguments = ["bench", str(steps[0]), "--codecs", "copy", "--repeats", "0", "--json", str(path)]
    monkeypatch.setattr("sys.argv", ["wirezip", *arguments])
    assert main(arguments) == 0
    (row,) = json.loads(path.read_text())["rows"]
    assert json.dumps(row) in path.read_text().splitlines()
    assert f"wirezip bench {steps[0]} --codecs copy" in path.read_text()


def test_netzip(
    steps: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_module("cramjam")
    new, old = steps
    out = tmp_path / "n.json"
    arguments = [str(new), "--previous", str(old), "--cast", "bf16", "--tensors", "gradient/*"]
    assert main(["netzip", *arguments, "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert {row["role"] for row in found["rows"]} == {"gradient"}
    assert found["environment"]["previous"] == str(old)
    shown = capsys.readouterr().out
    assert "gradient: compressed / original, packet by packet" in shown
    assert "lossy" in shown


def test_netzip_wants_bf16(steps: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["netzip", str(steps[0]), "--previous", str(steps[1])]) == 2
    assert "expected BF16 (--cast bf16); found F32" in capsys.readouterr().err


def test_the_casts_are_those_there_are() -> None:
    assert get_args(cli.CastName) == tuple(bench.CASTS)
