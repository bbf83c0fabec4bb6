# SPDX-License-Identifier: Apache-2.0
"""The engines under test, what each can do, and one frame at a time through their interface."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Engine, Packets
from codec.errors import FrameError, ReferenceMismatch, UnsupportedFrame
from codec.format import Mode

GUARD = 64
FILL = 0xA5


@dataclass(frozen=True)
class ReferenceMode:
    """Reference mode of an engine, frame by frame: the engine interface has no resident copy.

    Attributes:
        encode: `(block, element, phase, resident) -> frame`.
        decode: `(frame, resident) -> block`.
    """

    encode: Callable[[bytes, ElementType, int, bytes | None], bytes]
    decode: Callable[[bytes, bytes | None], bytes]


@dataclass(frozen=True)
class Capability:
    """What an engine can do beside raw, constant and coded frames of every element type.

    Attributes:
        reference_mode: how to reach it, or None without it.
        without_copy: what a valid frame in reference mode raises where no copy is given, as in the
            engine interface.
    """

    reference_mode: ReferenceMode | None
    without_copy: type[FrameError]

    def error(self, of_reference: type[FrameError]) -> type[FrameError]:
        """What the engine raises, without a copy, where the reference codec raises this."""
        return self.without_copy if of_reference is ReferenceMismatch else of_reference


CAPABILITIES = {
    "reference": Capability(
        ReferenceMode(reference.encode_frame, reference.decode_frame), ReferenceMismatch
    ),
    "numba": Capability(None, UnsupportedFrame),
}


def encode_one(engine: Engine, block: bytes, element: ElementType, phase: int = 0) -> bytes:
    """The frame of one block."""
    packets = engine.encode(as_array(block), element, max(1, len(block)), phase=phase)
    assert packets.lengths.tolist() == [packets.payload.size]
    return packets.payload.tobytes()


def decode_one(
    engine: Engine, frame: bytes, element: ElementType, block_bytes: int, phase: int = 0
) -> bytes:
    """The block of one frame; fails if a byte beside the block is written to."""
    memory = np.full(block_bytes + 2 * GUARD, FILL, np.uint8)
    out = memory[GUARD : GUARD + block_bytes]
    try:
        engine.decode(as_packets([frame]), element, block_bytes, out, phase=phase)
    finally:
        edges = np.concatenate((memory[:GUARD], memory[GUARD + block_bytes :]))
        assert np.all(edges == FILL), "written outside the block"
    return out.tobytes()


def outcome(
    engine: Engine, frame: bytes, element: ElementType, block_bytes: int, phase: int = 0
) -> bytes | type[FrameError]:
    """The block, or the class of the error."""
    try:
        return decode_one(engine, frame, element, block_bytes, phase)
    except FrameError as error:
        return type(error)


def as_array(data: bytes) -> U8:
    return np.frombuffer(data, np.uint8)


def as_packets(frames: list[bytes]) -> Packets:
    """Frames as a receiver holds them, who knows no more than that they are frames."""
    return Packets(
        as_array(b"".join(frames)),
        np.array([len(frame) for frame in frames], np.int32),
        np.full(len(frames), Mode.CODED, np.uint8),
    )
