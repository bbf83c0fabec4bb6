# SPDX-License-Identifier: Apache-2.0
"""`wirezip compress | decompress | inspect | bench`: each a frozen dataclass of options with `run`.

`training.cli` gathers them, parses the arguments, and prints what is raised. `run` returns the exit
status: 0, or 1 if our codec failed in a benchmark. What a command loads besides
NumPy it loads in `run`.
"""

import csv
import io
import itertools
import json
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import tyro
from tyro.conf import Positional

import codec
from codec.checkpoint import Parts, checkpoint_parts
from codec.container import Container, ContainerInspection, Progress
from codec.engine import U8
from codec.errors import InvalidInput
from codec.files import writing, writing_folder
from codec.format import BLOCK_BYTES_MAX
from codec.output import STANDARD_OUTPUT, JsonPath, console_beside, write_json, write_text
from codec.parallel import check_threads
from codec.resident import ResidentCheckpoint
from codec.stream import Inspection, compress_pieces, decompress_pieces
from codec.table import HEADER as CONTAINER_HEADER

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from codec.bench import Report, Row
    from codec.netzip import Row as NetzipRow

SUFFIX = ".wz"
CONTAINER_MAGIC = CONTAINER_HEADER[:3]

CsvPath = Annotated[Path | None, tyro.conf.arg(name="csv", metavar="PATH")]
ReferencePath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
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
    """A checkpoint (safetensors, a torch zip file, an index or a folder of either), or with --dtype
    any file of elements of one type."""
    dtype: DtypeName | None = None
    """What the elements of a file that is no checkpoint are; `raw` if they have no exponent."""
    out: OutPath = None
    """Where to write; by default FILE.wz. A folder if FILE is one or an index."""
    reference: ReferencePath = None
    """An earlier checkpoint, or with --dtype an earlier state of the file, to code against; it is
    needed again to decompress."""
    threads: int | None = None
    """Threads to use; by default one a processor. The output is the same for any number."""
    block_bytes: int = BLOCK_BYTES_MAX
    """Bytes a block, 1 to 4096; smaller ones cost ratio."""
    force: bool = False
    """Replace an output that exists; of a folder, the files of the same names."""
    json: JsonPath = None
    """Where to write the sizes as JSON; `-` is standard output."""

    def run(self) -> int:
        threads = _threads(self.threads)
        console = console_beside(self.json)
        parts = None if self.dtype else checkpoint_parts(self.file)
        name = self.file.absolute().with_name(parts.name) if parts else self.file
        out = self.out or Path(f"{name}{SUFFIX}")
        read = [self.file, *(parts.files if parts else ())]
        if self.reference:
            read += _checkpoint_files(self.reference) if not self.dtype else [self.reference]
        _check_paths(read, out, self.json, force=self.force)
        if parts and (left_out := _left_out(self.file, parts)):
            _say(console, f"{self.file}: no part of {out}: {', '.join(left_out)}")
        if self.dtype:
            sizes = self._stream(out, threads)
        elif parts:
            sizes = self._folder(parts, out, threads)
        else:
            with ExitStack() as stack:
                reference = self._resident(stack)
                target = stack.enter_context(writing(out))
                advance = stack.enter_context(_progress(self.file.stat().st_size))
                sizes = self._container(self.file, target, reference, threads, advance)
        original, compressed = sizes["original_bytes"], sizes["compressed_bytes"]
        result = {
            "input": str(self.file),
            "output": str(out),
            "dtype": self.dtype,
            "block_bytes": self.block_bytes,
            **sizes,
            "ratio": original / compressed,
        }
        against = ""
        if self.reference and not self.dtype:
            against = f", {sizes['referenced']} of {sizes['tensors']} tensors need {self.reference}"
        _say(
            console,
            f"{out}: {original:,} -> {compressed:,} bytes, ratio {result['ratio']:.3f}{against}",
        )
        write_json(self.json, result)
        return 0

    def _stream(self, out: Path, threads: int) -> dict[str, Any]:
        data = _read(self.file)
        pieces = compress_pieces(
            data,
            self.dtype,
            reference=None if self.reference is None else _read(self.reference),
            block_bytes=self.block_bytes,
            threads=threads,
        )
        written = 0
        with writing(out) as target:
            for piece in pieces:
                written += target.write(piece)
        return {"original_bytes": data.size, "compressed_bytes": written}

    def _container(
        self,
        source: Path,
        target: IO[bytes],
        reference: ResidentCheckpoint | None,
        threads: int,
        advance: Progress,
    ) -> dict[str, Any]:
        done = codec.write_container(
            source,
            target,
            reference=reference,
            block_bytes=self.block_bytes,
            threads=threads,
            progress=advance,
        )
        return asdict(done) | {"referenced": len(done.referenced)}

    def _folder(self, parts: Parts, out: Path, threads: int) -> dict[str, Any]:
        """One container a file of the checkpoint, and the index as it is."""
        _check_no_others(out, parts)
        totals: Counter[str] = Counter()
        size = sum(file.stat().st_size for file in parts.files)
        with ExitStack() as stack:
            reference = self._resident(stack)
            folder = stack.enter_context(writing_folder(out))
            advance = stack.enter_context(_progress(size))
            for file in parts.files:
                with (folder / f"{file.name}{SUFFIX}").open("xb") as target:
                    totals.update(self._container(file, target, reference, threads, advance))
            if parts.index:
                copied = parts.index.read_bytes()
                (folder / parts.index.name).write_bytes(copied)
                totals.update(original_bytes=len(copied), compressed_bytes=len(copied))
        return {"files": len(parts.files)} | totals

    def _resident(self, stack: ExitStack) -> ResidentCheckpoint | None:
        if self.reference is None:
            return None
        return stack.enter_context(ResidentCheckpoint(self.reference))


