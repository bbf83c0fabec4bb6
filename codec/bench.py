# SPDX-License-Identifier: Apache-2.0
"""Measure codecs on checkpoints: ratio against the order-0 bound, speed, and that nothing is lost.

The tensors of a type are coded end to end as one buffer, as they lie in the file; on request also
those of each group, and each by itself. A checkpoint can be measured against an older one.

Every codec runs in a process of its own under the same conditions (`codec.baselines`); they take
turns, so that a slow spell of the machine hits all of them, and the median over the turns counts.
Speeds are by the processor time of that one process, so that a busy machine changes them little;
but all by the time that passes as soon as one of them is of several threads.
"""

import fnmatch
import json
import os
import platform
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from codec import baselines
from codec.checkpoint import Tensor, cast_bf16, cast_fp8, cast_fp16, read_checkpoint
from codec.elements import ElementType
from codec.engine import U8
from codec.entropy import block_bound_bytes, tensor_bound_bytes
from codec.environment import cpu_name, package_version, platform_name
from codec.errors import InvalidInput
from codec.format import BLOCK_BYTES_MAX
from codec.parallel import check_threads

BLOCK_BYTES = (4096, 1024)
REPEATS_MIN = 5

# Until every heap has its size: a result is allocated before the one before it is freed.
_TURNS_TO_WARM_UP = 2

# A run over less than this is repeated within a turn, since a clock cannot resolve it.
_BYTES_PER_TURN = 1 << 20
_LOOPS_MAX = 1000

_PACKAGES = ("wirezip", "numpy", "numba", "zipnn", "zstandard", "lz4", "blosc2")

CASTS: dict[str, Callable[[Tensor], Tensor]] = {
    "bf16": cast_bf16,
    "fp16": cast_fp16,
    "e4m3": partial(cast_fp8, element=ElementType.E4M3),
    "e5m2": partial(cast_fp8, element=ElementType.E5M2),
}


@dataclass(frozen=True)
class Row:
    """One codec on one buffer; sizes in bytes, speeds in 1e9 original bytes a second of the
    report's clock: processor time, which on an idle machine is the time that passes, or the latter.

    Attributes:
        file: the path as it was given.
        tensor: its name, `GROUP/*` for all tensors of a group that have this type, or `*` for all
            of the file that do.
        dtype: type after the cast, lower case, as safetensors calls it.
        codec: one of `codec.baselines.CODECS`.
        block_bytes: for codecs that cut their input into blocks.
        threads: threads that the codec ran on.
        original_bytes: before.
        compressed_bytes: after; None if the codec failed.
        bound_tensor_bytes: order-0 bound with one table for each tensor.
        bound_block_bytes: with one for each block, of 4,096 bytes if the codec has none.
        encode_gb_per_s: None if the codec failed or was not timed.
        decode_gb_per_s: None if the codec failed or was not timed.
        lossless: the decoded bytes were compared and are the original ones.
    """

    file: str
    tensor: str
    dtype: str
    codec: str
    block_bytes: int | None
    threads: int
    original_bytes: int
    compressed_bytes: int | None
    bound_tensor_bytes: float
    bound_block_bytes: float
    encode_gb_per_s: float | None
    decode_gb_per_s: float | None
    lossless: bool


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        codecs: some of `codec.baselines.CODECS`; those that code against an older copy are left
            out where there is none.
        cast: type that wider ones are rounded to first, one of `CASTS`.
        per_tensor: also every tensor by itself.
        repeats: turns of each codec, at least five; 0 measures sizes alone.
        groups: also every group of tensors: `a/*` and `a/b/*` for `a/b/c`.
        tensors: shell patterns, of which a tensor's name has to match one.
        reference: an older checkpoint of the same tensors, which receivers hold.
        threads: if more than one, codecs that can are measured on that many as well, and the clock
            of everything is the time that passes.
    """

    codecs: Sequence[str] = baselines.CODECS
    cast: str | None = None
    per_tensor: bool = False
    repeats: int = REPEATS_MIN
    groups: bool = False
    tensors: Sequence[str] = ("*",)
    reference: Path | None = None
    threads: int = 1

    @property
    def clock(self) -> str:
        """One of `codec.baselines.CLOCKS`."""
        return "processor" if self.threads == 1 else "wall"

    def check(self) -> None:
        """Raise `InvalidInput` unless this can be measured."""
        for name in self.codecs:
            if name not in baselines.CODECS:
                known = ", ".join(baselines.CODECS)
                raise InvalidInput(f"codecs: expected some of {known}; found {name!r}")
        if not self.codecs:
            raise InvalidInput("codecs: expected at least one; found none")
        if self.reference is None and set(self.codecs) <= set(baselines.REFERENCE_CODECS):
            raise InvalidInput(
                "reference: expected an older checkpoint for these codecs; found none"
            )
        if self.cast is not None and self.cast not in CASTS:
            raise InvalidInput(f"cast: expected {', '.join(CASTS)}; found {self.cast!r}")
        if 0 != self.repeats < REPEATS_MIN:
            raise InvalidInput(f"repeats: expected {REPEATS_MIN} or more; found {self.repeats}")
        check_threads(self.threads)


@dataclass(frozen=True)
class Failure:
    """A codec that could not do its work, and why."""

    tensor: str
    codec: str
    reason: str


@dataclass(frozen=True)
class Report:
    """Every row, the conditions, and the codecs that failed."""

    environment: dict[str, object]
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]


def measure(
    paths: Sequence[Path], options: Options, on_step: Callable[[str], None] | None = None
) -> Report:
    """Measure codecs on every checkpoint of `paths`.

    Args:
        paths: what `codec.checkpoint.read_checkpoint` takes.
        options: codecs and repeats.
        on_step: told what is being measured, before each buffer.

    Raises:
        InvalidInput: a wrong option, or something that is no checkpoint.
        OSError: a file cannot be read.
    """
    options.check()
    rows: list[Row] = []
    failures: list[Failure] = []
    codecs = [
        name
        for name in options.codecs
        if options.reference or name not in baselines.REFERENCE_CODECS
    ]
    with _workers(codecs, options) as workers:
        for path in paths:
            for buffer in _buffers(path, options):
                if on_step:
                    on_step(f"{path} {buffer.tensor} {buffer.dtype}")
                for worker, result in _take_turns(workers, buffer, options):
                    rows.append(_row(path, buffer, worker, result))
                    if result.failure:
                        failures.append(Failure(buffer.tensor, worker.codec, result.failure))
    return Report(environment(options), tuple(rows), tuple(failures))


def environment(options: Options) -> dict[str, object]:
    """The conditions of a measurement, for the report."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "logical_cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "threads": options.threads,
        "platform": platform_name(),
        "python": platform.python_version(),
        "versions": {name: package_version(name) for name in _PACKAGES},
        "process_environment": baselines.ENVIRONMENT,
        "cast": options.cast,
        "reference": str(options.reference) if options.reference else None,
        "repeats": options.repeats,
        "clock": options.clock,
        "speed": f"median over turns, in 1e9 original bytes a second of {options.clock} time",
    }


