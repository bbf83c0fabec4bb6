# SPDX-License-Identifier: Apache-2.0
"""Where commands write: people read a console, programs a file or standard output."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from codec.files import writing

if TYPE_CHECKING:
    from rich.console import Console

JsonPath = Annotated[Path | None, tyro.conf.arg(name="json", metavar="PATH")]
"""Type of an option `--json PATH`, which `console_beside` and `write_json` take."""

STANDARD_OUTPUT = Path("-")


def console_beside(json_path: Path | None) -> "Console":
    """Where people read: standard output, unless that is to hold JSON alone."""
    from rich.console import Console

    return Console(stderr=json_path == STANDARD_OUTPUT)


def write_json(path: Path | None, value: object) -> None:
    """Write `value` as JSON to `path`, `-` being standard output; nothing if there is no path."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_text(path: Path | None, text: str) -> None:
    """Write `text` to `path`, `-` being standard output; nothing if there is no path."""
    if path is None:
        return
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    # What took long to measure must not be lost for want of a folder.
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as target:
        target.write(text.encode())
