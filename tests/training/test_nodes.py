# SPDX-License-Identifier: Apache-2.0
"""Runs whose ranks share nodes: same bits, and what stays inside is told apart from the wire."""

import dataclasses
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.training.made_up import made_up_run
from tests.training.runs import run, tiny, wirezip
from training.compare import Comparison, compare
from training.config import override
from training.errors import ConfigError, RecordError
from training.records import IntraNode, intra_node, read_run
from training.report import intra_table, print_comparison

STEPS = 2


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Four ranks on two nodes, off and on."""
    config = override(tiny("zero2", 4, engine="numba", steps=STEPS), ranks_per_node=2)
    folder = tmp_path_factory.mktemp("nodes")
    return compare(config, folder, on_step=lambda engine, record: None)


@pytest.mark.full
@pytest.mark.ranks
def test_nodes_change_no_bit(comparison: Comparison, tmp_path: Path) -> None:
    flat = run(tiny("zero2", 4, steps=STEPS), tmp_path / "flat")
    assert comparison.difference is None
    assert comparison.off.losses == flat.losses
    assert comparison.off.summary.param_hash == flat.summary.param_hash
    assert flat.summary.intra is None
    # Two of the four links of the ring stay inside, and each carries the same.
    totals, before = comparison.off.summary.totals, flat.summary.totals
    for name in ("reduce_scatter", "all_gather"):
        split = comparison.off.summary.by_collective[name]
        whole = flat.summary.by_collective[name]
        assert split["logical_bytes"] == split["intra_bytes"] == whole["logical_bytes"] // 2
        assert split["packets"] == whole["packets"] // 2
    assert totals["logical_bytes"] + totals["intra_bytes"] == before["logical_bytes"]


@pytest.mark.ranks
def test_savings_are_of_the_wire_between_nodes(comparison: Comparison) -> None:
    assert comparison.difference is None
    off, on = comparison.off.summary, comparison.on.summary
    assert off.totals["intra_bytes"] == on.totals["intra_bytes"] > 0
    assert comparison.saved_percent == 100 * (
        1 - on.totals["wire_bytes"] / off.totals["wire_bytes"]
    )
    assert comparison.saved_percent > 20
    assert on.intra is not None
    assert on.intra["bytes"] == on.totals["intra_bytes"]
    assert on.intra["seconds"] == on.intra["bytes_busiest"] / 450e9
    assert sum(row["intra_bytes"] for row in on.rows) == on.totals["intra_bytes"]
    # Rank 0 and its successor share a node.
    assert comparison.on.steps[0].rank0["intra_bytes"] > 0


@pytest.mark.full
@pytest.mark.ranks
@pytest.mark.parametrize("strategy", ["zero1", "zero3"])
def test_two_levels(strategy: str, tmp_path: Path) -> None:
    config = tiny(strategy, 4, engine="numba", steps=STEPS)
    config = override(config, ranks_per_node=2, algorithm="hierarchical")
    comparison = compare(config, tmp_path, on_step=lambda engine, record: None)
    assert comparison.difference is None
    gathered = comparison.off.summary.by_collective["all_gather"]
    # Of four parts, two nodes of two ranks have 4 (N - 1) cross, and 4 (R - 1) N stay.
    assert gathered["intra_bytes"] == 2 * gathered["logical_bytes"] > 0
    assert comparison.saved_percent > 20


def test_summary_of_what_stayed_inside() -> None:
    assert intra_node([5, 6], ranks_per_node=1, gb_per_s=450.0) is None
    found = intra_node([3, 9, 0, 1], ranks_per_node=2, gb_per_s=2.0)
    assert found == IntraNode(
        ranks_per_node=2, gb_per_s=2.0, bytes=13, bytes_busiest=9, seconds=4.5e-9
    )
    assert intra_table(None) is None


def test_tables_show_both() -> None:
    off, on = (made_up_run(name, losses=[1.0]) for name in ("null", "numba"))
    intra = intra_node([2_000_000, 5_000_000], ranks_per_node=2, gb_per_s=450.0)
    on = dataclasses.replace(on, summary=dataclasses.replace(on.summary, intra=intra))
    out = io.StringIO()
    print_comparison(Console(file=out, width=120), Comparison(off, on))
    assert "inside nodes of 2 ranks" in out.getvalue()
    assert "450 GB/s" in out.getvalue()
    assert "7.0" in out.getvalue()


def test_folder_of_another_version(tmp_path: Path) -> None:
    summary = dataclasses.asdict(made_up_run("null", losses=[1.0]).summary)
    del summary["totals"]["intra_bytes"]
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RecordError, match="as another version writes them"):
        read_run(tmp_path)


def test_nodes_must_be_full() -> None:
    with pytest.raises(ConfigError, match="expected at least 1 and a divisor of the 4 ranks"):
        override(tiny("zero2", 4), ranks_per_node=3)
    with pytest.raises(ConfigError, match="expected at least 1 and a divisor"):
        override(tiny("zero2", 4), ranks_per_node=0)


@pytest.mark.ranks
def test_a_program_on_one_node_sends_nothing(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(10_000))\n"
    )
    options = ["--engine", "null", "--ranks-per-node", "2", "--intra-gb-per-s", "0.001"]
    result = wirezip("run", *options, "--json", "-", str(script))
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    # Each of two ranks sends half of the tensor twice.
    assert summary["totals"]["intra_bytes"] == 2 * 40_000
    assert summary["totals"]["wire_bytes"] == summary["totals"]["packets"] == 0
    assert summary["intra"]["seconds"] == 0.04
    assert "inside nodes of 2 ranks" in result.stderr
