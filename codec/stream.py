# SPDX-License-Identifier: Apache-2.0
"""The stream: a whole tensor as a row of frames (`docs/format.md`, section 10)."""

import itertools
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec.buffers import buffer_bytes, resident_bytes, tensor_bytes
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import (
    CorruptFrame,
    InvalidInput,
    ReferenceMismatch,
    TruncatedFrame,
    UnsupportedFrame,
)
from codec.format import BLOCK_BYTES_MAX, Coder, Mode
from codec.frames import Blocks, Frames, find_frames
from codec.parallel import (
    check_threads,
    decode_pieces,
    decode_ranges,
    encode_into_parts,
    encode_ranges,
)

_HEADER = struct.Struct("<3sBBxHQ")


@dataclass(frozen=True)
class Inspection:
    """What a stream is made of, all sizes in bytes. Nothing is decoded and no checksum is checked.

    Attributes:
        element: name of the element type, lower case.
        block_bytes: size of all blocks but the last.
        original_bytes: size of the tensor.
        compressed_bytes: size of the stream.
        frames: number of frames.
        frames_by_mode: number of frames of each mode, by its name in lower case.
        frames_by_coder: number of coded frames of each coder.
        bytes_by_section: `stream_header`, `raw` (blocks kept as they are), `constant` (the
            elements of constant frames), `frame_headers`, `extras`, `remainders`, `low_bits`,
            `unary` and `escapes`; they add up to `compressed_bytes`.
    """

    element: str
    block_bytes: int
    original_bytes: int
    compressed_bytes: int
    frames: int
    frames_by_mode: dict[str, int]
    frames_by_coder: dict[str, int]
    bytes_by_section: dict[str, int]

    @property
    def ratio(self) -> float:
        """Original by compressed size."""
        return self.original_bytes / self.compressed_bytes

    def as_dict(self) -> dict[str, object]:
        """Everything above as what `json.dumps` takes."""
        return asdict(self)


def compress(
    data: object,
    dtype: object = None,
    *,
    reference: object = None,
    block_bytes: int = BLOCK_BYTES_MAX,
    engine: str = "numba",
    threads: int = 1,
) -> bytes:
    """The stream of a tensor.

    Args:
        data: a NumPy or ml_dtypes array, a torch tensor in CPU memory (any shape and strides), or
            a plain buffer with its `dtype`. It is never written to.
        dtype: what the elements are, such as `"bf16"` or `np.float32`; needed for plain buffers.
        reference: a copy of the tensor that the receiver holds, such as that of the step before:
            of the same type and shape, in any of the forms of `data`. `decompress` needs it too.
        block_bytes: 1 to 4,096; smaller blocks cost ratio.
        engine: who does it, one of `codec.engine.ENGINE_NAMES`; all write the same bytes.
        threads: how many to use; any number writes the same bytes.

    Raises:
        InvalidInput: the data, type, block size or number of threads has no meaning, or the
            reference does not go with the data.
        EngineUnavailable: there is no such engine.
    """
    return b"".join(
        compress_pieces(
            data,
            dtype,
            reference=reference,
            block_bytes=block_bytes,
            engine=engine,
            threads=threads,
        )
    )


def compress_pieces(
    data: object,
    dtype: object = None,
    *,
    reference: object = None,
    block_bytes: int = BLOCK_BYTES_MAX,
    engine: str = "numba",
    threads: int = 1,
) -> Iterator[memoryview]:
    """`compress`, piece by piece: its header, then its frames.

    A piece is that of a range of `codec.parallel`, of which few are held.
    """
    payload, element = tensor_bytes(data, dtype)
    header = Blocks(element, check_block_bytes(block_bytes), payload.size)
    resident = None if reference is None else resident_bytes(reference, data, element)
    if resident is not None and resident.size != payload.size:
        raise InvalidInput(f"reference: expected {payload.size} bytes; found {resident.size}")
    pieces = encode_ranges(
        get_engine(engine),
        payload,
        element,
        header.block_bytes,
        resident=resident,
        threads=check_threads(threads),
    )
    return itertools.chain([memoryview(_pack(header))], (piece.payload.data for piece in pieces))


