# SPDX-License-Identifier: Apache-2.0
"""How much of each module the tests ran: `python -m tests.rtl.coverage`.

Reads what `dut.py` wrote into `build/coverage/` in tests with COVERAGE=1, leaves sources with the
counts of every line there (lines that never ran begin with `%000000`), and fails where a module is
below the limit.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

from hw.sim.build import run, verilator
from hw.sim.sources import RTL, modules, sources
from tests.rtl.dut import COVERAGE

LIMIT_PERCENT = 95

# Files in which lines that never run are not a gap, with the reason.
EXPLAINED: dict[str, str] = {}


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
        lines = counts.get(name, {})
        missed = sorted(line for line, count in lines.items() if not count)
        percent = 100 * (1 - len(missed) / len(lines)) if lines else 100 * _is_wiring(name)
        enough = percent >= LIMIT_PERCENT or name in EXPLAINED
        complete &= enough
        note = EXPLAINED.get(name) or ("" if enough else f"below {LIMIT_PERCENT} %")
        where = f"never run: {', '.join(map(str, missed))}" if missed else ""
        text = "; ".join(part for part in (note, where) if part)
        sys.stdout.write(f"{name:<20} {percent:6.1f} % of {len(lines):4} lines  {text}".rstrip())
        sys.stdout.write("\n")
    sys.stdout.write(f"lines with their counts: {COVERAGE / 'annotated'}\n")
    return 0 if complete else 1


def _is_wiring(module: str) -> bool:
    """Whether it has no lines that run, only nets and instances."""
    return "always" not in sources(module)[-1].read_text()


if __name__ == "__main__":
    sys.exit(main())
