# SPDX-License-Identifier: Apache-2.0
"""Which strategy sends its bytes soonest, among those that fit into memory: an exact search.

All points of the space (`training/strategy.py`) are tried. Each has the collectives that this loop
runs (`training/volumes.py`), or those of AMSP's formulas (arXiv 2311.00257, equations 1 to 7). A
collective of D bytes over s ranks takes, at the speed of its slowest link and a latency a hop,

    all-gather, reduce-scatter   D (s-1)/s by speed + (s-1) hops
    all-reduce                   2 D (s-1)/s by speed + 2 log2(s) hops, as NCCL's trees have it
    broadcast                    D by speed + a hop

or what was measured for it. Groups that cross nodes share the network cards of a node: the speed of
each link is that of the node by the links that leave it. Compression multiplies that speed by the
ratio of the role: logical by payload bytes. Nothing overlaps, and no computation is in the time.

AMSP's formulas, with Phi parameters of 2 bytes in L layers of K tensors, M micro-batches, and
buckets of U bytes:

    M L K (2 all-gathers + reduce-scatter) of 2 Phi / L / K   over p, if p > 1
    (M-1) 2 Phi / U / p all-reduces of U                      over g / p, if g > p
    2 Phi / U / p all-reduces of U                            over n / p
    os / p broadcasts of 2 Phi / os                           over os / p, if os > p
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from training.errors import PlanError
from training.memory import UnitSize, strategy_memory
from training.mesh import Cluster, Group, Mesh
from training.plan_inputs import MeasuredBandwidth, PlannedCluster, PlannedModel
from training.strategy import Strategy
from training.volumes import PARAMETER_BYTES, moves

Formulas = Literal["rings", "amsp"]
Ratios = Mapping[str, float]
"""Logical by payload bytes, by role; 1 for roles that are not in it."""

# Times nearer than this are tied: no table of bandwidths is better than that.
TIE = 1e-3

_AMSP_TENSORS = 7
_AMSP_BUCKET = 256e6


_PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


@dataclass(frozen=True)
class Transfer:
    """A collective and how often a step runs it.

    Attributes:
        role, collective: as the NIC counts them.
        group: over whose ranks.
        data_bytes: of what is gathered, reduced or broadcast, each time.
        times: how often.
    """

    role: str
    collective: str
    group: Group
    data_bytes: float
    times: float

    @property
    def link_bytes(self) -> float:
        """What each link of the ring carries, each time."""
        if self.collective == "broadcast":
            return self.data_bytes
        size = self.group.size
        return _PASSES[self.collective] * self.data_bytes * (size - 1) / size

    @property
    def hops(self) -> float:
        """Latencies that a step waits for, each time."""
        size = self.group.size
        if self.collective == "broadcast":
            return 1
        return 2 * math.log2(size) if self.collective == "all_reduce" else size - 1


@dataclass(frozen=True)
class Candidate:
    """A strategy and what it would cost.

    Attributes:
        strategy: the point.
        seconds: of communication in a step; the next add up to it.
        seconds_by_role: by role; `host` is between host and device.
        between_bytes: logical bytes that leave nodes in a step, over all nodes.
        memory_bytes: of a rank.
        host_bytes: of a node's host.
        place: of its tie, from 1.
    """

    strategy: Strategy
    seconds: float
    seconds_by_role: Mapping[str, float]
    between_bytes: float
    memory_bytes: float
    host_bytes: float
    place: int = 0


def plan(
    model: PlannedModel,
    cluster: PlannedCluster,
    *,
    formulas: Formulas = "rings",
    ratios: Ratios | None = None,
) -> list[Candidate]:
    """All strategies that fit, best first: by time; those that tie, by what leaves nodes, then by
    memory.

    Raises:
        PlanError: none fits.
    """
    costs = _Costs(model, cluster, formulas, ratios or {})
    fitting = [each for point in costs.points() if costs.fits(each := costs.candidate(point))]
    if not fitting:
        raise PlanError(
            f"{model.name} on {cluster.name}: expected a strategy that fits into "
            f"{cluster.memory_gb:g} GB a rank; found none"
        )
    return _ranked(fitting)


def _ranked(candidates: list[Candidate]) -> list[Candidate]:
    """Sorted, with the places of their ties."""
    ranked: list[Candidate] = []
    tied: list[Candidate] = []
    place = 1
    for candidate in sorted(candidates, key=lambda each: each.seconds):
        if tied and candidate.seconds > tied[0].seconds * (1 + TIE):
            ranked += _placed(tied, place)
            place += len(tied)
            tied = []
        tied.append(candidate)
    return ranked + _placed(tied, place)


def _placed(tied: list[Candidate], place: int) -> list[Candidate]:
    order = sorted(tied, key=lambda each: (each.between_bytes, each.memory_bytes, each.seconds))
    return [replace(each, place=place) for each in order]


class _Costs:
    """Time and memory of strategies, for one model on one cluster."""

    def __init__(
        self, model: PlannedModel, cluster: PlannedCluster, formulas: Formulas, ratios: Ratios
    ) -> None:
        self._model = model
        self._cluster = cluster
        self._formulas = formulas
        self._ratios = ratios
        # As the loop pads: every rank's shard of a layer is a multiple of 16 bytes.
        grain = 8 * cluster.shape.world_size
        layer = math.ceil(model.parameters / model.layers)
        self._unit = UnitSize(layer, math.ceil(layer / grain) * grain)

    def points(self) -> Iterator[Strategy]:
        """The space: AMSP's alone for its formulas, which know no more."""
        extended = self._formulas == "rings"
        hosts = (False, True) if extended and self._cluster.host_memory_gb else (False,)
        for strategy in _amsp_points(self._cluster.shape):
            yield strategy
            for host in hosts:
                for backward in _meshes(self._cluster.shape) if extended else ():
                    second = backward != strategy.parameters
                    if (second or host) and backward.divides(strategy.parameters):
                        yield replace(strategy, backward=backward, host=host)

    def candidate(self, strategy: Strategy) -> Candidate:
        """What `strategy` costs."""
        by_role: dict[str, float] = {}
        between = 0.0
        for transfer in self._transfers(strategy):
            seconds = transfer.times * self._seconds(transfer)
            by_role[transfer.role] = by_role.get(transfer.role, 0.0) + seconds
            crossing = _crossings(transfer.group, self._cluster.shape)
            between += transfer.times * transfer.link_bytes * crossing
        if strategy.host:
            by_role["host"] = self._host_seconds(strategy)
        memory, host = self._memory(strategy)
        return Candidate(
            strategy=strategy,
            seconds=sum(by_role.values()),
            seconds_by_role=by_role,
            between_bytes=between,
            memory_bytes=memory,
            host_bytes=host,
        )

    def fits(self, candidate: Candidate) -> bool:
        """Whether device and host have the memory."""
        return (
            candidate.memory_bytes <= self._cluster.memory_gb * 1e9
            and candidate.host_bytes <= self._cluster.host_memory_gb * 1e9
        )

    def _memory(self, strategy: Strategy) -> tuple[float, float]:
        """Bytes of a rank, and of a node's host."""
        reserved = self._model.reserved_gb * 1e9
        if self._formulas == "amsp":
            meshes = (strategy.parameters, strategy.gradients, strategy.optimizer)
            of_each = (2 / meshes[0].size, 2 / meshes[1].size, 12 / meshes[2].size)
            return self._model.parameters * sum(of_each) + reserved, 0.0
        units = [self._unit] * self._model.layers
        needed = strategy_memory(strategy, units, gradient_bytes=2, prefetch=False)
        of_node = needed.host_parameters * self._cluster.ranks_per_node
        return needed.device + reserved, float(of_node)

    def _transfers(self, strategy: Strategy) -> Iterator[Transfer]:
        if self._formulas == "amsp":
            yield from amsp_transfers(strategy, self._model)
            return
        layers, padded = self._model.layers, self._unit.padded * self._model.layers
        for move in moves(
            strategy, padded, gradient_bytes=2, micro_batches=self._model.micro_batches
        ):
            yield Transfer(
                move.role,
                move.collective,
                move.group,
                move.data_bytes / layers,
                move.times * layers,
            )

    def _host_seconds(self, strategy: Strategy) -> float:
        """Shards are read for every gather that takes them, and written once."""
        shards = PARAMETER_BYTES * self._unit.padded * self._model.layers
        gathers = self._model.micro_batches * (1 if strategy.has_secondary else 2)
        speed = self._cluster.host_gb_per_s * 1e9
        return (gathers + 1) * shards / strategy.parameters.size / speed

    def _seconds(self, transfer: Transfer) -> float:
        """One time of a transfer."""
        cluster = self._cluster
        crossings = _crossings(transfer.group, cluster.shape)
        ratio = self._ratios.get(transfer.role, 1.0) if crossings else 1.0
        rows = _rows(cluster, transfer)
        if rows:
            return transfer.data_bytes / (_interpolated(rows, transfer.data_bytes) * ratio)
        speed, latency = cluster.intra_gb_per_s, cluster.intra_latency_us
        if crossings:
            of_link = cluster.node_gb_per_s * cluster.nodes / crossings
            speed, latency = min(speed, of_link * ratio), cluster.inter_latency_us
        return transfer.link_bytes / (speed * 1e9) + transfer.hops * latency * 1e-6


