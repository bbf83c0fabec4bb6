# SPDX-License-Identifier: Apache-2.0
"""One design through Yosys, in a process of its own, with a log that is searched for trouble.

pyosys is a library that ends the process where Yosys meets an error, so each run is a child.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hw.synth.depth import Depth, measure

# Portable sources have no multipliers to speak of, and pads and clock buffers are not theirs.
# Without wide multiplexers (MUXF7 to F9) every function is counted in LUTs.
_XILINX = "synth_xilinx -family xcup -noiopad -noclkbuf -nowidelut -nodsp"

# Reads script lines from its argument and runs them.
_CHILD = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for line in open(sys.argv[1]):
    libyosys.run_pass(line.strip(), design)
"""

# What must not be in a log.
_TROUBLE = (
    (r"out of bounds|-Wrange-oob|-Windex-oob", "select out of bounds"),
    (r"Latch inferred", "latch"),
    (r"logic loop|found loop", "combinational loop"),
    (r"Warning: multiple conflicting drivers", "net with several drivers"),
    (r"Warning: Wire .* is used but has no driver", "net without a driver"),
    (r"^\S+:\d+(:\d+)?: (?:warning|WARNING)", "warning of the front end"),
    (r"ERROR", "error"),
)

# LUTs that a primitive takes for its memory.
_LUTRAM = {
    "RAM32X1S": 1,
    "RAM32X1D": 2,
    "RAM64X1S": 1,
    "RAM64X1D": 2,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM128X1S": 2,
    "RAM128X1D": 4,
    "RAM256X1S": 4,
    "RAM256X1D": 8,
    "RAM512X1S": 8,
    "RAM64X8SW": 8,
    "RAM32X16DR8": 8,
}


class SynthesisError(RuntimeError):
    """A design could not be synthesised, or should not be used as it was."""


@dataclass(frozen=True)
class Area:
    """Primitives of UltraScale+.

    Attributes:
        lut: LUT1 to LUT6, two small ones never packed into one.
        lc: Yosys' estimate of logic cells after packing.
        lutram, srl: LUTs used as memory and as shift registers; not in `lut`.
        ff: flip-flops.
        bram: block RAMs of 36 kbit; one of 18 is a half.
        uram: UltraRAMs.
        carry: CARRY8 (two of the CARRY4 that Yosys maps to).
    """

    lut: int
    lc: int
    lutram: int
    srl: int
    ff: int
    bram: float
    uram: int
    carry: int


def check(folder: Path, read: Sequence[str], top: str) -> None:
    """Read `top` with the script lines `read` and look for mistakes, before anything is mapped."""
    lines = [
        *read,
        "check",
        "dump -o front.il",
    ]
    _run(folder, "front", lines)
    netlist = folder / "front.il"
    if found := list(mistakes(netlist.read_text().splitlines())):
        raise SynthesisError("\n  ".join([f"{top}:", *found[:20]]))
    netlist.unlink()


def synthesise(folder: Path, read: Sequence[str], top: str) -> tuple[Area, Depth]:
    """Map `top` to UltraScale+ and measure its logic depth; `folder` receives all files.

    Args:
        read: the script lines that read it, as `read_lines` makes them.
    """
    check(folder, read, top)
    _run(
        folder,
        "xcup",
        [
            *read,
            # The same front for both: memories are what UltraScale+ has.
            f"{_XILINX} -flatten -top {top} -run begin:map_ffram",
            "design -save front",
            f"{_XILINX} -run map_ffram:",
            "tee -q -o area.json stat -json -tech xilinx",
            # Depth: LUTs of 6 inputs alone; adders in LUTs as well, as prefix networks.
            "design -load front",
            "opt -fast -full",
            "memory_map",
            "opt -full",
            "techmap -map +/choices/kogge-stone.v -map +/techmap.v",
            "opt -fast",
            # All logic in one run of ABC; the older pass maps what each enable drives by itself.
            "abc9 -lut 6",
            "opt -fast",
            "clean",
            f"select {top}",
            "write_json -selected depth.json",
        ],
    )
    cells = json.loads((folder / "area.json").read_text())["design"]
    area = _area(cells["num_cells_by_type"], cells["estimated_num_lc"])
    try:
        depth = measure(folder / "depth.json", top)
    except ValueError as error:
        raise SynthesisError(f"{top}: {error}") from None
    (folder / "depth.json").unlink()
    return area, depth