@dataclass(frozen=True)
class Decompress:
    """Options of `wirezip decompress`."""

    file: Positional[Path]
    """What `wirezip compress` wrote."""
    out: OutPath = None
    """Where to write the original; by default FILE without its .wz."""
    tensor: str | None = None
    """Only this tensor of a checkpoint: its bytes, in C order and little-endian. Needs --out."""
    reference: ReferencePath = None
    """What it was coded against, if anything."""
    threads: int | None = None
    """Threads to use; by default one a processor."""
    force: bool = False
    """Replace an output that exists; of a folder, the files of the same names."""
    json: JsonPath = None
    """Where to write the sizes as JSON; `-` is standard output."""

    def run(self) -> int:
        if self.tensor is not None and self.out is None:
            raise InvalidInput("--tensor: expected --out with it; found none")
        if self.out is None and self.file.suffix != SUFFIX:
            raise InvalidInput(f"{self.file}: expected a name that ends in {SUFFIX}, or --out")
        threads = _threads(self.threads)
        out = self.out or self.file.with_suffix("")
        read = [self.file, *(_checkpoint_files(self.reference) if self.reference else ())]
        _check_paths(read, out, self.json, force=self.force)
        if self.tensor is not None:
            result = self._one_tensor(self.tensor, out, threads)
        elif self.file.is_dir():
            result = self._folder(out, threads)
        elif _is_container(self.file):
            with codec.open_container(
                self.file, reference=self.reference, threads=threads
            ) as container:
                result = _restore([container], [out])
        else:
            result = self._stream(out, threads)
        detail = f", {result['dtype']} {result['shape']}" if self.tensor is not None else ""
        compressed, original = result["compressed_bytes"], result["original_bytes"]
        _say(console_beside(self.json), f"{out}: {compressed:,} -> {original:,} bytes{detail}")
        write_json(self.json, {"input": str(self.file), "output": str(out)} | result)
        return 0

    def _stream(self, out: Path, threads: int) -> dict[str, Any]:
        stream = _read(self.file)
        reference = None if self.reference is None else _read(self.reference)
        written = 0
        with writing(out) as target:
            for piece in decompress_pieces(stream, reference=reference, threads=threads):
                written += target.write(piece.data)
        return {"original_bytes": written, "compressed_bytes": stream.size}

    def _folder(self, out: Path, threads: int) -> dict[str, Any]:
        containers, others = _folder_files(self.file)
        for path in others:
            if path.with_name(path.name + SUFFIX) in containers:
                raise InvalidInput(
                    f"{path}: expected no such file beside {path.name}{SUFFIX}, which is restored "
                    "to that name; found one"
                )
        with ExitStack() as stack:
            found = [
                stack.enter_context(
                    codec.open_container(path, reference=self.reference, threads=threads)
                )
                for path in containers
            ]
            folder = stack.enter_context(writing_folder(out))
            result = _restore(found, [folder / path.stem for path in containers])
            for path in others:
                shutil.copyfile(path, folder / path.name)
        copied = sum(path.stat().st_size for path in others)
        return {"files": len(found)} | {
            name: result[name] + copied for name in ("original_bytes", "compressed_bytes")
        }

    def _one_tensor(self, name: str, out: Path, threads: int) -> dict[str, Any]:
        in_folder = self.file.is_dir()
        for path in _folder_files(self.file)[0] if in_folder else [self.file]:
            if not _is_container(path):
                raise InvalidInput(f"{path}: expected a container to take a tensor from")
            with codec.open_container(path, reference=self.reference, threads=threads) as container:
                if in_folder and name not in container.tensors:
                    continue
                tensor = container.read(name)
                compressed = container.compressed_bytes(name)
            with writing(out) as target:
                target.write(tensor.data.data)
            return {
                "tensor": name,
                "dtype": tensor.dtype,
                "shape": tensor.shape,
                "original_bytes": tensor.data.size,
                "compressed_bytes": compressed,
            }
        raise InvalidInput(f"{self.file}: expected a tensor of its containers; found {name!r}")


