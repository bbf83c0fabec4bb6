# SPDX-License-Identifier: Apache-2.0
"""Training whose every packet passes through the Verilated RTL: the bits of the other engines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools import require_verilator
from tests.training.made_up import made_up_run
from tests.training.runs import run, tiny, wirezip
from training.config import RunConfig, load
from training.launch import compile_codec
from training.records import Hardware, HardwareTotals, read_run
from training.report import hardware_table

pytestmark = pytest.mark.builds


def small(engine: str, strategy: str = "zero2", steps: int = 2) -> RunConfig:
    """As small as a transformer can be that has packets of every kind."""
    config = tiny(strategy, 2, engine=engine, steps=steps)
    return replace(config, model=replace(config.model, layers=1, width=32))


@pytest.fixture(scope="module")
def _built() -> None:
    require_verilator()
    # Before ranks wait for each other.
    compile_codec("rtl", announce=lambda: None)


@pytest.mark.ranks
@pytest.mark.usefixtures("_built")
@pytest.mark.parametrize(
    "strategy",
    ["zero2", *(pytest.param(name, marks=pytest.mark.full) for name in ("zero1", "zero3"))],
)
def test_every_engine_trains_to_the_same_bits(strategy: str, tmp_path: Path) -> None:
    runs = {name: run(small(name, strategy), tmp_path / name) for name in ("null", "numba", "rtl")}
    assert len({tuple(made.losses) for made in runs.values()}) == 1
    assert len({made.summary.param_hash for made in runs.values()}) == 1
    assert runs["rtl"].summary.totals == runs["numba"].summary.totals
    assert runs["numba"].summary.hardware is None
    hardware = runs["rtl"].summary.hardware
    assert hardware
    # All that was sent went through the encoder of a rank, and through the decoder of another; of
    # two ranks, none passes on what it has received.
    totals = runs["rtl"].summary.totals
    encode, decode = hardware["encode"], hardware["decode"]
    assert encode["packets"] == decode["packets"] == totals["packets"]
    assert encode["input_bytes"] == decode["output_bytes"] == totals["logical_bytes"]
    assert encode["output_bytes"] == decode["input_bytes"] == totals["payload_bytes"]
    for found in (encode, decode):
        beats = max(found["input_beats"], found["output_beats"])
        assert beats <= found["clocks"] <= 2 * found["clocks_busiest"]
        # Nothing waits at the output of a NIC that is simulated alone.
        assert found["output_stalls"] == 0
        assert found["seconds"] == found["clocks_busiest"] / 250e6
    assert (hardware["data_bits"], hardware["clock_mhz"]) == (512, 250.0)


@pytest.mark.ranks
@pytest.mark.full
@pytest.mark.usefixtures("_built")
def test_what_is_passed_on_takes_no_clock_of_the_encoder(tmp_path: Path) -> None:
    config = replace(small("rtl", steps=1), world_size=4)
    summary = run(config, tmp_path / "run").summary
    assert summary.hardware
    encode, decode = summary.hardware["encode"], summary.hardware["decode"]
    assert summary.totals["forwarded_packets"] > 0
    assert decode["packets"] == summary.totals["packets"]
    assert encode["packets"] == decode["packets"] - summary.totals["forwarded_packets"]


@pytest.mark.ranks
@pytest.mark.full
@pytest.mark.usefixtures("_built")
def test_the_preset(tmp_path: Path) -> None:
    result = wirezip(
        "compare", "tiny-rtl", "--clock-mhz", "300", "--out", str(tmp_path), timeout=1500
    )
    assert result.returncode == 0, result.stderr
    assert "identical" in result.stdout
    assert "beats/clock" in result.stdout
    report = json.loads((tmp_path / "comparison.json").read_text())
    assert [each["engine"] for each in report["runs"]] == ["null", "rtl"]
    hardware = read_run(tmp_path / "rtl").summary.hardware
    assert hardware
    assert hardware["clock_mhz"] == 300.0


def test_the_preset_is_tiny_with_the_engine() -> None:
    preset, same = load("tiny-rtl"), load("tiny")
    assert preset.network == replace(same.network, engine="rtl")
    assert replace(preset, name="tiny", network=same.network) == same


def test_table_of_what_hardware_did() -> None:
    run = made_up_run("rtl", losses=[1.0])
    assert hardware_table(run) is None
    encode = HardwareTotals(
        clocks=2000,
        packets=10,
        input_bytes=64_000,
        output_bytes=32_000,
        input_beats=1000,
        output_beats=500,
        input_stalls=7,
        output_stalls=0,
        clocks_busiest=1500,
        seconds=6e-6,
    )
    decode = encode | {"clocks": 0, "input_beats": 0, "output_beats": 0}
    hardware = Hardware(clock_mhz=250.0, data_bits=512, encode=encode, decode=decode)
    table = hardware_table(replace(run, summary=replace(run.summary, hardware=hardware)))
    assert table
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["encode", "decode"]
    assert cells[2] == ["0.500", "-"]
    assert cells[5] == ["0.006 ms", "0.006 ms"]
