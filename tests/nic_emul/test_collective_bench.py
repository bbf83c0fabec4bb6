# SPDX-License-Identifier: Apache-2.0
"""`wirezip bench-collectives`: what it measures, and that its ranks are gone afterwards."""

import json
import multiprocessing
from pathlib import Path

import pytest

from codec.errors import InvalidInput
from nic_emul.collective_bench import COLLECTIVES, BenchError, BenchOptions, BenchRow, measure
from training.cli import main


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (BenchOptions(ranks=1), "ranks"),
        (BenchOptions(turns=0), "turns"),
        (BenchOptions(sizes=(0,)), "sizes"),
        (BenchOptions(ranks=4, sizes=(4096, 4100)), "sizes"),
    ],
)
def test_what_cannot_be_measured_is_refused(options: BenchOptions, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        measure(options)


@pytest.mark.ranks
def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    arguments = ["--ranks", "2", "--sizes", "4096", "--turns", "2", "--json", str(path)]
    assert main(["bench-collectives", *arguments]) == 0
    report = json.loads(path.read_text())
    environment = report["environment"]
    assert (environment["ranks"], environment["engine"]) == (2, "null")
    assert {"torch_threads", "gloo_threads", "wirezip_threads"} <= environment.keys()
    rows = [BenchRow(**row) for row in report["rows"]]
    assert [(row.collective, row.size_bytes, row.turns) for row in rows] == [
        (name, 4096, 2) for name in COLLECTIVES
    ]
    for row in rows:
        assert row.wirezip_gb_per_s == row.size_bytes / row.wirezip_s / 1e9
        assert row.gloo_gb_per_s == row.size_bytes / row.gloo_s / 1e9
    assert "reduce_scatter" in capfd.readouterr().out
    assert not multiprocessing.active_children()


@pytest.mark.full
@pytest.mark.ranks
def test_ranks_that_fail_end_all(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchError, match="exited with status 1"):
        measure(BenchOptions(ranks=2, sizes=(4096,), engine="zip"))
    assert "WIREZIP_ENGINE" in capfd.readouterr().err
    assert not multiprocessing.active_children()
