# SPDX-License-Identifier: Apache-2.0
"""Which ranks of the job share a node, and so reach each other without the NIC."""

from collections.abc import Sequence
from dataclasses import dataclass

Grid = tuple[tuple[int, ...], ...]
"""Ranks of a group by node, as many of each node."""


@dataclass(frozen=True)
class Topology:
    """Nodes of equally many ranks, in the order of the ranks in the job; the last may have fewer.

    Attributes:
        ranks_per_node: at least 1.
    """

    ranks_per_node: int = 1

    def node_of(self, rank: int) -> int:
        """The node of `rank` of the job, from 0."""
        return rank // self.ranks_per_node

    def share_node(self, rank: int, other: int) -> bool:
        """Whether two ranks of the job are on one node."""
        return self.node_of(rank) == self.node_of(other)

    def grid(self, job_ranks: Sequence[int]) -> Grid | None:
        """The ranks of a group, of which rank g is `job_ranks[g]` of the job, by node.

        None unless the group has as many ranks, two or more, on each of two or more nodes: only
        such groups have two levels.
        """
        nodes: dict[int, list[int]] = {}
        for rank, job_rank in enumerate(job_ranks):
            nodes.setdefault(self.node_of(job_rank), []).append(rank)
        sizes = {len(members) for members in nodes.values()}
        if len(nodes) < 2 or len(sizes) != 1 or 1 in sizes:
            return None
        return tuple(tuple(members) for members in nodes.values())
