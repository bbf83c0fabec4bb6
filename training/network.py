# SPDX-License-Identifier: Apache-2.0
"""The collectives of the training loop, each with the time that it takes.

A process group is the only way in which a program can tell the NIC what it sends: the backend gets
the role with the group. So there is one for each role and group of ranks that a strategy needs.
All calls wait for the result, unless they return something to wait for.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup, Work

import nic_emul
from nic_emul.roles import Role
from training.mesh import Group
from training.strategy import Strategy

Groups = Mapping[tuple[Role, Group], ProcessGroup]


class Network:
    """What one rank of a run sends and receives.

    Attributes:
        rank: of this process.
        world_size: number of ranks.
        communication_seconds: time spent in collectives, or waiting for one, so far.
    """

    def __init__(self, *, rank: int, world_size: int, groups: Groups) -> None:
        """`groups` are those that this rank is in; a group of one rank needs none."""
        self.rank = rank
        self.world_size = world_size
        self.communication_seconds = 0.0
        self._groups = groups

    @classmethod
    def over_nics(cls, strategy: Strategy) -> "Network":
        """What `strategy` needs, over the emulated NICs; `init_process_group` comes first."""
        rank, world_size = dist.get_rank(), dist.get_world_size()
        groups: dict[tuple[Role, Group], ProcessGroup] = {}
        for role, group in _needed(strategy):
            # torch wants every rank to make every group, in the same order.
            for members in group.all(world_size):
                made = dist.new_group(
                    list(members),
                    backend="wirezip",
                    pg_options=nic_emul.GroupOptions(role=role),
                )
                if rank in members:
                    assert isinstance(made, ProcessGroup)
                    groups[role, group] = made
        return cls(rank=rank, world_size=world_size, groups=groups)

    def close(self) -> None:
        """Leave the groups; every rank does."""
        for group in self._groups.values():
            dist.destroy_process_group(group)
        self._groups = {}

    def all_gather(self, full: Tensor, shard: Tensor, over: Group) -> None:
        """Concatenate the parameters that each rank has in `shard` into `full`."""
        self._all_gather(Role.PARAMETER, full, shard, over)

    def all_gather_state(self, full: Tensor, shard: Tensor, over: Group) -> None:
        """Concatenate the optimizer states that each rank has in `shard` into `full`."""
        self._all_gather(Role.OPTIMIZER_STATE, full, shard, over)

    def start_all_gather(self, full: Tensor, shard: Tensor, over: Group) -> Work | None:
        """Begin what `all_gather` does; both tensors stay as they are until `wait_for` it."""
        if over.size == 1:
            full.copy_(shard)
            return None
        group = self._groups[Role.PARAMETER, over]
        work: Work = dist.all_gather_single(full, shard, group=group, async_op=True)
        return work

    def wait_for(self, work: Work | None) -> None:
        """Return once `work` is done."""
        if work is not None:
            with self._timed():
                work.wait()

    def reduce_scatter(self, shard: Tensor, full: Tensor, over: Group) -> None:
        """Sum the gradient `full` over ranks; this rank's part goes into `shard`."""
        with self._timed():
            dist.reduce_scatter_single(shard, full, group=self._groups[Role.GRADIENT, over])

    def all_reduce_gradient(self, full: Tensor, over: Group) -> None:
        """Sum the gradient `full` over ranks, in place."""
        if over.size > 1:
            with self._timed():
                dist.all_reduce(full, group=self._groups[Role.GRADIENT, over])

    def all_reduce_scalars(self, scalars: Tensor) -> None:
        """Sum a few scalars over all ranks, in place."""
        if self.world_size > 1:
            with self._timed():
                group = self._groups[Role.OTHER, Group(1, self.world_size)]
                dist.all_reduce(scalars, group=group)

    def _all_gather(self, role: Role, full: Tensor, shard: Tensor, over: Group) -> None:
        if over.size == 1:
            full.copy_(shard)
            return
        with self._timed():
            dist.all_gather_single(full, shard, group=self._groups[role, over])

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.communication_seconds += time.perf_counter() - started


def _needed(strategy: Strategy) -> list[tuple[Role, Group]]:
    """The groups of more than one rank that `strategy` uses, each once, in a fixed order."""
    world = Group(1, strategy.cluster.world_size)
    needed = [
        (Role.PARAMETER, strategy.forward_group),
        (Role.PARAMETER, strategy.backward_group),
        (Role.PARAMETER, strategy.refresh_group),
        (Role.GRADIENT, strategy.forward_group),
        (Role.GRADIENT, strategy.scatter_group),
        (Role.GRADIENT, strategy.replica_group),
        (Role.OPTIMIZER_STATE, strategy.refresh_group),
        (Role.OPTIMIZER_STATE, strategy.forward_group),
        (Role.OPTIMIZER_STATE, world),
        (Role.OTHER, world),
    ]
    return [key for key in dict.fromkeys(needed) if key[1].size > 1]
