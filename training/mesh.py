# SPDX-License-Identifier: Apache-2.0
"""Where ranks are, and which of them work together: clusters, meshes, groups.

Ranks fill the nodes in order: rank r is on node r // ranks a node (`nic_emul/topology.py`). A mesh
is filled node by node, and one of several nodes takes all ranks of each; so the ranks of a mesh
follow one another, and the cluster is cut into as many equal meshes as fit.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Equal nodes.

    Attributes:
        nodes: how many.
        ranks_per_node: ranks of each.
    """

    nodes: int
    ranks_per_node: int

    @classmethod
    def of(cls, world_size: int, ranks_per_node: int) -> "Cluster":
        """The cluster of `world_size` ranks, a multiple of `ranks_per_node`."""
        return cls(world_size // ranks_per_node, ranks_per_node)

    @property
    def world_size(self) -> int:
        """Ranks of all nodes."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True)
class Mesh:
    """Ranks over which something is sharded: so many of a node, of so many nodes.

    Attributes:
        ranks: of each node; AMSP's first factor.
        nodes: AMSP's second factor.
    """

    ranks: int
    nodes: int

    @property
    def size(self) -> int:
        """How many shards there are, one a rank."""
        return self.ranks * self.nodes

    def fits(self, cluster: Cluster) -> bool:
        """Whether `cluster` can be cut into such meshes, nodes filled before they are crossed."""
        return (
            0 < self.ranks <= cluster.ranks_per_node
            and 0 < self.nodes <= cluster.nodes
            and cluster.ranks_per_node % self.ranks == 0
            and cluster.nodes % self.nodes == 0
            and (self.nodes == 1 or self.ranks == cluster.ranks_per_node)
        )

    def divides(self, other: "Mesh") -> bool:
        """Whether `other` can be cut into such meshes, each within a node or of whole nodes."""
        return other.ranks % self.ranks == 0 and other.nodes % self.nodes == 0

    def __str__(self) -> str:
        return f"{self.ranks}x{self.nodes}"


@dataclass(frozen=True)
class Group:
    """Ranks of one block of `outer` that have the same place in their blocks of `inner`.

    Group(1, s) are the ranks of a mesh of s, Group(s, n) those that hold the same shard in the
    meshes of a cluster of n.

    Attributes:
        inner: ranks of the smaller blocks.
        outer: ranks of the larger blocks, a multiple of `inner`.
    """

    inner: int
    outer: int

    @property
    def size(self) -> int:
        """Ranks in a group."""
        return self.outer // self.inner

    def members(self, rank: int) -> range:
        """The ranks of the group that `rank` is in, in order."""
        block = rank - rank % self.outer
        return range(block + rank % self.inner, block + self.outer, self.inner)

    def index(self, rank: int) -> int:
        """The place of `rank` in its group."""
        return rank % self.outer // self.inner

    def all(self, world_size: int) -> list[range]:
        """All such groups of a world, by their first rank."""
        return [self.members(rank) for rank in range(world_size) if self.index(rank) == 0]

    def levels(self, cluster: Cluster) -> tuple[int, int] | None:
        """Ranks of such a group on each node, and nodes; None if either is one."""
        inside = cluster.ranks_per_node // self.inner
        nodes = self.outer // cluster.ranks_per_node
        return (inside, nodes) if inside > 1 and nodes > 1 else None

    def crossings(self, cluster: Cluster) -> int:
        """Links between nodes, over the rings of all such groups: each rank has one to the next."""
        if self.size == 1:
            return 0
        crossing = 0
        for members in self.all(cluster.world_size):
            nodes = [rank // cluster.ranks_per_node for rank in members]
            crossing += sum(a != b for a, b in zip(nodes, [*nodes[1:], nodes[0]], strict=True))
        return crossing
