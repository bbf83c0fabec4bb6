# SPDX-License-Identifier: Apache-2.0
"""Find the frames of a row of blocks, in a stream or in a chunk of a container.

Frames carry no lengths, so they are found one after the other (`codec.kernels.walk`). Nothing is
decoded and no checksum is checked.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec.elements import ElementType
from codec.engine import U8
from codec.errors import CorruptFrame, FrameError, TruncatedFrame
from codec.format import Coder, Mode
from codec.header import Header, parse_header

FRAME_BYTES_MIN = f.SHORT_HEADER_BYTES + 1
"""No frame is shorter: a constant one of a one-byte element."""


@dataclass(frozen=True)
class Blocks:
    """What a row of frames holds: `original_bytes` in blocks of `block_bytes`, from phase 0 on."""

    element: ElementType
    block_bytes: int
    original_bytes: int

    @property
    def count(self) -> int:
        return -(-self.original_bytes // self.block_bytes)


@dataclass(frozen=True)
class Frames:
    """The frames of a row.

    Attributes:
        lengths: int32 `(blocks,)`, bytes of each.
        modes: uint8 `(blocks,)`, a `Mode` each.
        sections: int64 `(modes, sections)`, bytes by mode and section of `codec.kernels.walk`.
        coders: int64 `(coders,)`, number of coded frames of each `Coder`.
    """

    lengths: NDArray[np.int32]
    modes: U8
    sections: NDArray[np.int64]
    coders: NDArray[np.int64]


def find_frames(buffer: U8, start: int, blocks: Blocks) -> Frames:
    """The frames of `blocks` in `buffer`, uint8 `(n,)`, from byte `start` to its end.

    What is allocated is in proportion to the bytes that are there, whatever `blocks` claims.

    Raises:
        FrameError: they are not the frames of these blocks, or do not end with the buffer.
    """
    # Here, since Numba takes half a second to import.
    from codec.kernels import walk

    room = buffer.size - start
    if blocks.count * FRAME_BYTES_MIN > room:
        raise TruncatedFrame(
            f"expected {blocks.count} frames for {blocks.original_bytes} bytes; "
            f"found {room} bytes of frames"
        )
    lengths = np.zeros(blocks.count, np.int32)
    modes = np.zeros(blocks.count, np.uint8)
    sections = np.zeros((len(Mode), walk.SECTIONS), np.int64)
    coders = np.zeros(len(Coder), np.int64)
    found, end = walk.walk(
        buffer,
        start,
        int(blocks.element),
        blocks.block_bytes,
        blocks.original_bytes,
        lengths,
        modes,
        sections,
        coders,
    )
    if found < blocks.count:
        _raise_at(buffer, blocks, found, end)
    if end != buffer.size:
        raise CorruptFrame(f"expected its end at byte {end}; found {buffer.size - end} more")
    return Frames(lengths, modes, sections, coders)


def _raise_at(buffer: U8, blocks: Blocks, block: int, offset: int) -> NoReturn:
    """Say why the walk stopped at the frame of `block`."""
    where = f"block {block}, byte {offset}"
    try:
        frame = parse_header(buffer[offset : offset + f.LONG_HEADER_BYTES].tobytes())
    except FrameError as error:
        raise type(error)(f"{where}: {error}") from None
    length = min(blocks.block_bytes, blocks.original_bytes - block * blocks.block_bytes)
    phase = -block * blocks.block_bytes % blocks.element.width_bytes
    element, found_element = blocks.element.name, frame.element.name
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
