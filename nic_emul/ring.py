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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from nic_emul.errors import UnsupportedOperation
from nic_emul.hello import Channel
from nic_emul.links import SendRequest
from nic_emul.message import Received, Traffic
from nic_emul.reduce_ops import Reduction
from nic_emul.requests import MemoryRegion, dereg_mr, reg_mr
from nic_emul.schedule import (
    CHAIN,
    POINT_TO_POINT_SLICE_BYTES,
    RING,
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
    """One collective operation in progress on this rank: registers its memory, awaits its sends.

    Attributes:
        members: ranks of the group that form the ring, in its order; None for all of them.
    """

    transport: Transport
    traffic: Traffic
    members: Sequence[int] | None = None
    _last: dict[int, SendRequest] = field(default_factory=dict)
    _regions: dict[int, MemoryRegion] = field(default_factory=dict)

    def over(self, members: Sequence[int]) -> "Exchange":
        """The part of this operation that `members` of the group do, this rank among them."""
        return replace(self, members=members)

    @property
    def rank(self) -> int:
        """The place of this rank in the ring."""
        rank = self.transport.rank
        return rank if self.members is None else self.members.index(rank)

    @property
    def size(self) -> int:
        """The number of ranks in the ring."""
        return self.transport.size if self.members is None else len(self.members)

    @property
    def following(self) -> int:
        """The next rank of the ring, as the group numbers it."""
        return self._member((self.rank + 1) % self.size)

    @property
    def preceding(self) -> int:
        """The previous rank of the ring, as the group numbers it."""
        return self._member((self.rank - 1) % self.size)

    def _member(self, place: int) -> int:
        return place if self.members is None else self.members[place]

    def send(self, peer: int, flat: torch.Tensor, received: Received | None = None) -> SendRequest:
        """Send `flat` to `peer`; it must not change until the request is done, or `finish` returns.

        What has just been `received` goes on as it came.

        Waits while too many sends are unfinished. No ring comes to a stop over that: a rank sends
        at most a chunk more than it has received, so not all of them can have that many at once.
        """
        link = self.transport.send_link(peer, Channel.COLLECTIVE)
        data, region = as_bytes(flat), self._register(flat)
        tag, traffic = self.traffic.tag, self.traffic
        while (request := link.isend(data, tag, region, traffic, received=received)) is None:
            link.make_room()
        self._last[peer] = request
        return request

    def receive(self, peer: int, flat: torch.Tensor, *, keep: bool = False) -> Received | None:
        """Receive the next message from `peer` into `flat`; `keep` it as it came for `send`."""
        link = self.transport.recv_link(peer, Channel.COLLECTIVE)
        region = self._register(flat)
        data, tag = as_bytes(flat), self.traffic.tag
        request = link.irecv([data], [tag], [region], self.traffic, keep=keep)
        if request is None:
            raise UnsupportedOperation("receive: expected no other receives in progress")
        request.wait()
        return request.received

    def finish(self) -> None:
        """Return once everything is sent."""
        for request in self._last.values():
            request.wait()
        for region in self._regions.values():
            dereg_mr(region)
        self._regions.clear()

    def _register(self, flat: torch.Tensor) -> MemoryRegion:
        """The region of the memory that `flat` is a part of, registered when it is first seen."""
        storage = flat.untyped_storage()
        region = self._regions.get(storage.data_ptr())
        if region is None:
            memory = torch.empty(0, dtype=torch.uint8).set_(storage)
            region = reg_mr(as_bytes(memory), self.traffic.dtype)
            self._regions[storage.data_ptr()] = region
        return region


class _Slots:
    """Slice-sized buffers for partial sums: each is free again once it is sent.

    A ring holds at most a few slices per rank in flight, so only a few buffers are ever made.
    """

    def __init__(self, exchange: Exchange, like: torch.Tensor) -> None:
        self._exchange = exchange
        self._like = like
        self._busy: list[tuple[SendRequest, torch.Tensor]] = []

    def take(self, elements: int) -> torch.Tensor:
        """A buffer of at least `elements`, cut to `elements`."""
        for position, (request, buffer) in enumerate(self._busy):
            if buffer.numel() >= elements and request.test()[0]:
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
    reduce_parts(exchange, out, list(data.view(exchange.size, out.numel())), reduction)
    reduction.finish(out)


def reduce_parts(
    exchange: Exchange, out: torch.Tensor, parts: Sequence[torch.Tensor], reduction: Reduction
) -> None:
    """Reduce `parts`, one a rank of any size, all but finished; `out` gets part r on rank r."""
    rank, size = exchange.rank, exchange.size
    slots = _Slots(exchange, out)
    for start, stop in loops(_longest(parts), RING, out.itemsize):
        for step in range(1, size + 1):
            part = parts[(rank - step) % size]
            for low, high in slices(_clip((start, stop), part), RING, out.itemsize):
                local = part[low:high]
                if step == 1:
                    _send_input(exchange, slots, local, reduction)
                    continue
                # Through a slot also at the last hop: `out` may be one of `parts`.
                slot = slots.take(high - low)
                exchange.receive(exchange.preceding, slot)
                _combine(slot, local, slot if step < size else out[low:high], reduction)
                if step < size:
                    slots.send(slot)
    exchange.finish()


def all_gather(exchange: Exchange, out: torch.Tensor) -> None:
    """Gather parts: rank r's part of `out`, `(n * part,)`, is in place and goes to all others."""
    gather_parts(exchange, list(out.view(exchange.size, out.numel() // exchange.size)))


def gather_parts(exchange: Exchange, parts: Sequence[torch.Tensor]) -> None:
    """Gather `parts`, one a rank of any size: part r is in place at rank r and goes to all."""
    rank, size, itemsize = exchange.rank, exchange.size, parts[0].itemsize
    for loop in loops(_longest(parts), RING, itemsize):
        for low, high in slices(_clip(loop, parts[rank]), RING, itemsize):
            exchange.send(exchange.following, parts[rank][low:high])
        later = [parts[(rank - step) % size] for step in range(1, size)]
        _pass_around(exchange, [part[slice(*_clip(loop, part))] for part in later])
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

    Goes in rounds, of a piece to and from each: sends it to the nearest successor first, receives
    it from the nearest predecessor first, as NCCL pairs the ranks of an all-to-all. No rank waits
    for another's next round, and so none needs more room than for the sends of a few.
    """
    rank, size = exchange.rank, exchange.size
    outgoing = {peer: _pieces(flat) for peer, flat in sends.items() if peer != rank}
    incoming = {peer: _pieces(flat) for peer, flat in receives.items() if peer != rank}
    rounds = max(map(len, [*outgoing.values(), *incoming.values()]), default=0)
    for number in range(rounds):
        for peer in ((rank + distance) % size for distance in range(1, size)):
            for piece in outgoing.get(peer, [])[number : number + 1]:
                exchange.send(peer, piece)
        for peer in ((rank - distance) % size for distance in range(1, size)):
            for piece in incoming.get(peer, [])[number : number + 1]:
                exchange.receive(peer, piece)
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
    _pass_around(exchange, [flat[low:high] for low, high in later])


def _pass_around(exchange: Exchange, chunks: list[torch.Tensor]) -> None:
    """Receive `chunks` in their order, and pass on each but the last."""
    for number, chunk in enumerate(chunks, 1):
        keep = number < len(chunks)
        for low, high in slices((0, chunk.numel()), RING, chunk.itemsize):
            received = exchange.receive(exchange.preceding, chunk[low:high], keep=keep)
            if keep:
                exchange.send(exchange.following, chunk[low:high], received)


def _longest(parts: Sequence[torch.Tensor]) -> int:
    return max(part.numel() for part in parts)


def _clip(span: Span, part: torch.Tensor) -> Span:
    """What `part` has of `span`, in elements of it."""
    return min(span[0], part.numel()), min(span[1], part.numel())


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


def _pieces(flat: torch.Tensor) -> list[torch.Tensor]:
    size = POINT_TO_POINT_SLICE_BYTES // flat.itemsize
    return [flat[low:high] for low, high in cut((0, flat.numel()), size)]