def compress_into(
    data: object,
    out: U8,
    dtype: object = None,
    *,
    reference: object = None,
    block_bytes: int = BLOCK_BYTES_MAX,
    threads: int = 1,
) -> int:
    """`compress` with the Numba engine into memory that the caller keeps; returns the bytes used.

    Args:
        data: as in `compress`.
        out: uint8 `(n,)`, contiguous and writable, at least `bound(data's bytes, block_bytes)`.
        dtype: as in `compress`.
        reference: as in `compress`.
        block_bytes: as in `compress`.
        threads: as in `compress`.

    Raises:
        InvalidInput: as in `compress`, or `out` does not fit, or overlaps what is read.
    """
    threads = check_threads(threads)
    payload, element = tensor_bytes(data, dtype)
    header = Blocks(element, check_block_bytes(block_bytes), payload.size)
    _check_out(out, bound(payload.size, block_bytes), may_be_larger=True)
    resident = None if reference is None else resident_bytes(reference, data, element)
    _check_apart(out, payload, resident)
    written = encode_into_parts(
        payload,
        element,
        header.block_bytes,
        out[f.STREAM_HEADER_BYTES :],
        resident=resident,
        threads=threads,
    )
    out[: f.STREAM_HEADER_BYTES] = np.frombuffer(_pack(header), np.uint8)
    return f.STREAM_HEADER_BYTES + written


def decompress(
    stream: object,
    *,
    reference: object = None,
    engine: str = "numba",
    threads: int = 1,
    out: U8 | None = None,
) -> U8:
    """The bytes of the tensor that `compress` made `stream` of.

    Shape and type are the caller's to know: `decompress(s).view(np.float32).reshape(shape)`.

    Args:
        stream: a buffer that holds exactly one stream.
        reference: the tensor that was given to `compress` as such, if any.
        engine: as in `compress`.
        threads: how many to use.
        out: where to put them, uint8 `(n,)`, contiguous and writable, of the exact size. If an
            error is raised its contents are unspecified.

    Returns:
        uint8 `(n,)`: `out`, or a new array.

    Raises:
        FrameError: not a valid stream; see its subclasses. Nothing is allocated before the frames
            add up to the size that the stream claims. `ReferenceMismatch` if the reference is
            missing or another one.
        InvalidInput: the stream is no buffer, the reference no tensor, or `out` does not fit, or
            overlaps what is read.
    """
    threads = check_threads(threads)
    buffer = buffer_bytes(stream, "stream")
    header, found = _walk(buffer)
    resident = None if reference is None else _resident(reference, header, found)
    if out is None:
        out = np.empty(header.original_bytes, np.uint8)
    _check_out(out, header.original_bytes)
    _check_apart(out, buffer, resident)
    decode_ranges(
        get_engine(engine),
        Packets(buffer[f.STREAM_HEADER_BYTES :], found.lengths, found.modes),
        header.element,
        header.block_bytes,
        out,
        resident=resident,
        threads=threads,
    )
    return out


def decompress_pieces(
    stream: object, *, reference: object = None, engine: str = "numba", threads: int = 1
) -> Iterator[U8]:
    """`decompress`, range by range of `codec.parallel`, of which few are held.

    A stream is refused as by `decompress`, but one that is damaged within a frame only when that
    frame is reached.
    """
    threads = check_threads(threads)
    buffer = buffer_bytes(stream, "stream")
    header, found = _walk(buffer)
    return decode_pieces(
        get_engine(engine),
        Packets(buffer[f.STREAM_HEADER_BYTES :], found.lengths, found.modes),
        header.element,
        header.block_bytes,
        header.original_bytes,
        resident=None if reference is None else _resident(reference, header, found),
        threads=threads,
    )


def _resident(reference: object, header: Blocks, found: Frames) -> U8:
    # The frames check its bytes, so its type need not be known.
    resident, _ = tensor_bytes(reference, ElementType.RAW)
    if resident.size != header.original_bytes:
        in_need = np.flatnonzero(found.modes == Mode.REFERENCE)
        where = f"block {in_need[0]}" if in_need.size else "stream"
        raise ReferenceMismatch(
            f"{where}: expected a reference of {header.original_bytes} bytes; found {resident.size}"
        )
    return resident


def inspect(stream: object) -> Inspection:
    """What `stream` is made of.

    Args:
        stream: a buffer that holds exactly one stream.

    Raises:
        FrameError: the headers are not those of a valid stream.
        InvalidInput: the stream is no buffer.
    """
    buffer = buffer_bytes(stream, "stream")
    header, found = _walk(buffer)
    modes = np.bincount(found.modes, minlength=len(Mode))
    stream_header = {"stream_header": f.STREAM_HEADER_BYTES}
    return Inspection(
        element=header.element.name.lower(),
        block_bytes=header.block_bytes,
        original_bytes=header.original_bytes,
        compressed_bytes=buffer.size,
        frames=found.lengths.size,
        frames_by_mode={mode.name.lower(): int(modes[mode]) for mode in Mode},
        frames_by_coder={coder.name: int(found.coders[coder]) for coder in Coder},
        bytes_by_section=stream_header | section_names(found.sections),
    )


