# SPDX-License-Identifier: Apache-2.0
"""Training through a switch: same bits with compression on and off, ports that add up, failures."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nic_emul.switch.report import Crossed, PortRow
from tests.training.runs import run, tiny, wirezip
from tests.training.test_program import HERE, PROGRAM
from training.cli import _options_first
from training.compare import Comparison
from training.config import load, override, to_toml
from training.errors import ConfigError, RunError
from training.launch import launch
from training.machines import ThisMachine
from training.ports import crossed_between
from training.program import ProgramConfig
from training.records import RING_ORDER, SWITCH_ORDER, Run, StepRecord, read_run, switch_traffic
from training.report import print_ports

RANKS, STEPS = 2, 2
TOTALS = ("logical_bytes", "payload_bytes", "wire_bytes", "packets")


def crossed(messages: int) -> Crossed:
    return Crossed(
        messages=messages,
        logical_bytes=10 * messages,
        payload_bytes=5 * messages,
        wire_bytes=7_000_000 * messages,
        packets=2 * messages,
    )


def row(port: int, collective: str, up: int, down: int) -> PortRow:
    return PortRow(
        port=port,
        collective=collective,
        role="gradient",
        dtype="float32",
        up=crossed(up),
        down=crossed(down),
    )


def test_what_crossed_between_two_times() -> None:
    start = [row(0, "all_reduce", 3, 4), row(0, "barrier", 1, 1), row(1, "all_gather", 2, 2)]
    end = [
        row(0, "all_reduce", 5, 4),
        row(0, "barrier", 3, 3),
        row(1, "all_gather", 2, 2),
        row(1, "all_reduce", 1, 6),
    ]
    assert crossed_between(start, end) == [
        row(0, "all_reduce", 2, 0),
        row(1, "all_reduce", 1, 6),
    ]


def test_ports_are_added_up_and_shown() -> None:
    rows = [row(1, "all_reduce", 1, 2), row(0, "all_reduce", 3, 4), row(1, "all_gather", 5, 6)]
    found = switch_traffic(rows, sums=True)
    packets = [(p["port"], p["up"]["packets"], p["down"]["packets"]) for p in found["ports"]]
    assert packets == [(0, 6, 8), (1, 12, 16)]
    assert found["order"] == SWITCH_ORDER
    assert switch_traffic(rows, sums=False)["order"] == RING_ORDER
    console = Console(width=100, record=True)
    print_ports(console, found)
    text = console.export_text()
    assert "ports of the switch, which sums" in text
    assert ["1", "0.0", "2.000", "42.0", "0.0", "2.000", "56.0"] in [
        line.split() for line in text.splitlines()
    ]
    assert SWITCH_ORDER in text.replace("\n", " ").replace("  ", " ")


def test_configuration() -> None:
    config = load("tiny")
    assert not config.network.switched
    assert override(config, switch=True).network.switched
    assert override(config, algorithm="switch").network.switched
    assert "switch = true" in to_toml(override(config, switch=True))
    with pytest.raises(ConfigError, match=r"network\.faults: expected none with a switch"):
        override(config, switch=True, faults="loss=1e-3")
    with pytest.raises(ConfigError, match=r"network\.switch: expected none between machines"):
        launch(override(config, switch=True), Path("x"), on_step=print, machines=ThisMachine())


def test_options_of_wirezip_run(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--switch", "--nproc", "4", "train.py", "--switch"]
    assert _options_first(given) == ["--switch", "--nproc", "4", "--", "train.py", "--switch"]
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ConfigError, match="expected one in WIREZIP_SWITCH where another launcher"):
        ProgramConfig(program=("-m", "x"), nproc=None, engine="null", mtu=4096, algorithm="switch")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, dict[str, Any], str]:
    """`wirezip compare tiny` with a switch that sums: the runs, the JSON and what was printed."""
    folder = tmp_path_factory.mktemp("switch") / "out"
    result = wirezip("compare", "tiny", "--algorithm", "switch", "--steps", str(STEPS),
                     "--out", str(folder), "--json", "-", timeout=280)  # fmt: skip
    assert result.returncode == 0, result.stderr
    comparison = Comparison(read_run(folder / "null"), read_run(folder / "numba"))
    return comparison, json.loads(result.stdout), result.stderr


def ports(run: Run) -> dict[str, dict[str, int]]:
    """What crossed all ports, by direction."""
    found = run.summary.switch
    assert found is not None
    assert [one["port"] for one in found["ports"]] == list(range(RANKS))
    return {
        way: {name: sum(one[way][name] for one in found["ports"]) for name in TOTALS}
        for way in ("up", "down")
    }


def by_collective(run: Run) -> Mapping[str, Any]:
    return run.summary.by_collective


@pytest.mark.ranks
def test_compression_changes_no_bit(compared: tuple[Comparison, dict[str, Any], str]) -> None:
    comparison, report, printed = compared
    assert comparison.difference is None
    assert report["identical"] is True
    assert [run["switch"] for run in report["runs"]] == [
        comparison.off.summary.switch,
        comparison.on.summary.switch,
    ]
    assert "ports of the switch, which sums" in printed
    assert SWITCH_ORDER in printed.replace("\n", " ")


@pytest.mark.ranks
def test_ports_count_what_the_nics_sent(
    compared: tuple[Comparison, dict[str, Any], str],
) -> None:
    for one in (compared[0].off, compared[0].on):
        totals = one.summary.totals
        assert ports(one)["up"] == {name: totals[name] for name in TOTALS}
    saved = [ports(one)["down"]["wire_bytes"] for one in (compared[0].off, compared[0].on)]
    assert saved[1] < 0.8 * saved[0]


@pytest.mark.ranks
def test_volumes(compared: tuple[Comparison, dict[str, Any], str]) -> None:
    """Of N bytes of BF16 gradients each rank sends N up and receives N/n."""
    run = compared[0].off
    whole = 2 * run.summary.padded_parameters * STEPS * RANKS
    sent = by_collective(run)
    assert sent["reduce_scatter"]["logical_bytes"] == whole
    gathered = sent["all_gather"]["logical_bytes"]
    scalars = sent["all_reduce"]["logical_bytes"]
    assert ports(run)["up"]["logical_bytes"] == whole + gathered + scalars
    assert ports(run)["down"]["logical_bytes"] == whole // RANKS + gathered + scalars


@pytest.mark.ranks
def test_a_killed_switch_ends_the_run(tmp_path: Path) -> None:
    def kill_switch(record: StepRecord) -> None:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for child in children:
            if b"nic_emul.switch" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)

    config = override(tiny("zero2", RANKS, steps=1000), algorithm="switch")
    with pytest.raises(RunError, match=r"^the switch was killed by SIGKILL \(log: .*switch\.log"):
        launch(config, tmp_path / "run", on_step=kill_switch)
    for rank in range(RANKS):
        log = (tmp_path / "run" / "logs" / f"rank{rank}.log").read_text()
        assert "SwitchLost: the switch at 127.0.0.1" in log


@pytest.mark.full
@pytest.mark.ranks
def test_a_switch_that_forwards_changes_nothing(tmp_path: Path) -> None:
    config = tiny("zero3", RANKS, steps=STEPS)
    plain = run(config, tmp_path / "plain")
    forwarded = run(override(config, switch=True), tmp_path / "forwarded")
    assert Comparison(plain, forwarded).difference is None
    assert plain.summary.totals == forwarded.summary.totals
    assert plain.summary.switch is None
    assert ports(forwarded)["up"] == ports(forwarded)["down"]


@pytest.mark.full
@pytest.mark.ranks
def test_programs_through_a_switch(tmp_path: Path) -> None:
    script, report = tmp_path / "program.py", tmp_path / "report.json"
    script.write_text(PROGRAM)
    result = wirezip("run", "--algorithm", "switch", "--json", str(report), str(script), env=HERE)
    assert result.returncode == 0, result.stderr
    summary = json.loads(report.read_text())
    for name in TOTALS:
        up = sum(port["up"][name] for port in summary["switch"]["ports"])
        assert up == summary["totals"][name]
    assert summary["switch"]["sums"] is True
    assert "ports of the switch, which sums" in result.stdout