# What is measured


@dataclass(frozen=True)
class _Buffer:
    """Bytes to code, in a file that other processes can map."""

    tensor: str
    dtype: str
    element: ElementType
    file: Path
    resident: Path | None
    bound_tensor_bytes: float
    original_bytes: int

    def map(self) -> U8:
        return np.asarray(np.memmap(self.file, np.uint8, mode="r"))


def _buffers(path: Path, options: Options) -> Iterator[_Buffer]:
    """The types of a checkpoint, the one with most bytes first, each followed by its groups and its
    tensors."""
    types: dict[str, list[Tensor]] = {}
    for stored in _selected(path, options):
        types.setdefault(_cast(stored, options).dtype, []).append(stored)
    if not types:
        raise InvalidInput(f"{path}: expected tensors; found none that holds a byte")
    older = _older_tensors(options)
    by_size = sorted(types.values(), key=lambda group: -sum(t.nbytes for t in group))
    for tensors in by_size:
        yield from _buffer_of(tensors, "*", options, older)
        if options.groups:
            for name, group in _groups(tensors).items():
                yield from _buffer_of(group, f"{name}/*", options, older)
        if options.per_tensor:
            for tensor in tensors:
                yield from _buffer_of([tensor], tensor.name, options, older)


def select(path: Path, options: Options) -> Iterator[Tensor]:
    """The tensors of a checkpoint that `options` name and that hold a byte, cast as these say.

    Raises:
        CheckpointError: the file is not what it should be.
        OSError: it cannot be read.
    """
    return (_cast(tensor, options) for tensor in _selected(path, options))


def _selected(path: Path, options: Options) -> Iterator[Tensor]:
    for tensor in read_checkpoint(path):
        if tensor.nbytes and any(fnmatch.fnmatchcase(tensor.name, p) for p in options.tensors):
            yield tensor


