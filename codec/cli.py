# SPDX-License-Identifier: Apache-2.0
"""`wirezip compress | decompress | inspect | bench`: each a frozen dataclass of options with `run`.

`training.cli` gathers them, parses the arguments, and prints what is raised. `run` returns the exit
status: 0, or 1 if our codec failed in a benchmark. What a command loads besides
NumPy it loads in `run`.
"""

import csv
import io
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal, get_args

import numpy as np
import tyro
from tyro.conf import Positional

import codec
from codec.engine import U8
from codec.errors import InvalidInput
from codec.format import BLOCK_BYTES_MAX
from codec.stream import Inspection

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from codec.bench import Report, Row
    from codec.netzip import Row as NetzipRow

SUFFIX = ".wz"

JsonPath = Annotated[Path | None, tyro.conf.arg(name="json", metavar="PATH")]
CsvPath = Annotated[Path | None, tyro.conf.arg(name="csv", metavar="PATH")]
OutPath = Annotated[Path | None, tyro.conf.arg(name="out", aliases=("-o",), metavar="PATH")]
# `codec.baselines.CODECS`, which the parser has to know before anything is loaded.
CodecName = Literal[
    "wirezip",
    "wirezip-ref",
    "xor-zstd-1",
    "zipnn",
    "grouped-zstd-1",
    "zstd-1",
    "zstd-3",
    "bitshuffle",
    "lz4",
    "copy",
]
# `codec.bench.CASTS`, for the same reason.
CastName = Literal["bf16", "fp16", "e4m3", "e5m2"]
DtypeName = Literal["bf16", "fp16", "fp32", "e4m3", "e5m2", "raw"]


@dataclass(frozen=True)
class Compress:
    """Options of `wirezip compress`."""

    file: Positional[Path]
    """What to compress: a file of elements of one type and nothing else."""
    dtype: DtypeName
    """What the elements are; `raw` for anything without an exponent."""
    out: OutPath = None
    """Where to write the stream; by default FILE.wz."""
    block_bytes: int = BLOCK_BYTES_MAX
    """Bytes a block, 1 to 4096; smaller ones cost ratio."""
    force: bool = False
    """Replace an output that exists."""
    json: JsonPath = None
    """Where to write the sizes as JSON; `-` is standard output."""

    def run(self) -> int:
        out = self.out or Path(f"{self.file}{SUFFIX}")
        _check_output(out, self.file, force=self.force)
        data = _read(self.file)
        stream = codec.compress(data, self.dtype, block_bytes=self.block_bytes)
        with _writing(out) as target:
            target.write(stream)
        result = {
            "input": str(self.file),
            "output": str(out),
            "dtype": self.dtype,
            "block_bytes": self.block_bytes,
            "original_bytes": data.size,
            "compressed_bytes": len(stream),
            "ratio": data.size / len(stream),
        }
        _console(self.json).print(
            f"{out}: {data.size:,} -> {len(stream):,} bytes, ratio {result['ratio']:.3f}",
            soft_wrap=True,
            highlight=False,
        )
        _write_json(self.json, result)
        return 0


@dataclass(frozen=True)
class Decompress:
    """Options of `wirezip decompress`."""

    file: Positional[Path]
    """What `wirezip compress` wrote."""
    out: OutPath = None
    """Where to write the original; by default FILE without its .wz."""
    force: bool = False
    """Replace an output that exists."""
    json: JsonPath = None
    """Where to write the sizes as JSON; `-` is standard output."""

    def run(self) -> int:
        if self.out is None and self.file.suffix != SUFFIX:
            raise InvalidInput(f"{self.file}: expected a name that ends in {SUFFIX}, or --out")
        out = self.out or self.file.with_suffix("")
        _check_output(out, self.file, force=self.force)
        stream = _read(self.file)
        data = codec.decompress(stream)
        with _writing(out) as target:
            target.write(data.data)
        _console(self.json).print(
            f"{out}: {stream.size:,} -> {data.size:,} bytes", soft_wrap=True, highlight=False
        )
        result = {
            "input": str(self.file),
            "output": str(out),
            "original_bytes": data.size,
            "compressed_bytes": stream.size,
        }
        _write_json(self.json, result)
        return 0


@dataclass(frozen=True)
class Inspect:
    """Options of `wirezip inspect`."""

    file: Positional[Path]
    """What `wirezip compress` wrote."""
    json: JsonPath = None
    """Where to write it all as JSON; `-` is standard output."""

    def run(self) -> int:
        found = codec.inspect(_read(self.file))
        console = _console(self.json)
        console.print(_inspection_table(self.file, found))
        _write_json(self.json, {"file": str(self.file), "ratio": found.ratio} | found.as_dict())
        return 0


