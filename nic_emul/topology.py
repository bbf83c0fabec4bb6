# SPDX-License-Identifier: Apache-2.0
"""Which ranks of the job share a node, and so reach each other without the NIC."""

from dataclasses import dataclass


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
