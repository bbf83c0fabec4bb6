# SPDX-License-Identifier: Apache-2.0
"""What is synthesised: every module by itself, and the tops at each width.

A module is taken with its default parameters, with others that `VARIANTS` names, and, if it depends
on the element types that are built, for BF16 alone.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

RTL = Path(__file__).parents[1] / "rtl"

TOPS = ("wz_encoder", "wz_decoder", "wz_engine")
# Modules that are left out of another, since they are synthesised by themselves.
BOXES = {"wz_engine": ("wz_encoder", "wz_decoder")}
WIDTHS = (128, 256, 512)
BF16_ALONE = "6'b000010"

# Nothing but assertions.
SIMULATION_ONLY = ("wz_axis_check",)

# Parameter sets besides the defaults.
VARIANTS: dict[str, tuple[dict[str, str], ...]] = {
    "wz_fifo": ({"DEPTH": "256", "MEMORY": '"block"'},),
    "wz_width_up": ({"DATA_W": "128"}, {"DATA_W": "256"}),
    "wz_width_down": ({"DATA_W": "128"}, {"DATA_W": "256"}),
}


@dataclass(frozen=True, order=True)
class Design:
    """A module and the parameters that differ from its defaults."""

    top: str
    parameters: tuple[tuple[str, str], ...] = field(default=())

    @property
    def name(self) -> str:
        return " ".join([self.top, *(f"{key}={value}" for key, value in self.parameters)])

    @property
    def folder(self) -> str:
        return re.sub(r"\W+", "-", self.name).strip("-")

    @property
    def boxes(self) -> tuple[str, ...]:
        return BOXES.get(self.top, ())


def every_design() -> list[Design]:
    """All of them, leaf modules first."""
    return [*(leaf for name in leaf_modules() for leaf in _leaf(name)), *top_designs()]


def leaf_modules() -> list[str]:
    others = (*TOPS, *SIMULATION_ONLY)
    return [name for name, path in _files().items() if name not in others and _is_module(path)]


def top_designs() -> list[Design]:
    """Tops at every width, for BF16 alone and for all types; the engine has its policy alone."""
    designs = []
    for top in TOPS:
        for width in WIDTHS:
            parameters = (("DATA_W", str(width)), ("LANES", str(width // 16)))
            if top not in BOXES:
                designs.append(Design(top, (*parameters, ("TYPES", BF16_ALONE))))
            designs.append(Design(top, parameters))
    return designs


def placed_designs() -> list[Design]:
    """Those that are placed and routed: the encoder and the decoder at full width."""
    return [
        design
        for design in top_designs()
        if design.top not in BOXES and ("DATA_W", "512") in design.parameters
    ]


def sources(design: Design) -> list[Path]:
    """Files that a design is made of, packages first, in an order that compiles."""
    found = _reached(design.top)
    packages = [name for name in found if not _is_module(_files()[name])]
    ordered: list[str] = []

    def place(name: str) -> None:
        if name not in ordered:
            for other in packages:
                if other != name and re.search(rf"\b{other}\b", _code(_files()[name])):
                    place(other)
            ordered.append(name)

    for name in packages:
        place(name)
    return [_files()[name] for name in [*ordered, *sorted(set(found) - set(packages))]]


def fingerprint(design: Design, *others: str) -> str:
    """A hash of a design's code, without comments and layout, and of `others`."""
    files = [_files()[name] for name in sorted(_reached(design.top, design.boxes))]
    text = [design.name, *others, *(_code(path) for path in files)]
    return hashlib.sha256("\0".join(text).encode()).hexdigest()[:16]


def _reached(top: str, boxes: tuple[str, ...] = ()) -> list[str]:
    """Modules and packages that `top` is made of, but what is in `boxes`."""
    found: list[str] = []
    wanted = [top]
    while wanted:
        name = wanted.pop()
        if name in _files() and name not in (*found, *boxes):
            found.append(name)
            wanted += re.findall(r"\bwz_\w+", _code(_files()[name]))
    return found


def _leaf(name: str) -> Iterator[Design]:
    yield Design(name)
    code = _code(_files()[name])
    if re.search(r"\bparameter\b[^;]*?\bTYPES\b", code):
        yield Design(name, (("TYPES", BF16_ALONE),))
    for variant in VARIANTS.get(name, ()):
        yield Design(name, tuple(variant.items()))


def _files() -> dict[str, Path]:
    return {path.stem: path for path in sorted(RTL.rglob("wz_*.sv"))}


def _is_module(path: Path) -> bool:
    return bool(re.search(r"\bmodule\b", _code(path)))


def _code(path: Path) -> str:
    return _strip(path.read_text())


@cache
def _strip(text: str) -> str:
    text = re.sub(r"(?s)/\*.*?\*/", "", re.sub(r"//.*", "", text))
    return " ".join(re.sub(r"(?s)`ifndef SYNTHESIS.*?`endif", "", text).split())
