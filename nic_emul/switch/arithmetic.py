# SPDX-License-Identifier: Apache-2.0
"""The sum of several slices as the switch makes it: in FP32, one after the other, rounded once.

With x1, x2, ... in port order the result is round(((x1 + x2) + x3) + ...): every x is widened to
FP32, every + is an IEEE 754 addition in FP32 to nearest, ties to even, and `round` takes the sum to
the type of the slices, the same way. Infinities, subnormals and the sign of zero are what IEEE 754
says. It does not say which NaN an addition gives, and processors differ: every NaN of the result is
the quiet one with positive sign and no payload, whatever the inputs held.
"""

import torch

from nic_emul.reduce_ops import ReduceCode

# Of each type that the switch adds: the integer type of its width, and the NaN of the result.
_NAN = {
    torch.float32: (torch.int32, 0x7FC00000),
    torch.bfloat16: (torch.int16, 0x7FC0),
    torch.float16: (torch.int16, 0x7E00),
}

SUMMED_TYPES = tuple(_NAN)
# Ranks and switch both go by these: a rank multiplies and divides itself.
SUMS = (ReduceCode.SUM, ReduceCode.AVG, ReduceCode.PREMUL_SUM)


class Accumulator:
    """The FP32 memory in which slices are added up, one sum at a time."""

    def __init__(self) -> None:
        self._memory = torch.empty(0, dtype=torch.float32)
        self._sum = self._memory
        self._dtype = torch.float32

    def begin(self, first: torch.Tensor) -> None:
        """Start a sum with `first`, `(n,)`, of one of `SUMMED_TYPES`."""
        if self._memory.numel() < first.numel():
            self._memory = torch.empty(first.numel(), dtype=torch.float32)
        self._sum = self._memory[: first.numel()]
        self._sum.copy_(first)
        self._dtype = first.dtype

    def add(self, following: torch.Tensor) -> None:
        """Add `following`, as long as the first and of its type."""
        self._sum.add_(following.to(torch.float32))

    def result(self) -> torch.Tensor:
        """The sum, `(n,)`, in the type of the slices: new memory."""
        integers, nan = _NAN[self._dtype]
        rounded = self._sum.to(self._dtype, copy=True)
        rounded.view(integers).masked_fill_(self._sum.isnan(), nan)
        return rounded
