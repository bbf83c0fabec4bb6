# SPDX-License-Identifier: Apache-2.0
"""What must hold for any bytes that are offered as a container.

Every checksum is made to fit: of the trailer, of the table, and, where the table can be read, of
the chunks, of their frames and of the resident copies. An input is two control bytes and a
container. The resident copies are a checkpoint that is made from what the table asks for.
"""

import io
import json
import math
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import codec
from codec import table as t
from codec.checkpoint import CheckpointError
from codec.checksum import padded_crc32c
from codec.container import Container
from codec.errors import FrameError, InvalidInput
from codec.resident import ResidentCheckpoint
from codec.table import Chunk, Method, Segment, Table
from tests.fuzz.common import expect, first_frame

MAX_BYTES = 6000
CONTROL_BYTES = 2
THREADS = 1
_COPIES_BYTES_MAX = 1 << 16
_TENSORS_MAX = 20
_TABLE_HEAD_BYTES, _SEGMENT_BYTES, _CHUNK_BYTES = 32, 16, 12


@dataclass(frozen=True)
class Outcome:
    """What a container holds, by one way to read it; None if it is refused."""

    file: bytes | None
    tensors: dict[str, bytes | None]


def seeds() -> Iterator[bytes]:
    """Containers of small checkpoints, with and without a resident copy."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in checkpoints().items():
            path = Path(folder, name)
            path.write_bytes(content)
            for block_bytes in (64, 1000):
                yield bytes([0, 0]) + _write(path, block_bytes)
                # The checker makes other copies, to which it fits the CRCs.
                yield bytes([1, THREADS]) + _write(path, block_bytes, path)


def checkpoints() -> dict[str, bytes]:
    """Small checkpoints by the name of a file, of both kinds."""
    # Here, since torch takes seconds to import and only a search begins with these.
    import safetensors.torch
    import torch

    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(12, 8, generator=generator)
    tensors = {
        "w": weights.to(torch.bfloat16),
        "v": weights[:5].clone(),
        "half": weights[0].to(torch.float16),
        "f8": weights[1].to(torch.float8_e4m3fn),
        "ids": torch.arange(5),
        "zeros": torch.zeros(70),
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(2.5),
    }
    nested = {
        "model": {"w": weights, "turned": weights.T, "row": weights[3]},
        "step": 3,
        "list": [torch.nn.Parameter(weights[:2].clone()), "text", (1, None)],
    }
    found = {"m.safetensors": safetensors.torch.save(tensors, {"format": "pt"})}
    for name, objects in (("plain.pt", tensors), ("nested.pt", nested)):
        file = io.BytesIO()
        torch.save(objects, file)
        found[name] = file.getvalue()
    return found


def _write(path: Path, block_bytes: int, reference: Path | None = None) -> bytes:
    target = io.BytesIO()
    resident = None if reference is None else ResidentCheckpoint(reference)
    try:
        codec.write_container(path, target, reference=resident, block_bytes=block_bytes, threads=2)
    finally:
        if resident:
            resident.close()
    return target.getvalue()


class Checker:
    """Offers containers to the readers."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name, "container.wz")
        self._copies = Path(self._folder.name, "copies.safetensors")
        self._again = Path(self._folder.name, "again")

    def check(self, data: bytes) -> bool:
        """Whether the input is accepted; raises `Disagreement` where something is wrong."""
        if len(data) < CONTROL_BYTES:
            return False
        seed, control = data[:CONTROL_BYTES]
        container, has_copies = self._mend(data[CONTROL_BYTES:], seed)
        self._path.write_bytes(container)
        reference = self._copies if has_copies else None
        first = self._read("numba", reference, 2 if control & THREADS else 1)
        second = self._read("reference", reference, 1)
        expect(first == second, f"{first!r:.200} by numba, {second!r:.200} by the reference")
        if first.file is None:
            return False
        self._check_again(first.file)
        return True

    def _read(self, engine: str, reference: Path | None, threads: int) -> Outcome:
        try:
            container = codec.open_container(
                self._path, reference=reference, engine=engine, threads=threads
            )
        except FrameError:
            return Outcome(None, {})
        with container:
            target = io.BytesIO()
            try:
                size = container.restore(target)
                file = target.getvalue()
                expect(size == len(file), f"{size} bytes said to be written; found {len(file)}")
            except FrameError:
                file = None
            some = container.names[:_TENSORS_MAX]
            tensors = {name: _tensor(container, name, file) for name in some}
            _check_inspection(container, file)
            return Outcome(file, tensors)

    def _check_again(self, file: bytes) -> None:
        """If the file is a checkpoint, it goes in and comes out again."""
        self._again.write_bytes(file)
        try:
            self._path.write_bytes(_write(self._again, 128))
        except CheckpointError:
            return
        with codec.open_container(self._path) as container:
            target = io.BytesIO()
            container.restore(target)
            expect(target.getvalue() == file, "a file does not come back")

    def _mend(self, data: bytes, seed: int) -> tuple[bytes, bool]:
        """The container with checksums that fit, and whether there are resident copies."""
        room = len(data) - t.HEADER_BYTES - t.TRAILER_BYTES
        size = int.from_bytes(data[-t.TRAILER_BYTES :][:8], "little")
        if not _TABLE_HEAD_BYTES <= size <= room:
            return data, False
        begin = len(data) - t.TRAILER_BYTES - size
        chunks, body = bytearray(data[:begin]), bytearray(data[begin : begin + size])
        try:
            table = t.parse(_array(body), padded_crc32c(_array(body)), begin - t.HEADER_BYTES)
        except FrameError:
            return seal(bytes(chunks), bytes(body)), False
        copies = _make_copies(table, seed)
        has_copies = copies is not None and self._store(copies, table)
        at = _TABLE_HEAD_BYTES + len(table.segments) * _SEGMENT_BYTES
        for segment in table.segments:
            for chunk in segment.chunks:
                copy = _copy_of(chunk, segment, table, copies) if copies else None
                _mend_chunk(chunks, chunk, segment, table, copy, body, at)
                at += _CHUNK_BYTES
        return seal(bytes(chunks), bytes(body)), has_copies

    def _store(self, copies: dict[str, bytes], table: Table) -> bool:
        """Write the checkpoint of resident copies; whether it is one, whatever the table says."""
        header, at = {}, 0
        for entry in table.tensors:
            if entry.name in copies:
                offsets = [at, at := at + len(copies[entry.name])]
                shape = list(entry.shape)
                header[entry.name] = {"dtype": entry.dtype, "shape": shape, "data_offsets": offsets}
        text = json.dumps(header).encode()
        body = b"".join(copies[name] for name in header)
        self._copies.write_bytes(len(text).to_bytes(8, "little") + text + body)
        try:
            ResidentCheckpoint(self._copies).close()
        except CheckpointError:
            return False
        return True


