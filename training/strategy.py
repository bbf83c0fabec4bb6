# SPDX-License-Identifier: Apache-2.0
"""What each rank keeps of parameters, gradients and optimizer states: a point of AMSP's space.

AMSP (arXiv 2311.00257) lets each of the three be replicated, sharded over part of the cluster, or
sharded over all of it, independently: a mesh each, `ranks in a node x nodes`. Two placements are
added here: a second one of the parameters, which the backward gathers from (ZeRO++'s hpZ, arXiv
2306.10209), and host memory for the first (MAZ3). One loop (`training/loop.py`) runs all of them.

    name    parameters   gradients    optimizer    besides
    ddp     replicated   replicated   replicated
    zero1   replicated   replicated   all
    zero2   replicated   all          all
    zero3   all          all          all
    hsdp    node         node         node         hybrid sharding, FSDP in a node
    mics    node         node         node         the same point: MiCS with groups of one node
    hpz     all          all          all          backward from shards in the node
    maz3    node         all          all          parameters in host memory

Other points are spelled: `p=1x1,g=2x1,os=2x2`, with `b=...` for the backward and `host`. In place
of a mesh, `node` is all ranks of one node and `all` the whole cluster.

MAZ3 keeps each node's copy of all parameters in host memory, one part by each rank of the node. So
it is the point at which gathers stay inside the node; its gradients are reduced inside the node
first, and then, like the updated parameters, between ranks of the same place in their nodes.
"""

import re
from dataclasses import dataclass

from training.errors import StrategyError
from training.mesh import Cluster, Group, Mesh

PRESETS = {
    "ddp": "p=1x1,g=1x1,os=1x1",
    "zero1": "p=1x1,g=1x1,os=all",
    "zero2": "p=1x1,g=all,os=all",
    "zero3": "p=all,g=all,os=all",
    "hsdp": "p=node,g=node,os=node",
    "mics": "p=node,g=node,os=node",
    "hpz": "p=all,g=all,os=all,b=node",
    "maz3": "p=node,g=all,os=all,host",
}

_SPELLED = re.compile(
    r"p=(?P<p>\w+),g=(?P<g>\w+),os=(?P<os>\w+)(,b=(?P<b>\w+))?(?P<host>,host)?", re.ASCII
)
_MESH = re.compile(r"(\d+)x(\d+)", re.ASCII)


