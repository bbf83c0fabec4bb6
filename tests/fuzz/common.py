# SPDX-License-Identifier: Apache-2.0
"""What all fuzz targets share: findings, and the first frame of some bytes."""

from dataclasses import dataclass
from unittest import mock

from codec import format as f
from codec import reference
from codec.errors import FrameError
from codec.format import Mode
from codec.header import parse_header


class Disagreement(AssertionError):
    """Two decoders differ, or what is decoded contradicts itself."""


def expect(holds: bool, what: str) -> None:
    """Report a finding unless it holds; `assert` would not do so in optimized Python."""
    if not holds:
        raise Disagreement(what)


@dataclass(frozen=True)
class FirstFrame:
    """The frame that some bytes begin with, its checksums put right, and its block."""

    frame: bytes
    block: bytes


class _Decoded(Exception):
    """Carries the block and the header out of the reference decoder before it looks at the CRC."""


def first_frame(data: bytes, resident: bytes | None) -> FirstFrame | None:
    """The frame that `data` begins with, as the reference reads it; None if it refuses it.

    No search would find a CRC, so that of the block and that of the resident copy are made to fit.
    Bytes behind the frame are allowed: where it ends is for the caller to compare.
    """
    try:
        header = parse_header(data[: f.LONG_HEADER_BYTES])
    except FrameError:
        return None
    frame = bytearray(data[: header.block_bytes + f.SHORT_HEADER_BYTES])
    if resident is not None and header.mode == Mode.REFERENCE:
        padded = resident + bytes(-len(resident) % f.BEAT_BYTES)
        frame[8:12] = reference.crc32c(padded).to_bytes(4, "little")
    size = 0

    def finish(reader: reference._Reader) -> None:
        nonlocal size
        size = reader._at

    def catch(block: bytes, sealed: bytes) -> int:
        raise _Decoded(block, sealed)

    with (
        mock.patch.object(reference._Reader, "finish", finish),
        mock.patch.object(reference, "checksum", catch),
    ):
        try:
            reference.decode_frame(bytes(frame), resident)
        except FrameError:
            return None
        except _Decoded as decoded:
            block, sealed = decoded.args
    frame[4:8] = reference.checksum(block, sealed).to_bytes(4, "little")
    return FirstFrame(bytes(frame[: header.size + size]), block)
