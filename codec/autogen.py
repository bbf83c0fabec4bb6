# SPDX-License-Identifier: Apache-2.0
"""Writes the constants of the frame format for the hardware, so that they stand in one place only.

    python -m codec.autogen            rewrites hw/rtl/autogen and hw/hls/autogen
    python -m codec.autogen --check    exits non-zero when a file there is not what would be written

Every public upper-case constant of `codec/format.py` (an integer, a tuple of them, or bytes), every
`IntEnum` there and in `codec/elements.py`, and the layouts of the element types come out; a
constant of another kind is an error, so that none is left out unseen.
"""

import argparse
import dataclasses
import enum
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from codec import elements
from codec import format as frame_format
from codec.errors import InvalidInput

HARDWARE = Path(__file__).resolve().parents[1] / "hw"

Constant = int | tuple[int, ...] | bytes


@dataclass(frozen=True)
class Definitions:
    """What the format defines, in the order of its modules.

    Attributes:
        version: the format version, for the banner.
        constants: name and value.
        enums: integer enumerations.
        layout_doc: first line of the docstring of an element layout.
        layouts: per element type, in the order of their tags, its name and its fields.
    """

    version: int
    constants: dict[str, Constant]
    enums: tuple[type[enum.IntEnum], ...]
    layout_doc: str
    layouts: dict[str, dict[str, int]]

    @property
    def layout_fields(self) -> list[str]:
        return list(next(iter(self.layouts.values())))


def collect(module: ModuleType = frame_format) -> Definitions:
    """Read the definitions from `module` and `codec.elements`.

    Raises:
        InvalidInput: a public constant that the hardware could not be given as it is.
    """
    layouts = elements.LAYOUTS
    if sorted(layouts) != list(range(len(layouts))):
        raise InvalidInput(f"LAYOUTS: expected tags 0 to {len(layouts) - 1}; found {list(layouts)}")
    return Definitions(
        version=module.FORMAT_VERSION,
        constants=dict(_constants(module)),
        enums=tuple(dict.fromkeys((*_enums(elements), *_enums(module)))),
        layout_doc=_summary(elements.Layout),
        layouts={tag.name: _fields(layouts[tag]) for tag in sorted(layouts)},
    )


def systemverilog(definitions: Definitions) -> str:
    """The text of `wz_format_pkg.sv`."""
    lines = [*_banner(definitions.version), "", "package wz_format_pkg;", ""]
    lines += ["  // No single design uses them all.", "  // verilator lint_off UNUSEDPARAM", ""]
    lines += [f"  {_sv_constant(name, value)}" for name, value in definitions.constants.items()]
    for kind in definitions.enums:
        width = max(1, max(kind).bit_length())
        prefix = _snake(kind.__name__)
        members = [f"    {prefix.upper()}_{m.name} = {width}'d{m.value}" for m in kind]
        lines += ["", f"  // {_summary(kind)}", f"  typedef enum logic [{width - 1}:0] {{"]
        lines += [*_separated(members), f"  }} {prefix}_e;"]
    lines += ["", f"  // {definitions.layout_doc}", "  typedef struct packed {"]
    lines += [f"    int unsigned {name};" for name in definitions.layout_fields]
    rows = [
        f"      /* {name} */ '{{{', '.join(map(str, row.values()))}}}"
        for name, row in definitions.layouts.items()
    ]
    lines += ["  } layout_t;", "", "  // By the value of element_type_e."]
    lines += [f"  localparam layout_t LAYOUTS[{len(rows)}] = '{{", *_separated(rows), "  };"]
    return "\n".join([*lines, "", "  // verilator lint_on UNUSEDPARAM", "", "endpackage", ""])


def cpp(definitions: Definitions) -> str:
    """The text of `wz_format.hpp`."""
    lines = [*_banner(definitions.version), "", "#pragma once", "", "#include <cstdint>", ""]
    lines += ["namespace wz {", ""]
    lines += [_cpp_constant(name, value) for name, value in definitions.constants.items()]
    for kind in definitions.enums:
        members = [f"  k{_camel(member.name)} = {member.value}" for member in kind]
        lines += ["", f"// {_summary(kind)}", f"enum class {kind.__name__} : std::uint8_t {{"]
        lines += [*_separated(members), "};"]
    lines += ["", f"// {definitions.layout_doc}", "struct Layout {"]
    lines += [f"  std::uint32_t {name};" for name in definitions.layout_fields]
    rows = [
        f"    /* {name} */ {{{', '.join(map(str, row.values()))}}}"
        for name, row in definitions.layouts.items()
    ]
    lines += ["};", "", "// By the value of ElementType."]
    lines += ["inline constexpr Layout kLayouts[] = {", *_separated(rows), "};"]
    return "\n".join([*lines, "", "}  // namespace wz", ""])