def section_names(sections: NDArray[np.int64]) -> dict[str, int]:
    """The bytes by section of `Inspection`, from those by mode and section of `Frames`."""
    from codec.kernels import walk

    shared = {
        "frame_headers": walk.HEADER,
        "extras": walk.EXTRAS,
        "remainders": walk.REMAINDERS,
        "low_bits": walk.LOW_BITS,
        "unary": walk.UNARY,
        "escapes": walk.ESCAPES,
    }
    by_section = sections.sum(axis=0)
    return {
        "raw": int(sections[Mode.RAW, walk.BLOCK]),
        "constant": int(sections[Mode.CONSTANT, walk.BLOCK]),
    } | {name: int(by_section[place]) for name, place in shared.items()}


def check_block_bytes(block_bytes: int) -> int:
    """`block_bytes`, if blocks can have that size.

    Raises:
        InvalidInput: they cannot.
    """
    if not isinstance(block_bytes, int | np.integer) or not 1 <= block_bytes <= BLOCK_BYTES_MAX:
        raise InvalidInput(f"block_bytes: expected 1 to {BLOCK_BYTES_MAX}; found {block_bytes!r}")
    return int(block_bytes)


def bound(original_bytes: int, block_bytes: int = BLOCK_BYTES_MAX) -> int:
    """Size of the largest stream that `compress` makes of `original_bytes` bytes.

    Raises:
        InvalidInput: a negative size, or blocks that the format does not have.
    """
    if not isinstance(original_bytes, int | np.integer) or original_bytes < 0:
        raise InvalidInput(f"original_bytes: expected 0 or more; found {original_bytes!r}")
    blocks = -(-original_bytes // check_block_bytes(block_bytes))
    return f.STREAM_HEADER_BYTES + original_bytes + f.SHORT_HEADER_BYTES * blocks


def _pack(blocks: Blocks) -> bytes:
    return _HEADER.pack(
        f.STREAM_MAGIC,
        f.STREAM_VERSION,
        blocks.element,
        blocks.block_bytes,
        blocks.original_bytes,
    )


def _check_out(out: U8, size: int, *, may_be_larger: bool = False) -> None:
    if not isinstance(out, np.ndarray):
        raise InvalidInput(f"out: expected a uint8 array; found {type(out).__name__}")
    fits = out.ndim == 1 and (out.size >= size if may_be_larger else out.size == size)
    usable = out.dtype == np.uint8 and out.flags.c_contiguous and out.flags.writeable
    if not (fits and usable):
        raise InvalidInput(
            f"out: expected contiguous writable uint8 ({size},); found {out.dtype} {out.shape}"
            f"{'' if usable or out.dtype != np.uint8 else ', read-only or not contiguous'}"
        )


def _check_apart(out: U8, *read: U8 | None) -> None:
    """Refuse to write to memory that is still to be read."""
    if any(data is not None and np.may_share_memory(out, data) for data in read):
        raise InvalidInput("out: expected memory apart from what is read; found it to overlap")


def _parse(buffer: U8) -> Blocks:
    head = buffer[: f.STREAM_HEADER_BYTES].tobytes()
    magic = head[: len(f.STREAM_MAGIC)]
    if magic != f.STREAM_MAGIC[: len(magic)]:
        raise CorruptFrame(f"stream: expected it to begin with {f.STREAM_MAGIC!r}; found {magic!r}")
    if len(head) < f.STREAM_HEADER_BYTES:
        raise TruncatedFrame(
            f"stream: expected a header of {f.STREAM_HEADER_BYTES} bytes; found {len(head)}"
        )
    _, version, tag, block_bytes, original_bytes = _HEADER.unpack(head)
    if version != f.STREAM_VERSION:
        raise UnsupportedFrame(f"stream: expected version {f.STREAM_VERSION}; found {version}")
    if tag > max(ElementType):
        raise CorruptFrame(f"stream: expected an element type of 0 to 5; found {tag}")
    if head[5]:
        raise CorruptFrame(f"stream: expected 0 at byte 5; found {head[5]}")
    if not 1 <= block_bytes <= BLOCK_BYTES_MAX:
        raise CorruptFrame(
            f"stream: expected blocks of 1 to {BLOCK_BYTES_MAX} bytes; found {block_bytes}"
        )
    return Blocks(ElementType(tag), block_bytes, original_bytes)


def _walk(buffer: U8) -> tuple[Blocks, Frames]:
    header = _parse(buffer)
    return header, find_frames(buffer, f.STREAM_HEADER_BYTES, header)