def _groups(tensors: Sequence[Tensor]) -> dict[str, list[Tensor]]:
    """The tensors below each name that stands before a slash, sorted by name."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        parts = tensor.name.split("/")
        for depth in range(1, len(parts)):
            groups.setdefault("/".join(parts[:depth]), []).append(tensor)
    return dict(sorted(groups.items()))


def _older_tensors(options: Options) -> dict[str, Tensor] | None:
    if options.reference is None:
        return None
    return {tensor.name: tensor for tensor in read_checkpoint(options.reference)}


def _buffer_of(
    tensors: Sequence[Tensor], name: str, options: Options, older: dict[str, Tensor] | None
) -> Iterator[_Buffer]:
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="wirezip-bench-"))
        tensor_bound = 0.0
        for stored in tensors:
            tensor = _cast(stored, options)
            data = tensor.data
            tensor_bound += tensor_bound_bytes(data, tensor.element)
            file.write(data.data)
        file.flush()
        resident = None
        if older is not None:
            copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="wirezip-bench-"))
            for stored in tensors:
                copy.write(_cast(_older(stored, older, options), options).data.data)
            copy.flush()
            resident = Path(copy.name)
        yield _Buffer(
            tensor=name,
            dtype=tensor.dtype.lower(),
            element=tensor.element,
            file=Path(file.name),
            resident=resident,
            bound_tensor_bytes=tensor_bound,
            original_bytes=file.tell(),
        )


def _older(tensor: Tensor, older: dict[str, Tensor], options: Options) -> Tensor:
    """The older copy of `tensor`, which must have its type and shape."""
    found = older.get(tensor.name)
    if found is None or (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
        what = f"{found.dtype} {found.shape}" if found else "no such tensor"
        raise InvalidInput(
            f"{options.reference}: expected {tensor.name!r} as {tensor.dtype} {tensor.shape}; "
            f"found {what}"
        )
    return found


def _cast(tensor: Tensor, options: Options) -> Tensor:
    return CASTS[options.cast](tensor) if options.cast else tensor


# Who measures it


@dataclass(frozen=True)
class _Result:
    """What one codec did to one buffer; the seconds are those of each turn."""

    compressed_bytes: int | None
    lossless: bool
    encode_seconds: tuple[float, ...]
    decode_seconds: tuple[float, ...]
    failure: str | None


class _Worker:
    """A process that runs one codec; started when it is first needed, and again if it dies."""

    def __init__(self, codec: str, block_bytes: int | None, threads: int) -> None:
        self.codec, self.block_bytes, self.threads = codec, block_bytes, threads
        self._process: subprocess.Popen[str] | None = None

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """The answer to a request; `{"error": reason}` if the codec failed or the process died."""
        process = self._process or self._start()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("worker: expected pipes")
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._process = None
        return {"error": f"the process died with status {process.wait()}"}

    def close(self) -> None:
        """End the process, which does so when its requests end."""
        if self._process:
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[str]":
        self._process = subprocess.Popen(
            baselines.command(self.codec, self.block_bytes, self.threads),
            env=baselines.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self._process


@contextmanager
def _workers(codecs: Sequence[str], options: Options) -> Iterator[list[_Worker]]:
    with ExitStack() as stack:
        workers = []
        for codec in dict.fromkeys(codecs):
            more = codec in baselines.THREAD_CODECS and options.threads != 1
            for block_bytes in BLOCK_BYTES if codec in baselines.BLOCK_CODECS else (None,):
                for threads in (1, options.threads) if more else (1,):
                    workers.append(_Worker(codec, block_bytes, threads))
                    stack.callback(workers[-1].close)
        yield workers


def _take_turns(
    workers: Sequence[_Worker], buffer: _Buffer, options: Options
) -> list[tuple[_Worker, _Result]]:
    """Run every codec that takes the buffer's type, one after the other, as often as asked for."""
    repeats = options.repeats
    able = [w for w in workers if baselines.takes(w.codec, buffer.element)]
    request: dict[str, object] = {"file": str(buffer.file), "element": buffer.element.name}
    if buffer.resident:
        request["resident"] = str(buffer.resident)
    checks = {worker: worker.ask(request) for worker in able}
    loops = min(max(_BYTES_PER_TURN // buffer.original_bytes, 1), _LOOPS_MAX)
    times: dict[_Worker, list[dict[str, Any]]] = {worker: [] for worker in able}
    for turn in range(_TURNS_TO_WARM_UP + repeats if repeats else 0):
        for worker in able:
            if "error" in checks[worker]:
                continue
            answer = worker.ask({"loops": loops, "clock": options.clock})
            if "error" in answer:
                checks[worker] = answer
            elif turn >= _TURNS_TO_WARM_UP:
                times[worker].append(answer)
    return [(worker, _result(checks[worker], times[worker])) for worker in able]


def _result(check: dict[str, Any], times: Sequence[dict[str, Any]]) -> _Result:
    if "error" in check:
        return _Result(None, False, (), (), check["error"])
    return _Result(
        check["compressed_bytes"],
        check["lossless"],
        tuple(time["encode_seconds"] for time in times),
        tuple(time["decode_seconds"] for time in times),
        None,
    )


def _row(path: Path, buffer: _Buffer, worker: _Worker, result: _Result) -> Row:
    block_bytes = worker.block_bytes or BLOCK_BYTES_MAX

    def speed(seconds: tuple[float, ...]) -> float | None:
        return buffer.original_bytes / statistics.median(seconds) / 1e9 if seconds else None

    return Row(
        file=str(path),
        tensor=buffer.tensor,
        dtype=buffer.dtype,
        codec=worker.codec,
        block_bytes=worker.block_bytes,
        threads=worker.threads,
        original_bytes=buffer.original_bytes,
        compressed_bytes=result.compressed_bytes,
        bound_tensor_bytes=buffer.bound_tensor_bytes,
        bound_block_bytes=block_bound_bytes(buffer.map(), buffer.element, block_bytes),
        encode_gb_per_s=speed(result.encode_seconds),
        decode_gb_per_s=speed(result.decode_seconds),
        lossless=result.lossless,
    )
