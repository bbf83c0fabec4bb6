# SPDX-License-Identifier: Apache-2.0
"""The engines under test, what each can do, and one frame at a time through their interface."""

from dataclasses import dataclass

import numpy as np

from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Engine, Packets, get_engine
from codec.errors import FrameError, ReferenceMismatch, UnsupportedFrame
from codec.format import Mode
from hw.sim.engine import RtlEngine
from tests.tools import require_verilator

GUARD = 64
FILL = 0xA5


@dataclass(frozen=True)
class Capability:
    """What an engine can do beside raw, constant and coded frames of every element type.

    `quick`: the quick tier runs it too.
    """

    reference_mode: bool
    quick: bool = True


CAPABILITIES = {
    "reference": Capability(reference_mode=True),
    "numba": Capability(reference_mode=True),
    "rtl": Capability(reference_mode=False),
    "rtl-256": Capability(reference_mode=False, quick=False),
    "rtl-128": Capability(reference_mode=False, quick=False),
    "rtl-stalls": Capability(reference_mode=False, quick=False),
}


def make_engine(name: str) -> Engine:
    """The engine under test; skips the test where one cannot be built."""
    if not name.startswith("rtl"):
        return get_engine(name)
    require_verilator()
    variants = {
        "rtl": lambda: get_engine("rtl"),
        "rtl-256": lambda: RtlEngine({"DATA_W": 256}, seed=2),
        "rtl-128": lambda: RtlEngine({"DATA_W": 128}, seed=3),
        "rtl-stalls": lambda: RtlEngine(seed=4, stall=0.3),
    }
    return variants[name]()


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


Outcome = bytes | type[FrameError]


def reference_outcome(
    engine: Engine, frame: bytes, element: ElementType, block_bytes: int, phase: int = 0
) -> Outcome:
    """What `engine` must make of a frame without a copy, by the reference codec."""
    return as_seen_by(engine, outcome(reference.ENGINE, frame, element, block_bytes, phase))


def as_seen_by(engine: Engine, expected: Outcome) -> Outcome:
    """Frames that need a copy are unsupported by engines without reference mode."""
    if expected is ReferenceMismatch and not CAPABILITIES[engine.name].reference_mode:
        return UnsupportedFrame
    return expected


def as_array(data: bytes) -> U8:
    return np.frombuffer(data, np.uint8)


def as_packets(frames: list[bytes]) -> Packets:
    """Frames as a receiver holds them, who knows no more than that they are frames."""
    return Packets(
        as_array(b"".join(frames)),
        np.array([len(frame) for frame in frames], np.int32),
        np.full(len(frames), Mode.CODED, np.uint8),
    )
