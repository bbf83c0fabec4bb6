# SPDX-License-Identifier: Apache-2.0
"""What a transfer is for: its collective and its role. The values travel in message headers."""

import enum


class Role(enum.IntEnum):
    """What a tensor is in training; policy and summaries go by it."""

    OTHER = 0
    GRADIENT = 1
    PARAMETER = 2
    ACTIVATION = 3
    OPTIMIZER_STATE = 4

    @property
    def label(self) -> str:
        """The name used in summaries: `gradient`, `optimizer_state`."""
        return self.name.lower()


class Collective(enum.IntEnum):
    """The operation a message belongs to."""

    ALL_REDUCE = 1
    ALL_GATHER = 2
    REDUCE_SCATTER = 3
    BROADCAST = 4
    REDUCE = 5
    ALL_TO_ALL = 6
    GATHER = 7
    SCATTER = 8
    BARRIER = 9
    SEND = 10

    @property
    def label(self) -> str:
        """The name used in summaries: `all_reduce`, `send`."""
        return self.name.lower()


_DEFAULT_ROLES = {
    Collective.ALL_REDUCE: Role.GRADIENT,
    Collective.ALL_GATHER: Role.PARAMETER,
    Collective.REDUCE_SCATTER: Role.GRADIENT,
    Collective.BROADCAST: Role.PARAMETER,
    Collective.REDUCE: Role.GRADIENT,
    Collective.ALL_TO_ALL: Role.ACTIVATION,
    Collective.GATHER: Role.PARAMETER,
    Collective.SCATTER: Role.PARAMETER,
    Collective.BARRIER: Role.OTHER,
    Collective.SEND: Role.ACTIVATION,
}


# The dimensions of device meshes along which layers are split: what crosses are activations and
# their gradients. PyTorch's own programs have these names.
_ACTIVATION_DIMENSIONS = ("tp", "sp", "cp", "ep", "pp")
_MESH_PREFIX = "mesh_"


def role_of_mesh(description: str) -> Role | None:
    """The role of a group by torch's description of it; None leaves it to each collective.

    A device mesh describes the groups of its dimension `tp` as `mesh_tp`.
    """
    is_split = description.removeprefix(_MESH_PREFIX) in _ACTIVATION_DIMENSIONS
    return Role.ACTIVATION if is_split and description.startswith(_MESH_PREFIX) else None


def resolve_role(collective: Collective, *, floating: bool, declared: Role | None) -> Role:
    """The role of a transfer.

    | transfer                                          | role                           |
    |---------------------------------------------------|--------------------------------|
    | barrier, or elements that are not floating point  | other                          |
    | group made with `GroupOptions(role=...)`          | that role                      |
    | group of a mesh dimension tp, sp, cp, ep or pp    | activation                     |
    | all_reduce, reduce_scatter, reduce                | gradient                       |
    | all_gather, broadcast, gather, scatter            | parameter                      |
    | send and recv, all_to_all                         | activation                     |

    The first row that applies decides; `declared` is what the second and third say. The last three
    rows are what data, sharded and pipeline parallel training use these collectives for; groups
    that do something else declare it.
    """
    if collective is Collective.BARRIER or not floating:
        return Role.OTHER
    return _DEFAULT_ROLES[collective] if declared is None else declared