@dataclass(frozen=True)
class Bench:
    """Options of `wirezip bench`."""

    paths: Positional[tuple[Path, ...]]
    """Checkpoints or tensors of a run: safetensors, torch zip files, an index of either, or folders
    of them."""
    codecs: tuple[CodecName, ...] = get_args(CodecName)
    """What to measure, side by side; the two that code against an older copy need --reference."""
    cast: CastName | None = None
    """Round wider floating-point tensors to this first, to nearest and ties to even; to FP8 with
    one scale a tensor. `bf16` takes FP32 alone."""
    tensors: tuple[str, ...] = ("*",)
    """Shell patterns of the names of tensors to take, such as 'gradient/*'."""
    groups: bool = False
    """Also measure the tensors of each role and part, a/* and a/b/* for names like a/b/c."""
    per_tensor: bool = False
    """Also measure every tensor by itself."""
    reference: Path | None = None
    """An older checkpoint of the same tensors, to code against."""
    repeats: int = 5
    """Turns of each codec, of which the median counts; at least 5, or 0 to measure sizes alone."""
    plot: Path | None = None
    """Folder to draw plots in: ratio against speed, and size against bound."""
    json: JsonPath = None
    """Where to write environment and rows as JSON; `-` is standard output."""
    csv: CsvPath = None
    """Where to write the rows as CSV."""

    def run(self) -> int:
        from codec.baselines import BLOCK_CODECS
        from codec.bench import Options, measure

        if not self.paths:
            raise InvalidInput("paths: expected at least one checkpoint; found none")
        console = _console(self.json)
        options = Options(
            codecs=self.codecs,
            cast=self.cast,
            per_tensor=self.per_tensor,
            repeats=self.repeats,
            groups=self.groups,
            tensors=self.tensors,
            reference=self.reference,
        )
        with console.status("starting") as status:
            report = measure(self.paths, options, lambda what: status.update(f"measuring {what}"))
        for table in _bench_tables(report):
            console.print(table)
        for failure in report.failures:
            console.print(
                f"[red]failed[/] {failure.codec} on {failure.tensor}: {failure.reason}",
                soft_wrap=True,
                highlight=False,
            )
        rows = [asdict(row) for row in report.rows]
        failures = [asdict(failure) for failure in report.failures]
        _write_rows(self.json, report.environment | {"failures": failures}, rows)
        if self.plot:
            from codec.plots import write_plots

            for path in write_plots(rows, self.plot):
                console.print(str(path), soft_wrap=True, highlight=False)
        if self.csv:
            with _writing(self.csv) as target:
                target.write(_csv(report.rows).encode())
        ours = [row for row in report.rows if row.codec in BLOCK_CODECS]
        return 0 if all(row.lossless for row in ours) else 1


@dataclass(frozen=True)
class Netzip:
    """Options of `wirezip netzip`."""

    file: Positional[Path]
    """Tensors of a step: what `wirezip bench` takes."""
    previous: Path
    """The same tensors in the step before."""
    tensors: tuple[str, ...] = ("*",)
    """Shell patterns of the names of tensors to take, such as 'gradient/*'."""
    base: Literal["minimum", "percentile"] = "minimum"
    """The base value: the minimum of what is coded at a time (the paper), or the first percentile
    of the step before (its artifact)."""
    cast: Literal["bf16"] | None = None
    """Round FP32 tensors to BF16 first."""
    json: JsonPath = None
    """Where to write environment and rows as JSON; `-` is standard output."""

    def run(self) -> int:
        from codec.bench import Options, environment, select
        from codec.netzip import measure

        options = Options(cast=self.cast, tensors=self.tensors, repeats=0)
        console = _console(self.json)
        with console.status("starting") as status:
            rows = measure(
                str(self.file),
                list(select(self.file, options)),
                list(select(self.previous, options)),
                base=self.base,
                on_step=lambda what: status.update(f"measuring {what}"),
            )
        for table in _netzip_tables(rows):
            console.print(table)
        conditions = environment(options) | {"previous": str(self.previous)}
        _write_rows(self.json, conditions, [asdict(row) for row in rows])
        return 0


