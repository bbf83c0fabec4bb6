# SPDX-License-Identifier: Apache-2.0
"""Tables and plots of finished runs, made from their folders and from nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from training.compare import OFF, Comparison
from training.errors import RecordError
from training.records import (
    Crossed,
    FaultTotals,
    IntraNode,
    MemoryReport,
    Run,
    SwitchTraffic,
    Totals,
    TrafficRow,
    add_up,
    read_run,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from training.program import ProgramSummary
    from training.testbed_report import TestbedReport

STYLE = Path(__file__).with_name("plots.mplstyle")

# Role and collective.
Key = tuple[str, str]


def find_runs(folder: Path) -> list[Run]:
    """The run in `folder`, or every run below it, sorted by path with `null` first in each folder.

    Raises:
        RecordError: there is none, or one is damaged.
    """
    found = sorted(folder.rglob("summary.json"), key=lambda p: (p.parent.parent, _order(p.parent)))
    if not found:
        raise RecordError(f"{folder}: expected a run folder or a folder of such; found no run")
    return [read_run(path.parent) for path in found]


def _order(folder: Path) -> tuple[bool, str]:
    return (folder.name != OFF, folder.name)


def comparison_table(comparison: Comparison) -> Table:
    """Bytes between nodes by role and collective, compression off against on."""
    summary = comparison.on.summary
    table = _table(
        f"{summary.strategy}, {summary.world_size} ranks, {summary.steps} steps, "
        f"{OFF} against {summary.engine}; MB",
        ("role", "collective"),
        ("logical", "payload", "ratio", "wire off", "wire on", "saved"),
    )
    off, on = _by_key(comparison.off), _by_key(comparison.on)
    for key in sorted(on, key=lambda k: -on[k]["logical_bytes"]):
        table.add_row(*key, *_cells(off.get(key), on[key]))
    table.add_section()
    totals = comparison.off.summary.totals, summary.totals
    table.add_row("all", "", *_cells(*totals), style="bold")
    return table


def run_table(runs: Sequence[Run]) -> Table:
    """One row per run."""
    table = _table(
        f"{', '.join(sorted({run.summary.preset for run in runs}))}; MB",
        ("run",),
        ("ranks", "steps", "loss", "to", "s/step", "logical", "ratio", "wire"),
    )
    for run in runs:
        summary, totals = run.summary, run.summary.totals
        table.add_row(
            f"{summary.strategy} {summary.engine}",
            str(summary.world_size),
            str(summary.steps),
            f"{run.losses[0]:.4f}",
            f"{run.losses[-1]:.4f}",
            f"{summary.seconds / summary.steps:.3f}",
            megabytes(totals["logical_bytes"]),
            _ratio(totals),
            megabytes(totals["wire_bytes"]),
        )
    return table


def program_table(summary: "ProgramSummary") -> Table:
    """Bytes of a program between nodes by role, collective and dtype."""
    ranks = summary.ranks
    who = f"{len(ranks)} ranks" if len(ranks) > 1 else f"rank {ranks[0]} of {summary.world_size}"
    table = _table(
        f"{summary.program[0]}, {who}, engine {summary.engine}; MB",
        ("role", "collective", "dtype"),
        ("logical", "payload", "ratio", "wire", "packets"),
    )
    rows = sorted(summary.rows, key=lambda row: -row["logical_bytes"])
    for row in rows:
        table.add_row(row["role"], row["collective"], row["dtype"], *_sent(row))
    table.add_section()
    table.add_row("all", "", "", *_sent(summary.totals), style="bold")
    return table


def intra_table(intra: IntraNode | None) -> Table | None:
    """What stayed inside nodes and so never reached a NIC; None where no ranks share a node."""
    if intra is None:
        return None
    table = _table(
        f"inside nodes of {intra['ranks_per_node']} ranks, in no figure above; "
        f"time modelled at {intra['gb_per_s']:g} GB/s",
        (),
        ("MB", "busiest rank", "its time"),
    )
    table.add_row(
        megabytes(intra["bytes"]),
        megabytes(intra["bytes_busiest"]),
        f"{1e3 * intra['seconds']:.3f} ms",
    )
    return table


def memory_table(memory: MemoryReport | None) -> Table | None:
    """What a rank needed, by kind; None for runs in which it was not measured."""
    if memory is None:
        return None
    table = _table("memory of a rank at each kind's peak, MB", ("kind",), ("measured", "predicted"))
    for kind, measured in memory["measured"].items():
        if measured:
            row = (megabytes(measured), megabytes(memory["predicted"][kind]))
            table.add_row(kind.replace("_", " "), *row)
    return table


def fault_table(faults: FaultTotals | None) -> Table | None:
    """What happened to packets, and what it cost; None without faults."""
    if faults is None:
        return None
    links = faults["links"]
    table = _table(
        f"faults {faults['spec']}, in no figure above",
        (),
        ("packets", "lost", "damaged", "twice", "out of order", "NAKs", "timeouts", "again", "MB"),
    )
    table.add_row(
        *(f"{links[name]:,}" for name in _FAULT_COLUMNS),
        megabytes(faults["retransmitted_wire_bytes"]),
    )
    return table


_FAULT_COLUMNS = (
    "packets",
    "lost",
    "damaged",
    "duplicates",
    "out_of_order",
    "naks",
    "timeouts",
    "retransmitted_packets",
)


def print_ports(console: Console, switch: SwitchTraffic | None) -> None:
    """What crossed each port of the switch, and in which order it sums, if there is one."""
    if switch is not None:
        console.print(ports_table(switch))
        console.print(switch["order"], soft_wrap=True)


def ports_table(switch: SwitchTraffic) -> Table:
    """What crossed each port of the switch."""
    does = "sums" if switch["sums"] else "forwards"
    table = _table(
        f"ports of the switch, which {does}; up is into it; MB",
        ("port",),
        ("up", "ratio", "up, wire", "down", "ratio", "down, wire"),
    )
    for port in switch["ports"]:
        cells = [
            cell
            for way in (port["up"], port["down"])
            for cell in (
                megabytes(way["logical_bytes"]),
                _ratio(way),
                megabytes(way["wire_bytes"]),
            )
        ]
        table.add_row(str(port["port"]), *cells)
    return table


def ports_comparison_table(comparison: Comparison) -> Table | None:
    """Wire bytes of each port of the switch, compression off against on; None if there is none."""
    off, on = comparison.off.summary.switch, comparison.on.summary.switch
    if off is None or on is None:
        return None
    does = "sums" if on["sums"] else "forwards"
    table = _table(
        f"ports of the switch, which {does}; up is into it; MB on the wire",
        ("port",),
        ("up off", "up on", "saved", "down off", "down on", "saved"),
    )
    for before, after in zip(off["ports"], on["ports"], strict=True):
        up = before["up"]["wire_bytes"], after["up"]["wire_bytes"]
        down = before["down"]["wire_bytes"], after["down"]["wire_bytes"]
        table.add_row(str(after["port"]), *_fall(*up), *_fall(*down))
    return table


def hardware_table(run: Run) -> Table | None:
    """What simulated engines did, a row per direction; None if there were none.

    Beats are counted on the wider side; a codec that never waits moves one a clock.
    """
    hardware = run.summary.hardware
    if hardware is None:
        return None
    table = _table(
        f"{run.summary.engine}: {hardware['data_bits']} bits a beat, all ranks; "
        f"time modelled at {hardware['clock_mhz']:g} MHz",
        ("",),
        ("clocks", "beats/clock", "stalls in", "stalls out", "busiest NIC"),
    )
    for name, found in (("encode", hardware["encode"]), ("decode", hardware["decode"])):
        beats = max(found["input_beats"], found["output_beats"])
        table.add_row(
            name,
            f"{found['clocks']:,}",
            f"{beats / found['clocks']:.3f}" if found["clocks"] else "-",
            f"{found['input_stalls']:,}",
            f"{found['output_stalls']:,}",
            f"{1e3 * found['seconds']:.3f} ms",
        )
    return table


def testbed_table(found: "TestbedReport") -> Table:
    """A row per condition: what was measured, and what was predicted of it."""
    table = _table(
        f"{found.preset}, {found.strategy}, {found.ranks} ranks, engine {found.engine}; "
        "medians of rank 0, ms",
        ("links", "compression"),
        ("steps", "step", "predicted", "error", "communication", "codec", "wire MB"),
    )
    for row in found.rows:
        table.add_row(
            f"{row.mbit:g} Mb/s" if row.mbit else "no limit",
            row.compression,
            str(row.steps),
            f"{1e3 * row.step_s:.1f}",
            f"{1e3 * row.predicted_s:.1f}",
            f"{row.error_percent:+.1f} %",
            f"{1e3 * row.communication_s:.1f}",
            f"{1e3 * row.codec_s:.1f}",
            f"{row.wire_bytes / 1e6:.2f}",
        )
    table.add_section()
    table.add_row("limited", "median error", "", "", "", f"{found.error_median_percent:.1f} %")
    table.add_row("limited", "largest error", "", "", "", f"{found.error_max_percent:.1f} %")
    return table


def fall_table(found: "TestbedReport") -> Table:
    """A row per rate: how far communication falls, beside what wire bytes promise."""
    table = _table(
        "communication of rank 0, compression off against on, ms",
        ("links",),
        ("off", "on", "wire on / off", "fall expected", "fall", "reached"),
    )
    for fall in found.falls:
        table.add_row(
            f"{fall.mbit:g} Mb/s",
            f"{1e3 * fall.communication_off_s:.1f}",
            f"{1e3 * fall.communication_on_s:.1f}",
            f"{fall.wire_ratio:.3f}",
            f"{1e3 * fall.expected_s:.1f}",
            f"{1e3 * fall.fall_s:.1f}",
            f"{fall.reached_percent:.0f} %",
        )
    return table


def verdict(comparison: Comparison) -> str:
    """One line, with rich markup."""
    difference = comparison.difference
    if difference is not None:
        return f"[bold red]NOT IDENTICAL[/]: {difference}"
    return (
        f"[bold green]identical[/]: {comparison.on.summary.steps} losses and the final parameters, "
        f"bit for bit; ratio {comparison.ratio:.3f}, "
        f"{comparison.saved_percent:.1f} % of wire bytes saved"
    )


def megabytes(count: int) -> str:
    """`count` bytes in MB (10^6), for people."""
    return f"{count / 1e6:,.1f}"


def write_plots(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw `losses.png` and `bytes.png` of `runs` into `folder`; returns their paths."""
    import matplotlib as mpl

    # Drawing to files needs no display.
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with plt.style.context(STYLE):
        for name, draw in (("losses", draw_losses), ("bytes", draw_bytes)):
            figure, axes = plt.subplots()
            draw(axes, runs)
            path = folder / f"{name}.png"
            _save(figure, path)
            plt.close(figure)
            paths.append(path)
    return paths


