# SPDX-License-Identifier: Apache-2.0
"""All-reduce and reduce-scatter by the switch, as a rank takes part in them.

A rank sends its slices up, multiplied by the reduction's factor if it has one, and receives sums.
With tensors of N bytes at each of n ranks, and not counting headers:

| operation      | up, each rank | down, each rank | in a ring, each rank and direction |
|----------------|---------------|-----------------|------------------------------------|
| all-reduce     | N             | N               | 2 (n-1)/n N                        |
| reduce-scatter | N             | N/n             | (n-1)/n N                          |

The switch adds in FP32 in port order and rounds once (`switch/arithmetic.py`); a ring rounds to the
tensor's type at every hop and begins each chunk at another rank (`ring.py`). So the two give sums
that differ in the last bits, and each is the same in every run.

Only sums, averages and premultiplied sums of the types that the switch adds go this way, in groups
that span nodes; everything else goes around the ring.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch

from nic_emul.reduce_ops import Reduction
from nic_emul.ring import Exchange
from nic_emul.schedule import SUM_SLICE_BYTES, cut
from nic_emul.switch.arithmetic import SUMMED_TYPES, SUMS
from nic_emul.via_switch import SWITCH

# Sums that a rank lets wait before it sends more: one is added while the next one comes.
_WINDOW = 4


def can_sum(exchange: Exchange, reduction: Reduction) -> bool:
    """Whether the switch does this reduction: the same on every rank of the group."""
    path = exchange.transport.switch_path
    if path is None or not path.sums:
        return False
    return reduction.code in SUMS and reduction.dtype in SUMMED_TYPES


def all_reduce(exchange: Exchange, flat: torch.Tensor, reduction: Reduction) -> None:
    """Reduce `flat` over the group, in place: a slice is overwritten once it has been summed."""
    slices = _slices(flat.numel(), flat.itemsize)
    steps = (([flat[low:high]], flat[low:high]) for low, high in slices)
    _exchange(exchange, steps, reduction)


def reduce_scatter(
    exchange: Exchange, out: torch.Tensor, data: torch.Tensor, reduction: Reduction
) -> None:
    """Reduce `data`, `(n * out.numel(),)`, over the group; `out` gets this rank's part.

    Slices of all parts go up in turn, so that `out` may be a part of `data`: nothing of a slice is
    overwritten before it went up from every part.
    """
    parts = data.chunk(exchange.size) if data.numel() else ()
    steps = (
        ([part[low:high] for part in parts], out[low:high])
        for low, high in _slices(out.numel(), out.itemsize)
    )
    _exchange(exchange, steps, reduction)


def _exchange(
    exchange: Exchange,
    steps: Iterable[tuple[Sequence[torch.Tensor], torch.Tensor]],
    reduction: Reduction,
) -> None:
    """Send the slices of each step, and receive the one sum that it has for this rank."""
    waiting: deque[torch.Tensor] = deque()
    scaled = _Scaled(reduction)
    for slices, out in steps:
        if len(waiting) == _WINDOW:
            exchange.receive(SWITCH, waiting.popleft())
        for slice_ in scaled.of(slices):
            exchange.send(SWITCH, slice_)
        waiting.append(out)
    for out in waiting:
        exchange.receive(SWITCH, out)
    exchange.finish()


class _Scaled:
    """Multiplies slices by the factor of a reduction, in memory that is used again and again."""

    def __init__(self, reduction: Reduction) -> None:
        self._factor = reduction.factor
        self._memory: list[torch.Tensor] = []
        self._next = 0

    def of(self, slices: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
        """The slices of a step, ready to be sent; what they were `_WINDOW` steps ago is lost.

        That has been sent: its sum has come.
        """
        if self._factor is None:
            yield from slices
            return
        for slice_ in slices:
            if len(self._memory) < _WINDOW * len(slices):
                self._memory.append(torch.empty_like(slice_))
            memory = self._memory[self._next % len(self._memory)][: slice_.numel()]
            self._next = (self._next + 1) % (_WINDOW * len(slices))
            yield torch.mul(slice_, self._factor, out=memory)


def _slices(count: int, itemsize: int) -> list[tuple[int, int]]:
    return cut((0, count), SUM_SLICE_BYTES // itemsize)
