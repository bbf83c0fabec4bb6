# SPDX-License-Identifier: Apache-2.0
"""The table of contents of a container (`docs/format.md`, section 12).

A table is read from a file that nothing is known of: every number is checked against the size of
the file, or against another that was, before anything is allocated by it.
"""

import enum
import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.checksum import padded_crc32c
from codec.elements import ElementType
from codec.engine import U8
from codec.errors import CorruptFrame, TruncatedFrame, UnsupportedFrame
from codec.format import BLOCK_BYTES_MAX
from codec.frames import FRAME_BYTES_MIN

HEADER = b"WZC\1\0\0\0\0"
HEADER_BYTES = len(HEADER)
TRAILER_BYTES = 16
CHUNK_BYTES_MAX = 1 << 26
ZLIB_RATIO_MAX = 1032
NO_TENSOR = 0xFFFFFFFF

_HEAD = struct.Struct("<QHHIIIQ")
_TENSOR = struct.Struct("<QQIBBH")
_TRAILER = struct.Struct("<QI")
_SEGMENT = np.dtype(
    [("bytes", "<u8"), ("element", "u1"), ("method", "u1"), ("zero", "<u2"), ("tensor", "<u4")]
)
_CHUNK = np.dtype([("bytes", "<u4"), ("check", "<u4"), ("resident_check", "<u4")])


class Method(enum.IntEnum):
    """How the chunks of a segment hold its bytes."""

    FRAMES = 0
    ZLIB = 1


@dataclass(frozen=True)
class Chunk:
    """A piece of a segment, coded by itself.

    Attributes:
        begin: its first byte in the original file.
        original_bytes: its size there.
        offset: its first byte in the container.
        compressed_bytes: its size there.
        check: CRC-32C over the CRC fields of its frames, or over its original bytes.
        resident_check: CRC-32C of the resident copy, 0 where there is none.
    """

    begin: int
    original_bytes: int
    offset: int
    compressed_bytes: int
    check: int
    resident_check: int


@dataclass(frozen=True)
class Segment:
    """A range of the original file that is coded in one way.

    Attributes:
        original_bytes: its size.
        element: what it is made of.
        method: how it is coded.
        tensor: index of the tensor whose resident copy it is coded against, or None.
        chunks: its pieces, in order.
    """

    original_bytes: int
    element: ElementType
    method: Method
    tensor: int | None
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True)
class TensorEntry:
    """A name for a range of the original file.

    Attributes:
        name: unique in its file.
        dtype: safetensors tag, such as `BF16`.
        shape: as stored.
        begin: its first byte in the original file.
        original_bytes: its size.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    original_bytes: int


@dataclass(frozen=True)
class Table:
    """What a container holds.

    Attributes:
        original_bytes: size of the original file.
        block_bytes: of all frames.
        blocks_per_chunk: of all chunks but the last of a segment.
        segments: they follow each other without gaps.
        tensors: in the order of the checkpoint.
    """

    original_bytes: int
    block_bytes: int
    blocks_per_chunk: int
    segments: tuple[Segment, ...]
    tensors: tuple[TensorEntry, ...]


def frames_check(frames: U8, lengths: NDArray[np.int32]) -> int:
    """CRC-32C over the CRC fields of frames that lie back to back."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    fields = np.empty((lengths.size, 4), np.uint8)
    for place in range(4):
        fields[:, place] = frames[starts + (4 + place)]
    return padded_crc32c(fields.reshape(-1))


def pack(table: Table) -> bytes:
    """The table and the trailer that follows it."""
    chunks = [chunk for segment in table.segments for chunk in segment.chunks]
    segments = np.array(
        [
            (s.original_bytes, s.element, s.method, 0, NO_TENSOR if s.tensor is None else s.tensor)
            for s in table.segments
        ],
        _SEGMENT,
    )
    rows = [(chunk.compressed_bytes, chunk.check, chunk.resident_check) for chunk in chunks]
    head = _HEAD.pack(
        table.original_bytes,
        table.block_bytes,
        0,
        table.blocks_per_chunk,
        len(table.segments),
        len(table.tensors),
        len(chunks),
    )
    tensors = (_pack_tensor(tensor) for tensor in table.tensors)
    body = b"".join((head, segments.tobytes(), np.array(rows, _CHUNK).tobytes(), *tensors))
    trailer = _TRAILER.pack(len(body), padded_crc32c(np.frombuffer(body, np.uint8)))
    return body + trailer + padded_crc32c(np.frombuffer(trailer, np.uint8)).to_bytes(4, "little")