def synthesise_ecp5(folder: Path, read: Sequence[str], top: str) -> Path:
    """Map `top` to ECP5; returns the path of the netlist for nextpnr."""
    netlist = folder / "ecp5.json"
    check(folder, read, top)
    lines = [*read, f"synth_ecp5 -top {top} -json {netlist.name}"]
    _run(folder, "ecp5", lines)
    return netlist


def read_lines(
    sources: Iterable[Path],
    top: str,
    parameters: Mapping[str, str] | None = None,
    boxes: Iterable[str] = (),
) -> list[str]:
    """The script lines that read `top`; of the modules `boxes`, the ports alone."""
    settings = [f"-G {name}={value}" for name, value in (parameters or {}).items()]
    settings += [f"--blackboxed-module {name}" for name in boxes]
    files = [str(path.resolve()) for path in sources]
    lines = [" ".join(["read_slang --top", top, *settings, *files])]
    # Variables that are set and read in one branch alone look like loops until they go.
    lines += ["proc", "opt_clean -purge"]
    # The ports of a module that is left out become ports of the top.
    return lines + [f"expose -evert t:{box}" for box in boxes]


def _run(folder: Path, name: str, lines: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    script, log = folder / f"{name}.ys", folder / f"{name}.log"
    script.write_text("".join(f"{line}\n" for line in lines))
    with log.open("w") as output:
        command = [sys.executable, "-c", _CHILD, script.name]
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    found = list(trouble(log.read_text(errors="replace").splitlines()))
    if ended.returncode and not found:
        found = [f"Yosys ended with {ended.returncode}"]
    if found:
        raise SynthesisError("\n  ".join([f"see {log}:", *found[:20]]))


def trouble(log: Iterable[str]) -> Iterator[str]:
    """Lines of a log of Yosys that tell of a mistake in the sources, each with its kind."""
    for line in log:
        for pattern, kind in _TROUBLE:
            if re.search(pattern, line) and not re.search(r"^-- Running|Executing|help ", line):
                yield f"{kind}: {line.strip()}"
                break


def mistakes(netlist: Iterable[str]) -> Iterator[str]:
    """Latches, and uses of unknown values, in the text of a netlist.

    An index out of bounds in a loop and a net that nothing drives are x without any message; logic
    behind them disappears, while simulation may read zero. Multiplexers may have an x, where a
    choice cannot occur.
    """
    cell = source = ""
    for line in netlist:
        words = line.split()
        if line.startswith("  attribute \\src"):
            source = words[-1].strip('"').rsplit("/", 1)[-1]
        elif line.startswith("  cell "):
            cell = words[1]
            if re.match(r"\$\w*(latch|sr)$", cell):
                yield f"latch at {source}"
        elif line == "  end":
            cell = ""
        elif words[:1] == ["connect"] and words[1] != "\\CLK" and re.search(r"\d'[01x]*x", line):
            where = f"{cell} at {source}" if cell else f"net {words[1]}"
            if not re.match(r"\$(mux|pmux|bmux|shift|shiftx)$", cell):
                yield f"nothing drives what {where} takes: {line.strip()[:100]}"


def _area(cells: Mapping[str, int], lc: int) -> Area:
    def total(pattern: str) -> int:
        return sum(count for kind, count in cells.items() if re.fullmatch(pattern, kind))

    unknown = [
        kind
        for kind in cells
        if kind not in _LUTRAM
        and not re.fullmatch(
            r"LUT[1-6]|FD[RSCP]E|SRL\w+|RAMB\w+|URAM\w+|CARRY[48]|INV|GND|VCC", kind
        )
    ]
    if unknown:
        raise SynthesisError(f"cells of an unknown kind: {', '.join(unknown)}")
    return Area(
        lut=total(r"LUT[1-6]|INV"),
        lc=lc,
        lutram=sum(_LUTRAM.get(kind, 0) * count for kind, count in cells.items()),
        srl=total(r"SRL\w+"),
        ff=total(r"FD\w+"),
        bram=total(r"RAMB36\w+") + total(r"RAMB18\w+") / 2,
        uram=total(r"URAM\w+"),
        carry=total("CARRY8") + -(-total("CARRY4") // 2),
    )