@dataclass(frozen=True)
class Inspect:
    """Options of `wirezip inspect`."""

    file: Positional[Path]
    """What `wirezip compress` wrote."""
    json: JsonPath = None
    """Where to write it all as JSON; `-` is standard output."""

    def run(self) -> int:
        _check_paths([self.file], self.json, force=True)
        console = console_beside(self.json)
        if self.file.is_dir():
            containers, _ = _folder_files(self.file)
            found = [self._container(path, console) for path in containers]
            write_json(self.json, {"file": str(self.file), "containers": found})
        elif _is_container(self.file):
            write_json(self.json, self._container(self.file, console))
        else:
            stream = codec.inspect(_read(self.file))
            console.print(_inspection_table(self.file, stream))
            write_json(
                self.json, {"file": str(self.file), "ratio": stream.ratio} | stream.as_dict()
            )
        return 0

    def _container(self, path: Path, console: "Console") -> dict[str, Any]:
        with codec.open_container(path) as container:
            found = container.inspect()
        console.print(_tensor_table(path, found))
        console.print(_counts_table(found))
        return {"file": str(path), "ratio": found.ratio} | found.as_dict()


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
    threads: int = 1
    """If more than 1: measure our codec on that many as well, and all speeds by the wall clock."""
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
        read = [*self.paths, *([self.reference] if self.reference else [])]
        _check_paths(read, self.json, self.csv, force=True)
        console = console_beside(self.json)
        options = Options(
            codecs=self.codecs,
            cast=self.cast,
            per_tensor=self.per_tensor,
            repeats=self.repeats,
            groups=self.groups,
            tensors=self.tensors,
            reference=self.reference,
            threads=self.threads,
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
            with writing(self.csv) as target:
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

        _check_paths([self.file, self.previous], self.json, force=True)
        options = Options(cast=self.cast, tensors=self.tensors, repeats=0)
        console = console_beside(self.json)
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
    conditions = "sizes alone"
    if turns:
        conditions = (
            f"{cpu}, 1 thread (xN: N threads), {environment['clock']} time, median of {turns}"
        )
    named = any(row.tensor != "*" for row in report.rows)
    buffers = [(row.file, row.tensor if named else "") for row in report.rows]
    for file, tensor in dict.fromkeys(buffers):
        rows = [row for row in report.rows if row.file == file and tensor in ("", row.tensor)]
        table = Table(
            title=f"{_shown(file)}{cast}\n{conditions}"
            + (f"\n[bold]{_shown(tensor)}[/]" if tensor else ""),
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
    threads = f" x{row.threads}" if row.threads > 1 else ""
    cells = [row.dtype, f"{row.codec}{threads}", f"{row.block_bytes or ''}"]
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
    table = _counts_table(found)
    table.title = (
        f"{_shown(file)}\n{found.element}, blocks of {found.block_bytes} bytes\n"
        f"{found.original_bytes:,} -> {found.compressed_bytes:,} bytes, ratio {found.ratio:.3f}"
    )
    return table


def _counts_table(found: Inspection | ContainerInspection) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("count", justify="right")
    table.add_column("share %", justify="right")
    groups = (
        ("frames", found.frames_by_mode, sum(found.frames_by_mode.values())),
        ("coder", found.frames_by_coder, found.frames_by_mode["coded"]),
        ("bytes", found.bytes_by_section, found.compressed_bytes),
    )
    for group, counts, total in groups:
        for name, count in counts.items():
            share = 100 * count / total if total else 0.0
            table.add_row(f"{group}: {name.replace('_', ' ')}", f"{count:,}", f"{share:.1f}")
        table.add_section()
    return table


def _shown(name: object) -> str:
    """A name that a file brings, as Rich prints it and nothing else: no markup, no control of the
    terminal."""
    from rich.markup import escape

    shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name))
    return escape("".join(shown))


