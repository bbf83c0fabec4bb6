# SPDX-License-Identifier: Apache-2.0
"""The engines under test, what each can do, and one frame at a time through their interface."""

from dataclasses import dataclass

import numpy as np

from codec.elements import ElementType
from codec.engine import U8, Engine, Packets
from codec.errors import FrameError
from codec.format import Mode

GUARD = 64
FILL = 0xA5


@dataclass(frozen=True)
class Capability:
    """What an engine can do beside raw, constant and coded frames of every element type."""

    reference_mode: bool


CAPABILITIES = {
    "reference": Capability(reference_mode=True),
    "numba": Capability(reference_mode=True),
}


def encode_one(
    engine: Engine,
    block: bytes,
    element: ElementType,
    phase: int = 0,
    resident: bytes | None = None,
) -> bytes:
    """The frame of one block."""
    copy = None if resident is None else as_array(resident)
    size = max(1, len(block))
    packets = engine.encode(as_array(block), element, size, phase=phase, resident=copy)
    assert packets.lengths.tolist() == [packets.payload.size]
    return packets.payload.tobytes()


def decode_one(
    engine: Engine,
    frame: bytes,
    element: ElementType,
    block_bytes: int,
    phase: int = 0,
    resident: bytes | None = None,
) -> bytes:
    """The block of one frame; fails if a byte beside the block is written to."""
    memory = np.full(block_bytes + 2 * GUARD, FILL, np.uint8)
    out = memory[GUARD : GUARD + block_bytes]
    copy = None if resident is None else as_array(resident)
    try:
        engine.decode(as_packets([frame]), element, block_bytes, out, phase=phase, resident=copy)
    finally:
        edges = np.concatenate((memory[:GUARD], memory[GUARD + block_bytes :]))
        assert np.all(edges == FILL), "written outside the block"
    return out.tobytes()


def outcome(
    engine: Engine,
    frame: bytes,
    element: ElementType,
    block_bytes: int,
    phase: int = 0,
    resident: bytes | None = None,
) -> bytes | type[FrameError]:
    """The block, or the class of the error."""
    try:
        return decode_one(engine, frame, element, block_bytes, phase, resident)
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
