# SPDX-License-Identifier: Apache-2.0
"""Read a container: the whole file that it was made of, or any tensor by itself.

Layout: `docs/format.md`, section 12. Whatever the size of the file, only the table of contents and
a few chunks are in memory at a time.
"""

import bisect
import itertools
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from codec import table as t
from codec.checksum import padded_crc32c
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import CorruptFrame, FrameError, InvalidInput, ReferenceMismatch, TruncatedFrame
from codec.files import SourceFile
from codec.format import Coder, Mode
from codec.frames import Blocks, Frames, find_frames
from codec.parallel import check_threads, in_order
from codec.resident import ResidentCheckpoint
from codec.stream import section_names
from codec.table import Chunk, Method, Segment, TensorEntry

Progress = Callable[[int], object]
"""Called with a number of original bytes that have been dealt with since the last call."""


class StoredTensor(NamedTuple):
    """A tensor as it was stored.

    Attributes:
        data: uint8 `(n,)`, its bytes in C order, little-endian.
        dtype: safetensors tag, such as `BF16`.
        shape: its shape.
    """

    data: U8
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorInspection:
    """One tensor of a container.

    Attributes:
        name: its name.
        dtype: safetensors tag.
        shape: its shape.
        original_bytes: its size.
        compressed_bytes: size of the chunks that hold it.
        needs_reference: whether it is coded against a resident copy.
        frames_by_mode: number of frames in those chunks, by mode in lower case.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    original_bytes: int
    compressed_bytes: int
    needs_reference: bool
    frames_by_mode: dict[str, int]


@dataclass(frozen=True)
class ContainerInspection:
    """What a container is made of, all sizes in bytes. Nothing is decoded.

    Attributes:
        block_bytes: size of all blocks but the last of a chunk.
        original_bytes: size of the original file.
        compressed_bytes: size of the container.
        frames_by_mode: number of frames of each mode, by its name in lower case.
        frames_by_coder: number of coded frames of each coder.
        bytes_by_section: as in `codec.Inspection`, with `table` (header, table and trailer) in
            place of `stream_header`, and `zlib` (what is no tensor); they add up to
            `compressed_bytes`.
        tensors: in the order of the checkpoint.
    """

    block_bytes: int
    original_bytes: int
    compressed_bytes: int
    frames_by_mode: dict[str, int]
    frames_by_coder: dict[str, int]
    bytes_by_section: dict[str, int]
    tensors: tuple[TensorInspection, ...]

    @property
    def ratio(self) -> float:
        """Original by compressed size."""
        return self.original_bytes / self.compressed_bytes

    def as_dict(self) -> dict[str, object]:
        """Everything above as what `json.dumps` takes."""
        return asdict(self)


class Container:
    """An open container; use `open_container`, and `with` or `close`.

    Attributes:
        path: the file.
        table: its table of contents.
        tensors: entry of each tensor by its name, in the order of the checkpoint.
        needs_reference: names of the tensors that are coded against a resident copy.
    """

    def __init__(
        self, path: Path, *, reference: Path | None = None, engine: str = "numba", threads: int = 1
    ) -> None:
        self.path = path
        self._threads = check_threads(threads)
        self._engine = get_engine(engine)
        self._resident: ResidentCheckpoint | None = None
        self._file = SourceFile(path)
        try:
            self.table = _read_table(self._file)
            self._segments = [s for s in self.table.segments for _ in s.chunks]
            self._chunks = [chunk for s in self.table.segments for chunk in s.chunks]
            self._begins = [chunk.begin for chunk in self._chunks]
            entries = self.table.tensors
            self.tensors: Mapping[str, TensorEntry] = MappingProxyType(
                {entry.name: entry for entry in entries}
            )
            # Tensors may overlap, so to look at all chunks of each could take any time.
            self._stored_before = _running(chunk.compressed_bytes for chunk in self._chunks)
            self._in_need_before = _running(s.tensor is not None for s in self._segments)
            self.needs_reference = tuple(e.name for e in entries if self._needs_reference(e))
            if reference is not None:
                self._resident = ResidentCheckpoint(reference)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors, in the order of the checkpoint."""
        return tuple(self.tensors)

    def __enter__(self) -> "Container":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing can be read any more."""
        self._file.close()
        if self._resident:
            self._resident.close()

    def read(self, name: str) -> StoredTensor:
        """One tensor; only the chunks that hold it are read.

        Raises:
            InvalidInput: there is no such tensor.
            FrameError: its chunks are damaged. `ReferenceMismatch` if it is coded against a
                resident copy, and that is missing or another one.
        """
        entry = self.tensors.get(name)
        if entry is None:
            some = ", ".join(repr(known) for known in list(self.tensors)[:5])
            raise InvalidInput(f"{self.path}: expected one of {some}, ...; found {name!r}")
        data = self.read_range(entry.begin, entry.original_bytes)
        return StoredTensor(data, entry.dtype, entry.shape)

    def compressed_bytes(self, name: str) -> int:
        """Size of the chunks that hold the tensor `name`, which there must be."""
        entry = self.tensors[name]
        places = self._places(entry.begin, entry.original_bytes)
        return self._stored_before[places.stop] - self._stored_before[places.start]

    def read_range(self, begin: int, size: int) -> U8:
        """`size` bytes of the original file from byte `begin` on, uint8 `(size,)`.

        Raises:
            InvalidInput: they are not within the file.
            FrameError: as `read`.
        """
        if begin < 0 or size < 0 or begin + size > self.table.original_bytes:
            raise InvalidInput(
                f"range: expected one within {self.table.original_bytes} bytes; "
                f"found {size} at {begin}"
            )
        places = self._places(begin, size)
        self._check_copies(places)
        out = np.empty(size, np.uint8)
        for chunk, data in self._decoded(places):
            first = max(begin - chunk.begin, 0)
            part = data[first : begin + size - chunk.begin]
            at = chunk.begin + first - begin
            out[at : at + part.size] = part
        return out

    def restore(self, target: IO[bytes], *, progress: Progress | None = None) -> int:
        """Write the original file, byte for byte; returns its size.

        Raises:
            FrameError: as `read`. Of a missing or wrong reference before anything is written.
        """
        self._check_copies(self._all())
        with closing(self._decoded(self._all())) as decoded:
            for chunk, data in decoded:
                target.write(data.data)
                if progress:
                    progress(chunk.original_bytes)
        return self.table.original_bytes

    def inspect(self) -> ContainerInspection:
        """What the container is made of.

        Raises:
            FrameError: the headers of its frames are not valid.
        """
        from codec.kernels import walk

        modes = np.zeros((len(self._chunks), len(Mode)), np.int64)
        sections = np.zeros((len(Mode), walk.SECTIONS), np.int64)
        coders = np.zeros(len(Coder), np.int64)
        zlib_bytes = 0
        for place, frames in enumerate(in_order(self._frames, self._all(), self._threads)):
            if frames is None:
                zlib_bytes += self._chunks[place].compressed_bytes
                continue
            modes[place] = np.bincount(frames.modes, minlength=len(Mode))
            sections += frames.sections
            coders += frames.coders
        payload = self._stored_before[-1]
        modes_before = np.zeros((len(self._chunks) + 1, len(Mode)), np.int64)
        np.cumsum(modes, axis=0, out=modes_before[1:])
        by_section = {"table": self._file.size - payload, "zlib": zlib_bytes}
        return ContainerInspection(
            block_bytes=self.table.block_bytes,
            original_bytes=self.table.original_bytes,
            compressed_bytes=self._file.size,
            frames_by_mode=_by_mode(modes_before[-1]),
            frames_by_coder={coder.name: int(coders[coder]) for coder in Coder},
            bytes_by_section=by_section | section_names(sections),
            tensors=tuple(
                self._inspect_tensor(entry, modes_before) for entry in self.table.tensors
            ),
        )

    def _inspect_tensor(
        self, entry: TensorEntry, modes_before: NDArray[np.int64]
    ) -> TensorInspection:
        places = self._places(entry.begin, entry.original_bytes)
        return TensorInspection(
            name=entry.name,
            dtype=entry.dtype,
            shape=entry.shape,
            original_bytes=entry.original_bytes,
            compressed_bytes=self.compressed_bytes(entry.name),
            needs_reference=self._needs_reference(entry),
            frames_by_mode=_by_mode(modes_before[places.stop] - modes_before[places.start]),
        )

    def _all(self) -> range:
        return range(len(self._chunks))

    def _places(self, begin: int, size: int) -> range:
        """Indices of the chunks that hold a range of the original file."""
        if size == 0:
            return range(0)
        first = bisect.bisect_right(self._begins, begin) - 1
        return range(first, bisect.bisect_left(self._begins, begin + size))

    def _entry(self, segment: Segment) -> TensorEntry | None:
        """The tensor whose resident copy a segment is coded against."""
        return None if segment.tensor is None else self.table.tensors[segment.tensor]

    def _needs_reference(self, entry: TensorEntry) -> bool:
        places = self._places(entry.begin, entry.original_bytes)
        return self._in_need_before[places.stop] > self._in_need_before[places.start]

    def _decoded(self, places: range) -> Generator[tuple[Chunk, U8], None, None]:
        # What has to be compiled is so here, once.
        self._engine.encode(np.empty(0, np.uint8), ElementType.RAW, self.table.block_bytes)
        with closing(in_order(self._decode, places, self._threads)) as results:
            for place, data in zip(places, results, strict=True):
                yield self._chunks[place], data

    def _decode(self, place: int) -> U8:
        """The original bytes of a chunk."""
        chunk, segment = self._chunks[place], self._segments[place]
        stored = self._file.read(chunk.offset, chunk.compressed_bytes)
        try:
            if segment.method == Method.ZLIB:
                return _inflate(stored, chunk)
            frames = self._find(stored, segment, chunk)
            if (found := t.frames_check(stored, frames.lengths)) != chunk.check:
                raise CorruptFrame(f"expected check {chunk.check:08x}; found {found:08x}")
            out = np.empty(chunk.original_bytes, np.uint8)
            self._engine.decode(
                Packets(stored, frames.lengths, frames.modes),
                segment.element,
                self.table.block_bytes,
                out,
                resident=self._copy(place),
            )
            return out
        except FrameError as error:
            self._raise(place, error)

    def _frames(self, place: int) -> Frames | None:
        """The frames of a chunk; None if it has none."""
        chunk, segment = self._chunks[place], self._segments[place]
        if segment.method == Method.ZLIB:
            return None
        stored = self._file.read(chunk.offset, chunk.compressed_bytes)
        try:
            return self._find(stored, segment, chunk)
        except FrameError as error:
            self._raise(place, error)

    def _find(self, stored: U8, segment: Segment, chunk: Chunk) -> Frames:
        blocks = Blocks(segment.element, self.table.block_bytes, chunk.original_bytes)
        return find_frames(stored, 0, blocks)

    def _copy(self, place: int) -> U8 | None:
        entry, chunk = self._entry(self._segments[place]), self._chunks[place]
        if entry is None or self._resident is None:
            return None
        return self._resident.read(entry.name, chunk.begin - entry.begin, chunk.original_bytes)

    def _check_copies(self, places: range) -> None:
        """Raise unless every resident copy that these chunks need is there and the right one."""
        in_need = [place for place in places if self._segments[place].tensor is not None]
        entries = {
            e.name: e for e in (self._entry(self._segments[place]) for place in in_need) if e
        }
        if in_need and self._resident is None:
            raise ReferenceMismatch(
                f"{self.path}: expected the reference that it was coded against, for "
                f"{len(entries)} tensors; found none: {min(entries)!r} needs it"
            )
        for entry in entries.values():
            assert self._resident is not None
            if wrong := self._resident.mismatch(entry):
                raise ReferenceMismatch(
                    f"{self._resident.path}: expected {entry.name!r}, {entry.dtype} {entry.shape}, "
                    f"which {self.path} was coded against; found {wrong}"
                )
        for _ in in_order(self._check_copy, in_need, self._threads):
            pass

    def _check_copy(self, place: int) -> None:
        copy, expected = self._copy(place), self._chunks[place].resident_check
        assert copy is not None
        if (found := padded_crc32c(copy)) != expected:
            self._raise(
                place,
                ReferenceMismatch(
                    f"expected a reference with CRC {expected:08x}; found {found:08x}: "
                    "it is not the one that was coded against"
                ),
            )

    def _raise(self, place: int, error: FrameError) -> NoReturn:
        chunk = self._chunks[place]
        end = chunk.begin + chunk.original_bytes
        inside = (
            repr(e.name)
            for e in self.table.tensors
            if e.begin < end and chunk.begin < e.begin + e.original_bytes
        )
        where = f"{next(inside, 'no tensor')}, bytes {chunk.begin} to {end}"
        raise type(error)(f"{self.path}: {where}: {error}") from None


def open_container(
    path: Path | str,
    *,
    reference: Path | str | None = None,
    engine: str = "numba",
    threads: int = 1,
) -> Container:
    """Open a container and read its table of contents.

    Args:
        path: what `wirezip compress` made of a checkpoint.
        reference: the checkpoint that it was coded against, if any.
        engine: who decodes, one of `codec.engine.ENGINE_NAMES`.
        threads: how many decode.

    Raises:
        FrameError: it is no container, or its table is damaged.
        CheckpointError: the reference is no checkpoint.
        OSError: a file cannot be opened.
    """
    copy = None if reference is None else Path(reference)
    return Container(Path(path), reference=copy, engine=engine, threads=threads)


def _read_table(file: SourceFile) -> t.Table:
    try:
        t.check_header(file.read(0, min(file.size, t.HEADER_BYTES)).tobytes())
        trailer_bytes = min(t.TRAILER_BYTES, file.size - t.HEADER_BYTES)
        trailer = file.read(file.size - trailer_bytes, trailer_bytes)
        size, check = t.parse_trailer(trailer.tobytes(), file.size)
        begin = file.size - t.TRAILER_BYTES - size
        return t.parse(file.read(begin, size), check, begin - t.HEADER_BYTES)
    except FrameError as error:
        raise type(error)(f"{file.path}: {error}") from None


def _inflate(stored: U8, chunk: Chunk) -> U8:
    size = chunk.original_bytes
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(stored.data, size + 1)
    except zlib.error as error:
        raise CorruptFrame(f"expected a zlib stream; found {error}") from None
    if len(data) != size:
        kind = TruncatedFrame if len(data) < size else CorruptFrame
        raise kind(
            f"expected {size} bytes; found {len(data)}{'' if len(data) < size else ' or more'}"
        )
    if not inflater.eof or inflater.unused_data:
        raise CorruptFrame("expected a zlib stream and nothing else; found another end")
    out = np.frombuffer(data, np.uint8)
    if (found := padded_crc32c(out)) != chunk.check:
        raise CorruptFrame(f"expected CRC {chunk.check:08x}; found {found:08x}")
    return out


def _running(numbers: Iterable[int]) -> list[int]:
    """The sum of all numbers before each, and of all."""
    return list(itertools.accumulate(numbers, initial=0))


def _by_mode(counts: NDArray[np.int64]) -> dict[str, int]:
    return {mode.name.lower(): int(counts[mode]) for mode in Mode}
