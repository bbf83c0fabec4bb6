# SPDX-License-Identifier: Apache-2.0
"""Write a container from a checkpoint (`docs/format.md`, section 12).

Every tensor is a segment of frames, and whatever lies between them (the header of safetensors, the
directory and the pickle of a torch file) goes through zlib, so the file comes back byte for byte.
The file is read once, in order, a few chunks at a time.
"""

import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from codec import table as t
from codec.checkpoint import CheckpointError, Tensor, read_checkpoint
from codec.checksum import padded_crc32c
from codec.container import Progress
from codec.elements import ElementType
from codec.engine import U8, Engine, get_engine
from codec.errors import InvalidInput
from codec.files import SourceFile
from codec.format import BLOCK_BYTES_MAX, Mode
from codec.parallel import check_threads, in_order
from codec.resident import ResidentCheckpoint
from codec.stream import check_block_bytes
from codec.table import Chunk, Method, Segment, Table, TensorEntry

CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class Written:
    """What `write_container` did.

    Attributes:
        original_bytes: size of the checkpoint.
        compressed_bytes: size of the container.
        tensors: number of tensors that can be read by name.
        referenced: names of those that are coded against the reference.
    """

    original_bytes: int
    compressed_bytes: int
    tensors: int
    referenced: tuple[str, ...]


def write_container(
    source: Path,
    target: IO[bytes],
    *,
    reference: ResidentCheckpoint | None = None,
    block_bytes: int = BLOCK_BYTES_MAX,
    engine: str = "numba",
    threads: int = 1,
    progress: Progress | None = None,
) -> Written:
    """Write the container of a checkpoint's file.

    Args:
        source: a safetensors file or a torch zip file.
        target: where to write; need not be able to seek.
        reference: tensors that those of the same name, type and shape are coded against.
        block_bytes: 1 to 4,096; smaller blocks cost ratio.
        engine: who encodes, one of `codec.engine.ENGINE_NAMES`; all write the same bytes.
        threads: how many encode; any number writes the same bytes.
        progress: called as `source` is dealt with.

    Raises:
        CheckpointError: the file is no checkpoint.
        InvalidInput: the block size or number of threads has no meaning.
        OSError: a file cannot be read or written.
    """
    block_bytes = check_block_bytes(block_bytes)
    threads = check_threads(threads)
    spans, entries = _read_layout(source)
    file = SourceFile(source)
    try:
        parts = _parts(spans, entries, file.size, reference)
        coder = _Coder(file, entries, reference, get_engine(engine), block_bytes)
        return coder.write(parts, target, threads, progress)
    finally:
        file.close()


class _Part(NamedTuple):
    """A segment to be: a range of the file and the tensor whose resident copy there is."""

    begin: int
    end: int
    element: ElementType
    method: Method
    tensor: int | None


class _Task(NamedTuple):
    """A chunk to be."""

    part: _Part
    begin: int
    size: int


class _Coded(NamedTuple):
    """A chunk that has been coded."""

    task: _Task
    payload: memoryview
    check: int
    resident_check: int
    has_reference_frames: bool


class _Span(NamedTuple):
    """A range of the file and what it is made of."""

    begin: int
    end: int
    element: ElementType


