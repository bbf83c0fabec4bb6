# SPDX-License-Identifier: Apache-2.0
"""Synthesis: one module has the size and depth that are expected, and mistakes do not pass."""

import json
from pathlib import Path

import pytest

from hw.sim import sources
from hw.synth import designs, page, resources
from hw.synth.depth import Depth
from hw.synth.yosys import Area, SynthesisError, check, read_lines, synthesise, trouble
from tests.tools import require_module


@pytest.fixture(autouse=True)
def _yosys() -> None:
    require_module("pyosys")


def synthesise_text(folder: Path, text: str) -> tuple[Area, Depth]:
    source = folder / "wz_top.sv"
    source.write_text(text)
    return synthesise(folder / "out", read_lines([source], "wz_top"), "wz_top")


def test_one_module_is_as_expected(tmp_path: Path) -> None:
    assert resources.main(["wz_skid", "--cache", str(tmp_path)]) == 0
    # The second time nothing is synthesised.
    (kept,) = tmp_path.glob("wz_skid/xcup/????????????????.json")
    before = kept.stat().st_mtime_ns
    assert resources.main(["wz_skid", "--cache", str(tmp_path)]) == 0
    assert kept.stat().st_mtime_ns == before


def test_the_page_is_made_of_the_figures() -> None:
    expected = json.loads(resources.EXPECTED.read_text())
    assert resources.PAGE.read_text() == page.page(expected)


@pytest.mark.full
def test_every_design_is_expected() -> None:
    expected = json.loads(resources.EXPECTED.read_text())
    assert set(expected["xcup"]) == {design.name for design in designs.every_design()}
    assert set(expected["ecp5"]) == {design.name for design in designs.placed_designs()}


@pytest.mark.parametrize(
    ("key", "wanted", "found", "near"),
    [
        ("lut", 1000, 1050, True),
        ("lut", 1000, 1051, False),
        ("lut", 1000, 949, False),
        ("lut", 10, 18, True),
        ("mhz", 150.0, 142.0, False),
        ("levels", 5, 6, False),
        ("levels", 5, 4, False),
    ],
)
def test_what_counts_as_expected(key: str, wanted: float, found: float, near: bool) -> None:
    lines = resources.differences({"xcup": {"m": {key: wanted}}}, {"xcup": {"m": {key: found}}})
    assert lines == ([] if near else [f"xcup m: {key} {wanted} -> {found}"])


def test_an_unknown_design_is_a_difference() -> None:
    assert resources.differences({"xcup": {}}, {"xcup": {"m": {"lut": 1}}})


def test_depth_and_size_of_a_known_circuit(tmp_path: Path) -> None:
    # A parity of 16 bits is two levels of LUTs; its inputs and its result are flip-flops.
    area, depth = synthesise_text(
        tmp_path,
        "module wz_top (input logic clk, input logic [15:0] a, output logic y);"
        " logic [15:0] a_q; always_ff @(posedge clk) begin a_q <= a; y <= ^a_q; end endmodule",
    )
    assert (depth.registers.levels, depth.into.levels, depth.out.levels) == (2, 0, 0)
    assert depth.registers.nets[0].startswith("a_q[")
    assert depth.registers.nets[-1] == "y"
    assert (area.ff, area.lutram, area.bram) == (17, 0, 0)
    assert 4 <= area.lut <= 5


@pytest.mark.full
def test_memories_end_paths_as_the_device_has_them(tmp_path: Path) -> None:
    # A LUTRAM is read through one level, a block RAM through none.
    text = """
module wz_top #(parameter int unsigned DEPTH = 32) (
    input logic clk, input logic [9:0] at, input logic [7:0] a, output logic [7:0] y
);
  logic [7:0] memory[DEPTH]; logic [$clog2(DEPTH)-1:0] at_q; logic [7:0] read_q;
  always_ff @(posedge clk) begin
    at_q <= at[$clog2(DEPTH)-1:0]; memory[at[9-:$clog2(DEPTH)]] <= a; READ; y <= ~read_q;
  end
endmodule
"""
    area, depth = synthesise_text(
        tmp_path, text.replace("READ", "read_q <= memory[at_q ^ 5'd1] & {8{at_q[0]}}")
    )
    assert area.lutram == 8
    assert depth.registers.levels == 3
    deep = text.replace("DEPTH = 32", "DEPTH = 1024").replace("READ", "read_q <= memory[at_q]")
    area, depth = synthesise_text(tmp_path, deep)
    assert (area.lutram, area.bram) == (0, 0.5)
    assert depth.registers.levels == 1


HEAD = "module wz_top (input logic clk, input logic [5:0] a, output logic [7:0] y);"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("always_latch if (a[0]) y = {2'b0, a};", "latch"),
        ("logic [5:0] b; assign b = a; assign y = b[9:2];", "out of bounds"),
        ("always_comb for (int i = 0; i < 8; i++) y[i] = a[i];", "nothing drives"),
        ("logic b; assign b = !(b & a[0]) ^ a[1]; assign y = {8{b}};", "loop"),
        ("logic [7:0] b; always_ff @(posedge clk) y <= b;", "nothing drives"),
    ],
)
def test_mistakes_stop_the_flow(tmp_path: Path, body: str, kind: str) -> None:
    source = tmp_path / "wz_top.sv"
    source.write_text(f"{HEAD} {body} endmodule")
    with pytest.raises(SynthesisError, match=kind):
        check(tmp_path / "out", read_lines([source], "wz_top"), "wz_top")


def test_messages_of_a_log_are_noticed() -> None:
    log = ["1.2. Executing PROC_DLATCH pass.", "Warning: found logic loop in module m:", "fine"]
    assert list(trouble(log)) == [f"combinational loop: {log[1]}"]


def test_sources_come_with_their_packages_first() -> None:
    (crc,) = (one for one in designs.every_design() if one.name == "wz_crc32c")
    names = [path.name for path in designs.sources(crc)]
    assert names == ["wz_format_pkg.sv", "wz_crc_pkg.sv", "wz_crc32c.sv"]


def test_comments_do_not_change_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "FOLDERS", (tmp_path,))
    source = tmp_path / "wz_top.sv"
    prints = []
    for text in ("module wz_top;\nendmodule", "// why\nmodule  wz_top; endmodule", "module wz_a;"):
        source.write_text(text)
        prints.append(designs.fingerprint(designs.Design("wz_top")))
    assert prints[0] == prints[1] != prints[2]
