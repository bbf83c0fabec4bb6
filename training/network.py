# SPDX-License-Identifier: Apache-2.0
"""The collectives of the training loop, one process group per tensor role, with their time.

A process group is the only way in which a program can tell the NIC what it sends: the backend gets
the role with the group. All calls wait for the result.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

import nic_emul


class Network:
    """What one rank of a run sends and receives.

    Attributes:
        rank: of this process.
        world_size: number of ranks.
        communication_seconds: time spent in collectives so far.
    """

    def __init__(
        self,
        *,
        gradient: ProcessGroup,
        parameter: ProcessGroup,
        state: ProcessGroup,
        other: ProcessGroup,
    ) -> None:
        """Each group has all ranks in it, in order."""
        self.rank = dist.get_rank(gradient)
        self.world_size = dist.get_world_size(gradient)
        self.communication_seconds = 0.0
        self._gradient = gradient
        self._parameter = parameter
        self._state = state
        self._other = other

    @classmethod
    def over_nics(cls) -> "Network":
        """One group per role over the emulated NICs; `init_process_group` comes first."""

        def group(role: nic_emul.Role) -> ProcessGroup:
            made = dist.new_group(backend="wirezip", pg_options=nic_emul.GroupOptions(role=role))
            assert isinstance(made, ProcessGroup)  # every rank is in it
            return made

        return cls(
            gradient=group(nic_emul.Role.GRADIENT),
            parameter=group(nic_emul.Role.PARAMETER),
            state=group(nic_emul.Role.OPTIMIZER_STATE),
            other=group(nic_emul.Role.OTHER),
        )

    def all_gather(self, full: Tensor, shard: Tensor) -> None:
        """Concatenate every rank's parameter `shard` into `full`."""
        with self._timed():
            dist.all_gather_single(full, shard, group=self._parameter)

    def reduce_scatter(self, shard: Tensor, full: Tensor) -> None:
        """Sum the gradient `full` over ranks; this rank's part goes into `shard`."""
        with self._timed():
            dist.reduce_scatter_single(shard, full, group=self._gradient)

    def all_reduce_gradient(self, full: Tensor) -> None:
        """Sum the gradient `full` over ranks, in place."""
        with self._timed():
            dist.all_reduce(full, group=self._gradient)

    def all_gather_state(self, full: Tensor, shard: Tensor) -> None:
        """Concatenate every rank's optimizer `shard` into `full`."""
        with self._timed():
            dist.all_gather_single(full, shard, group=self._state)

    def all_reduce_scalars(self, scalars: Tensor) -> None:
        """Sum a few scalars over ranks, in place."""
        with self._timed():
            dist.all_reduce(scalars, group=self._other)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.communication_seconds += time.perf_counter() - started
