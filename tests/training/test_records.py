# SPDX-License-Identifier: Apache-2.0
"""The run folder: complete files, read back as they were written, plots from files alone."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.training.made_up import made_up_run
from training.compare import Comparison
from training.config import load
from training.errors import RecordError
from training.records import Recorder, Run, StepFollower, read_run, write_atomically
from training.report import comparison_table, find_runs, run_table, write_plots

LOSSES = [5.539305686950684, 4.25, 0.1]


def record(folder: Path, engine: str) -> Run:
    """Write a made-up run as rank 0 does."""
    run = made_up_run(engine, losses=LOSSES)
    recorder = Recorder(folder, load("tiny"))
    recorder.environment(seed=1, text_sha256="cd")
    for step in run.steps:
        recorder.step(step)
    recorder.finish(run.summary)
    return run


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    written, read = record(tmp_path, "numba"), read_run(tmp_path)
    assert read.summary == written.summary
    assert read.steps == written.steps
    assert read.losses == LOSSES


def test_files(tmp_path: Path) -> None:
    record(tmp_path, "numba")
    environment = json.loads((tmp_path / "env.json").read_text())
    assert environment["seed"] == 1
    assert environment["text_sha256"] == "cd"
    assert environment["versions"]["numpy"]
    assert environment["cpu"]
    assert load(str(tmp_path / "config.toml")) == load("tiny")
    with (tmp_path / "summary.csv").open() as table:
        (row,) = csv.DictReader(table)
    assert (row["role"], row["payload_bytes"]) == ("gradient", "625")
    assert not list(tmp_path.glob(".*"))


def test_steps_of_a_run_that_is_still_writing(tmp_path: Path) -> None:
    follower = StepFollower(tmp_path)
    assert follower.new() == []
    run = made_up_run("null", losses=LOSSES)
    whole = "".join(json.dumps(dataclasses.asdict(step)) + "\n" for step in run.steps)
    (tmp_path / "steps.jsonl").write_text(whole[:-5])
    assert follower.new() == run.steps[:2]
    assert follower.new() == []
    (tmp_path / "steps.jsonl").write_text(whole)
    assert follower.new() == run.steps[2:]


def test_damaged_folders(tmp_path: Path) -> None:
    record(tmp_path, "numba")
    steps = tmp_path / "steps.jsonl"
    steps.write_text(steps.read_text().rsplit("\n", 2)[0] + "\n")
    with pytest.raises(RecordError, match=r"expected 3 lines in steps\.jsonl; found 2"):
        read_run(tmp_path)
    (tmp_path / "summary.json").write_text('{"preset": "x"}')
    with pytest.raises(RecordError, match=r"expected the files of a run; .*missing"):
        read_run(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(RecordError, match="expected the files of a run"):
        read_run(tmp_path)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, "before")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "after \udc80")
    assert path.read_text() == "before"


def test_plots_and_tables_come_from_files(tmp_path: Path) -> None:
    for engine in ("numba", "null"):
        record(tmp_path / engine, engine)
    runs = find_runs(tmp_path)
    assert [run.summary.engine for run in runs] == ["null", "numba"]
    for path in write_plots(runs, tmp_path / "plots"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000
    console = Console(width=80, record=True, file=(tmp_path / "out").open("w"))
    console.print(run_table(runs))
    console.print(comparison_table(Comparison(*runs)))
    text = console.export_text()
    assert "34.1%" in text
    assert "1.600" in text
    assert "…" not in text


def test_plots_of_the_same_files_are_the_same(tmp_path: Path) -> None:
    record(tmp_path / "null", "null")
    runs = find_runs(tmp_path / "null")
    first = [path.read_bytes() for path in write_plots(runs, tmp_path / "a")]
    second = [path.read_bytes() for path in write_plots(runs, tmp_path / "b")]
    assert first == second
