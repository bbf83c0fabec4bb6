# SPDX-License-Identifier: Apache-2.0
"""What must hold for any bytes that are offered as a stream.

The oracle is the reference decoder of frames, which is asked for one frame after the other: so it
finds where frames end by other means than the walk. An input is two control bytes and a stream,
whose frames' CRCs are made to fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import codec
from codec import format as f
from codec.elements import ElementType
from codec.errors import FrameError
from codec.format import Mode
from codec.header import parse_header
from codec.stream import compress_pieces, decompress_pieces
from tests.conformance.guarded import PAGE, Guarded
from tests.conformance.vectors import Good, load_good
from tests.fuzz.common import expect, first_frame

MAX_BYTES = 6000
CONTROL_BYTES = 2
THREADS, AT_END = 1, 2
_GUARDED_BYTES = 2 * PAGE
# What the reference encodes again, which takes it some seconds a megabyte.
_AGAIN_BYTES_MAX = 1 << 13


@dataclass(frozen=True)
class Offer:
    """A stream, and where its resident copy comes from (0: there is none)."""

    stream: bytes
    seed: int
    threads: int
    at_end: bool


def seeds() -> Iterator[bytes]:
    """Streams of golden blocks in blocks of several sizes, and one of each golden frame."""
    vectors = load_good()
    for vector in vectors:
        if vector.phase == 0 and vector.resident is None:
            yield bytes([0, AT_END]) + _header(vector) + vector.frame
    for element in ElementType:
        blocks = [v.block for v in vectors if v.element == element and len(v.block) < 400][::5]
        data = b"".join(blocks)[:3000]
        copy = _copy(1, len(data))
        moved = (np.frombuffer(copy, np.uint8) ^ (np.frombuffer(data, np.uint8) & 1)).tobytes()
        for size in (61, 500, 1024):
            yield bytes([0, 0]) + codec.compress(data, element, block_bytes=size)
            yield bytes([1, 0]) + codec.compress(moved, element, reference=copy, block_bytes=size)


def _header(vector: Good) -> bytes:
    size = len(vector.block)
    fixed = bytes([f.STREAM_VERSION, vector.element, 0]) + size.to_bytes(2, "little")
    return f.STREAM_MAGIC + fixed + size.to_bytes(8, "little")


def unpack(data: bytes) -> Offer | None:
    """The offer in an input; None if it is too short or long."""
    if not CONTROL_BYTES <= len(data) <= _GUARDED_BYTES:
        return None
    threads = 2 if data[1] & THREADS else 1
    return Offer(data[CONTROL_BYTES:], data[0], threads, bool(data[1] & AT_END))


class Checker:
    """Offers streams to the decoders."""

    def __init__(self) -> None:
        self._buffer = Guarded(_GUARDED_BYTES)

    def check(self, data: bytes) -> bool:
        """Whether the input is accepted; raises `Disagreement` where something is wrong."""
        offer = unpack(data)
        if offer is None:
            return False
        stream, resident, expected = _read(offer)
        buffer = self._buffer.put(stream, at_end=offer.at_end)
        found = {
            "numba": _attempt(buffer, resident, threads=offer.threads),
            "reference": _attempt(buffer, resident, engine="reference"),
            "pieces": _attempt_pieces(buffer, resident, offer.threads),
        }
        for name, result in found.items():
            expect(
                result == expected, f"{offer}: {name} gives {result!r:.80}, not {expected!r:.80}"
            )
        _check_inspection(buffer, expected is not None)
        if expected is not None:
            _check_again(stream, expected, resident)
        return expected is not None


def _read(offer: Offer) -> tuple[bytes, bytes | None, bytes | None]:
    """The stream with CRCs that fit, the resident copy, and what the stream holds, if anything."""
    stream = offer.stream
    head, at = stream[: f.STREAM_HEADER_BYTES], f.STREAM_HEADER_BYTES
    size = int.from_bytes(head[8:], "little")
    # No stream of this length holds as much, so that no decoder gets as far as the copy.
    copied = offer.seed and size <= len(stream) * f.BLOCK_BYTES_MAX
    resident = _copy(offer.seed, size) if copied else None
    if len(head) < f.STREAM_HEADER_BYTES or head[:4] != f.STREAM_MAGIC + bytes([f.STREAM_VERSION]):
        return stream, resident, None
    tag, zero, step = head[4], head[5], int.from_bytes(head[6:8], "little")
    if tag > max(ElementType) or zero or not 1 <= step <= f.BLOCK_BYTES_MAX:
        return stream, resident, None
    done = bytearray()
    mended = bytearray(head)
    while len(done) < size:
        begin, length = len(done), min(step, size - len(done))
        copy = None if resident is None else resident[begin : begin + length]
        first = first_frame(stream[at:], copy)
        if first is None or not _belongs(first.frame, ElementType(tag), length, begin):
            return bytes(mended) + stream[at:], resident, None
        mended += first.frame
        done += first.block
        at += len(first.frame)
    whole = bytes(done) if at == len(stream) else None
    return bytes(mended) + stream[at:], resident, whole


def _copy(seed: int, size: int) -> bytes:
    """The resident copy that a seed stands for."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()


def _belongs(frame: bytes, element: ElementType, length: int, begin: int) -> bool:
    header = parse_header(frame)
    phase = header.phase if header.mode >= Mode.CODED else -begin % element.width_bytes
    return (header.element, header.block_bytes, phase) == (
        element,
        length,
        -begin % element.width_bytes,
    )


def _array(resident: bytes | None) -> np.ndarray | None:
    return None if resident is None else np.frombuffer(resident, np.uint8)


def _attempt(buffer: np.ndarray, resident: bytes | None, **options: object) -> bytes | None:
    try:
        return codec.decompress(buffer, reference=_array(resident), **options).tobytes()
    except FrameError:
        return None


def _attempt_pieces(buffer: np.ndarray, resident: bytes | None, threads: int) -> bytes | None:
    try:
        pieces = decompress_pieces(buffer, reference=_array(resident), threads=threads)
        return b"".join(piece.tobytes() for piece in pieces)
    except FrameError:
        return None


def _check_inspection(buffer: np.ndarray, accepted: bool) -> None:
    try:
        found = codec.inspect(buffer)
    except FrameError:
        expect(not accepted, "a stream that is decoded and cannot be inspected")
        return
    expect(sum(found.bytes_by_section.values()) == buffer.size, f"{found}: sections do not add up")
    expect(sum(found.frames_by_mode.values()) == found.frames, f"{found}: modes do not add up")


def _check_again(stream: bytes, block: bytes, resident: bytes | None) -> None:
    """What came out goes in again: engines write the same bytes, which decode to it."""
    element, step = ElementType(stream[4]), int.from_bytes(stream[6:8], "little")
    options = {"block_bytes": step, "reference": resident}
    again = b"".join(compress_pieces(block, element, threads=2, **options))
    if len(block) <= _AGAIN_BYTES_MAX:
        by_reference = codec.compress(block, element, engine="reference", **options)
        expect(again == by_reference, f"{again[:40].hex()}: the engines encode differently")
    restored = codec.decompress(again, reference=_array(resident))
    expect(restored.tobytes() == block, f"{again[:40].hex()}: decodes to something else")
    expect(len(again) <= codec.bound(len(block), step), f"{len(again)} bytes are over the bound")