def amsp_transfers(strategy: Strategy, model: PlannedModel) -> Iterator[Transfer]:
    """The collectives of AMSP's equations 1 to 4."""
    phi, layers, micro_batches = model.parameters, model.layers, model.micro_batches
    parts, shards = strategy.parameters.size, strategy.optimizer.size
    buckets = 2 * phi / _AMSP_BUCKET / parts
    tensors = layers * _AMSP_TENSORS
    of_tensor, times = 2 * phi / tensors, micro_batches * tensors
    replicas = Group(parts, strategy.cluster.world_size)
    forward, scatter = strategy.forward_group, strategy.scatter_group
    for transfer in (
        Transfer("parameter", "all_gather", forward, of_tensor, 2 * times),
        Transfer("gradient", "reduce_scatter", forward, of_tensor, times),
        Transfer("gradient", "all_reduce", scatter, _AMSP_BUCKET, (micro_batches - 1) * buckets),
        Transfer("gradient", "all_reduce", replicas, _AMSP_BUCKET, buckets),
        Transfer("parameter", "broadcast", strategy.refresh_group, 2 * phi / shards,
                 shards / parts),
    ):  # fmt: skip
        if transfer.group.size > 1 and transfer.times:
            yield transfer


def _meshes(cluster: Cluster) -> list[Mesh]:
    return [
        mesh
        for ranks in range(1, cluster.ranks_per_node + 1)
        for nodes in range(1, cluster.nodes + 1)
        if (mesh := Mesh(ranks, nodes)).fits(cluster)
    ]


