# SPDX-License-Identifier: Apache-2.0
"""Lint the RTL: `python -m hw.lint [MODULE ...]`, by default every module of `hw/rtl`.

Verilator and slang read each module as a top of its own with its default parameters, and the tops
at each width; verible reads each file that is written by hand for style. Anything that one of
them says is an error.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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

WIDTHS = dict.fromkeys(("wz_decoder", "wz_encoder", "wz_engine"), (128, 256, 512))


def lint(names: list[str]) -> Iterator[str]:
    """What is wrong with the modules, as texts of any number of lines."""
    files = sorted({path for name in names for path in sources(name) if path.parent == RTL})
    style = subprocess.run(
        [VERIBLE, STYLE, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if style.returncode:
        yield style.stdout
    for name in names:
        for width in WIDTHS.get(name, (None,)):
            options = [] if width is None else [f"-GDATA_W={width}"]
            yield from _verilate(name, options)
            yield from _elaborate(name, options)


def _verilate(top: str, options: list[str]) -> Iterator[str]:
    command = ["perl", str(verilator()), "--lint-only", "-Wall", "--quiet", "--top-module", top]
    try:
        said = run([*command, *options, *map(str, sources(top))])
    except EngineUnavailable as error:
        said = str(error)
    if said.strip():
        yield said


def _elaborate(top: str, options: list[str]) -> Iterator[str]:
    driver = Driver()
    driver.addStandardArgs()
    command = ["slang", *SLANG.split(), "--top", top, *options, *map(str, sources(top))]
    read = driver.parseCommandLine(" ".join(command)) and driver.processOptions()
    if not read or not driver.parseAllSources():
        yield f"{top}: slang cannot read it"
        return
    driver.reportCompilation(driver.createCompilation(), True)
    engine = driver.diagEngine
    # The diagnostics themselves go to the standard error output.
    if not driver.reportDiagnostics(True) or engine.numErrors or engine.numWarnings:
        yield f"{top}: see what slang says of it"


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    clean = True
    for message in lint(arguments or sorted(modules())):
        sys.stderr.write(f"{message.rstrip()}\n")
        clean = False
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
