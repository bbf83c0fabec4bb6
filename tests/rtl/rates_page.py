# SPDX-License-Identifier: Apache-2.0
"""`docs/rates.md` and a table in `README.md`, from `docs/rates.json` alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codec.marks import replace_between

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = DOCS / "rates.json"
BEGIN, END = "<!-- begin of the rates -->", "<!-- end of the rates -->"
README_CASES = ("weights", "gradients", "activations", "FP32 masters")


@dataclass(frozen=True)
class Row:
    """One direction of one case; `ratio` is bytes of the blocks by bytes of the payloads."""

    case: str
    direction: str
    data_bits: int
    lanes: int
    packets: int
    ratio: float
    rate: float
    clocks_a_packet: float
    latency_clocks: int


def write_pages() -> None:
    """Write both anew."""
    (DOCS / "rates.md").write_text(page())
    readme = DOCS.parent / "README.md"
    readme.write_text(replace_between(readme, BEGIN, END, "\n".join(_table(readme_rows()))))


def page() -> str:
    """The text of `docs/rates.md`."""
    command, rows = _read()
    lines = [
        "# Rates",
        "",
        f"Made by `{command}`; do not edit. The figures are in `rates.json`.",
        "",
        "Clocks of the Verilated `wz_encoder` and `wz_decoder`, LANES = DATA_W / 16, without",
        "back-pressure, blocks of 4 KiB where not said otherwise; what came out was compared byte",
        "by byte. **Rate** is max(beats in, beats out) / clocks in steady state. **Latency** is",
        "that of the case's first packet in an idle core, from its first beat taken to the first",
        "beat given. Ratio is original by compressed bytes. FP8 has two values a lane, so that a",
        "beat takes two clocks; with LANES = DATA_W / 8 it takes one.",
    ]
    for data_bits in sorted({row.data_bits for row in rows}, reverse=True):
        chosen = [row for row in rows if row.data_bits == data_bits]
        lines += ["", f"## DATA_W = {data_bits}", "", *_table(chosen)]
    return "\n".join(lines) + "\n"


def readme_rows() -> list[Row]:
    """The rows that the README shows: some cases at the largest width."""
    _, rows = _read()
    widest = max(row.data_bits for row in rows)
    return [row for row in rows if row.data_bits == widest and row.case in README_CASES]


def _read() -> tuple[str, list[Row]]:
    result = json.loads(FIGURES.read_text())
    return result["command"], [Row(**row) for row in result["rows"]]


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| blocks | ratio | encode: rate | clocks a block | latency | decode: rate "
        "| clocks a block | latency |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in dict.fromkeys(row.case for row in rows):
        found = {row.direction: row for row in rows if row.case == case}
        cells = [f"{found['decode'].ratio:.3f}"]
        for direction in ("encode", "decode"):
            row = found.get(direction)
            cells += (
                [f"{row.rate:.3f}", f"{row.clocks_a_packet:.1f}", str(row.latency_clocks)]
                if row
                else ["", "", ""]
            )
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return lines
