# SPDX-License-Identifier: Apache-2.0
"""`python -m hw.lint`: each tool has a say, and nothing is read twice."""

from pathlib import Path

import pytest

from tests.tools import require_module, require_tool

require_module("pyslang")
from hw import lint  # noqa: E402

BAD = """\
module wz_bad (
    input  logic [7:0] s_data,
    output logic [3:0] m_data
);
  assign m_data = s_data;{spaces} // as wide as that
endmodule
""".format(spaces=" " * 80)


@pytest.fixture(autouse=True)
def _tools() -> None:
    for tool in ("perl", "verilator"):
        require_tool(tool)


def test_a_module_that_is_clean() -> None:
    assert list(lint.lint(["wz_skid"])) == []


def test_all_three_find_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wz_bad.sv"
    path.write_text(BAD)
    monkeypatch.setattr(lint, "RTL", tmp_path)
    monkeypatch.setattr(lint, "sources", lambda name: [path])
    assert lint.main(["wz_bad"]) == 1
    said = capfd.readouterr().err
    assert "line-length" in said
    assert "WIDTHTRUNC" in said
    assert "-Wport-width-trunc" in said or "-Wwidth-trunc" in said


def test_what_the_engine_holds_is_read_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(lint, "_verilate", lambda top, options: read.append((top, options)) or ())
    monkeypatch.setattr(lint, "_elaborate", lambda tops, options: ())
    list(lint.lint(["wz_engine", "wz_pack", "wz_skid", "wz_sum"]))
    engines = [("wz_engine", options) for options in ([], ["-GDATA_W=128"], ["-GDATA_W=256"])]
    # wz_skid is in it, with other widths than its default.
    assert read == [*engines, ("wz_skid", [])]
