# SPDX-License-Identifier: Apache-2.0
"""Ring and pairwise algorithms over flat tensors, in NCCL's order (`src/device/*.h`, NCCL 2.30).

Every function runs on all ranks of the group at once, in the group's worker thread. Tensors are
contiguous and one-dimensional. With rank r of n, all subscripts modulo n:

| operation      | what rank r does, per loop                                                      |
|----------------|---------------------------------------------------------------------------------|
| all-reduce     | send chunk r-1; receive, reduce, pass on chunks r-2 ... r+1; complete chunk r   |
|                | and pass it on; receive and pass on chunks r-1 ... r+2; receive chunk r+1       |
| reduce-scatter | the first half of that: chunk c starts at rank c+1 and is complete at rank c    |
| all-gather     | send chunk r; receive and pass on chunks r-1 ... r+2; receive chunk r+1         |
| broadcast      | pass on from the root around the ring, in a chain of slices                     |
| reduce         | chain from the root's successor around the ring to the root                     |

So chunk c is summed in the order c+1, c+2, ..., c: each rank computes `received + local`.

What is passed on unchanged, in all-gather, broadcast and the second half of all-reduce, goes on in
the packets in which it came: it is decoded here, and not coded again. Within a node there are no
packets; what leaves it is coded there for the first time.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from nic_emul.hello import Channel
from nic_emul.message import Received, Traffic
from nic_emul.reduce_ops import Reduction
from nic_emul.schedule import (
    CHAIN,
    POINT_TO_POINT_SLICE_BYTES,
    RING,
    Grain,
    Span,
    all_reduce_loops,
    cut,
    loops,
    slices,
)
from nic_emul.transport import Transport

U8 = NDArray[np.uint8]


def as_bytes(flat: torch.Tensor) -> U8:
    """The memory of a contiguous one-dimensional tensor, uint8 `(bytes,)`, not copied."""
    view: U8 = flat.view(torch.uint8).numpy()
    return view


@dataclass
class Exchange:
    """One collective operation in progress on this rank: numbers its messages, awaits its sends."""

    transport: Transport
    traffic: Traffic
    _sent: dict[int, int] = field(default_factory=dict)
    _received: dict[int, int] = field(default_factory=dict)
    _tickets: dict[int, int] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return self.transport.rank

    @property
    def size(self) -> int:
        return self.transport.size

    @property
    def following(self) -> int:
        """The next rank of the ring."""
        return (self.rank + 1) % self.size

    @property
    def preceding(self) -> int:
        """The previous rank of the ring."""
        return (self.rank - 1) % self.size

    def send(self, peer: int, flat: torch.Tensor, received: Received | None = None) -> int:
        """Queue `flat` for `peer`; it must not change until `sent` says so, or `finish` returns.

        What has just been `received` goes on as it came.
        """
        link = self.transport.send_link(peer, Channel.COLLECTIVE)
        index = self._sent.get(peer, 0)
        self._sent[peer] = index + 1
        ticket = link.post(self.traffic, index=index, data=as_bytes(flat), received=received)
        self._tickets[peer] = ticket
        return ticket

    def sent(self, peer: int, ticket: int) -> bool:
        """Whether the tensor behind `ticket` may change again."""
        return self.transport.send_link(peer, Channel.COLLECTIVE).sent(ticket)

    def receive(self, peer: int, flat: torch.Tensor, *, keep: bool = False) -> Received | None:
        """Receive the next message from `peer` into `flat`; `keep` it as it came for `send`."""
        index = self._received.get(peer, 0)
        self._received[peer] = index + 1
        link = self.transport.recv_link(peer, Channel.COLLECTIVE)
        return link.receive(self.traffic, index=index, out=as_bytes(flat), keep=keep)

    def finish(self) -> None:
        """Return once everything that was queued is sent."""
        for peer, ticket in self._tickets.items():
            self.transport.send_link(peer, Channel.COLLECTIVE).wait(ticket)


class _Slots:
    """Slice-sized buffers for partial sums: each is free again once it is sent.

    A ring holds at most a few slices per rank in flight, so only a few buffers are ever made.
    """

    def __init__(self, exchange: Exchange, like: torch.Tensor) -> None:
        self._exchange = exchange
        self._like = like
        self._busy: list[tuple[int, torch.Tensor]] = []

    def take(self, elements: int) -> torch.Tensor:
        """A buffer of at least `elements`, cut to `elements`."""
        following = self._exchange.following
        for position, (ticket, buffer) in enumerate(self._busy):
            if buffer.numel() >= elements and self._exchange.sent(following, ticket):
                del self._busy[position]
                return buffer[:elements]
        return torch.empty(elements, dtype=self._like.dtype)

    def send(self, buffer: torch.Tensor) -> None:
        """Send `buffer` to the next rank; it is free again afterwards."""
        self._busy.append((self._exchange.send(self._exchange.following, buffer), buffer))


def all_reduce(exchange: Exchange, flat: torch.Tensor, reduction: Reduction) -> None:
    """Reduce `flat` over the group, in place."""
    slots = _Slots(exchange, flat)
    for chunks in all_reduce_loops(flat.numel(), exchange.size, flat.itemsize):
        _all_reduce_loop(exchange, slots, flat, reduction, chunks)
    exchange.finish()


def reduce_scatter(
    exchange: Exchange, out: torch.Tensor, data: torch.Tensor, reduction: Reduction
) -> None:
    """Reduce `data`, `(n * out.numel(),)`, over the group; `out` gets this rank's part."""
    rank, size, count = exchange.rank, exchange.size, out.numel()
    slots = _Slots(exchange, data)
    for start, stop in loops(count, RING, data.itemsize):
        for step in range(1, size + 1):
            base = (rank - step) % size * count
            for low, high in slices((start, stop), RING, data.itemsize):
                local = data[base + low : base + high]
                if step == 1:
                    _send_input(exchange, slots, local, reduction)
                    continue
                # Through a slot also at the last hop: `out` may be a part of `data`.
                slot = slots.take(high - low)
                exchange.receive(exchange.preceding, slot)
                _combine(slot, local, slot if step < size else out[low:high], reduction)
                if step < size:
                    slots.send(slot)
    reduction.finish(out)
    exchange.finish()