def _tensor_table(file: Path, found: ContainerInspection) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(
        title=f"{_shown(file)}\n{len(found.tensors)} tensors, blocks of {found.block_bytes} bytes\n"
        f"{found.original_bytes:,} -> {found.compressed_bytes:,} bytes, ratio {found.ratio:.3f}",
        caption="ref: coded against a reference; modes: % of frames that are raw, constant, coded, "
        "reference",
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    table.add_column("tensor", overflow="fold")
    for name in ("dtype", "shape"):
        table.add_column(name)
    for name in ("bytes", "ratio", "modes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ref")
    for tensor in found.tensors:
        frames = sum(tensor.frames_by_mode.values())
        shares = (f"{100 * n / frames:.0f}" for n in tensor.frames_by_mode.values() if frames)
        table.add_row(
            _shown(tensor.name),
            _shown(tensor.dtype),
            "x".join(map(str, tensor.shape)) or "-",
            f"{tensor.original_bytes:,}",
            f"{tensor.original_bytes / tensor.compressed_bytes:.3f}" if frames else "-",
            "/".join(shares) or "-",
            "yes" if tensor.needs_reference else "",
        )
    return table


def _restore(containers: Sequence[Container], outs: Sequence[Path]) -> dict[str, Any]:
    """Write the original of each container."""
    size = sum(container.table.original_bytes for container in containers)
    with _progress(size) as advance:
        for container, out in zip(containers, outs, strict=True):
            with writing(out) as target:
                container.restore(target, progress=advance)
    compressed = sum(container.path.stat().st_size for container in containers)
    return {"original_bytes": size, "compressed_bytes": compressed}


def _folder_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The containers in a folder that `wirezip compress` wrote, and the other files."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    containers = [path for path in files if path.suffix == SUFFIX]
    if not containers:
        raise InvalidInput(f"{folder}: expected files that end in {SUFFIX}; found none")
    return containers, [path for path in files if path.suffix != SUFFIX]


def _is_container(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(CONTAINER_MAGIC)) == CONTAINER_MAGIC


def _threads(given: int | None) -> int:
    return check_threads(len(os.sched_getaffinity(0)) if given is None else given)


@contextmanager
def _progress(total: int) -> Iterator[Progress]:
    """Shows how many of `total` bytes are done, if standard error is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def _say(console: "Console", line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def _read(path: Path) -> U8:
    """The bytes of a file, mapped."""
    if not path.stat().st_size:
        return np.empty(0, np.uint8)
    return np.asarray(np.memmap(path, np.uint8, mode="r"))


def _check_paths(read: Sequence[Path], *written: Path | None, force: bool) -> None:
    """Refuse to write over what is read or over another output, or, unless `force`, over anything.

    Args:
        read: files and folders, of which some may not exist.
        written: the main output first, then others, which are replaced always; None and `-` are no
            files.
        force: whether the main output may be replaced.
    """
    outputs = [path for path in written if path is not None and path != STANDARD_OUTPUT]
    for out in outputs:
        for source in read:
            if _overlap(out, source):
                raise InvalidInput(f"{out}: expected an output other than the input {source}")
    for first, other in itertools.combinations(outputs, 2):
        if _overlap(first, other) or _overlap(other, first):
            raise InvalidInput(f"{other}: expected an output other than {first}")
    for out in outputs[:1]:
        if (out.is_file() or out.is_dir()) and not force:
            raise InvalidInput(f"{out}: expected no such file yet; found one (--force replaces it)")


def _overlap(out: Path, other: Path) -> bool:
    """Whether `out` is `other`, a folder that holds it, or a file that is in it."""
    if any(path.exists() and not (path.is_file() or path.is_dir()) for path in (out, other)):
        # Devices and pipes keep nothing.
        return False
    if out.exists() and other.exists() and out.samefile(other):
        return True
    mine, its = out.resolve(), other.resolve()
    if its.is_relative_to(mine):
        return True
    if not (other.is_dir() and out.is_file()):
        return False
    return any(file.is_file() and file.samefile(out) for file in other.iterdir())


def _checkpoint_files(path: Path) -> list[Path]:
    """A checkpoint, and the files that it is spread over, if any."""
    parts = checkpoint_parts(path)
    return [path, *(parts.files if parts else ())]


def _left_out(source: Path, parts: Parts) -> list[str]:
    """The names of what is in the folder `source` and not a part of its checkpoint."""
    if not source.is_dir():
        return []
    kept = {file.name for file in (*parts.files, *([parts.index] if parts.index else []))}
    others = sorted(path.name for path in source.iterdir() if path.name not in kept)
    # The bytes of a name may be no text.
    return [name.encode(errors="backslashreplace").decode() for name in others]


def _check_no_others(out: Path, parts: Parts) -> None:
    """Refuse a folder with containers of another checkpoint, which would come back with this."""
    if not out.is_dir():
        return
    kept = {f"{file.name}{SUFFIX}" for file in parts.files}
    kept |= {parts.index.name} if parts.index else set()
    for path in sorted(out.iterdir()):
        if path.name.endswith((SUFFIX, ".index.json")) and path.name not in kept:
            raise InvalidInput(
                f"{out}: expected no container or index of another checkpoint; found {path.name}"
            )


def _write_rows(
    path: Path | None, environment: dict[str, object], rows: Sequence[dict[str, object]]
) -> None:
    """Write a measurement as JSON, one row a line, with the command that made it."""
    command = shlex.join(["wirezip", *sys.argv[1:]])
    conditions = json.dumps(environment | {"command": command}, indent=2, allow_nan=False)
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    write_text(path, f'{{"environment": {conditions},\n"rows": [\n{lines}\n]}}\n')