def seal(front: bytes, body: bytes) -> bytes:
    """A container of header and chunks, and a table, with a trailer that fits."""
    trailer = len(body).to_bytes(8, "little") + padded_crc32c(_array(body)).to_bytes(4, "little")
    return front + body + trailer + padded_crc32c(_array(trailer)).to_bytes(4, "little")


def _array(data: bytes | bytearray) -> np.ndarray:
    return np.frombuffer(bytes(data), np.uint8)


def _make_copies(table: Table, seed: int) -> dict[str, bytes] | None:
    """Resident copies by the tensor's name, all that the table asks for."""
    wanted = [table.tensors[s.tensor] for s in table.segments if s.tensor is not None]
    if not seed or not wanted or sum(e.original_bytes for e in wanted) > _COPIES_BYTES_MAX:
        return None
    rng = np.random.default_rng(seed)
    return {e.name: rng.integers(0, 256, e.original_bytes, np.uint8).tobytes() for e in wanted}


def _copy_of(
    chunk: Chunk, segment: Segment, table: Table, copies: dict[str, bytes]
) -> bytes | None:
    if segment.tensor is None:
        return None
    entry = table.tensors[segment.tensor]
    begin = chunk.begin - entry.begin
    return copies[entry.name][begin : begin + chunk.original_bytes]


def _mend_chunk(
    chunks: bytearray,
    chunk: Chunk,
    segment: Segment,
    table: Table,
    copy: bytes | None,
    body: bytearray,
    row: int,
) -> None:
    """Put a chunk's checksums right, in its frames and in its row of the table."""
    place = slice(chunk.offset, chunk.offset + chunk.compressed_bytes)
    if segment.method == Method.ZLIB:
        try:
            inflater = zlib.decompressobj()
            data = inflater.decompress(chunks[place], chunk.original_bytes + 1)
        except zlib.error:
            return
        body[row + 4 : row + 8] = padded_crc32c(_array(data)).to_bytes(4, "little")
        return
    if copy is not None:
        body[row + 8 : row + 12] = padded_crc32c(_array(copy)).to_bytes(4, "little")
    at, lengths = 0, []
    for begin in range(0, chunk.original_bytes, table.block_bytes):
        part = None if copy is None else copy[begin : begin + table.block_bytes]
        first = first_frame(bytes(chunks[place.start + at : place.stop]), part)
        if first is None:
            return
        size = len(first.frame)
        chunks[place.start + at : place.start + at + size] = first.frame
        at += size
        lengths.append(size)
    if at == chunk.compressed_bytes:
        check = t.frames_check(_array(chunks[place]), np.array(lengths, np.int32))
        body[row + 4 : row + 8] = check.to_bytes(4, "little")


def _tensor(container: Container, name: str, file: bytes | None) -> bytes | None:
    entry = container.tensors[name]
    try:
        found = container.read(name)
    except FrameError:
        expect(file is None, f"{name!r} is refused in a container that is not")
        return None
    expect(found.data.size == entry.original_bytes, f"{name!r} has {found.data.size} bytes")
    expect((math.prod(found.shape) == 0) == (found.data.size == 0), f"{name!r}: {found.shape}")
    data = found.data.tobytes()
    if file is not None:
        part = file[entry.begin : entry.begin + entry.original_bytes]
        expect(data == part, f"{name!r} is not what lies in the file")
    return data


def _check_inspection(container: Container, file: bytes | None) -> None:
    try:
        found = container.inspect()
    except FrameError:
        expect(file is None, "a container that is restored and cannot be inspected")
        return
    expect(sum(found.bytes_by_section.values()) == found.compressed_bytes, f"{found!r:.200}")
    if file is not None:
        expect(found.original_bytes == len(file), f"{found.original_bytes} bytes; {len(file)}")
    try:
        container.read_range(0, found.original_bytes + 1)
    except InvalidInput:
        return
    expect(False, "a range beyond the end is read")
