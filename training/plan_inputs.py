# SPDX-License-Identifier: Apache-2.0
"""What a plan is made for: the size of a model, and a cluster with its links; TOML files.

`wirezip plan --model 7b --cluster a800-1024` takes those of `training/plans/`; a path takes yours.
"""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from training.config import from_table
from training.errors import ConfigError
from training.mesh import Cluster

PLANS = Path(__file__).parent / "plans"

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "broadcast"]


@dataclass(frozen=True)
class PlannedModel:
    """A model by its size."""

    name: str
    """For tables."""
    parameters: float
    """How many."""
    layers: int
    """Equal units in which they are gathered and reduced."""
    micro_batches: int = 1
    """Of a rank in a step."""
    reserved_gb: float = 0.0
    """Of a rank's memory, in 10^9 bytes, for activations and what else no strategy changes."""


@dataclass(frozen=True)
class MeasuredBandwidth:
    """How fast a collective was over groups of one shape."""

    collective: Collective
    """Which."""
    ranks: int
    """Of a group, on each node."""
    nodes: int
    """That a group spans."""
    megabytes: float
    """Of data gathered, reduced or broadcast, in 10^6 bytes."""
    gb_per_s: float
    """Data by time, in 10^9 bytes a second, while all groups of the cluster do the same."""


@dataclass(frozen=True)
class PlannedCluster:
    """Equal nodes and their links. Speeds are in 10^9 bytes a second, each direction."""

    name: str
    """For tables."""
    nodes: int
    """How many."""
    ranks_per_node: int
    """Of each."""
    memory_gb: float
    """Of a rank's device, in 10^9 bytes."""
    intra_gb_per_s: float
    """A rank's way to the others of its node."""
    node_gb_per_s: float
    """A node's way to the others: all its network cards together."""
    host_memory_gb: float = 0.0
    """Of a node's host, for parameters, in 10^9 bytes; 0 keeps them out of it."""
    host_gb_per_s: float = 25.0
    """A rank's way to its host's memory."""
    intra_latency_us: float = 5.0
    """From rank to rank inside a node."""
    inter_latency_us: float = 15.0
    """From rank to rank of another node."""
    bandwidth: tuple[MeasuredBandwidth, ...] = ()
    """What was measured; takes the place of speeds and latencies where there is a row."""

    @property
    def shape(self) -> Cluster:
        """Its nodes and ranks."""
        return Cluster(self.nodes, self.ranks_per_node)


def load_model(
    name: str, *, micro_batches: int | None = None, reserved_gb: float | None = None
) -> PlannedModel:
    """The model called `name`, or the one in the TOML file at that path.

    Args:
        micro_batches, reserved_gb: instead of the file's.

    Raises:
        ConfigError: no such model, or something in the file is unknown, mistyped or impossible.
    """
    model = _load(PlannedModel, "model", name)
    if micro_batches is not None:
        model = replace(model, micro_batches=micro_batches)
    if reserved_gb is not None:
        model = replace(model, reserved_gb=reserved_gb)
    _expect_positive(
        name,
        parameters=model.parameters,
        layers=model.layers,
        micro_batches=model.micro_batches,
    )
    if not 0 <= model.reserved_gb < float("inf"):
        raise ConfigError(
            f"{name}: reserved_gb: expected at least 0 and finite; found {model.reserved_gb!r}"
        )
    return model


def load_cluster(name: str) -> PlannedCluster:
    """The cluster called `name`, or the one in the TOML file at that path.

    Raises:
        ConfigError: no such cluster, or something in the file is unknown, mistyped or impossible.
    """
    cluster = _load(PlannedCluster, "cluster", name)
    _expect_positive(
        name,
        nodes=cluster.nodes,
        ranks_per_node=cluster.ranks_per_node,
        memory_gb=cluster.memory_gb,
        intra_gb_per_s=cluster.intra_gb_per_s,
        node_gb_per_s=cluster.node_gb_per_s,
        host_gb_per_s=cluster.host_gb_per_s,
    )
    for row in cluster.bandwidth:
        _expect_positive(f"{name}: bandwidth", megabytes=row.megabytes, gb_per_s=row.gb_per_s)
    return cluster


Input = TypeVar("Input", PlannedModel, PlannedCluster)


def _load(cls: type[Input], kind: str, name: str) -> Input:
    path = Path(name) if name.endswith(".toml") else PLANS / f"{kind}-{name}.toml"
    if not path.is_file():
        known = sorted(each.stem.removeprefix(f"{kind}-") for each in PLANS.glob(f"{kind}-*.toml"))
        raise ConfigError(
            f"{kind}: expected a .toml file or one of {', '.join(known)}; found {name!r}"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected TOML; {error}") from None
    table.setdefault("name", path.stem.removeprefix(f"{kind}-"))
    return from_table(cls, table, source=str(path))


def _expect_positive(source: str, **values: float) -> None:
    for key, value in values.items():
        # Written so that NaN and infinity fail.
        if not 0 < value < float("inf"):
            raise ConfigError(f"{source}: {key}: expected above 0 and finite; found {value!r}")