def _pack_tensor(tensor: TensorEntry) -> bytes:
    name, dtype = tensor.name.encode(), tensor.dtype.encode()
    fixed = _TENSOR.pack(
        tensor.begin, tensor.original_bytes, len(name), len(dtype), len(tensor.shape), 0
    )
    return b"".join((fixed, struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape), name, dtype))


def check_header(header: bytes) -> None:
    """Check the first bytes of a container.

    Raises:
        FrameError: they are others, or fewer than `HEADER_BYTES`.
    """
    if header[:3] != HEADER[:3]:
        raise CorruptFrame(f"container: expected it to begin with {HEADER[:3]!r}; found {header!r}")
    if header[3:4] not in (b"", HEADER[3:4]):
        raise UnsupportedFrame(f"container: expected version {HEADER[3]}; found {header[3]}")
    if len(header) < HEADER_BYTES:
        raise TruncatedFrame(f"container: expected {HEADER_BYTES} bytes; found {len(header)}")
    if header != HEADER:
        raise CorruptFrame(f"container: expected {HEADER!r}; found {header!r}")


def parse_trailer(trailer: bytes, container_bytes: int) -> tuple[int, int]:
    """Size and CRC-32C of the table, from the last `TRAILER_BYTES` of a container.

    Raises:
        FrameError: they are no trailer of a container of `container_bytes`.
    """
    body, check = trailer[:-4], int.from_bytes(trailer[-4:], "little")
    if len(trailer) < TRAILER_BYTES or padded_crc32c(np.frombuffer(body, np.uint8)) != check:
        raise TruncatedFrame("container: expected a trailer at its end; found none: it may be cut")
    table_bytes, table_check = _TRAILER.unpack(body)
    room = container_bytes - HEADER_BYTES - TRAILER_BYTES
    if not _HEAD.size <= table_bytes <= room:
        raise CorruptFrame(
            f"container: expected a table of {_HEAD.size} to {room} bytes; found {table_bytes}"
        )
    return table_bytes, table_check


def parse(body: U8, check: int, payload_bytes: int) -> Table:
    """The table in `body`, uint8 `(n,)`, whose chunks must fill `payload_bytes`.

    Raises:
        CorruptFrame: it has another checksum, or does not agree with itself or the file.
    """
    if padded_crc32c(body) != check:
        raise CorruptFrame(f"table: expected CRC {check:08x}; found {padded_crc32c(body):08x}")
    original, block, zero, per_chunk, segments, tensors, chunks = _HEAD.unpack(
        body[: _HEAD.size].tobytes()
    )
    _expect(1 <= block <= BLOCK_BYTES_MAX, f"blocks of 1 to {BLOCK_BYTES_MAX} bytes", block)
    size = block * per_chunk
    _expect(
        1 <= size <= CHUNK_BYTES_MAX and size % 4 == 0,
        f"chunks of 4 to {CHUNK_BYTES_MAX} bytes, a multiple of 4",
        size,
    )
    _expect(zero == 0, "0 at byte 10", zero)
    fixed = _HEAD.size + segments * _SEGMENT.itemsize + chunks * _CHUNK.itemsize
    room = (body.size - fixed) // _TENSOR.size
    _expect(0 <= room >= tensors, f"{segments} segments, {chunks} chunks, {tensors} tensors", room)
    at = _HEAD.size + segments * _SEGMENT.itemsize
    found = _segments(
        np.frombuffer(body[_HEAD.size : at], _SEGMENT),
        np.frombuffer(body[at:fixed], _CHUNK),
        tensors,
        block,
        size,
    )
    _expect(sum(s.original_bytes for s in found) == original, f"{original} bytes", "others")
    used = sum(chunk.compressed_bytes for s in found for chunk in s.chunks)
    _expect(used == payload_bytes, f"chunks of {payload_bytes} bytes in all", used)
    entries = _tensors(body[fixed:].tobytes(), tensors, original)
    for segment in found:
        entry = None if segment.tensor is None else entries[segment.tensor]
        fits = entry is None or (segment.chunks[0].begin, segment.original_bytes) == (
            entry.begin,
            entry.original_bytes,
        )
        _expect(fits, "the segment of a tensor", entry)
    return Table(original, block, per_chunk, found, entries)