@dataclass(frozen=True)
class Strategy:
    """A point of the space, on a cluster.

    Attributes:
        cluster: its ranks.
        parameters: mesh over which the BF16 parameters are sharded between their uses.
        gradients: mesh over which reduced gradients are sharded.
        optimizer: mesh over which FP32 masters and moments are sharded.
        backward: mesh of the shards that the backward gathers from; a copy, unless it is that of
            the parameters.
        host: whether the shards of parameters are in host memory.

    Raises:
        StrategyError: the cluster has no such mesh, or the meshes do not go together.
    """

    cluster: Cluster
    parameters: Mesh
    gradients: Mesh
    optimizer: Mesh
    backward: Mesh
    host: bool = False

    def __post_init__(self) -> None:
        cluster, meshes = self.cluster, self._meshes()
        for name, mesh in meshes.items():
            if not mesh.fits(cluster):
                raise StrategyError(
                    f"{name}: expected RANKSxNODES that divide {cluster.ranks_per_node}x"
                    f"{cluster.nodes}, nodes filled before they are crossed; found {mesh}"
                )
        for coarse, fine in (("p", "g"), ("g", "os"), ("b", "p")):
            if not meshes[coarse].divides(meshes[fine]):
                raise StrategyError(
                    f"{coarse}: expected a mesh that divides {fine}={meshes[fine]}; "
                    f"found {meshes[coarse]}"
                )
        # Also what lets one ring gather updated parameters: shards of a rank in one order.
        if self.gradients not in (self.parameters, self.optimizer):
            raise StrategyError(
                f"g: expected the mesh of p, {self.parameters}, or of os, {self.optimizer}; "
                f"found {self.gradients}"
            )

    def _meshes(self) -> dict[str, Mesh]:
        return {
            "p": self.parameters,
            "g": self.gradients,
            "os": self.optimizer,
            "b": self.backward,
        }

    def __str__(self) -> str:
        """As it is spelled."""
        meshes = self._meshes()
        if self.backward == self.parameters:
            del meshes["b"]
        spelled = [f"{name}={mesh}" for name, mesh in meshes.items()]
        return ",".join([*spelled, "host"] if self.host else spelled)

    # Who moves what

    @property
    def is_resident(self) -> bool:
        """Whether every rank always holds all parameters, so that nothing is gathered for use."""
        return self.parameters.size == 1 and not self.host

    @property
    def has_secondary(self) -> bool:
        """Whether the backward gathers from other shards than the forward."""
        return self.backward != self.parameters

    @property
    def forward_group(self) -> Group:
        """Gathers a unit's parameters before its forward, and reduces its gradients first."""
        return Group(1, self.parameters.size)

    @property
    def backward_group(self) -> Group:
        """Gathers a unit's parameters before its backward."""
        return Group(1, self.backward.size)

    @property
    def scatter_group(self) -> Group:
        """Reduces gradients further, from parts as large as those of parameters."""
        return Group(self.parameters.size, self.gradients.size)

    @property
    def replica_group(self) -> Group:
        """Adds up the shards of gradients that each mesh has reduced for itself."""
        return Group(self.gradients.size, self.cluster.world_size)

    @property
    def refresh_group(self) -> Group:
        """Gathers updated parameters, from shards of the optimizer to shards of parameters."""
        return Group(self.parameters.size, self.optimizer.size)

    # Which part is whose: each part of a finer mesh lies in one of the coarser

    def parameter_part(self, rank: int) -> int:
        """Which of `parameters.size` parts `rank` keeps."""
        return rank % self.parameters.size

    def gradient_part(self, rank: int) -> int:
        """Which of `gradients.size` parts `rank` keeps."""
        group = self.scatter_group
        return self.parameter_part(rank) * group.size + group.index(rank)

    def optimizer_part(self, rank: int) -> int:
        """Which of `optimizer.size` parts `rank` keeps."""
        group = Group(self.gradients.size, self.optimizer.size)
        return self.gradient_part(rank) * group.size + group.index(rank)

    def is_first_replica(self, rank: int) -> bool:
        """Whether `rank` is the first of those that keep the same part of the optimizer."""
        return rank < self.optimizer.size


def parse_strategy(text: str, cluster: Cluster) -> Strategy:
    """The strategy called or spelled `text`, on `cluster`.

    Raises:
        StrategyError: there is no such preset, or the point is impossible on the cluster.
    """
    found = _SPELLED.fullmatch(PRESETS.get(text, text).replace(" ", ""))
    if found is None:
        raise StrategyError(
            f"expected one of {', '.join(PRESETS)}, or a point such as p=1x1,g=2x1,os=2x2; "
            f"found {text!r}"
        )
    parts = found.groupdict()
    parameters, gradients, optimizer, backward = (
        _parse_mesh(name, parts[name] or parts["p"], cluster) for name in ("p", "g", "os", "b")
    )
    return Strategy(
        cluster=cluster,
        parameters=parameters,
        gradients=gradients,
        optimizer=optimizer,
        backward=backward,
        host=bool(parts["host"]),
    )


def _parse_mesh(name: str, text: str, cluster: Cluster) -> Mesh:
    words = {
        "node": Mesh(cluster.ranks_per_node, 1),
        "all": Mesh(cluster.ranks_per_node, cluster.nodes),
    }
    if text in words:
        return words[text]
    found = _MESH.fullmatch(text)
    if found is None:
        raise StrategyError(f"{name}: expected RANKSxNODES, node or all; found {text!r}")
    return Mesh(int(found[1]), int(found[2]))
