# SPDX-License-Identifier: Apache-2.0
"""`wirezip compare`: identical when it must be, and different when anything at all differs."""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.training.made_up import made_up_run, totals
from tests.training.runs import ROOT, wirezip
from training.compare import Comparison, compare
from training.config import load, override
from training.errors import ConfigError
from training.records import Run

TOTALS = (
    "logical_bytes",
    "payload_bytes",
    "wire_bytes",
    "packets",
    "forwarded_packets",
    "intra_bytes",
)


def test_equal_runs() -> None:
    comparison = Comparison(
        made_up_run("null", losses=[2.5, 1.5]), made_up_run("numba", losses=[2.5, 1.5])
    )
    assert comparison.difference is None
    assert comparison.ratio == 1.6
    assert comparison.saved_percent == pytest.approx(100 * 375 / 1100)


@pytest.mark.parametrize(
    ("losses", "param_hash", "difference"),
    [
        ([2.5, 1.5000001192092896], "ab", r"loss of step 1: 1\.5 without .*, 1\.5000001192092896"),
        ([2.5], "ab", "steps: 2 without compression, 1 with it"),
        ([2.5, 1.5], "ac", "final parameters: all losses are equal, but their hashes differ"),
    ],
)
def test_any_difference_is_found(losses: list[float], param_hash: str, difference: str) -> None:
    off = made_up_run("null", losses=[2.5, 1.5])
    on = made_up_run("numba", losses=losses, param_hash=param_hash)
    comparison = Comparison(off, on)
    with pytest.raises(AssertionError, match=difference):
        raise AssertionError(comparison.difference)
    assert comparison.report()["identical"] is False


def test_zeros_of_different_sign_differ() -> None:
    off, on = made_up_run("null", losses=[0.0]), made_up_run("numba", losses=[-0.0])
    assert Comparison(off, on).difference is not None


def test_nothing_sent_means_nothing_saved() -> None:
    def silent(run: Run) -> Run:
        return dataclasses.replace(
            run, summary=dataclasses.replace(run.summary, totals=totals(0, 0, 0))
        )

    off, on = made_up_run("null", losses=[1.0]), made_up_run("numba", losses=[1.0])
    comparison = Comparison(silent(off), silent(on))
    assert (comparison.ratio, comparison.saved_percent) == (1.0, 0.0)


def test_null_is_not_compared_with_itself(tmp_path: Path) -> None:
    config = override(load("tiny"), engine="null")
    with pytest.raises(ConfigError, match="expected an engine to compare null with; found null"):
        compare(config, tmp_path, on_step=lambda engine, record: None)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """The folder and the JSON of `wirezip compare tiny`, called as users call it."""
    folder = tmp_path_factory.mktemp("compare") / "out"
    result = wirezip("compare", "tiny", "--steps", "3", "--out", str(folder), "--json", "-")
    assert result.returncode == 0, result.stderr
    # Standard output holds JSON alone, the table is elsewhere.
    report = json.loads(result.stdout)
    assert "reduce_scatter" in result.stderr
    assert "identical" in result.stderr
    return folder, report


@pytest.mark.ranks
def test_json_has_exactly_the_promised_keys(compared: tuple[Path, dict]) -> None:
    report = compared[1]
    assert list(report) == [
        "identical", "strategy", "world_size", "steps", "runs", "ratio", "saved_percent"
    ]  # fmt: skip
    assert report["identical"] is True
    assert (report["strategy"], report["world_size"], report["steps"]) == ("zero2", 2, 3)
    assert [run["engine"] for run in report["runs"]] == ["null", "numba"]
    for run in report["runs"]:
        assert list(run) == [
            "engine", "losses", "param_hash", *TOTALS, "by_role", "by_collective", "switch"
        ]  # fmt: skip
        assert len(run["losses"]) == 3
        assert set(run["by_role"]) == {"gradient", "parameter", "other"}
        assert set(run["by_collective"]) == {"reduce_scatter", "all_gather", "all_reduce"}
        for groups in (run["by_role"], run["by_collective"]):
            assert all(tuple(four) == TOTALS for four in groups.values())
            for name in TOTALS:
                assert sum(four[name] for four in groups.values()) == run[name]


@pytest.mark.ranks
def test_what_the_numbers_say(compared: tuple[Path, dict]) -> None:
    report = compared[1]
    off, on = report["runs"]
    assert off["losses"] == on["losses"]
    assert off["param_hash"] == on["param_hash"]
    assert off["logical_bytes"] == off["payload_bytes"] == on["logical_bytes"]
    assert off["packets"] == on["packets"]
    assert on["payload_bytes"] < 0.75 * on["logical_bytes"]
    assert report["ratio"] == on["logical_bytes"] / on["payload_bytes"]
    assert report["saved_percent"] == 100 * (1 - on["wire_bytes"] / off["wire_bytes"])


@pytest.mark.ranks
def test_files_of_a_comparison(compared: tuple[Path, dict]) -> None:
    folder, report = compared
    assert json.loads((folder / "comparison.json").read_text()) == report
    for engine in ("null", "numba"):
        names = {path.name for path in (folder / engine).iterdir()}
        assert names == {
            "config.toml", "env.json", "steps.jsonl", "summary.json", "summary.csv", "logs"
        }  # fmt: skip
        assert len(list((folder / engine / "logs").iterdir())) == 2
    assert {path.name for path in (folder / "plots").iterdir()} == {"losses.png", "bytes.png"}


def lossy(messages: str) -> dict[str, str]:
    """Environment in which the engine `numba` changes a bit of the first few or of all messages."""
    return {
        "PYTHONPATH": f"{ROOT / 'tests/training/lossy'}:{ROOT}",
        "LOSSY_MESSAGES": messages,
    }


@pytest.mark.ranks
def test_a_lossy_engine_is_caught(tmp_path: Path) -> None:
    out, report = tmp_path / "out", tmp_path / "report.json"
    arguments = ("tiny", "--steps", "3", "--out", str(out), "--json", str(report))
    result = wirezip("compare", *arguments, env=lossy("first"))
    assert result.returncode == 1
    assert "NOT IDENTICAL" in result.stdout
    assert json.loads(report.read_text())["identical"] is False


@pytest.mark.ranks
def test_ranks_that_a_lossy_engine_drives_apart_say_so(tmp_path: Path) -> None:
    arguments = ("tiny", "--steps", "3", "--out", str(tmp_path / "out"))
    result = wirezip("train", *arguments, env=lossy("every"))
    assert result.returncode == 1
    assert "hold different parameters" in result.stderr