def draw_losses(axes: "Axes", runs: Sequence[Run]) -> None:
    """Loss curves over each other: the baseline wide and pale below the others."""
    for run in runs:
        baseline = run.summary.engine == OFF
        axes.plot(
            [record.step for record in run.steps],
            run.losses,
            label=_label(run),
            linewidth=5 if baseline else 1.2,
            alpha=0.5 if baseline else 1.0,
        )
    axes.set(title="Training loss", xlabel="step", ylabel="nats per token")
    axes.legend()


def draw_bytes(axes: "Axes", runs: Sequence[Run]) -> None:
    """Bytes on the wire by role and collective, one bar per run."""
    tables = [_by_key(run) for run in runs]
    keys = sorted({key for table in tables for key in table}, key=lambda k: _largest(tables, k))
    height = 0.8 / len(runs)
    for index, (run, table) in enumerate(zip(runs, tables, strict=True)):
        # Bars grow upwards from the bottom; the first run is to be on top.
        offset = (len(runs) - 1) / 2 - index
        positions = [place + offset * height for place in range(len(keys))]
        sizes = [table[key]["wire_bytes"] / 1e6 if key in table else 0.0 for key in keys]
        bars = axes.barh(positions, sizes, height=height * 0.9, label=_label(run))
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set_yticks(range(len(keys)), [f"{role}\n{name}" for role, name in keys])
    axes.set(title="Bytes on the wire, headers included", xlabel="MB over all ranks and steps")
    axes.grid(axis="y", visible=False)
    axes.legend()


