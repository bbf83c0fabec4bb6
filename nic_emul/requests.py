# SPDX-License-Identifier: Apache-2.0
"""Registered memory, and what a connection's two ends must keep to: the shapes of NCCL's ncclNet.

NCCL's network plugins are never told the type of what they carry. They are told which memory it
is, registered beforehand, and so a region's tag is where the NIC learns the type from.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nic_emul.dtypes import Dtype
from nic_emul.errors import UnsupportedOperation

U8 = NDArray[np.uint8]

# NCCL_NET_MAX_REQUESTS: how many operations of one comm may be unfinished.
MAX_REQUESTS = 32


@dataclass(eq=False)
class MemoryRegion:
    """Memory that a NIC may read and write, uint8 `(n,)`, and the type of the elements in it."""

    memory: U8
    dtype: Dtype
    registered: bool = True
    _start: int = field(init=False)

    def __post_init__(self) -> None:
        self._start = address_of(self.memory)

    def check(self, buffer: U8) -> None:
        """Raise `UnsupportedOperation` unless `buffer`, uint8 `(n,)`, lies in this region."""
        if not self.registered:
            raise UnsupportedOperation("memory region: expected a registered one; found another")
        offset = address_of(buffer) - self._start
        if not 0 <= offset <= self.memory.size - buffer.size:
            raise UnsupportedOperation(
                f"memory region: expected a part of its {self.memory.size} bytes; "
                f"found {buffer.size} bytes at {offset}"
            )


def reg_mr(memory: U8, dtype: Dtype) -> MemoryRegion:
    """Register `memory`, uint8 `(n,)`, which holds elements of `dtype`; it is kept alive."""
    return MemoryRegion(memory, dtype)


def dereg_mr(region: MemoryRegion) -> None:
    """Undo `reg_mr`; operations on the region that are under way end as they would."""
    region.registered = False


def address_of(memory: U8) -> int:
    """Where `memory` begins."""
    return int(memory.__array_interface__["data"][0])