def all_gather(exchange: Exchange, out: torch.Tensor) -> None:
    """Gather parts: rank r's part of `out`, `(n * part,)`, is in place and goes to all others."""
    rank, size = exchange.rank, exchange.size
    count = out.numel() // size
    for start, stop in loops(count, RING, out.itemsize):
        spans = [(part * count + start, part * count + stop) for part in range(size)]
        for span in slices(spans[rank], RING, out.itemsize):
            exchange.send(exchange.following, out[slice(*span)])
        _pass_around(exchange, out, [spans[(rank - step) % size] for step in range(1, size)], RING)
    exchange.finish()


def broadcast(exchange: Exchange, flat: torch.Tensor, root: int) -> None:
    """Copy the root's `flat` to every rank."""
    first = exchange.rank == root
    last = exchange.following == root
    for span in loops(flat.numel(), CHAIN, flat.itemsize):
        for low, high in slices(span, CHAIN, flat.itemsize):
            piece = flat[low:high]
            received = None
            if not first:
                received = exchange.receive(exchange.preceding, piece, keep=not last)
            if not last:
                exchange.send(exchange.following, piece, received)
    exchange.finish()


def reduce(exchange: Exchange, flat: torch.Tensor, root: int, reduction: Reduction) -> None:
    """Reduce over the group into the root's `flat`; the other ranks' tensors stay as they are."""
    first = exchange.preceding == root
    last = exchange.rank == root
    slots = _Slots(exchange, flat)
    for span in loops(flat.numel(), CHAIN, flat.itemsize):
        for low, high in slices(span, CHAIN, flat.itemsize):
            local = flat[low:high]
            if first:
                _send_input(exchange, slots, local, reduction)
                continue
            slot = slots.take(high - low)
            exchange.receive(exchange.preceding, slot)
            _combine(slot, local, local if last else slot, reduction)
            if not last:
                slots.send(slot)
    if last:
        reduction.finish(flat)
    exchange.finish()


def exchange_pairs(
    exchange: Exchange, sends: dict[int, torch.Tensor], receives: dict[int, torch.Tensor]
) -> None:
    """Send a tensor to each of some ranks and receive one from each of some ranks.

    Queues everything first, nearest successor first, and then receives, nearest predecessor first,
    as NCCL pairs the ranks of an all-to-all.
    """
    rank, size = exchange.rank, exchange.size
    for distance in range(1, size):
        for piece in _pieces(sends.get((rank + distance) % size)):
            exchange.send((rank + distance) % size, piece)
    for distance in range(1, size):
        for piece in _pieces(receives.get((rank - distance) % size)):
            exchange.receive((rank - distance) % size, piece)
    exchange.finish()


def _all_reduce_loop(
    exchange: Exchange,
    slots: _Slots,
    flat: torch.Tensor,
    reduction: Reduction,
    chunks: list[Span],
) -> None:
    rank, size = exchange.rank, exchange.size
    for step in range(1, size + 1):
        for low, high in slices(chunks[(rank - step) % size], RING, flat.itemsize):
            local = flat[low:high]
            if step == 1:
                _send_input(exchange, slots, local, reduction)
                continue
            slot = slots.take(high - low)
            exchange.receive(exchange.preceding, slot)
            _combine(slot, local, slot if step < size else local, reduction)
            if step < size:
                slots.send(slot)
            else:
                reduction.finish(local)
                exchange.send(exchange.following, local)
    later = [chunks[(rank - step) % size] for step in range(1, size)]
    _pass_around(exchange, flat, later, RING)


def _pass_around(exchange: Exchange, flat: torch.Tensor, chunks: list[Span], grain: Grain) -> None:
    """Receive `chunks` in their order, and pass on each but the last."""
    for chunk in chunks:
        for low, high in slices(chunk, grain, flat.itemsize):
            keep = chunk is not chunks[-1]
            received = exchange.receive(exchange.preceding, flat[low:high], keep=keep)
            if keep:
                exchange.send(exchange.following, flat[low:high], received)


def _send_input(
    exchange: Exchange, slots: _Slots, local: torch.Tensor, reduction: Reduction
) -> None:
    if reduction.factor is None:
        exchange.send(exchange.following, local)
        return
    slot = slots.take(local.numel())
    torch.mul(local, reduction.factor, out=slot)
    slots.send(slot)


def _combine(
    received: torch.Tensor, local: torch.Tensor, out: torch.Tensor, reduction: Reduction
) -> None:
    if reduction.factor is not None:
        local = local * reduction.factor
    reduction.combine(received, local, out)


def _pieces(flat: torch.Tensor | None) -> list[torch.Tensor]:
    if flat is None:
        return []
    size = POINT_TO_POINT_SLICE_BYTES // flat.itemsize
    return [flat[low:high] for low, high in cut((0, flat.numel()), size)]
