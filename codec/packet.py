# SPDX-License-Identifier: Apache-2.0
"""What network and trainer must know alike of packets (`docs/format.md`, section 11)."""

import numpy as np
from numpy.typing import NDArray

from codec.engine import Packets
from codec.format import MODE_BITS, MODE_LSB, Mode

MTUS = (1024, 4096)
"""The path MTUs of RoCEv2 that a NIC can be set to, in bytes: the block of a full packet."""


def frame_modes(packets: Packets) -> NDArray[np.uint8]:
    """uint8 `(blocks,)`: the modes of `packets`, those of frames read from their headers.

    A receiver knows which payloads are frames, and no more (`Packets.modes`).
    """
    starts = np.cumsum(packets.lengths, dtype=np.int64) - packets.lengths
    told = packets.payload[starts] >> MODE_LSB & ((1 << MODE_BITS) - 1)
    return np.where(packets.modes == Mode.RAW, packets.modes, told)
