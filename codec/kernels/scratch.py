# SPDX-License-Identifier: Apache-2.0
"""Scratch memory of a kernel: one arena, in which every buffer has a fixed place.

Kernels pass the arena's address and make views where they need them. What an arena holds at first
does not matter.
"""

from collections import namedtuple

import numpy as np

ALIGNMENT = 64


def places(**sizes):
    """A named tuple of the byte offsets of some buffers, given their sizes, and of their `end`."""
    offsets = []
    end = 0
    for size in sizes.values():
        offsets.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return namedtuple("Places", [*sizes, "end"])(*offsets, end)


class Arena:
    """Memory for one call of a kernel, `address` being its first byte."""

    def __init__(self, size: int) -> None:
        self._memory = np.empty(size + ALIGNMENT, np.uint8)
        self.address = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT
