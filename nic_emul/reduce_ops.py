# SPDX-License-Identifier: Apache-2.0
"""Reductions, with NCCL's meaning and order of operations.

SUM, PRODUCT, MIN, MAX, BAND, BOR and BXOR combine what was received with what is local, rounding to
the tensor's dtype at every hop. AVG of floating-point elements multiplies every rank's input by 1/n
(rounded to the dtype) before it is summed, as NCCL does; AVG of integers sums, then divides towards
zero. PREMUL_SUM multiplies by the caller's factor first. bool is treated as a logical value.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.distributed import ReduceOp

from nic_emul.errors import UnsupportedOperation

Combine = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

_COMBINE: dict[int, Combine] = {
    int(ReduceOp.SUM): lambda received, local, out: torch.add(received, local, out=out),
    int(ReduceOp.PRODUCT): lambda received, local, out: torch.mul(received, local, out=out),
    int(ReduceOp.MIN): lambda received, local, out: torch.minimum(received, local, out=out),
    int(ReduceOp.MAX): lambda received, local, out: torch.maximum(received, local, out=out),
    int(ReduceOp.BAND): lambda received, local, out: torch.bitwise_and(received, local, out=out),
    int(ReduceOp.BOR): lambda received, local, out: torch.bitwise_or(received, local, out=out),
    int(ReduceOp.BXOR): lambda received, local, out: torch.bitwise_xor(received, local, out=out),
}
_BITWISE = {int(ReduceOp.BAND), int(ReduceOp.BOR), int(ReduceOp.BXOR)}


@dataclass(frozen=True)
class Reduction:
    """One reduction over a group, for one dtype.

    Attributes:
        code: value of `ReduceOp.RedOpType`, the same on every rank.
        combine: `combine(received, local, out)`; `out` may be either.
        factor: what each rank's input is multiplied by first, already rounded to the dtype.
        divisor: what the sum is divided by at the end (integer AVG).
    """

    code: int
    combine: Combine
    factor: float | None = None
    divisor: int | None = None

    def finish(self, result: torch.Tensor) -> None:
        """Apply the final division, in place."""
        if self.divisor is not None:
            result.div_(self.divisor, rounding_mode="trunc")


def reduction(op: object, dtype: torch.dtype, size: int) -> Reduction:
    """The reduction that torch's `op` means for `dtype` in a group of `size`.

    Raises:
        UnsupportedOperation: torch cannot compute it.
    """
    code = int(op.op if isinstance(op, ReduceOp) else op)  # type: ignore[call-overload]
    floating = dtype.is_floating_point or dtype.is_complex
    _check(op, code, dtype, floating)
    if code == int(ReduceOp.AVG):
        combine = _COMBINE[int(ReduceOp.SUM)]
        if not floating:
            return Reduction(code, combine, divisor=size)
        return Reduction(code, combine, factor=_round(1.0 / size, dtype))
    if code == int(ReduceOp.PREMUL_SUM):
        factor = op.__getstate__()[1]  # type: ignore[union-attr,index,call-arg]
        return Reduction(code, _COMBINE[int(ReduceOp.SUM)], factor=_round(float(factor), dtype))
    return Reduction(code, _COMBINE[code])


def _check(op: object, code: int, dtype: torch.dtype, floating: bool) -> None:
    averaging = code in (int(ReduceOp.AVG), int(ReduceOp.PREMUL_SUM))
    if code not in _COMBINE and not averaging:
        raise UnsupportedOperation(f"reduction: expected a ReduceOp; found {op!r}")
    if floating and (code in _BITWISE or dtype.itemsize == 1):
        raise UnsupportedOperation(f"reduction: {op!r} is not defined for {dtype}")
    if averaging and dtype is torch.bool:
        raise UnsupportedOperation(f"reduction: {op!r} is not defined for {dtype}")
    if code == int(ReduceOp.PREMUL_SUM) and not floating:
        raise UnsupportedOperation(f"reduction: {op!r} is not defined for {dtype}")
    if dtype in (torch.uint16, torch.uint32, torch.uint64):
        raise UnsupportedOperation(f"reduction: torch has no arithmetic for {dtype}")


def _round(factor: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(factor, dtype=dtype).item())
