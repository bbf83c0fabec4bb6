# SPDX-License-Identifier: Apache-2.0
"""The SystemVerilog files that a module needs, in the order in which they must be read.

A file holds one module or package and has its name, so the names that a file mentions say which
other files it needs. A name in a comment adds a file too many at worst.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from codec.errors import InvalidInput

RTL = Path(__file__).resolve().parents[1] / "rtl"
FOLDERS = (RTL, RTL / "autogen")

_NAME = re.compile(r"\bwz_\w+")


def sources(top: str, *, extra: tuple[Path, ...] = ()) -> list[Path]:
    """The files of module `top`, what a file needs before the file itself.

    `extra` are files outside `hw/rtl`, such as wrappers of a test; they may define `top`.

    Raises:
        InvalidInput: there is no such module.
    """
    files = {path.stem: path for folder in FOLDERS for path in sorted(folder.glob("*.sv"))}
    files |= {path.stem: path for path in extra}
    if top not in files:
        raise InvalidInput(f"module: expected one of {', '.join(sorted(files))}; found {top!r}")
    ordered: dict[str, Path] = {}
    for name in (*(path.stem for path in extra), top):
        _add(name, files, ordered, set())
    # Packages first: a module may name one that no file before it needed.
    return sorted(ordered.values(), key=lambda path: not path.stem.endswith("_pkg"))


def modules() -> Iterator[str]:
    """The modules of `hw/rtl`, without packages."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.sv")):
            if not path.stem.endswith("_pkg"):
                yield path.stem


def _add(name: str, files: dict[str, Path], ordered: dict[str, Path], pending: set[str]) -> None:
    if name in ordered or name in pending:
        return
    pending.add(name)
    for other in dict.fromkeys(_NAME.findall(files[name].read_text())):
        if other in files:
            _add(other, files, ordered, pending)
    ordered[name] = files[name]