def generate() -> dict[str, str]:
    """Path below `hw/` and text of every generated file."""
    definitions = collect()
    return {
        "rtl/autogen/wz_format_pkg.sv": systemverilog(definitions),
        "hls/autogen/wz_format.hpp": cpp(definitions),
    }


def drifted(folder: Path) -> list[Path]:
    """The files below `folder` that are missing or not what `generate` makes."""
    return [
        folder / name
        for name, text in generate().items()
        if not (folder / name).is_file() or (folder / name).read_text("ascii") != text
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m codec.autogen", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--check", action="store_true", help="write nothing, report drift")
    parser.add_argument("--hardware", type=Path, default=HARDWARE, help="folder (default: hw)")
    options = parser.parse_args(arguments)
    if options.check:
        if stale := drifted(options.hardware):
            names = ", ".join(str(path) for path in stale)
            sys.exit(f"{names}: not what codec/format.py defines; run `make autogen`")
        return
    for name, text in generate().items():
        path = options.hardware / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")


def _constants(module: ModuleType) -> Iterator[tuple[str, Constant]]:
    for name, value in vars(module).items():
        if name.startswith("_") or not name.isupper():
            continue
        numbers = value if isinstance(value, tuple | bytes) and value else (value,)
        if not all(type(number) is int and 0 <= number < 2**64 for number in numbers):
            raise InvalidInput(
                f"{module.__name__}.{name}: expected bytes, or one or more int of 0 to 2**64 - 1; "
                f"found {value!r}"
            )
        yield name, value


def _enums(module: ModuleType) -> Iterator[type[enum.IntEnum]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, enum.IntEnum):
            if value is enum.IntEnum:
                continue
            if not all(0 <= member <= 255 for member in value):
                raise InvalidInput(f"{value.__name__}: expected members of 0 to 255")
            yield value


def _fields(layout: elements.Layout) -> dict[str, int]:
    """Fields and properties by name; a flag becomes `is_...`, since `signed` is a keyword there."""
    names = [field.name for field in dataclasses.fields(layout)]
    names += [name for name, value in vars(type(layout)).items() if isinstance(value, property)]
    values = {name: getattr(layout, name) for name in names}
    return {(f"is_{n}" if isinstance(v, bool) else n): int(v) for n, v in values.items()}


def _banner(version: int) -> list[str]:
    return [
        "// SPDX-License-Identifier: Apache-2.0",
        "//",
        f"// Constants of the frame format, version {version} (docs/format.md).",
        "//",
        "// Generated by `make autogen` from codec/format.py and codec/elements.py: edit those.",
    ]


def _summary(item: type) -> str:
    return (inspect.getdoc(item) or "").partition("\n")[0]


def _separated(items: list[str]) -> list[str]:
    return [*(f"{item}," for item in items[:-1]), items[-1]]


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _sv_constant(name: str, value: Constant) -> str:
    kinds = {8: "logic [7:0]", 32: "int unsigned", 64: "longint unsigned"}
    bits, numbers = _numbers(value)
    # An unsized literal is a signed number of 32 bits.
    items = [str(n) if n < 2**31 and bits > 8 else f"{bits}'h{n:0{bits // 4}x}" for n in numbers]
    if isinstance(value, int):
        return f"localparam {kinds[bits]} {name} = {items[0]};"
    return f"localparam {kinds[bits]} {name}[{len(items)}] = '{{{', '.join(items)}}};"


def _cpp_constant(name: str, value: Constant) -> str:
    bits, numbers = _numbers(value)
    items = [str(n) if n < 2**31 and bits > 8 else f"{n:#x}" for n in numbers]
    head = f"inline constexpr std::uint{bits}_t k{_camel(name)}"
    return (
        f"{head} = {items[0]};" if isinstance(value, int) else f"{head}[] = {{{', '.join(items)}}};"
    )


def _numbers(value: Constant) -> tuple[int, tuple[int, ...]]:
    """Width of the type that holds every number of a constant, in bits, and the numbers."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if isinstance(value, bytes):
        return 8, numbers
    return 32 if max(numbers) < 2**32 else 64, numbers


if __name__ == "__main__":
    main()
