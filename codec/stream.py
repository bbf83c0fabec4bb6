# SPDX-License-Identifier: Apache-2.0
"""The stream: a whole tensor as a row of frames (`docs/format.md`, section 10)."""

import struct
from dataclasses import asdict, dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec.buffers import buffer_bytes, tensor_bytes
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import CorruptFrame, FrameError, InvalidInput, TruncatedFrame, UnsupportedFrame
from codec.format import BLOCK_BYTES_MAX, Coder, Mode
from codec.header import Header, parse_header

_HEADER = struct.Struct("<3sBBxHQ")

# No frame is shorter: a constant one of a one-byte element.
_FRAME_BYTES_MIN = f.SHORT_HEADER_BYTES + 1


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
    block_bytes: int = BLOCK_BYTES_MAX,
    engine: str = "numba",
) -> bytes:
    """The stream of a tensor.

    Args:
        data: a NumPy or ml_dtypes array, a torch tensor in CPU memory (any shape and strides), or
            a plain buffer with its `dtype`. It is never written to.
        dtype: what the elements are, such as `"bf16"` or `np.float32`; needed for plain buffers.
        block_bytes: 1 to 4,096; smaller blocks cost ratio.
        engine: who does it, one of `codec.engine.ENGINE_NAMES`; all write the same bytes.

    Raises:
        InvalidInput: the data, type or block size has no meaning.
        EngineUnavailable: there is no such engine.
    """
    payload, element = tensor_bytes(data, dtype)
    header = _StreamHeader(element, _checked(block_bytes), payload.size)
    packets = get_engine(engine).encode(payload, element, header.block_bytes)
    return b"".join((header.pack(), packets.payload.data))


