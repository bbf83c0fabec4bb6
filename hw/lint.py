# SPDX-License-Identifier: Apache-2.0
"""Lint the RTL: `python -m hw.lint [MODULE ...]`, by default every module of `hw/rtl`.

Verilator and slang read each module with its default parameters, and the tops at each width;
verible reads each file that is written by hand for style. Anything that one of them says is an
error. To slang all modules are tops at once. Verilator takes one top at a time, seconds each, so
what is a part of `wz_engine` with the same parameters is read there.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyslang.ast import Compilation, InstanceBodySymbol, InstanceSymbol, ParameterSymbol, Symbol
from pyslang.driver import Driver

from codec.errors import EngineUnavailable
from hw.sim.build import run, verilator
from hw.sim.sources import RTL, modules, sources

VERIBLE = Path(sys.executable).with_name("verible-verilog-lint")

# Constants are UPPER_CASE here, which verible has no rule for.
STYLE = "--rules=-parameter-name-style,always-ff-non-blocking=waive_for_locals:true"

# Not -Weverything: it warns of the signs of genvars and of $countones. A cast that changes nothing
# for these parameters may for others, and a case names what it does with values that cannot be.
SLANG = (
    "-Wextra -Wpedantic -Wwidth-trunc -Wport-width-trunc -Wno-useless-cast "
    f"-Wno-case-redundant-default --suppress-warnings {RTL / 'autogen'}/..."
)

TOP = "wz_engine"
WIDTHS = dict.fromkeys(("wz_decoder", "wz_encoder", TOP), (128, 256))  # besides the default

# Verilator leaves out what a top instantiates of itself.
RECURSIVE = ("wz_sum",)

# A module and the values of its parameters.
Build = tuple[str, tuple[str, ...]]


def lint(names: list[str]) -> Iterator[str]:
    """What is wrong with the modules, as texts of any number of lines."""
    files = sorted({path for name in names for path in sources(name) if path.parent == RTL})
    style = subprocess.run(
        [VERIBLE, STYLE, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if style.returncode:
        yield style.stdout
    yield from _elaborate(names, [])
    parts = _parts_of_the_engine() if TOP in names else set()
    for name in names:
        if name in RECURSIVE or (name != TOP and _default_build(name) in parts):
            continue
        yield from _verilate(name, [])
        for width in WIDTHS.get(name, ()):
            options = [f"-GDATA_W={width}"]
            yield from _verilate(name, options)
            yield from _elaborate([name], options)


def _verilate(top: str, options: list[str]) -> Iterator[str]:
    command = ["perl", str(verilator()), "--lint-only", "-Wall", "--quiet", "--top-module", top]
    try:
        said = run([*command, *options, *map(str, sources(top))])
    except EngineUnavailable as error:
        said = str(error)
    if said.strip():
        yield said


def _elaborate(tops: list[str], options: list[str]) -> Iterator[str]:
    driver, compilation = _read(tops, options)
    if compilation is None:
        yield f"{' '.join((tops[-1], *options))}: slang cannot read it"
        return
    driver.reportCompilation(compilation, True)
    engine = driver.diagEngine
    # The diagnostics themselves go to the standard error output.
    if not driver.reportDiagnostics(True) or engine.numErrors or engine.numWarnings:
        yield f"{' '.join((tops[-1], *options))}: see what slang says of it"


def _read(tops: list[str], options: list[str]) -> tuple[Driver, Compilation | None]:
    driver = Driver()
    driver.addStandardArgs()
    files = dict.fromkeys(path for top in tops for path in sources(top))
    command = ["slang", *SLANG.split(), *options, *map(str, files)]
    for top in tops:
        command += ["--top", top]
    read = driver.parseCommandLine(" ".join(command)) and driver.processOptions()
    if not read or not driver.parseAllSources():
        return driver, None
    return driver, driver.createCompilation()


def _parts_of_the_engine() -> set[Build]:
    parts: set[Build] = set()

    def note(symbol: Symbol) -> None:
        if isinstance(symbol, InstanceSymbol):
            parts.add(_build(symbol.body))

    if compilation := _read([TOP], [])[1]:
        compilation.getRoot().visit(note)
    return parts


def _default_build(name: str) -> Build | None:
    compilation = _read([name], [])[1]
    return _build(compilation.getRoot().topInstances[0].body) if compilation else None


def _build(body: InstanceBodySymbol) -> Build:
    values = (p for p in body.parameters if isinstance(p, ParameterSymbol))
    return body.definition.name, tuple(f"{p.name}={p.value}" for p in values)


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    clean = True
    for message in lint(arguments or sorted(modules())):
        sys.stderr.write(f"{message.rstrip()}\n")
        clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
