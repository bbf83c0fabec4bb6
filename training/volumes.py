# SPDX-License-Identifier: Apache-2.0
"""Bytes that a step sends under a strategy, by formula.

With P padded parameters over all units, BF16 parameters (2 bytes) and g bytes per gradient element
(2, or 4 with `reduce_dtype = "fp32"`), and sizes p, b, G and o of the meshes of parameters,
backward, gradients and optimizer on n ranks, the rings of a step are:

    what                                 collective       over ranks      of bytes    times
    parameters for the forward           all-gather       p               2 P         micro-batches
    parameters for the backward          all-gather       b               2 P         micro-batches
    gradients                            reduce-scatter   p               g P         micro-batches
    the parts of that                    reduce-scatter   G / p           g P / p     micro-batches
    the parts of that, over replicas     all-reduce       n / G           g P / G     once
    updated parameters                   all-gather       o / p           2 P / p     once

A rank of an all-gather or reduce-scatter of D bytes over s ranks sends D (s-1)/s, of an all-reduce
twice that, all to the next rank of its ring; so what crosses nodes follows from where that one is.
Hierarchical collectives over r ranks of each of m nodes are such rings too, one of D bytes over r
ranks of a node and one of D / r over m nodes. Parameters that every rank keeps are gathered for the
update alone.

AMSP (arXiv 2311.00257) all-reduces where gradients are sharded further than parameters, which
moves twice as much as the second reduce-scatter here; the rest are its formulas.

Beside this, a step all-reduces n + 1 numbers in FP32, of role other: the loss, and the square of
the gradient's norm in n parts. Initial parameters are not sent: every rank makes the same from the
seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from training.mesh import Cluster, Group
from training.strategy import Strategy

PARAMETER_BYTES = 2


@dataclass(frozen=True)
class Volume:
    """Logical bytes that all ranks together send.

    Attributes:
        between: to ranks of other nodes, through the NIC.
        inside: to ranks of the same node.
    """

    between: int
    inside: int

    def __add__(self, other: "Volume") -> "Volume":
        return Volume(self.between + other.between, self.inside + other.inside)

    @property
    def total(self) -> int:
        """Both."""
        return self.between + self.inside


@dataclass(frozen=True)
class Move:
    """A collective of a step, over all units.

    Attributes:
        role, collective: as the NIC counts them.
        group: over whose ranks.
        data_bytes: of what is gathered or reduced, with padding.
        times: how often in a step.
    """

    role: str
    collective: str
    group: Group
    data_bytes: int
    times: int

    def volume(self, cluster: Cluster, *, hierarchical: bool = False) -> Volume:
        """What that sends in a step."""
        ranks, levels = cluster.world_size, self.group.levels(cluster)
        if hierarchical and levels:
            inside, nodes = levels
            return Volume(
                between=ranks * self._of_a_rank(nodes, self.data_bytes // inside),
                inside=ranks * self._of_a_rank(inside, self.data_bytes),
            )
        crossing = self.group.crossings(cluster)
        of_a_rank = self._of_a_rank(self.group.size, self.data_bytes)
        return Volume(of_a_rank * crossing, of_a_rank * (ranks - crossing))

    def _of_a_rank(self, size: int, data_bytes: int) -> int:
        """What a rank sends in a ring of `size`."""
        passes = 2 if self.collective == "all_reduce" else 1
        return passes * self.times * data_bytes * (size - 1) // size


def moves(
    strategy: Strategy, padded: int, *, gradient_bytes: int, micro_batches: int = 1
) -> Iterator[Move]:
    """The collectives of a step that send anything.

    Args:
        padded: P, the elements of all units with padding.
        gradient_bytes: g, of an element.
    """
    parts, shards = strategy.parameters.size, strategy.gradients.size
    parameters, gradients = padded * PARAMETER_BYTES, padded * gradient_bytes
    for move in (
        Move("parameter", "all_gather", strategy.forward_group, parameters, micro_batches),
        Move("parameter", "all_gather", strategy.backward_group, parameters, micro_batches),
        Move("gradient", "reduce_scatter", strategy.forward_group, gradients, micro_batches),
        Move("gradient", "reduce_scatter", strategy.scatter_group, gradients // parts,
             micro_batches),
        Move("gradient", "all_reduce", strategy.replica_group, gradients // shards, 1),
        Move("parameter", "all_gather", strategy.refresh_group, parameters // parts, 1),
    ):  # fmt: skip
        if move.group.size > 1:
            yield move


def sent_bytes(
    strategy: Strategy,
    padded: int,
    *,
    gradient_bytes: int,
    micro_batches: int = 1,
    hierarchical: bool = False,
) -> dict[tuple[str, str], Volume]:
    """Logical bytes that all ranks together send in a step, by (role, collective).

    Args:
        padded: P, the elements of all units with padding.
        gradient_bytes: g, of an element.
        hierarchical: whether collectives go within nodes first, and then between them.
    """
    sums: dict[tuple[str, str], Volume] = {}
    for move in moves(strategy, padded, gradient_bytes=gradient_bytes, micro_batches=micro_batches):
        key = (move.role, move.collective)
        volume = move.volume(strategy.cluster, hierarchical=hierarchical)
        sums[key] = sums.get(key, Volume(0, 0)) + volume
    return sums
