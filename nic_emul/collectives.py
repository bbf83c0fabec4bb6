# SPDX-License-Identifier: Apache-2.0
"""Collectives on tensors of any shape: checked when called, run later in the worker thread.

Each method checks its arguments at once, so that a wrong call raises in the caller before any peer
is involved, and returns the operation to run. Operations must run in the same order on all ranks.
No element is read before the operation runs, as on a stream of NCCL's: what an operation in flight
writes is what the next one reads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nic_emul import hierarchy, in_network, ring
from nic_emul.dtypes import describe
from nic_emul.errors import UnsupportedOperation
from nic_emul.message import Traffic
from nic_emul.reduce_ops import ReduceCode, Reduction, reduction
from nic_emul.ring import Exchange
from nic_emul.roles import Collective, Role, resolve_role
from nic_emul.transport import Transport

Operation = Callable[[], None]
Tensors = Sequence[torch.Tensor]


class Collectives:
    """The collectives of one group, as this rank takes part in them.

    Attributes:
        role: what the group's floating-point tensors are; None leaves it to each collective.
    """

    def __init__(self, transport: Transport, role: Role | None) -> None:
        self.role = role
        self._transport = transport
        self._rank = transport.rank
        self._size = transport.size
        self._grid = transport.grid()
        self._sequence = 0

    def all_reduce(self, tensor: torch.Tensor, op: Any) -> Operation:
        """Reduce `tensor` over the group, in place."""
        check_tensors([tensor])
        reduce_op = reduction(op, tensor.dtype, self._size)

        def run() -> None:
            exchange = self._begin(Collective.ALL_REDUCE, tensor, tensor.nbytes, reduce_op)
            flat = flatten(tensor)
            if self._size == 1:
                _reduce_alone(flat, reduce_op)
            elif self._grid:
                hierarchy.all_reduce(exchange, self._grid, flat, reduce_op)
            elif in_network.can_sum(exchange, reduce_op):
                in_network.all_reduce(exchange, flat, reduce_op)
            else:
                ring.all_reduce(exchange, flat, reduce_op)
            put_back(tensor, flat)

        return run

    def reduce(self, tensor: torch.Tensor, root: int, op: Any) -> Operation:
        """Reduce `tensor` over the group into the root's, in place; the others keep theirs."""
        check_tensors([tensor])
        self._check_rank("root", root)
        reduce_op = reduction(op, tensor.dtype, self._size)

        def run() -> None:
            exchange = self._begin(Collective.REDUCE, tensor, tensor.nbytes, reduce_op, root=root)
            flat = flatten(tensor)
            if self._size == 1:
                _reduce_alone(flat, reduce_op)
            else:
                ring.reduce(exchange, flat, root, reduce_op)
            if self._rank == root:
                put_back(tensor, flat)

        return run

    def reduce_scatter(self, out: torch.Tensor, data: torch.Tensor, op: Any) -> Operation:
        """Reduce `data`, n parts of `out.numel()` elements; `out` gets part r on rank r."""
        check_tensors([out, data])
        self._check_elements("reduce_scatter input", data.numel(), self._size * out.numel())
        return self._reduce_scatter(out, lambda: data, op)

    def reduce_scatter_list(self, out: torch.Tensor, parts: Tensors, op: Any) -> Operation:
        """Reduce `parts`, one tensor per rank of `out.numel()` elements each."""
        parts = list(parts)
        check_tensors([out, *parts])
        self._check_elements("reduce_scatter parts", len(parts), self._size)
        for part in parts:
            self._check_elements("reduce_scatter part", part.numel(), out.numel())
        return self._reduce_scatter(out, lambda: torch.cat([flatten(part) for part in parts]), op)

    def _reduce_scatter(
        self, out: torch.Tensor, source: Callable[[], torch.Tensor], op: Any
    ) -> Operation:
        reduce_op = reduction(op, out.dtype, self._size)

        def run() -> None:
            exchange = self._begin(Collective.REDUCE_SCATTER, out, out.nbytes, reduce_op)
            result, flat = landing(out), flatten(source())
            if self._size == 1:
                result.copy_(flat)
                _reduce_alone(result, reduce_op)
            elif self._grid:
                hierarchy.reduce_scatter(exchange, self._grid, result, flat, reduce_op)
            elif in_network.can_sum(exchange, reduce_op):
                in_network.reduce_scatter(exchange, result, flat, reduce_op)
            else:
                ring.reduce_scatter(exchange, result, flat, reduce_op)
            put_back(out, result)

        return run

    def all_gather(self, out: torch.Tensor, data: torch.Tensor) -> Operation:
        """Gather `data` of every rank into `out`, n parts of `data.numel()` elements."""
        check_tensors([out, data])
        self._check_elements("all_gather output", out.numel(), self._size * data.numel())

        def run() -> None:
            exchange = self._begin(Collective.ALL_GATHER, data, data.nbytes)
            result = landing(out)
            own = result[self._rank * data.numel() : (self._rank + 1) * data.numel()]
            # `data` may be this very part of `out`; then there is nothing to copy.
            if own.data_ptr() != data.data_ptr() or not data.is_contiguous():
                own.copy_(flatten(data))
            if self._grid:
                hierarchy.all_gather(exchange, self._grid, result)
            elif self._size > 1:
                ring.all_gather(exchange, result)
            put_back(out, result)

        return run

    def all_gather_list(self, outs: Tensors, data: torch.Tensor) -> Operation:
        """Gather `data` of every rank into `outs`, one tensor per rank."""
        outs = list(outs)
        check_tensors([data, *outs])
        self._check_elements("all_gather outputs", len(outs), self._size)
        for out in outs:
            self._check_elements("all_gather output", out.numel(), data.numel())
        whole = torch.empty(self._size * data.numel(), dtype=data.dtype)
        gather = self.all_gather(whole, data)

        def run() -> None:
            gather()
            for out, part in zip(outs, whole.chunk(self._size), strict=False):
                put_back(out, part)

        return run

    def broadcast(self, tensor: torch.Tensor, root: int) -> Operation:
        """Copy the root's `tensor` to every rank."""
        check_tensors([tensor])
        self._check_rank("root", root)

        def run() -> None:
            exchange = self._begin(Collective.BROADCAST, tensor, tensor.nbytes, root=root)
            flat = flatten(tensor)
            if self._size > 1:
                ring.broadcast(exchange, flat, root)
            if self._rank != root:
                put_back(tensor, flat)

        return run

    def all_to_all(self, outs: Tensors, data: Tensors) -> Operation:
        """Send `data[i]` to rank i and receive `outs[i]` from rank i; sizes may differ by pair."""
        outs, data = list(outs), list(data)
        check_tensors([*outs, *data])
        self._check_elements("all_to_all outputs", len(outs), self._size)
        self._check_elements("all_to_all inputs", len(data), self._size)
        own_out, own_data = outs[self._rank], data[self._rank]
        self._check_elements("all_to_all own part", own_out.numel(), own_data.numel())

        def run() -> None:
            exchange = self._begin(Collective.ALL_TO_ALL, data[0], 0)
            sends = {rank: flatten(tensor) for rank, tensor in enumerate(data)}
            # Fresh memory: outputs may overlap inputs that are still being sent.
            receives = {rank: torch.empty(t.numel(), dtype=t.dtype) for rank, t in enumerate(outs)}
            receives[self._rank].copy_(sends[self._rank])
            ring.exchange_pairs(exchange, sends, receives)
            for rank, out in enumerate(outs):
                put_back(out, receives[rank])

        return run

    def gather(self, outs: Tensors, data: torch.Tensor, root: int) -> Operation:
        """Collect `data` of every rank in the root's `outs`; `outs` is empty elsewhere."""
        outs = list(outs)
        check_tensors([*outs, data])
        self._check_rank("root", root)
        self._check_elements("gather outputs", len(outs), self._size if self._rank == root else 0)
        for out in outs:
            self._check_elements("gather output", out.numel(), data.numel())

        def run() -> None:
            exchange = self._begin(Collective.GATHER, data, data.nbytes, root=root)
            flat = flatten(data)
            if self._rank != root:
                ring.exchange_pairs(exchange, {root: flat}, {})
                return
            parts = {rank: torch.empty_like(flat) for rank in range(self._size)}
            parts[root].copy_(flat)
            ring.exchange_pairs(exchange, {}, parts)
            for rank, out in enumerate(outs):
                put_back(out, parts[rank])

        return run

    def scatter(self, out: torch.Tensor, data: Tensors, root: int) -> Operation:
        """Give `data[i]` of the root to rank i; `data` is empty elsewhere."""
        data = list(data)
        check_tensors([out, *data])
        self._check_rank("root", root)
        self._check_elements("scatter inputs", len(data), self._size if self._rank == root else 0)
        for part in data:
            self._check_elements("scatter input", part.numel(), out.numel())

        def run() -> None:
            exchange = self._begin(Collective.SCATTER, out, out.nbytes, root=root)
            flat = torch.empty(out.numel(), dtype=out.dtype)
            if self._rank == root:
                flat.copy_(flatten(data[root]))
                parts = {rank: flatten(tensor) for rank, tensor in enumerate(data)}
                ring.exchange_pairs(exchange, parts, {})
            else:
                ring.exchange_pairs(exchange, {}, {root: flat})
            put_back(out, flat)

        return run

    def barrier(self) -> Operation:
        """Return once every rank has come here: an all-reduce of one byte."""

        def run() -> None:
            token = torch.zeros(1, dtype=torch.uint8)
            exchange = self._begin(Collective.BARRIER, token, 1)
            if self._size > 1:
                ring.all_reduce(exchange, token, reduction(ReduceCode.SUM, token.dtype, self._size))

        return run

    def _begin(
        self,
        collective: Collective,
        like: torch.Tensor,
        total_bytes: int,
        reduce_op: Reduction | None = None,
        *,
        root: int = 0,
    ) -> Exchange:
        dtype = describe(like.dtype)
        role = resolve_role(collective, floating=dtype.floating, declared=self.role)
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        traffic = Traffic(
            collective=collective,
            role=role,
            dtype=dtype,
            sequence=self._sequence,
            operation=0 if reduce_op is None else reduce_op.code,
            root=root,
            total_bytes=total_bytes,
        )
        return Exchange(self._transport, traffic)

    def _check_rank(self, what: str, rank: int) -> None:
        if not 0 <= rank < self._size:
            raise UnsupportedOperation(f"{what}: expected rank 0 to {self._size - 1}; found {rank}")

    def _check_elements(self, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise UnsupportedOperation(f"{what}: expected {expected}; found {found}")


def check_tensors(tensors: Tensors) -> None:
    """Raise `UnsupportedOperation` unless all are dense CPU tensors of one plain dtype."""
    for tensor in tensors:
        describe(tensor.dtype)
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise UnsupportedOperation(
                f"tensor: expected dense on cpu; found {tensor.layout} on {tensor.device}"
            )
        if tensor.dtype != tensors[0].dtype:
            raise UnsupportedOperation(
                f"tensors: expected one dtype; found {tensors[0].dtype} and {tensor.dtype}"
            )


def flatten(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` as a contiguous vector: its own memory where possible, else a copy."""
    flat = tensor.detach().contiguous()
    # Not view(-1): a tensor of one element counts as contiguous whatever its stride.
    return flat.as_strided((flat.numel(),), (1,))


def landing(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous vector to fill and then `put_back`: the tensor's memory if possible, or new."""
    if tensor.is_contiguous():
        return flatten(tensor)
    return torch.empty(tensor.numel(), dtype=tensor.dtype)


def put_back(tensor: torch.Tensor, flat: torch.Tensor) -> None:
    """Copy `flat` into `tensor`, unless it is the tensor's own memory."""
    target = tensor.detach()
    if target.data_ptr() != flat.data_ptr() or not target.is_contiguous():
        target.copy_(flat.view(target.shape))


def _reduce_alone(flat: torch.Tensor, reduce_op: Reduction) -> None:
    if reduce_op.factor is not None:
        flat.mul_(reduce_op.factor)
    reduce_op.finish(flat)