class _Coder:
    """Codes the chunks of one file."""

    def __init__(
        self,
        file: SourceFile,
        entries: list[TensorEntry],
        reference: ResidentCheckpoint | None,
        engine: Engine,
        block_bytes: int,
    ) -> None:
        self._file = file
        self._entries = entries
        self._reference = reference
        self._engine = engine
        self._block_bytes = block_bytes
        # A multiple of four, so that every chunk begins with a whole element.
        self._blocks_per_chunk = CHUNK_BYTES // block_bytes // 4 * 4

    def write(
        self, parts: list[_Part], target: IO[bytes], threads: int, progress: Progress | None
    ) -> Written:
        # What has to be compiled is so here, once.
        self._engine.encode(np.empty(0, np.uint8), ElementType.RAW, self._block_bytes)
        target.write(t.HEADER)
        offset = t.HEADER_BYTES
        chunks: dict[_Part, list[Chunk]] = {part: [] for part in parts}
        in_need: set[_Part] = set()
        with closing(in_order(self._code, self._tasks(parts), threads)) as results:
            for coded in results:
                begin, size = coded.task.begin, coded.task.size
                chunk = Chunk(
                    begin, size, offset, len(coded.payload), coded.check, coded.resident_check
                )
                chunks[coded.task.part].append(chunk)
                if coded.has_reference_frames:
                    in_need.add(coded.task.part)
                target.write(coded.payload)
                offset += len(coded.payload)
                if progress:
                    progress(size)
        segments = tuple(_segment(part, chunks[part], part in in_need) for part in parts)
        table = Table(
            self._file.size,
            self._block_bytes,
            self._blocks_per_chunk,
            segments,
            tuple(self._entries),
        )
        packed = t.pack(table)
        target.write(packed)
        named = (self._entries[s.tensor].name for s in segments if s.tensor is not None)
        return Written(self._file.size, offset + len(packed), len(self._entries), tuple(named))

    def _tasks(self, parts: list[_Part]) -> Iterator[_Task]:
        step = self._blocks_per_chunk * self._block_bytes
        for part in parts:
            for begin in range(part.begin, part.end, step):
                yield _Task(part, begin, min(step, part.end - begin))

    def _code(self, task: _Task) -> _Coded:
        data = self._file.read(task.begin, task.size)
        if task.part.method == Method.ZLIB:
            payload = memoryview(zlib.compress(data.data))
            return _Coded(task, payload, padded_crc32c(data), 0, False)
        copy = self._copy(task)
        packets = self._engine.encode(data, task.part.element, self._block_bytes, resident=copy)
        return _Coded(
            task,
            packets.payload.data,
            t.frames_check(packets.payload, packets.lengths),
            0 if copy is None else padded_crc32c(copy),
            bool(np.any(packets.modes == Mode.REFERENCE)),
        )

    def _copy(self, task: _Task) -> U8 | None:
        if task.part.tensor is None or self._reference is None:
            return None
        entry = self._entries[task.part.tensor]
        return self._reference.read(entry.name, task.begin - task.part.begin, task.size)


def _segment(part: _Part, chunks: list[Chunk], needs_copy: bool) -> Segment:
    """A segment of coded chunks, which owes nothing to its resident copy unless it `needs_copy`."""
    kept = chunks if needs_copy else [replace(chunk, resident_check=0) for chunk in chunks]
    tensor = part.tensor if needs_copy else None
    return Segment(part.end - part.begin, part.element, part.method, tensor, tuple(kept))


def _read_layout(source: Path) -> tuple[list[_Span], list[TensorEntry]]:
    """The ranges of a checkpoint's file that hold tensors, and an entry for each tensor."""
    if source.is_dir() or source.name.endswith(".index.json"):
        raise InvalidInput(f"{source}: expected one file of a checkpoint; found several")
    spans: list[_Span] = []
    entries: dict[str, TensorEntry] = {}
    for tensor in read_checkpoint(source):
        begin, end = tensor.span
        if begin < end:
            spans.append(_Span(begin, end, tensor.element))
        # One whose elements do not lie in order cannot be named as a range.
        if tensor.in_place and tensor.name not in entries:
            entries[tensor.name] = _entry(tensor)
    return _merge(spans), list(entries.values())


def _entry(tensor: Tensor) -> TensorEntry:
    begin, end = tensor.span
    if len(tensor.shape) > 255 or max(tensor.shape, default=0) >= 1 << 64:
        raise CheckpointError(
            f"{tensor.file}: expected at most 255 dimensions of 64 bits of {tensor.name!r}; "
            f"found {tensor.shape!r:.80}"
        )
    return TensorEntry(tensor.name, tensor.dtype, tensor.shape, begin, end - begin)


def _merge(spans: list[_Span]) -> list[_Span]:
    """The same bytes in order, with ranges that overlap as one, of the type of its first."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        if merged and span.begin < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


def _parts(
    spans: list[_Span],
    entries: list[TensorEntry],
    file_bytes: int,
    reference: ResidentCheckpoint | None,
) -> list[_Part]:
    """The segments of a file: tensors, and what is between them."""
    with_copy: dict[tuple[int, int], int] = {}
    if reference:
        for index, entry in enumerate(entries):
            if reference.mismatch(entry) is None:
                with_copy.setdefault((entry.begin, entry.begin + entry.original_bytes), index)
    parts = []
    at = 0
    for begin, end, element in spans:
        if at < begin:
            parts.append(_Part(at, begin, ElementType.RAW, Method.ZLIB, None))
        parts.append(_Part(begin, end, element, Method.FRAMES, with_copy.get((begin, end))))
        at = end
    if at < file_bytes:
        parts.append(_Part(at, file_bytes, ElementType.RAW, Method.ZLIB, None))
    return parts
