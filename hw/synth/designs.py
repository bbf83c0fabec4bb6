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


def every_design() -> list[Design]:
    """All of them, leaf modules first."""
    return [*(leaf for name in leaf_modules() for leaf in _leaf(name)), *top_designs()]


def leaf_modules() -> list[str]:
    others = (*TOPS, *SIMULATION_ONLY)
    return [name for name, path in _files().items() if name not in others and _is_module(path)]


def top_designs() -> list[Design]:
    """Tops at every width. More lanes than a beat of BF16 has values serve other types alone."""
    designs = []
    for top in TOPS:
        if top not in _files():
            continue
        for width in WIDTHS:
            for lanes, types in ((width // 16, BF16_ALONE), (width // 16, ""), (width // 8, "")):
                parameters = {"DATA_W": str(width), "LANES": str(lanes)}
                parameters |= {"TYPES": types} if types else {}
                designs.append(Design(top, tuple(parameters.items())))
    return designs


def placed_designs() -> list[Design]:
    """Those that are placed and routed: the encoder and the decoder at full width."""
    return [
        design
        for design in top_designs()
        if design.top != "wz_engine"
        and dict(design.parameters) | {"DATA_W": "512", "LANES": "32"} == dict(design.parameters)
    ]


def sources(design: Design) -> list[Path]:
    """Files that a design is made of, packages first, in an order that compiles."""
    found: dict[str, Path] = {}
    wanted = [design.top]
    while wanted:
        name = wanted.pop()
        if name in _files() and name not in found:
            found[name] = _files()[name]
            wanted += re.findall(r"\bwz_\w+", _code(found[name]))
    packages = [name for name in found if not _is_module(found[name])]
    ordered: list[str] = []

    def place(name: str) -> None:
        if name not in ordered:
            for other in packages:
                if other != name and re.search(rf"\b{other}\b", _code(found[name])):
                    place(other)
            ordered.append(name)

    for name in packages:
        place(name)
    return [found[name] for name in [*ordered, *sorted(set(found) - set(packages))]]


def fingerprint(design: Design, *others: str) -> str:
    """A hash of a design's code, without comments and layout, and of `others`."""
    text = [design.name, *others, *(_code(path) for path in sources(design))]
    return hashlib.sha256("\0".join(text).encode()).hexdigest()[:16]


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