def _netzip_tables(rows: "Sequence[NetzipRow]") -> "Iterator[Table]":
    """One table a role and unit: arms down, codecs across."""
    from rich import box
    from rich.table import Table

    for role, unit in dict.fromkeys((row.role, row.unit) for row in rows):
        some = [row for row in rows if (row.role, row.unit) == (role, unit)]
        names = list(dict.fromkeys(row.compressor for row in some))
        table = Table(
            title=f"{role}: compressed / original, {unit} by {unit}",
            title_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("delta")
        table.add_column("grouping")
        for name in names:
            table.add_column(name, justify="right")
        table.add_column("values that differ", justify="right")
        for arm in dict.fromkeys((row.delta, row.grouping) for row in some):
            mine = {row.compressor: row for row in some if (row.delta, row.grouping) == arm}
            sizes = [
                f"{mine[name].compressed_bytes / mine[name].original_bytes:.3f}"
                if name in mine
                else ""
                for name in names
            ]
            worst = max(row.mismatches / row.values for row in mine.values())
            differ = f"[red]{100 * worst:.1f} %, lossy[/]" if worst else "none"
            table.add_row(*arm, *sizes, differ)
        yield table


def _bench_tables(report: "Report") -> "Iterator[Table]":
    """One table a file; where tensors or groups are measured too, one each."""
    from rich import box
    from rich.table import Table

    environment = report.environment
    cast = f", cast to {environment['cast']}" if environment["cast"] else ""
    turns, cpu = environment["repeats"], environment["cpu"]
    conditions = f"1 thread of {cpu}, processor time, median of {turns}" if turns else "sizes alone"
    named = any(row.tensor != "*" for row in report.rows)
    buffers = [(row.file, row.tensor if named else "") for row in report.rows]
    for file, tensor in dict.fromkeys(buffers):
        rows = [row for row in report.rows if row.file == file and tensor in ("", row.tensor)]
        table = Table(
            title=f"{file}{cast}\n{conditions}" + (f"\n[bold]{tensor}[/]" if tensor else ""),
            caption="ratio = original / compressed; over bound: compressed size above each block's "
            "order-0 bound, in % of the original",
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            collapse_padding=True,
            pad_edge=False,
        )
        for name in ("dtype", "codec"):
            table.add_column(name, no_wrap=True)
        for name in ("block", "ratio", "saved\n%", "over\nbound", "encode\nGB/s", "decode\nGB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("lossless", no_wrap=True)
        for row, next_row in zip(rows, [*rows[1:], None], strict=True):
            ends = next_row and next_row.dtype != row.dtype
            table.add_row(*_bench_cells(row), end_section=bool(ends))
        yield table


def _bench_cells(row: "Row") -> list[str]:
    cells = [row.dtype, row.codec, f"{row.block_bytes or ''}"]
    if row.compressed_bytes is None:
        return [*cells, *"-----", "[red]failed[/]"]
    over = row.compressed_bytes - row.bound_block_bytes
    return [
        *cells,
        f"{row.original_bytes / row.compressed_bytes:.3f}",
        f"{100 * (1 - row.compressed_bytes / row.original_bytes):.2f}",
        f"{100 * over / row.original_bytes:+.2f}",
        "-" if row.encode_gb_per_s is None else f"{row.encode_gb_per_s:.2f}",
        "-" if row.decode_gb_per_s is None else f"{row.decode_gb_per_s:.2f}",
        "yes" if row.lossless else "[red]NO[/]",
    ]


def _csv(rows: "Sequence[Row]") -> str:
    from codec.bench import Row

    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def _inspection_table(file: Path, found: Inspection) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        title=f"{file}\n{found.element}, blocks of {found.block_bytes} bytes\n"
        f"{found.original_bytes:,} -> {found.compressed_bytes:,} bytes, ratio {found.ratio:.3f}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("")
    table.add_column("count", justify="right")
    table.add_column("share %", justify="right")
    groups = (
        ("frames", found.frames_by_mode, found.frames),
        ("coder", found.frames_by_coder, found.frames_by_mode["coded"]),
        ("bytes", found.bytes_by_section, found.compressed_bytes),
    )
    for group, counts, total in groups:
        for name, count in counts.items():
            share = 100 * count / total if total else 0.0
            table.add_row(f"{group}: {name.replace('_', ' ')}", f"{count:,}", f"{share:.1f}")
        table.add_section()
    return table


def _read(path: Path) -> U8:
    """The bytes of a file, mapped."""
    if not path.stat().st_size:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r"))


def _check_output(out: Path, source: Path, *, force: bool) -> None:
    if out.exists() and source.exists() and out.samefile(source):
        raise InvalidInput(f"{out}: expected an output other than the input")
    if out.is_file() and not force:
        raise InvalidInput(f"{out}: expected no such file yet; found one (--force replaces it)")


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the name `path` once it is complete; on an error nothing remains."""
    if path.exists() and not path.is_file():
        # A device or pipe, which a new file must not take the place of.
        with path.open("wb") as target:
            yield target
        return
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as target:
            yield target
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _console(json_path: Path | None) -> "Console":
    """Where people read: standard output, unless that is to hold JSON alone."""
    from rich.console import Console

    return Console(stderr=json_path == Path("-"))


def _write_rows(
    path: Path | None, environment: dict[str, object], rows: Sequence[dict[str, object]]
) -> None:
    """Write a measurement as JSON, one row a line, with the command that made it."""
    command = shlex.join(["wirezip", *sys.argv[1:]])
    conditions = json.dumps(environment | {"command": command}, indent=2, allow_nan=False)
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    _write_text(path, f'{{"environment": {conditions},\n"rows": [\n{lines}\n]}}\n')


def _write_json(path: Path | None, value: object) -> None:
    _write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def _write_text(path: Path | None, text: str) -> None:
    if path is None:
        return
    if path == Path("-"):
        sys.stdout.write(text)
        return
    with _writing(path) as target:
        target.write(text.encode())
