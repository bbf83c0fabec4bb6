# SPDX-License-Identifier: Apache-2.0
"""Ranks that die, runs that are interrupted: everything ends, soon, and says why."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codec import numba_engine
from tests.training.runs import ROOT, command, run, tiny
from training.errors import RecordError, RunError
from training.launch import compile_codec
from training.records import read_run

pytestmark = pytest.mark.ranks

SECONDS = 30


@contextmanager
def endless_run(folder: Path) -> Iterator["tuple[subprocess.Popen[str], list[int]]"]:
    """`wirezip train` in the middle of its steps, and the processes of its two ranks."""
    arguments = ("tiny", "--engine", "null", "--steps", "1000000", "--out", str(folder))
    with command("train", *arguments) as process:
        try:
            wait_until(lambda: process.poll() is not None or lines(folder) > 2)
            assert process.poll() is None
            yield process, ranks_of(process.pid)
        finally:
            process.kill()


def lines(folder: Path) -> int:
    path = folder / "steps.jsonl"
    return path.read_text().count("\n") if path.is_file() else 0


def ranks_of(pid: int) -> list[int]:
    """Process ids of the ranks that the launcher started, by rank."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = {}
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        rank = next(v for v in variables if v.startswith(b"RANK="))
        found[int(rank.removeprefix(b"RANK="))] = int(child)
    return [found[rank] for rank in range(2)]


def wait_until(condition: object, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_killed_rank_ends_the_run(tmp_path: Path) -> None:
    with endless_run(tmp_path / "run") as (process, ranks):
        os.kill(ranks[1], signal.SIGKILL)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 1
        assert "wirezip: error: rank 1 was killed by SIGKILL (log: " in err
        assert "Traceback" not in err
        assert not any(alive(pid) for pid in ranks)
    with pytest.raises(RecordError, match=r"expected a finished run; found no summary\.json"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_an_interrupted_launcher_takes_its_ranks_with_it(
    tmp_path: Path, number: int, status: int
) -> None:
    with endless_run(tmp_path / "run") as (process, ranks):
        process.send_signal(number)
        _, err = process.communicate(timeout=SECONDS)
        assert process.returncode == status
        assert "Traceback" not in err
        assert not any(alive(pid) for pid in ranks)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_killed_launcher_takes_its_ranks_with_it(tmp_path: Path) -> None:
    with endless_run(tmp_path / "run") as (process, ranks):
        process.kill()
        process.wait(timeout=SECONDS)
        wait_until(lambda: not any(alive(pid) for pid in ranks), seconds=SECONDS)


def test_a_rank_that_cannot_start_says_why(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("too short")
    config = tiny("zero2", 2)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, text=str(text)))
    with pytest.raises(RunError, match=r"rank [01] exited with status 1: error: DataError: data"):
        run(config, tmp_path / "run")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a text that differs between processes")
def test_ranks_with_other_text_are_named(tmp_path: Path) -> None:
    config = tiny("zero2", 2)
    # Its environment is a text that each rank has to itself.
    data = dataclasses.replace(config.data, text="/proc/self/environ")
    with pytest.raises(
        RunError, match=r"DataError: data\.text: expected the text of rank 0 .*another on rank 1 \("
    ):
        run(dataclasses.replace(config, data=data), tmp_path / "run")


def test_the_codec_is_compiled_when_it_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    told, compiled = [], []
    monkeypatch.setattr(numba_engine, "kernels_are_cached", lambda: False)
    monkeypatch.setattr(numba_engine, "compile_kernels", lambda: compiled.append(len(told)))
    compile_codec("null", announce=lambda: told.append("null"))
    assert (told, compiled) == ([], [])
    compile_codec("numba", announce=lambda: told.append("numba"))
    assert (told, compiled) == (["numba"], [1])


def test_a_compiled_codec_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    numba_engine.compile_kernels()
    monkeypatch.setattr(numba_engine, "compile_kernels", lambda: pytest.fail("compiled again"))
    compile_codec("numba", announce=lambda: pytest.fail("announced"))


def test_a_diverging_run_stops(tmp_path: Path) -> None:
    config = tiny("zero2", 1)
    optimizer = dataclasses.replace(config.optimizer, peak_lr=1e30, warmup_steps=0)
    with pytest.raises(RunError, match="DivergenceError: step 1: expected a finite loss"):
        run(dataclasses.replace(config, optimizer=optimizer), tmp_path / "run")


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").touch()
    with pytest.raises(RecordError, match=r"expected a folder without a run; found steps\.jsonl"):
        run(tiny("zero2", 1), tmp_path)


def test_torchrun_starts_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "training.run", "--preset", "tiny", "--engine", "null", "--out", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "step 6 of 6: loss" in result.stderr
    launched = run(tiny("zero2", 2), tmp_path / "launched")
    torchrun = read_run(folder)
    assert torchrun.losses == launched.losses
    assert torchrun.summary.param_hash == launched.summary.param_hash
    assert torchrun.summary.totals == launched.summary.totals


def test_a_rank_without_launcher_explains_itself() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "training.run", "--preset", "tiny"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith("error: ConfigError: RANK and WORLD_SIZE: expected")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("WIREZIP_MTU", "1024"), ("WIREZIP_FAULTS", "loss=0.5"), ("WIREZIP_ELEMENT", "off")],
)
def test_a_setting_beside_the_configuration_is_refused(variable: str, value: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "training.run", "--preset", "tiny"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
        env=os.environ | {"RANK": "0", "WORLD_SIZE": "1", variable: value},
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: ConfigError: {variable}: expected ")
    assert result.stderr.endswith(f"as the configuration says, or nothing; found {value}\n")