def print_comparison(console: Console, comparison: Comparison) -> None:
    """The tables and the verdict."""
    console.print(comparison_table(comparison))
    on = comparison.on
    for table in (
        ports_comparison_table(comparison),
        intra_table(on.summary.intra),
        fault_table(on.summary.faults),
        hardware_table(on),
    ):
        if table:
            console.print(table)
    if comparison.on.summary.switch:
        console.print(comparison.on.summary.switch["order"], soft_wrap=True)
    console.print(verdict(comparison), soft_wrap=True)


def _save(figure: "Figure", path: Path) -> None:
    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, format="png")
    partial.replace(path)


def _label(run: Run) -> str:
    summary = run.summary
    compression = "off" if summary.engine == OFF else f"on ({summary.engine})"
    return f"{summary.strategy}, compression {compression}"


def _by_key(run: Run) -> dict[Key, Totals]:
    groups: dict[Key, list[TrafficRow]] = {}
    for row in run.summary.rows:
        groups.setdefault((row["role"], row["collective"]), []).append(row)
    return {key: add_up(rows) for key, rows in groups.items()}


def _largest(tables: list[dict[Key, Totals]], key: Key) -> int:
    return max(table[key]["wire_bytes"] for table in tables if key in table)


def _table(title: str, labels: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in labels:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(off: Totals | None, on: Totals) -> list[str]:
    before = off["wire_bytes"] if off else 0
    saved = f"{100 * (1 - on['wire_bytes'] / before):.1f}%" if before else "-"
    return [
        megabytes(on["logical_bytes"]),
        megabytes(on["payload_bytes"]),
        _ratio(on),
        megabytes(before),
        megabytes(on["wire_bytes"]),
        saved,
    ]


def _sent(totals: Totals | TrafficRow) -> list[str]:
    return [
        megabytes(totals["logical_bytes"]),
        megabytes(totals["payload_bytes"]),
        _ratio(totals),
        megabytes(totals["wire_bytes"]),
        f"{totals['packets']:,}",
    ]


def _fall(before: int, after: int) -> tuple[str, str, str]:
    saved = f"{100 * (1 - after / before):.1f}%" if before else "-"
    return megabytes(before), megabytes(after), saved


def _ratio(totals: Totals | TrafficRow | Crossed) -> str:
    payload = totals["payload_bytes"]
    return f"{totals['logical_bytes'] / payload:.3f}" if payload else "-"