def _amsp_points(cluster: Cluster) -> Iterator[Strategy]:
    for parameters in _meshes(cluster):
        for optimizer in _meshes(cluster):
            if parameters.divides(optimizer):
                for gradients in dict.fromkeys((parameters, optimizer)):
                    yield Strategy(
                        cluster=cluster,
                        parameters=parameters,
                        gradients=gradients,
                        optimizer=optimizer,
                        backward=parameters,
                    )


@lru_cache(maxsize=4096)
def _crossings(group: Group, cluster: Cluster) -> int:
    return group.crossings(cluster)


def _rows(cluster: PlannedCluster, transfer: Transfer) -> list[MeasuredBandwidth]:
    """What was measured of the collective over groups of that shape, by size."""
    members = transfer.group.members(0)
    nodes = len({rank // cluster.ranks_per_node for rank in members})
    shape = (len(members) // nodes, nodes)
    rows = [
        row
        for row in cluster.bandwidth
        if row.collective == transfer.collective and (row.ranks, row.nodes) == shape
    ]
    return sorted(rows, key=lambda row: row.megabytes)


def _interpolated(rows: list[MeasuredBandwidth], data_bytes: float) -> float:
    """Bytes a second: linear in the logarithm of the size, and constant beyond the rows."""
    sizes = [row.megabytes * 1e6 for row in rows]
    speeds = [row.gb_per_s * 1e9 for row in rows]
    if data_bytes <= sizes[0]:
        return speeds[0]
    for index in range(1, len(sizes)):
        if data_bytes <= sizes[index]:
            low, high = math.log(sizes[index - 1]), math.log(sizes[index])
            share = (math.log(data_bytes) - low) / (high - low)
            return speeds[index - 1] + share * (speeds[index] - speeds[index - 1])
    return speeds[-1]
