# SPDX-License-Identifier: Apache-2.0
"""`wirezip compress | decompress | inspect | bench`: each a frozen dataclass of options with `run`.

`training.cli` gathers them, parses the arguments, and prints what is raised. `run` returns the exit
status: 0, or 1 if our codec failed in a benchmark. What a command loads besides
NumPy it loads in `run`.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import numpy as np
import tyro
from tyro.conf import Positional

import codec
from codec.engine import U8
from codec.errors import InvalidInput
from codec.format import BLOCK_BYTES_MAX
from codec.output import JsonPath, console_beside, write_json, writing
from codec.stream import Inspection

if TYPE_CHECKING:
    from rich.table import Table

    from codec.bench import Report, Row

SUFFIX = ".wz"

CsvPath = Annotated[Path | None, tyro.conf.arg(name="csv", metavar="PATH")]
OutPath = Annotated[Path | None, tyro.conf.arg(name="out", aliases=("-o",), metavar="PATH")]
# `codec.baselines.CODECS`, which the parser has to know before anything is loaded.
CodecName = Literal["wirezip", "zipnn", "grouped-zstd-1", "zstd-1", "lz4", "copy"]
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
        with writing(out) as target:
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
        console_beside(self.json).print(
            f"{out}: {data.size:,} -> {len(stream):,} bytes, ratio {result['ratio']:.3f}",
            soft_wrap=True,
            highlight=False,
        )
        write_json(self.json, result)
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
        with writing(out) as target:
            target.write(data.data)
        console_beside(self.json).print(
            f"{out}: {stream.size:,} -> {data.size:,} bytes", soft_wrap=True, highlight=False
        )
        result = {
            "input": str(self.file),
            "output": str(out),
            "original_bytes": data.size,
            "compressed_bytes": stream.size,
        }
        write_json(self.json, result)
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
        console = console_beside(self.json)
        console.print(_inspection_table(self.file, found))
        write_json(self.json, {"file": str(self.file), "ratio": found.ratio} | found.as_dict())
        return 0


@dataclass(frozen=True)
class Bench:
    """Options of `wirezip bench`."""

    paths: Positional[tuple[Path, ...]]
    """Checkpoints: safetensors, torch zip files, an index of either, or folders of them."""
    codecs: tuple[CodecName, ...] = get_args(CodecName)
    """What to measure, side by side."""
    cast: Literal["bf16"] | None = None
    """Round FP32 tensors to BF16 first, to nearest and ties to even."""
    per_tensor: bool = False
    """Also measure every tensor by itself."""
    repeats: int = 5
    """Turns of each codec, of which the median counts; at least 5."""
    json: JsonPath = None
    """Where to write environment and rows as JSON; `-` is standard output."""
    csv: CsvPath = None
    """Where to write the rows as CSV."""

    def run(self) -> int:
        from codec.bench import Options, measure

        if not self.paths:
            raise InvalidInput("paths: expected at least one checkpoint; found none")
        console = console_beside(self.json)
        options = Options(self.codecs, self.cast, self.per_tensor, self.repeats)
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
        write_json(
            self.json,
            {
                "environment": report.environment
                | {"failures": [asdict(failure) for failure in report.failures]},
                "rows": [asdict(row) for row in report.rows],
            },
        )
        if self.csv:
            with writing(self.csv) as target:
                target.write(_csv(report.rows).encode())
        return 0 if all(row.lossless for row in report.rows if row.codec == "wirezip") else 1


def _bench_tables(report: "Report") -> "Iterator[Table]":
    """One table a file."""
    from rich import box
    from rich.table import Table

    environment = report.environment
    cast = f", cast to {environment['cast']}" if environment["cast"] else ""
    for file in dict.fromkeys(row.file for row in report.rows):
        rows = [row for row in report.rows if row.file == file]
        turns, cpu = environment["repeats"], environment["cpu"]
        conditions = f"1 thread of {cpu}, processor time, median of {turns}"
        table = Table(
            title=f"{file}{cast}\n{conditions}",
            caption="ratio = original / compressed; over bound: compressed size above each block's "
            "order-0 bound, in % of the original",
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            collapse_padding=True,
            pad_edge=False,
        )
        named = any(row.tensor != "*" for row in rows)
        if named:
            table.add_column("tensor", overflow="fold", min_width=6)
        for name in ("dtype", "codec"):
            table.add_column(name, no_wrap=True)
        for name in ("block", "ratio", "saved\n%", "over\nbound", "encode\nGB/s", "decode\nGB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("lossless", no_wrap=True)
        for row, next_row in zip(rows, [*rows[1:], None], strict=True):
            ends = next_row and (next_row.tensor, next_row.dtype) != (row.tensor, row.dtype)
            label = [row.tensor] if named else []
            table.add_row(*label, *_bench_cells(row), end_section=bool(ends))
        yield table


def _bench_cells(row: "Row") -> list[str]:
    cells = [row.dtype, row.codec, f"{row.block_bytes or ''}"]
    if row.compressed_bytes is None or row.encode_gb_per_s is None or row.decode_gb_per_s is None:
        return [*cells, *"-----", "[red]failed[/]"]
    over = row.compressed_bytes - row.bound_block_bytes
    return [
        *cells,
        f"{row.original_bytes / row.compressed_bytes:.3f}",
        f"{100 * (1 - row.compressed_bytes / row.original_bytes):.2f}",
        f"{100 * over / row.original_bytes:+.2f}",
        f"{row.encode_gb_per_s:.2f}",
        f"{row.decode_gb_per_s:.2f}",
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
