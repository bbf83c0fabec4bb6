# SPDX-License-Identifier: Apache-2.0
"""Longest paths through a netlist of LUTs, flip-flops and memories, in levels of logic.

A path begins and ends at a flip-flop, a memory or a port. A LUT is one level, and so is reading a
LUTRAM, which is a LUT; block RAM has registers on both sides and ends every path.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Bit = int | str
Cell = Mapping[str, Any]

# Paths listed.
WORST = 12

# The address ports that an output of a LUTRAM follows without a clock, by the output's name.
_READS = {"DPO": ("DPRA",), "SPO": ("A",), "O": ("A",)}


@dataclass(frozen=True)
class LongestPath:
    """A longest path of one kind, as the names of the nets along it."""

    levels: int
    nets: tuple[str, ...]


@dataclass(frozen=True)
class Depth:
    """What was found.

    Attributes:
        registers: the longest path from register (or memory) to register.
        into, out, through: the longest path from a port to a register, from a register to a port,
            and from port to port.
        worst: the deepest paths from register to register, one for each pair of registers.
        histogram: register pins by the levels in front of them.
        fanout: nets that drive most pins.
    """

    registers: LongestPath
    into: LongestPath
    out: LongestPath
    through: LongestPath
    worst: tuple[LongestPath, ...]
    histogram: dict[int, int]
    fanout: tuple[tuple[str, int], ...]


def measure(netlist: Path, top: str) -> Depth:
    """Measure module `top` of a JSON netlist that Yosys wrote."""
    module = json.loads(netlist.read_text())["modules"][top]
    names = _names(module)
    drivers: dict[Bit, tuple[Bit, ...]] = {}
    # Where paths begin (True: at a register) and where they end.
    begins: dict[Bit, bool] = {}
    ends: list[tuple[Bit, bool, str]] = []
    pins: Counter[Bit] = Counter()

    for port, value in module["ports"].items():
        for index, bit in enumerate(value["bits"]):
            if value["direction"] == "input":
                begins[bit] = False
            else:
                ends.append((bit, False, f"{port}[{index}]"))
    for name, cell in module["cells"].items():
        inputs, outputs = _pins(cell)
        pins.update(bit for bits in inputs.values() for bit in bits)
        if not _is_register(cell["type"]):
            for output, bits in outputs.items():
                sources = tuple(_sources(cell, output, inputs))
                drivers.update((bit, sources) for bit in bits)
            if _is_lutram(cell["type"]):
                ends += [(b, True, f"{name}.{port}") for port, bits in inputs.items() for b in bits]
            continue
        begins.update((bit, True) for bits in outputs.values() for bit in bits)
        owner = next((names[b] for bits in outputs.values() for b in bits if b in names), name)
        for port, bits in inputs.items():
            ends += [(bit, True, owner if port == "D" else f"{owner}.{port}") for bit in bits]

    return _search(drivers, begins, ends, names, pins)


def _search(
    drivers: Mapping[Bit, tuple[Bit, ...]],
    begins: Mapping[Bit, bool],
    ends: list[tuple[Bit, bool, str]],
    names: Mapping[Bit, str],
    pins: Counter[Bit],
) -> Depth:
    # For each net, the longest path to it from a port and from a register: levels and the net
    # before; -1 where there is none.
    none = (-1, None)
    found: dict[tuple[Bit, bool], tuple[int, Bit | None]] = {}

    def settle(bit: Bit) -> None:
        """Depth first, without recursion: paths may be long where something went wrong."""
        stack: list[tuple[Bit, Iterator[Bit]]] = []
        open_: set[Bit] = set()

        def enter(bit: Bit) -> None:
            if bit in begins or bit not in drivers:
                for register in (False, True):
                    here = (0, None) if begins.get(bit) is register else none
                    found[bit, register] = here
            else:
                open_.add(bit)
                stack.append((bit, iter(drivers[bit])))

        enter(bit)
        while stack:
            current, rest = stack[-1]
            source = next((s for s in rest if (s, True) not in found), None)
            if source is not None:
                if source in open_:
                    raise ValueError(f"combinational loop at {names.get(source, source)}")
                enter(source)
                continue
            for register in (False, True):
                levels, before = max(
                    ((found[s, register][0], s) for s in drivers[current]),
                    key=lambda pair: pair[0],
                    default=(-1, None),
                )
                found[current, register] = (levels + 1, before) if levels >= 0 else none
            open_.discard(current)
            stack.pop()

    best: dict[tuple[bool, bool], tuple[int, Bit | None, str]] = defaultdict(lambda: (0, None, ""))
    histogram: Counter[int] = Counter()
    deepest: dict[str, tuple[int, Bit, str]] = {}
    for bit, at_register, name in ends:
        if (bit, True) not in found:
            settle(bit)
        for from_register in (False, True):
            levels = found[bit, from_register][0]
            if levels > best[from_register, at_register][0]:
                best[from_register, at_register] = (levels, bit, name)
        if at_register and (levels := found[bit, True][0]) >= 0:
            histogram[levels] += 1
            group = re.sub(r"\[\d+\]", "", name)
            if levels > deepest.get(group, (0, 0, ""))[0]:
                deepest[group] = (levels, bit, name)

    def path(from_register: bool, at_register: bool) -> LongestPath:
        return trace(from_register, *best[from_register, at_register])

    def trace(from_register: bool, levels: int, bit: Bit | None, end: str) -> LongestPath:
        nets = [end] if end else []
        while bit is not None:
            nets.append(names.get(bit, "..."))
            bit = found[bit, from_register][1]
        return LongestPath(levels, tuple(reversed(nets)))

    widest = tuple((names.get(bit, "..."), count) for bit, count in pins.most_common(40))
    return Depth(
        registers=path(True, True),
        into=path(False, True),
        out=path(True, False),
        through=path(False, False),
        worst=tuple(
            trace(True, *one)
            for one in sorted(deepest.values(), key=lambda one: (-one[0], one[2]))[:WORST]
        ),
        histogram=dict(sorted(histogram.items())),
        fanout=tuple((name, count) for name, count in widest if name != "clk")[:10],
    )


def _names(module: Mapping[str, Any]) -> dict[Bit, str]:
    """The best name of each net: one that the source gives, the least nested one."""
    names: dict[Bit, str] = {}
    for name, net in module["netnames"].items():
        if net["hide_name"]:
            continue
        for index, bit in enumerate(net["bits"]):
            here = f"{name}[{index}]" if len(net["bits"]) > 1 else name
            if isinstance(bit, int) and (bit not in names or _rank(here) < _rank(names[bit])):
                names[bit] = here
    return names


def _rank(name: str) -> tuple[bool, int, str]:
    return "_q" not in name, name.count("."), name


def _pins(cell: Cell) -> tuple[dict[str, list[Bit]], dict[str, list[Bit]]]:
    """Inputs and outputs but clocks and constants."""
    sides: tuple[dict[str, list[Bit]], dict[str, list[Bit]]] = ({}, {})
    for port, bits in cell["connections"].items():
        if not re.fullmatch(r"C|\w*CLK\w*", port):
            side = sides[cell["port_directions"][port] == "output"]
            side[port] = [bit for bit in bits if isinstance(bit, int)]
    return sides


def _is_register(kind: str) -> bool:
    return "DFF" in kind or kind.startswith(("RAMB", "URAM", "$_DLATCH"))


def _is_lutram(kind: str) -> bool:
    return bool(re.match(r"RAM\d", kind))


def _sources(cell: Cell, output: str, inputs: Mapping[str, list[Bit]]) -> Iterator[Bit]:
    for port, bits in inputs.items():
        if _is_lutram(cell["type"]):
            base = re.sub(r"\d+$", "", port)
            # RAM32M16 and its like name address and output alike: DOA follows ADDRA.
            if base not in _READS.get(output, (f"ADDR{output.removeprefix('DO')}",)):
                continue
        yield from bits