def _segments(
    rows: NDArray[np.void],
    chunks: NDArray[np.void],
    tensors: int,
    block_bytes: int,
    chunk_bytes: int,
) -> tuple[Segment, ...]:
    found = []
    begin, offset, first = 0, HEADER_BYTES, 0
    rest = chunks.tolist()
    for size, tag, method, zero, tensor in rows.tolist():
        _expect(size > 0 and zero == 0, "a segment of at least a byte, and 0", (size, zero))
        _expect(tag <= max(ElementType), "an element type of 0 to 5", tag)
        _expect(method <= max(Method), "a method of 0 or 1", method)
        has_copy = tensor != NO_TENSOR
        _expect(not has_copy or (tensor < tensors and method == Method.FRAMES), "a tensor", tensor)
        count = -(-size // chunk_bytes)
        _expect(first + count <= len(rest), f"{count} chunks", len(rest) - first)
        pieces = []
        for place, (stored, check, resident_check) in enumerate(rest[first : first + count]):
            original = min(chunk_bytes, size - place * chunk_bytes)
            _check_chunk(stored, original, method, block_bytes)
            _expect(has_copy or not resident_check, "no check of a copy", resident_check)
            pieces.append(Chunk(begin, original, offset, stored, check, resident_check))
            begin, offset = begin + original, offset + stored
        first += count
        index = tensor if has_copy else None
        found.append(Segment(size, ElementType(tag), Method(method), index, tuple(pieces)))
    _expect(first == len(rest), f"{first} chunks", len(rest))
    return tuple(found)


def _check_chunk(stored: int, original: int, method: int, block_bytes: int) -> None:
    """Refuse a chunk that claims more than its bytes could hold, or has more than it could need."""
    if method == Method.ZLIB:
        _expect(original <= ZLIB_RATIO_MAX * stored, f"at most {ZLIB_RATIO_MAX} to 1", original)
        return
    blocks = -(-original // block_bytes)
    least = blocks * FRAME_BYTES_MIN
    _expect(stored >= least, f"a chunk of at least {least} bytes", stored)


def _tensors(body: bytes, count: int, original_bytes: int) -> tuple[TensorEntry, ...]:
    found: dict[str, TensorEntry] = {}
    at = 0
    for _ in range(count):
        _expect(len(body) - at >= _TENSOR.size, "an entry of a tensor", len(body) - at)
        begin, size, name_bytes, dtype_bytes, dims, zero = _TENSOR.unpack_from(body, at)
        at += _TENSOR.size
        end = at + 8 * dims + name_bytes + dtype_bytes
        _expect(end <= len(body) and zero == 0, "the shape and names of a tensor", len(body) - at)
        shape = struct.unpack_from(f"<{dims}Q", body, at)
        names = body[at + 8 * dims : end]
        try:
            name, dtype = names[:name_bytes].decode(), names[name_bytes:].decode("ascii")
        except UnicodeDecodeError as error:
            raise CorruptFrame(f"table: expected names in UTF-8; found {error}") from None
        _expect(begin + size <= original_bytes, f"{name!r} within the file", begin + size)
        _expect((math.prod(shape) == 0) == (size == 0), f"a shape of {size} bytes", shape)
        _expect(name not in found, "every name once", name)
        found[name] = TensorEntry(name, dtype, shape, begin, size)
        at = end
    _expect(at == len(body), f"the table's end at byte {at}", len(body))
    return tuple(found.values())


def _expect(holds: bool, expected: str, found: object) -> None:
    if not holds:
        raise CorruptFrame(f"table: expected {expected}; found {found!r:.80}")
