# SPDX-License-Identifier: Apache-2.0
"""The generated constants: what is checked in is current, compiles, and has Python's values."""

import enum
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import codec.format
from codec import autogen
from codec.elements import LAYOUTS, ElementType
from codec.errors import InvalidInput
from codec.format import Coder, Mode
from tests.tools import require_tool

PACKAGE = autogen.HARDWARE / "rtl/autogen/wz_format_pkg.sv"
HEADER = autogen.HARDWARE / "hls/autogen/wz_format.hpp"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")


def run(*command: object) -> str:
    """Standard output of a program that must succeed and warn of nothing."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def test_checked_in_files_are_current() -> None:
    assert autogen.drifted(autogen.HARDWARE) == []


def test_drift_is_found(tmp_path: Path) -> None:
    autogen.main(["--hardware", str(tmp_path)])
    autogen.main(["--check", "--hardware", str(tmp_path)])
    edited = tmp_path / "hls/autogen/wz_format.hpp"
    edited.write_text(edited.read_text().replace("kBlockBytesMax = 4096", "kBlockBytesMax = 4095"))
    with pytest.raises(SystemExit, match=r"wz_format\.hpp: not what .* run `make autogen`"):
        autogen.main(["--check", "--hardware", str(tmp_path)])
    edited.unlink()
    assert autogen.drifted(tmp_path) == [edited]


def test_a_constant_that_cannot_be_expressed_is_an_error() -> None:
    module = ModuleType("format_with_text")
    module.FORMAT_VERSION = 1
    module.MAGIC = "WZ"
    with pytest.raises(InvalidInput, match=r"format_with_text\.MAGIC: expected bytes, or .*'WZ'"):
        autogen.collect(module)


def test_wide_constants_keep_their_value(tmp_path: Path) -> None:
    module = ModuleType("format_with_extremes")
    module.FORMAT_VERSION = 1
    module.POLYNOMIAL = 0x82F63B78
    module.SEED = 2**64 - 1
    module.STEPS = (1, 2**31, 2**32)
    definitions = autogen.collect(module)
    (tmp_path / "wz_format.hpp").write_text(autogen.cpp(definitions))
    facts = ["kPolynomial == 0x82f63b78u", "kSeed == ~0ull", "kSteps[0] == 1"]
    facts += ["kSteps[1] == 1ull << 31", "kSteps[2] == 1ull << 32"]
    compile_cpp(tmp_path, tmp_path, [f"wz::{fact}" for fact in facts])
    package = tmp_path / "wz_format_pkg.sv"
    package.write_text(autogen.systemverilog(definitions))
    facts = ["POLYNOMIAL == 32'h82f63b78", "SEED == ~64'd0", "STEPS[0] == 64'd1"]
    facts += ["STEPS[1] == 64'd1 << 31", "STEPS[2] == 64'd1 << 32"]
    elaborate(tmp_path, package, facts)


def test_cpp_header_has_the_values_of_python(tmp_path: Path) -> None:
    facts = [f"wz::k{camel(name)}{index} == {number}" for name, index, number in scalars()]
    for kind in (Mode, Coder, ElementType):
        facts += [
            f"static_cast<int>(wz::{kind.__name__}::k{camel(member.name)}) == {member.value}"
            for member in kind
        ]
    for tag, layout in LAYOUTS.items():
        row = f"wz::kLayouts[static_cast<int>(wz::ElementType::k{camel(tag.name)})]"
        facts += [f"{row}.{name} == {value}" for name, value in layout_values(layout).items()]
    compile_cpp(tmp_path, HEADER.parent, facts)


def test_systemverilog_package_has_the_values_of_python(tmp_path: Path) -> None:
    facts = [f"{name}{index} == {number}" for name, index, number in scalars()]
    for kind, prefix in ((Mode, "MODE"), (Coder, "CODER"), (ElementType, "ELEMENT_TYPE")):
        facts += [f"32'({prefix}_{member.name}) == {member.value}" for member in kind]
    for tag, layout in LAYOUTS.items():
        row = f"LAYOUTS[ELEMENT_TYPE_{tag.name}]"
        facts += [f"{row}.{name} == {value}" for name, value in layout_values(layout).items()]
    elaborate(tmp_path, PACKAGE, facts)


def test_a_wrong_value_does_not_compile(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="static assertion failed"):
        compile_cpp(tmp_path, HEADER.parent, ["wz::kBlockBytesMax == 4095"])
    with pytest.raises(AssertionError, match="BLOCK_BYTES_MAX == 4095"):
        elaborate(tmp_path, PACKAGE, ["BLOCK_BYTES_MAX == 4095"])


def test_systemverilog_package_lints_alone() -> None:
    run(require_tool("verilator"), "--lint-only", "-Wall", PACKAGE)


def test_every_enumeration_of_the_format_is_checked_above() -> None:
    kinds = {v for v in vars(codec.format).values() if isinstance(v, enum.EnumType)}
    assert kinds == {Mode, Coder}


def compile_cpp(folder: Path, include: Path, facts: list[str]) -> None:
    """Compile and run a program that holds `facts` to be true, at compile time."""
    program = folder / "facts.cpp"
    asserts = "\n".join(f"static_assert({fact});" for fact in facts)
    program.write_text(f'#include "wz_format.hpp"\n{asserts}\nint main() {{ return 0; }}\n')
    binary = folder / "facts"
    run(require_tool("g++"), "-std=c++17", *WARNINGS, f"-I{include}", program, "-o", binary)
    run(binary)


def elaborate(folder: Path, package: Path, facts: list[str]) -> None:
    """Have Verilator elaborate a module that holds `facts` to be true."""
    module = folder / "facts.sv"
    checks = "\n".join(
        f'  if (!({fact})) begin : g_fact_{index}\n    $error("{fact}");\n  end'
        for index, fact in enumerate(facts)
    )
    module.write_text(f"module facts;\n  import wz_format_pkg::*;\n{checks}\nendmodule\n")
    run(require_tool("verilator"), "--lint-only", "-Wall", "--top-module", "facts", package, module)


def scalars() -> Iterator[tuple[str, str, int]]:
    """Every number among the constants of the format, with its name and its index if it has one."""
    for name, value in vars(codec.format).items():
        if isinstance(value, int):
            yield name, "", value
        elif isinstance(value, tuple | bytes) and name.isupper():
            yield from ((name, f"[{index}]", number) for index, number in enumerate(value))


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def layout_values(layout: object) -> dict[str, int]:
    return {
        "width_bytes": layout.width_bytes,
        "exponent_bits": layout.exponent_bits,
        "mantissa_bits": layout.mantissa_bits,
        "is_signed": int(layout.signed),
        "remainder_bits": layout.remainder_bits,
    }
