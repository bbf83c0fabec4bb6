# SPDX-License-Identifier: Apache-2.0
"""The SystemVerilog files that a module needs, in the order in which they must be read.

A file holds one module or package and has its name, so the names in a file's code say which other
files it needs.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from codec.errors import InvalidInput

RTL = Path(__file__).resolve().parents[1] / "rtl"
FOLDERS = (RTL, RTL / "autogen")

_NAME = re.compile(r"\bwz_\w+")


def sources(
    top: str,
    *,
    extra: tuple[Path, ...] = (),
    without: tuple[str, ...] = (),
    synthesis: bool = False,
) -> list[Path]:
    """The files of module `top`, what a file needs before the file itself.

    Args:
        extra: files outside `hw/rtl`, such as wrappers of a test; they may define `top`.
        without: modules that are left out, with what they alone need.
        synthesis: leave out what simulation alone needs.

    Raises:
        InvalidInput: there is no such module.
    """
    files = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.sv"))}
    files |= {path.stem: path for path in extra}
    if top not in files:
        raise InvalidInput(f"module: expected one of {', '.join(sorted(files))}; found {top!r}")
    for name in without:
        files.pop(name, None)
    ordered: dict[str, Path] = {}
    for name in (*(path.stem for path in extra), top):
        _add(name, files, ordered, set(), synthesis)
    # Packages first: a module may name one that no file before it needed.
    return sorted(ordered.values(), key=lambda path: not path.stem.endswith("_pkg"))


def modules() -> Iterator[str]:
    """The modules of `hw/rtl`, without packages."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.sv")):
            if not path.stem.endswith("_pkg"):
                yield path.stem


def code(path: Path, *, synthesis: bool = False) -> str:
    """What a file says, on one line, without comments and, if asked, what is not synthesised."""
    return _code(path.read_text(), synthesis)


def needed(path: Path, *, synthesis: bool = False) -> Iterator[str]:
    """The names of modules and packages in a file's code; some may be those of other things."""
    yield from dict.fromkeys(_NAME.findall(code(path, synthesis=synthesis)))


@cache
def _code(text: str, synthesis: bool) -> str:
    text = re.sub(r"(?s)/\*.*?\*/", "", re.sub(r"//.*", "", text))
    if synthesis:
        text = re.sub(r"(?s)`ifndef SYNTHESIS.*?`endif", "", text)
    return " ".join(text.split())


def _add(
    name: str, files: dict[str, Path], ordered: dict[str, Path], pending: set[str], synthesis: bool
) -> None:
    if name in ordered or name in pending:
        return
    pending.add(name)
    for other in needed(files[name], synthesis=synthesis):
        if other in files:
            _add(other, files, ordered, pending, synthesis)
    ordered[name] = files[name]
