# SPDX-License-Identifier: Apache-2.0
"""Plots of a benchmark, drawn from the rows of its JSON and from nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

_STYLE = Path(__file__).with_name("plots.mplstyle")
_OURS, _OTHERS = "#1f5fa8", "#9aa5b1"
_OUR_NAME, _COPY = "wirezip", "copy"
_WITH_OLDER_COPY = ("wirezip-ref", "xor-zstd-1")
_MARKERS = "sv^D<>Ph"


def write_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw `bench-speed.png` if anything was timed, and `bench-bound.png`; returns their paths.

    Args:
        rows: of `codec.bench`, as JSON types.
        folder: is made if it is not there.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with pyplot.style.context(_STYLE):
        if timed := speed_rows(rows):
            figure, axes = pyplot.subplots(1, 2, figsize=(9, 4), sharey=True)
            draw_speed(axes[0], timed, "encode")
            draw_speed(axes[1], timed, "decode")
            paths.append(_save(figure, folder / "bench-speed.png"))
        figure, axis = pyplot.subplots(figsize=(5.5, 5))
        draw_bound(axis, rows)
        paths.append(_save(figure, folder / "bench-bound.png"))
    return paths


def speed_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows of the first file's first type, all its tensors together, that were timed."""
    timed = [row for row in rows if row["encode_gb_per_s"] and row["codec"] != _COPY]
    return [row for row in timed if _buffer(row) == _buffer(timed[0])]


def draw_speed(axes: "Axes", rows: Sequence[Row], direction: str) -> None:
    """Ratio against speed, one point a codec."""
    points = [
        (row[f"{direction}_gb_per_s"], row["original_bytes"] / row["compressed_bytes"])
        for row in rows
    ]
    for row, (x, y) in zip(rows, points, strict=True):
        axes.scatter(x, y, color=_color(row), s=30, zorder=3)
        # Out of the way of a neighbour: to the left of one at the right, below one above.
        left = any(1 < other / x < 1.3 and abs(ratio - y) < 0.02 for other, ratio in points)
        below = any(0.6 < other / x < 1.7 and 0.01 < ratio - y < 0.06 for other, ratio in points)
        axes.annotate(
            _label(row),
            (x, y),
            textcoords="offset points",
            xytext=(-5 if left else 5, -11 if below else 4),
            ha="right" if left else "left",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.margins(x=0.25, y=0.12)
    axes.set(title=f"{direction}, {rows[0]['dtype']}", xlabel="GB/s")
    axes.set_ylabel("original / compressed" if direction == "encode" else "")


def draw_bound(axes: "Axes", rows: Sequence[Row]) -> None:
    """What each codec makes of each buffer, against the buffer's block bound: on the line is on the
    bound, below is better. What codes against an older copy, or has no exponent, is left out."""
    shown = [
        row
        for row in rows
        if row["compressed_bytes"]
        and row["block_bytes"] in (None, 4096)
        and row["bound_block_bytes"] < row["original_bytes"]
        and row["codec"] not in (_COPY, "lz4", *_WITH_OLDER_COPY)
    ]
    names = list(dict.fromkeys(row["codec"] for row in shown))
    for index, name in enumerate(names):
        mine = [row for row in shown if row["codec"] == name]
        ours = name == _OUR_NAME
        axes.scatter(
            [row["bound_block_bytes"] / row["original_bytes"] for row in mine],
            [row["compressed_bytes"] / row["original_bytes"] for row in mine],
            label=name,
            color=_OURS if ours else f"C{index}",
            marker="o" if ours else _MARKERS[index % len(_MARKERS)],
            s=16 if ours else 12,
            alpha=0.9 if ours else 0.5,
            zorder=3 if ours else 2,
        )
    line = [min((row["bound_block_bytes"] / row["original_bytes"] for row in shown), default=0), 1]
    axes.plot(line, line, color="#333333", linewidth=0.8)
    axes.set(
        title="Size against bound, a point a buffer",
        xlabel="order-0 bound of 4 KiB blocks / original",
        ylabel="compressed / original",
    )
    axes.legend(fontsize=8)


def _save(figure: "Figure", path: Path) -> Path:
    from matplotlib import pyplot

    partial = path.with_name(f".{path.name}")
    figure.savefig(partial, format="png")
    pyplot.close(figure)
    partial.replace(path)
    return path


def _buffer(row: Row) -> tuple[str, str, str]:
    return row["file"], row["tensor"], row["dtype"]


def _color(row: Row) -> str:
    return _OURS if row["codec"].startswith("wirezip") else _OTHERS


def _label(row: Row) -> str:
    blocks = f" {row['block_bytes'] // 1024} KiB" if row["block_bytes"] else ""
    threads = f" x{row['threads']}" if row["threads"] > 1 else ""
    return f"{row['codec']}{blocks}{threads}"
