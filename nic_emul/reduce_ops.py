# SPDX-License-Identifier: Apache-2.0
"""Reductions, with NCCL's meaning and order of operations.

SUM, PRODUCT, MIN, MAX, BAND, BOR and BXOR combine what was received with what is local, rounding to
the tensor's dtype at every hop. AVG of floating-point elements multiplies every rank's input by 1/n
(rounded to the dtype) before it is summed, as NCCL does; AVG of integers sums, then divides towards
zero. PREMUL_SUM multiplies by the caller's factor first. bool is a logical value: SUM is "or".
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from nic_emul.errors import UnsupportedOperation


class ReduceCode(enum.IntEnum):
    """Reductions by the numbers that torch gives them (`ReduceOp.RedOpType`)."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


Combine = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

_COMBINE: dict[ReduceCode, Combine] = {
    ReduceCode.SUM: lambda received, local, out: torch.add(received, local, out=out),
    ReduceCode.PRODUCT: lambda received, local, out: torch.mul(received, local, out=out),
    ReduceCode.MIN: lambda received, local, out: torch.minimum(received, local, out=out),
    ReduceCode.MAX: lambda received, local, out: torch.maximum(received, local, out=out),
    ReduceCode.BAND: lambda received, local, out: torch.bitwise_and(received, local, out=out),
    ReduceCode.BOR: lambda received, local, out: torch.bitwise_or(received, local, out=out),
    ReduceCode.BXOR: lambda received, local, out: torch.bitwise_xor(received, local, out=out),
}
_BITWISE = (ReduceCode.BAND, ReduceCode.BOR, ReduceCode.BXOR)
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


@dataclass(frozen=True)
class Reduction:
    """One reduction over a group, for one dtype.

    Attributes:
        code: the same on every rank.
        combine: `combine(received, local, out)`; `out` may be either of the others.
        scale: what each rank's input is multiplied by first; a tensor may still be computed.
        dtype: of the elements.
        divisor: what the sum is divided by at the end (integer AVG).
    """

    code: ReduceCode
    combine: Combine
    dtype: torch.dtype
    scale: float | torch.Tensor | None = None
    divisor: int | None = None

    @cached_property
    def factor(self) -> float | None:
        """`scale`, rounded to the dtype; read at the first use, which is in the worker."""
        if self.scale is None:
            return None
        return float(torch.tensor(float(self.scale), dtype=self.dtype))

    def of_sums(self) -> "Reduction":
        """The same for inputs that are results of this one, scaled but not finished."""
        return replace(self, scale=None)

    def finish(self, result: torch.Tensor) -> None:
        """Apply the final division, in place."""
        if self.divisor is not None:
            result.div_(self.divisor, rounding_mode="trunc")


def reduction(op: Any, dtype: torch.dtype, size: int) -> Reduction:
    """The reduction that torch's `op` (a `ReduceOp` or `ReduceOp.RedOpType`) means for `dtype`.

    Raises:
        UnsupportedOperation: it is not defined for `dtype`, or torch cannot compute it.
    """
    code = ReduceCode(int(getattr(op, "op", op)))
    floating = dtype.is_floating_point or dtype.is_complex
    _check(code, dtype, floating)
    if code is ReduceCode.AVG and not floating:
        return Reduction(code, _COMBINE[ReduceCode.SUM], dtype, divisor=size)
    if code is ReduceCode.AVG:
        return Reduction(code, _COMBINE[ReduceCode.SUM], dtype, scale=1.0 / size)
    if code is ReduceCode.PREMUL_SUM:
        return Reduction(code, _COMBINE[ReduceCode.SUM], dtype, scale=_premultiplier(op))
    return Reduction(code, _COMBINE[code], dtype)


def _check(code: ReduceCode, dtype: torch.dtype, floating: bool) -> None:
    defined = not (floating and code in _BITWISE)
    if code is ReduceCode.AVG:
        defined = dtype is not torch.bool
    elif code is ReduceCode.PREMUL_SUM:
        defined = floating
    # torch has no arithmetic for these.
    computed = dtype not in _UNSIGNED and not (floating and dtype.itemsize == 1)
    if not (defined and computed):
        raise UnsupportedOperation(f"reduction: {code.name} is not available for {dtype}")


def _premultiplier(op: Any) -> float | torch.Tensor:
    scale: float | torch.Tensor = op.__getstate__()[1]
    if isinstance(scale, torch.Tensor) and (scale.numel() != 1 or scale.device.type != "cpu"):
        raise UnsupportedOperation(
            f"PREMUL_SUM factor: expected one element on cpu; "
            f"found shape {tuple(scale.shape)} on {scale.device}"
        )
    return scale
