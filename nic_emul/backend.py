# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend `wirezip`: torch's calls, translated; nothing else happens here.

torch 2.13 renamed several methods (`_allgather_base` is `all_gather_single`, and so on). Python
callers use the new names by attribute, C++ callers find either name of some and only the old name
of others, so both are defined.
"""

import atexit
import multiprocessing
import multiprocessing.util
import os
import sys
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from nic_emul.autoload import check_torch
from nic_emul.collectives import Collectives, Operation
from nic_emul.config import GroupOptions
from nic_emul.errors import ConfigError, UnsupportedOperation
from nic_emul.nic import Nic, local_nic
from nic_emul.point_to_point import PointToPoint
from nic_emul.roles import role_of_mesh
from nic_emul.transport import Transport, announce
from nic_emul.work import NicWork, Result, Worker

check_torch()

_SHUTDOWN_S = 10.0

Tensors = list[torch.Tensor]


# To the type checker the base is Any: its stubs demand overloads that nothing in torch calls.
_Base: Any = dist.ProcessGroup


class WirezipGroup(_Base):  # type: ignore[misc]
    """One process group of the backend."""

    def __init__(
        self,
        nic: Nic,
        store: dist.Store,
        *,
        rank: int,
        job_ranks: Sequence[int],
        timeout: timedelta,
        name: str,
        options: GroupOptions,
    ) -> None:
        super().__init__(rank, len(job_ranks))
        self._name = name
        self._store = store
        self._sequence = 0
        self._batch: list[NicWork] | None = None
        self._open = True
        timeout_s = min(nic.config.timeout_s, timeout.total_seconds())
        self._transport = Transport(
            nic, rank=rank, job_ranks=job_ranks, timeout_s=timeout_s, group=name
        )
        self._collectives = Collectives(self._transport, options.role)
        self._point_to_point = PointToPoint(self._transport, options.role)
        self._transport.open(store)
        self._worker = Worker(name, fail=self._transport.fail)
        _LIVE.add(self)

    # Collectives

    def allreduce(self, tensors: Tensors, opts: Any = None) -> NicWork:
        op = ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
        return self._run([self._collectives.all_reduce(t, op) for t in tensors], tensors)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> NicWork:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any) -> NicWork:
        root, op = opts.rootRank, opts.reduceOp
        return self._run([self._collectives.reduce(t, root, op) for t in tensors], tensors)

    def broadcast(self, tensors: Tensors, opts: Any) -> NicWork:
        root = opts.rootRank
        return self._run([self._collectives.broadcast(t, root) for t in tensors], tensors)

    def allgather(self, outs: list[Tensors], tensors: Tensors, opts: Any = None) -> NicWork:
        pairs = zip(outs, tensors, strict=True)
        steps = [self._collectives.all_gather_list(out, data) for out, data in pairs]
        return self._run(steps, [out for row in outs for out in row])

    def allgather_coalesced(
        self, outs: list[Tensors], tensors: Tensors, opts: Any = None
    ) -> NicWork:
        return self.allgather(outs, tensors, opts)

    def all_gather_single(self, out: torch.Tensor, data: torch.Tensor, opts: Any = None) -> NicWork:
        return self._run([self._collectives.all_gather(out, data)], out)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outs: Tensors, tensors: Tensors, opts: Any = None
    ) -> NicWork:
        pairs = zip(outs, tensors, strict=True)
        return self._run([self._collectives.all_gather(out, data) for out, data in pairs], outs)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outs: Tensors, tensors: list[Tensors], opts: Any = None) -> NicWork:
        op = _reduce_op(opts)
        pairs = zip(outs, tensors, strict=True)
        steps = [self._collectives.reduce_scatter_list(out, parts, op) for out, parts in pairs]
        return self._run(steps, outs)

    def reduce_scatter_single(
        self, out: torch.Tensor, data: torch.Tensor, opts: Any = None
    ) -> NicWork:
        return self._run([self._collectives.reduce_scatter(out, data, _reduce_op(opts))], out)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outs: Tensors, tensors: Tensors, opts: Any = None
    ) -> NicWork:
        op = _reduce_op(opts)
        pairs = zip(outs, tensors, strict=True)
        steps = [self._collectives.reduce_scatter(out, data, op) for out, data in pairs]
        return self._run(steps, outs)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outs: Tensors, tensors: Tensors, opts: Any = None) -> NicWork:
        return self._run([self._collectives.all_to_all(outs, tensors)], outs)

    def all_to_all_single(
        self,
        out: torch.Tensor,
        data: torch.Tensor,
        out_sizes: Sequence[int],
        data_sizes: Sequence[int],
        opts: Any = None,
    ) -> NicWork:
        outs = out.detach().split(self._row_counts(out, out_sizes))
        parts = data.detach().split(self._row_counts(data, data_sizes))
        return self._run([self._collectives.all_to_all(outs, parts)], out)

    alltoall_base = all_to_all_single

    def gather(self, outs: list[Tensors], tensors: Tensors, opts: Any) -> NicWork:
        row = outs[0] if outs else []
        steps = [self._collectives.gather(row, tensors[0], opts.rootRank)]
        return self._run(steps, row or tensors)

    def scatter(self, outs: Tensors, tensors: list[Tensors], opts: Any) -> NicWork:
        row = tensors[0] if tensors else []
        return self._run([self._collectives.scatter(outs[0], row, opts.rootRank)], outs)

    def barrier(self, opts: Any = None) -> NicWork:
        return self._run([self._collectives.barrier()], torch.zeros(1))

    # Point to point

    def send(self, tensors: Tensors, peer: int, tag: int = 0) -> NicWork:
        return self._note(self._point_to_point.send(_single(tensors), peer, tag))

    def recv(self, tensors: Tensors, peer: int, tag: int = 0) -> NicWork:
        return self._note(self._point_to_point.receive(_single(tensors), peer, tag))

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> NicWork:
        return self._note(self._point_to_point.receive(_single(tensors), None, tag))

    # Coalescing: operations run in order anyway; the batch has one handle.

    def _start_coalescing(self, device: torch.device) -> None:
        self._batch = []

    def _end_coalescing(self, device: torch.device) -> NicWork:
        batch, self._batch = self._batch or [], None

        def wait_for_all() -> None:
            for work in batch:
                work.wait()

        return self._worker.submit(wait_for_all, [])

    # What torch asks about a group

    def getBackendName(self) -> str:  # noqa: N802 - C++ asks by this name
        return "wirezip"

    def name(self) -> str:
        return "wirezip"

    def getGroupName(self) -> str:  # noqa: N802 - C++ asks by this name
        return self._name

    @property
    def group_name(self) -> str:
        return self._name

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _set_group_desc(self, description: str) -> None:
        # torch describes a group once it is made, and so before its first operation.
        super()._set_group_desc(description)
        if self._collectives.role is None:
            self._collectives.role = self._point_to_point.role = role_of_mesh(description)

    def get_group_store(self) -> dist.Store:
        return self._store

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    # The end

    def shutdown(self) -> None:
        """Finish what was submitted, say goodbye to the peers, join every thread."""
        self._close("")

    def abort(self) -> None:
        """Like `shutdown`, but peers that still wait for this rank fail."""
        self._close(f"{self._transport.name_of(self.rank())} aborted group {self._name!r}")

    def _close(self, reason: str) -> None:
        if not self._open:
            return
        self._open = False
        _LIVE.discard(self)
        deadline = time.monotonic() + (0 if reason else _SHUTDOWN_S)
        finished = self._worker.stop(deadline)
        drained = self._point_to_point.drain(deadline)
        if not (finished and drained) and not reason:
            reason = f"{self._transport.name_of(self.rank())} left with operations unfinished"
        self._transport.disconnect(reason)
        self._point_to_point.join()
        self._worker.join()
        self._transport.release()
        if not _LIVE:
            self._transport.nic.write_counters()
            self._transport.nic.write_trace()
            self._transport.nic.leave_switch()

    def _run(self, operations: list[Operation], result: Result) -> NicWork:
        self._check_open()
        self._sequence += 1

        def run() -> None:
            for operation in operations:
                operation()

        return self._note(self._worker.submit(run, result))

    def _note(self, work: NicWork) -> NicWork:
        if self._batch is not None:
            self._batch.append(work)
        return work

    def _check_open(self) -> None:
        if not self._open:
            raise UnsupportedOperation(f"group {self._name!r} has been shut down")

    def _row_counts(self, tensor: torch.Tensor, counts: Sequence[int]) -> list[int]:
        if counts:
            return list(counts)
        if not tensor.dim() or tensor.size(0) % self.size():
            raise UnsupportedOperation(
                f"all_to_all_single: expected rows that {self.size()} ranks can share; "
                f"found shape {tuple(tensor.shape)}"
            )
        return [tensor.size(0) // self.size()] * self.size()


_LIVE: "weakref.WeakSet[WirezipGroup]" = weakref.WeakSet()


def create_group(backend_options: Any, group_options: Any) -> WirezipGroup:
    """Make a group; torch calls this with its extended backend API.

    Raises:
        ConfigError: `pg_options` is something else than `GroupOptions`, or a variable is wrong.
    """
    if group_options is None:
        group_options = GroupOptions()
    if not isinstance(group_options, GroupOptions):
        raise ConfigError(f"pg_options: expected nic_emul.GroupOptions; found {group_options!r}")
    rank = backend_options.group_rank
    # Before the NIC: its engine may compile itself first, and the others should know who is here.
    announce(backend_options.store, rank)
    nic = local_nic()
    if multiprocessing.parent_process() is not None:
        # A child that multiprocessing forks ends without what `atexit` knows.
        multiprocessing.util.Finalize(None, _close_all, exitpriority=0)
    # The default group leaves the list empty.
    ranks = list(backend_options.global_ranks_in_group) or range(backend_options.group_size)
    nic.set_rank(ranks[rank])
    return WirezipGroup(
        nic,
        backend_options.store,
        rank=rank,
        job_ranks=ranks,
        timeout=backend_options.timeout,
        name=backend_options.group_id,
        options=group_options,
    )


def _close_all() -> None:
    # Threads that are alive when the interpreter goes down would take the process with them.
    # In a child of multiprocessing, what ended it is on its way out still.
    failed = getattr(sys, "last_value", None) or sys.exc_info()[1]
    if isinstance(failed, SystemExit) and not failed.code:
        failed = None
    for group in list(_LIVE):
        group._close("" if failed is None else f"{type(failed).__name__} ended a rank: {failed}")


def _leave_to_parent() -> None:
    # A forked child (a data loader's worker) has no part in the groups. Its copies of the sockets
    # would keep connections of a dead parent open, and its exit must not say goodbye for it.
    for group in list(_LIVE):
        group._transport.abandon()
    _LIVE.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_leave_to_parent)


def _reduce_op(opts: Any) -> object:
    return ReduceOp.SUM if opts is None else opts.reduceOp


def _single(tensors: Tensors) -> torch.Tensor:
    if len(tensors) != 1:
        raise UnsupportedOperation(f"send and recv: expected one tensor; found {len(tensors)}")
    return tensors[0]
