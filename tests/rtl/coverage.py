# SPDX-License-Identifier: Apache-2.0
"""How much of each module the tests ran: `python -m tests.rtl.coverage`.

Reads what `dut.py` wrote into `build/coverage/` in tests with COVERAGE=1, leaves sources with the
counts of every line there (lines that never ran begin with `%000000`), and fails where a module is
below the limit.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from hw.sim.build import run, verilator
from hw.sim.sources import RTL, modules, sources
from tests.rtl.dut import COVERAGE

LIMIT_PERCENT = 95

# Functions that give constants: Verilator runs them while it reads, not while the model runs.
CONSTANT = {
    "wz_carrier": ("carried",),
    "wz_crc32c": ("rows", "members"),
    "wz_unary_scan": ("gap_table", "trail_table"),
}


def lines_by_file(info: str) -> dict[str, dict[int, int]]:
    """How often each line of each file of `hw/rtl` ran, from the text of an lcov file."""
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    name = ""
    for line in info.splitlines():
        if line.startswith("SF:"):
            path = Path(line[3:])
            name = path.stem if path.is_relative_to(RTL) else ""
        elif name and (found := re.fullmatch(r"DA:(\d+),(\d+)", line)):
            counts[name][int(found[1])] = int(found[2])
    return counts


def main() -> int:
    """Print a row a module; 1 if one is below the limit or was not measured."""
    files = sorted(COVERAGE.glob("*.dat"))
    if not files:
        sys.stderr.write(f"{COVERAGE}: expected files of tests with COVERAGE=1; found none\n")
        return 1
    tool = ["perl", str(verilator().with_name("verilator_coverage"))]
    info = COVERAGE / "lines.info"
    run([*tool, "--write-info", str(info), *map(str, files)])
    run([*tool, "--annotate", str(COVERAGE / "annotated"), "--annotate-all", *map(str, files)])
    counts = lines_by_file(info.read_text())
    complete = True
    for name in sorted(modules()):
        text = sources(name)[-1].read_text()
        constant = constant_lines(text, CONSTANT.get(name, ()))
        lines = {n: count for n, count in counts.get(name, {}).items() if n not in constant}
        missed = sorted(line for line, count in lines.items() if not count)
        percent = 100 * (1 - len(missed) / len(lines)) if lines else 100 * ("always" not in text)
        enough = percent >= LIMIT_PERCENT
        complete &= enough
        note = "" if enough else f"below {LIMIT_PERCENT} %"
        where = f"never run: {', '.join(map(str, missed))}" if missed else ""
        remark = "; ".join(part for part in (note, where) if part)
        sys.stdout.write(f"{name:<20} {percent:6.1f} % of {len(lines):4} lines  {remark}".rstrip())
        sys.stdout.write("\n")
    sys.stdout.write(f"lines with their counts: {COVERAGE / 'annotated'}\n")
    return 0 if complete else 1


def constant_lines(text: str, functions: Iterable[str]) -> set[int]:
    """The lines of these functions of a module."""
    lines: set[int] = set()
    for name in functions:
        found = re.search(rf"function automatic [^;]*\b{name}\(.*?endfunction", text, re.DOTALL)
        assert found, f"{name}: no such function"
        first = text.count("\n", 0, found.start()) + 1
        lines |= set(range(first, first + found[0].count("\n") + 1))
    return lines


if __name__ == "__main__":
    sys.exit(main())
