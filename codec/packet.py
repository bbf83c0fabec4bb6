# SPDX-License-Identifier: Apache-2.0
"""What network and trainer must know alike of packets (`docs/format.md`, section 11)."""

import numpy as np
from numpy.typing import NDArray

from codec.engine import Packets
from codec.format import (
    ELEMENT_BITS,
    ELEMENT_LSB,
    MODE_BITS,
    MODE_LSB,
    PHASE_BITS,
    PHASE_LSB,
    Mode,
)

MTUS = (1024, 4096)
"""The path MTUs of RoCEv2 that a NIC can be set to, in bytes: the block of a full packet."""


def frame_modes(packets: Packets) -> NDArray[np.uint8]:
    """uint8 `(blocks,)`: the modes of `packets`, those of frames read from their headers.

    A receiver knows which payloads are frames, and no more (`Packets.modes`).
    """
    told = _head(packets) >> MODE_LSB & ((1 << MODE_BITS) - 1)
    return np.where(packets.modes == Mode.RAW, packets.modes, told).astype(np.uint8)


def frame_types(packets: Packets) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Tags of element types and phases, uint16 `(blocks,)` each, that frames have in their headers.

    Nothing is checked, and what a raw packet's say means nothing. A constant frame has no phase.
    """
    head = _head(packets)
    element = head >> ELEMENT_LSB & ((1 << ELEMENT_BITS) - 1)
    phase = head >> PHASE_LSB & ((1 << PHASE_BITS) - 1)
    return element.astype(np.uint16), phase.astype(np.uint16)


def _head(packets: Packets) -> NDArray[np.uint16]:
    """uint16 `(blocks,)`: the first two bytes of each payload, as a number."""
    starts = np.cumsum(packets.lengths, dtype=np.int64) - packets.lengths
    low = packets.payload[starts].astype(np.uint16)
    # A payload of one byte is no frame; that must be found out by who decodes it.
    high = packets.payload[np.minimum(starts + 1, packets.payload.size - 1)].astype(np.uint16)
    head: NDArray[np.uint16] = low | high << np.uint16(8)
    return head
