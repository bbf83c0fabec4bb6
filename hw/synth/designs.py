# SPDX-License-Identifier: Apache-2.0
"""What is synthesised: every module by itself, and the tops at each width.

A module is taken with its default parameters, with others that `VARIANTS` names, and, if it depends
on the element types that are built, for BF16 alone.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hw.sim import sources as rtl

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
    return [name for name in rtl.modules() if name not in (*TOPS, *SIMULATION_ONLY)]


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
    return rtl.sources(design.top, synthesis=True)


def fingerprint(design: Design, *others: str) -> str:
    """A hash of a design's code, without comments and layout, and of `others`."""
    files = rtl.sources(design.top, without=design.boxes, synthesis=True)
    ordered = sorted(files, key=lambda path: path.stem)
    text = [design.name, *others, *(rtl.code(path, synthesis=True) for path in ordered)]
    return hashlib.sha256("\0".join(text).encode()).hexdigest()[:16]


def _leaf(name: str) -> Iterator[Design]:
    yield Design(name)
    (path,) = (path for path in rtl.sources(name) if path.stem == name)
    if re.search(r"\bparameter\b[^;]*?\bTYPES\b", rtl.code(path, synthesis=True)):
        yield Design(name, (("TYPES", BF16_ALONE),))
    for variant in VARIANTS.get(name, ()):
        yield Design(name, tuple(variant.items()))