def compress_into(
    data: object,
    out: U8,
    dtype: object = None,
    *,
    block_bytes: int = BLOCK_BYTES_MAX,
) -> int:
    """`compress` with the Numba engine into memory that the caller keeps; returns the bytes used.

    Args:
        data: as in `compress`.
        out: uint8 `(n,)`, contiguous and writable, at least `bound(data's bytes, block_bytes)`.
        dtype: as in `compress`.
        block_bytes: as in `compress`.

    Raises:
        InvalidInput: the data, type or block size has no meaning, or `out` does not fit.
    """
    from codec.numba_engine import encode_into

    payload, element = tensor_bytes(data, dtype)
    header = _StreamHeader(element, _checked(block_bytes), payload.size)
    _check_out(out, bound(payload.size, block_bytes), may_be_larger=True)
    lengths = np.empty(header.blocks, np.int32)
    modes = np.empty(header.blocks, np.uint8)
    body = out[f.STREAM_HEADER_BYTES :]
    written = encode_into(payload, element, block_bytes, body, lengths, modes)
    out[: f.STREAM_HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
    return f.STREAM_HEADER_BYTES + written


def decompress(stream: object, *, engine: str = "numba", out: U8 | None = None) -> U8:
    """The bytes of the tensor that `compress` made `stream` of.

    Shape and type are the caller's to know: `decompress(s).view(np.float32).reshape(shape)`.

    Args:
        stream: a buffer that holds exactly one stream.
        engine: as in `compress`.
        out: where to put them, uint8 `(n,)`, contiguous and writable, of the exact size. If an
            error is raised its contents are unspecified.

    Returns:
        uint8 `(n,)`: `out`, or a new array.

    Raises:
        FrameError: not a valid stream; see its subclasses. Nothing is allocated before the frames
            add up to the size that the stream claims.
        InvalidInput: the stream is no buffer, or `out` does not fit.
    """
    buffer = buffer_bytes(stream, "stream")
    found = _walk(buffer)
    header = found.header
    if out is None:
        out = np.empty(header.original_bytes, np.uint8)
    _check_out(out, header.original_bytes)
    packets = Packets(buffer[f.STREAM_HEADER_BYTES :], found.lengths, found.modes)
    get_engine(engine).decode(packets, header.element, header.block_bytes, out)
    return out


def inspect(stream: object) -> Inspection:
    """What `stream` is made of.

    Args:
        stream: a buffer that holds exactly one stream.

    Raises:
        FrameError: the headers are not those of a valid stream.
        InvalidInput: the stream is no buffer.
    """
    from codec.kernels import walk

    buffer = buffer_bytes(stream, "stream")
    found = _walk(buffer)
    modes = np.bincount(found.modes, minlength=len(Mode))
    by_section = found.sections.sum(axis=0)
    shared = {
        "frame_headers": walk.HEADER,
        "extras": walk.EXTRAS,
        "remainders": walk.REMAINDERS,
        "low_bits": walk.LOW_BITS,
        "unary": walk.UNARY,
        "escapes": walk.ESCAPES,
    }
    bytes_by_section = {
        "stream_header": f.STREAM_HEADER_BYTES,
        "raw": int(found.sections[Mode.RAW, walk.BLOCK]),
        "constant": int(found.sections[Mode.CONSTANT, walk.BLOCK]),
    } | {name: int(by_section[place]) for name, place in shared.items()}
    return Inspection(
        element=found.header.element.name.lower(),
        block_bytes=found.header.block_bytes,
        original_bytes=found.header.original_bytes,
        compressed_bytes=buffer.size,
        frames=found.lengths.size,
        frames_by_mode={mode.name.lower(): int(modes[mode]) for mode in Mode},
        frames_by_coder={coder.name: int(found.coders[coder]) for coder in Coder},
        bytes_by_section=bytes_by_section,
    )


def bound(original_bytes: int, block_bytes: int = BLOCK_BYTES_MAX) -> int:
    """Size of the largest stream that `compress` makes of `original_bytes` bytes.

    Raises:
        InvalidInput: a negative size, or blocks that the format does not have.
    """
    if original_bytes < 0:
        raise InvalidInput(f"original_bytes: expected 0 or more; found {original_bytes}")
    blocks = -(-original_bytes // _checked(block_bytes))
    return f.STREAM_HEADER_BYTES + original_bytes + f.SHORT_HEADER_BYTES * blocks


@dataclass(frozen=True)
class _StreamHeader:
    element: ElementType
    block_bytes: int
    original_bytes: int

    @property
    def blocks(self) -> int:
        return -(-self.original_bytes // self.block_bytes)

    def pack(self) -> bytes:
        return _HEADER.pack(
            f.STREAM_MAGIC, f.STREAM_VERSION, self.element, self.block_bytes, self.original_bytes
        )


@dataclass(frozen=True)
class _Frames:
    """The frames of a stream, as `codec.kernels.walk` found them."""

    header: _StreamHeader
    lengths: NDArray[np.int32]
    modes: U8
    sections: NDArray[np.int64]
    coders: NDArray[np.int64]


def _checked(block_bytes: int) -> int:
    if not isinstance(block_bytes, int | np.integer) or not 1 <= block_bytes <= BLOCK_BYTES_MAX:
        raise InvalidInput(f"block_bytes: expected 1 to {BLOCK_BYTES_MAX}; found {block_bytes!r}")
    return int(block_bytes)


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


def _parse(buffer: U8) -> _StreamHeader:
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
    return _StreamHeader(ElementType(tag), block_bytes, original_bytes)


def _walk(buffer: U8) -> _Frames:
    """Find every frame; raises unless they add up to what the header says."""
    # Here, since Numba takes half a second to import.
    from codec.kernels import walk

    header = _parse(buffer)
    room = buffer.size - f.STREAM_HEADER_BYTES
    if header.blocks * _FRAME_BYTES_MIN > room:
        raise TruncatedFrame(
            f"stream: expected {header.blocks} frames for {header.original_bytes} bytes; "
            f"found {room} bytes of frames"
        )
    lengths = np.zeros(header.blocks, np.int32)
    modes = np.zeros(header.blocks, np.uint8)
    sections = np.zeros((len(Mode), walk.SECTIONS), np.int64)
    coders = np.zeros(len(Coder), np.int64)
    blocks, end = walk.walk(
        buffer,
        f.STREAM_HEADER_BYTES,
        int(header.element),
        header.block_bytes,
        header.original_bytes,
        lengths,
        modes,
        sections,
        coders,
    )
    if blocks < header.blocks:
        _raise_at(buffer, header, blocks, end)
    if end != buffer.size:
        raise CorruptFrame(
            f"stream: expected its end at byte {end}; found {buffer.size - end} more"
        )
    return _Frames(header, lengths, modes, sections, coders)


def _raise_at(buffer: U8, header: _StreamHeader, block: int, offset: int) -> NoReturn:
    """Say why the walk stopped at the frame of `block`."""
    where = f"block {block}, byte {offset}"
    try:
        frame = parse_header(buffer[offset : offset + f.LONG_HEADER_BYTES].tobytes())
    except FrameError as error:
        raise type(error)(f"{where}: {error}") from None
    length = min(header.block_bytes, header.original_bytes - block * header.block_bytes)
    phase = -block * header.block_bytes % header.element.width_bytes
    element, found_element = header.element.name, frame.element.name
    rules = (
        (element == found_element, f"element type {element}", found_element),
        (frame.block_bytes == length, f"a block of {length} bytes", frame.block_bytes),
        (frame.mode < Mode.CODED or frame.phase == phase, f"phase {phase}", frame.phase),
    )
    for holds, expected, found in rules:
        if not holds:
            raise CorruptFrame(f"{where}: expected {expected}; found {found}")
    _raise_length(buffer, frame, offset, where)


def _raise_length(buffer: U8, frame: Header, offset: int, where: str) -> NoReturn:
    """Say what is wrong with the length of a frame whose header is sound."""
    from codec.kernels import walk

    left, longest = buffer.size - offset, frame.block_bytes + f.SHORT_HEADER_BYTES
    length = walk.frame_bytes(buffer, offset)
    if length > longest:
        raise CorruptFrame(f"{where}: expected a frame of at most {longest} bytes; found {length}")
    if length > left:
        raise TruncatedFrame(f"{where}: expected a frame of {length} bytes; found {left}")
    if left <= frame.block_bytes:
        raise TruncatedFrame(f"{where}: expected a whole frame; found {left} bytes of it")
    raise CorruptFrame(f"{where}: expected sections that agree with the header; found others")
