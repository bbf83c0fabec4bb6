# SPDX-License-Identifier: Apache-2.0
"""The space of strategies: what can be spelled, who keeps what, and the volumes of the papers."""

import itertools

import pytest

from training.errors import ConfigError, StrategyError
from training.mesh import Cluster, Mesh
from training.strategy import PRESETS, Strategy, parse_strategy
from training.volumes import Volume, sent_bytes

NODES, RANKS = 4, 8
CLUSTER = Cluster(nodes=NODES, ranks_per_node=RANKS)
N = NODES * RANKS
# A multiple of all numbers of ranks and of 16 bytes.
P = 8 * N * 30


def all_points(cluster: Cluster) -> list[Strategy]:
    meshes = [
        mesh
        for ranks in range(1, cluster.ranks_per_node + 1)
        for nodes in range(1, cluster.nodes + 1)
        if (mesh := Mesh(ranks, nodes)).fits(cluster)
    ]
    points = []
    for p, g, os, b in itertools.product(meshes, repeat=4):
        try:
            points.append(
                Strategy(cluster=cluster, parameters=p, gradients=g, optimizer=os, backward=b)
            )
        except StrategyError:
            continue
    return points


def test_presets_are_the_points_that_the_papers_name() -> None:
    one, node, everyone = Mesh(1, 1), Mesh(RANKS, 1), Mesh(RANKS, NODES)
    expected = {
        "ddp": (one, one, one, one, False),
        "zero1": (one, one, everyone, one, False),
        "zero2": (one, everyone, everyone, one, False),
        "zero3": (everyone, everyone, everyone, everyone, False),
        "hsdp": (node, node, node, node, False),
        "mics": (node, node, node, node, False),
        "hpz": (everyone, everyone, everyone, node, False),
        "maz3": (node, everyone, everyone, node, True),
    }
    found = {name: parse_strategy(name, CLUSTER) for name in PRESETS}
    assert {
        name: (s.parameters, s.gradients, s.optimizer, s.backward, s.host)
        for name, s in found.items()
    } == expected


def test_what_is_spelled_is_what_is_read() -> None:
    for text in ("p=1x1,g=2x1,os=2x1", "p=8x1,g=8x1,os=8x4", "p=8x4,g=8x4,os=8x4,b=2x1,host"):
        assert str(parse_strategy(text, CLUSTER)) == text
    assert parse_strategy("p=1x1, g=node, os=node", CLUSTER) == parse_strategy(
        "p=1x1,g=8x1,os=8x1", CLUSTER
    )
    # A backward that gathers from the same shards is no second placement.
    assert str(parse_strategy("p=node,g=node,os=all,b=node", CLUSTER)) == "p=8x1,g=8x1,os=8x4"
    for point in all_points(CLUSTER):
        assert parse_strategy(str(point), CLUSTER) == point


def test_presets_meet_where_a_cluster_is_one_node_or_one_rank() -> None:
    node = Cluster(nodes=1, ranks_per_node=4)
    assert parse_strategy("hsdp", node) == parse_strategy("zero3", node)
    assert parse_strategy("hpz", node) == parse_strategy("zero3", node)
    rank = Cluster(nodes=1, ranks_per_node=1)
    assert (
        len({parse_strategy(name, rank) for name in PRESETS} - {parse_strategy("maz3", rank)}) == 1
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zero4", r"expected one of ddp, .*maz3, or a point such as .*; found 'zero4'"),
        ("p=1x1,os=1x1", "or a point such as"),
        ("p=1x1,g=1x1,os=1x1,b=1x1,hots", "or a point such as"),
        ("p=1x1,g=1x1,os=2", "os: expected RANKSxNODES, node or all; found '2'"),
        ("p=3x1,g=3x1,os=3x1", "p: expected RANKSxNODES that divide 8x4, .*; found 3x1"),
        ("p=1x1,g=1x1,os=4x2", "os: expected .* nodes filled before they are crossed; found 4x2"),
        ("p=1x1,g=1x1,os=8x3", "os: expected RANKSxNODES that divide 8x4"),
        ("p=0x1,g=1x1,os=1x1", "p: expected RANKSxNODES that divide"),
        ("p=4x1,g=2x1,os=4x1", "p: expected a mesh that divides g=2x1; found 4x1"),
        ("p=1x1,g=8x1,os=4x1", "g: expected a mesh that divides os=4x1; found 8x1"),
        ("p=4x1,g=4x1,os=4x1,b=8x1", "b: expected a mesh that divides p=4x1; found 8x1"),
        ("p=1x1,g=2x1,os=8x1", "g: expected the mesh of p, 1x1, or of os, 8x1; found 2x1"),
    ],
)
def test_impossible_points(text: str, expected: str) -> None:
    with pytest.raises(StrategyError, match=expected):
        parse_strategy(text, CLUSTER)
    assert issubclass(StrategyError, ConfigError)


def test_parts_nest_and_every_mesh_has_all_of_them() -> None:
    points = all_points(Cluster(nodes=2, ranks_per_node=4))
    assert len(points) == 30
    for point in points:
        for rank in range(8):
            p, g, o = (
                point.parameter_part(rank),
                point.gradient_part(rank),
                point.optimizer_part(rank),
            )
            assert o // (point.optimizer.size // point.gradients.size) == g
            assert g // (point.gradients.size // point.parameters.size) == p
        first = [rank for rank in range(8) if point.is_first_replica(rank)]
        parts = [point.optimizer_part(rank) for rank in first]
        assert sorted(parts) == list(range(point.optimizer.size))


def test_updated_parts_lie_in_the_order_of_the_ring_that_gathers_them() -> None:
    for point in all_points(Cluster(nodes=2, ranks_per_node=4)):
        ratio = point.refresh_group.size
        for rank in range(8):
            parts = [point.optimizer_part(r) for r in point.refresh_group.members(rank)]
            start = point.parameter_part(rank) * ratio
            assert parts == list(range(start, start + ratio))


def sent(name: str, *, micro_batches: int = 1) -> dict[tuple[str, str], Volume]:
    return sent_bytes(
        parse_strategy(name, CLUSTER), P, gradient_bytes=2, micro_batches=micro_batches
    )


GATHER, SCATTER, REDUCE = (
    ("parameter", "all_gather"),
    ("gradient", "reduce_scatter"),
    ("gradient", "all_reduce"),
)


# In bytes of BF16 over all ranks; a ring over s ranks of one of D bytes passes D (s - 1) in all.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ddp", {REDUCE: 2 * 2 * P * (N - 1)}),
        ("zero1", {REDUCE: 2 * 2 * P * (N - 1), GATHER: 2 * P * (N - 1)}),
        ("zero2", {SCATTER: 2 * P * (N - 1), GATHER: 2 * P * (N - 1)}),
        ("zero3", {SCATTER: 2 * P * (N - 1), GATHER: 2 * 2 * P * (N - 1)}),
        # Two gathers and one reduction in each node, then the shards over nodes.
        (
            "mics",
            {
                GATHER: NODES * 2 * 2 * P * (RANKS - 1),
                SCATTER: NODES * 2 * P * (RANKS - 1),
                REDUCE: 2 * 2 * P * (NODES - 1),
            },
        ),
        ("hpz", {SCATTER: 2 * P * (N - 1), GATHER: 2 * P * (N - 1) + NODES * 2 * P * (RANKS - 1)}),
        (
            "maz3",
            {
                GATHER: NODES * 2 * 2 * P * (RANKS - 1) + 2 * P * (NODES - 1),
                SCATTER: NODES * 2 * P * (RANKS - 1) + 2 * P * (NODES - 1),
            },
        ),
        # AMSP's choice for 7B: all gradients everywhere, an optimizer in each node.
        (
            "p=1x1,g=1x1,os=8x1",
            {REDUCE: 2 * 2 * P * (N - 1), GATHER: NODES * 2 * P * (RANKS - 1)},
        ),
    ],
)
def test_volumes_of_the_papers(name: str, expected: dict[tuple[str, str], int]) -> None:
    assert {key: volume.total for key, volume in sent(name).items()} == expected


def between(name: str, *, micro_batches: int = 1) -> int:
    return sum(volume.between for volume in sent(name, micro_batches=micro_batches).values())


def test_between_nodes() -> None:
    # A ring over all ranks leaves each node once; one over ranks of the same place, with each rank.
    of_a_flat_ring = NODES * 2 * P * (N - 1) // N
    over_nodes = 2 * P * (NODES - 1)
    assert between("zero3") == 3 * of_a_flat_ring
    assert between("hpz") == 2 * of_a_flat_ring
    assert between("maz3") == 2 * over_nodes
    assert between("mics") == 2 * over_nodes
    assert between("ddp") == 2 * of_a_flat_ring
    # What sets MAZ3 apart when gradients accumulate: parameters cross once.
    assert between("zero3", micro_batches=4) == 4 * 3 * of_a_flat_ring
    assert between("maz3", micro_batches=4) == 5 * over_nodes
    assert between("mics", micro_batches=4) == 2 * over_nodes


def test_gradients_of_four_bytes() -> None:
    narrow, wide = sent("maz3"), sent_bytes(parse_strategy("maz3", CLUSTER), P, gradient_bytes=4)
    assert wide[SCATTER] == narrow[SCATTER] + narrow[SCATTER]
    assert wide[GATHER] == narrow[GATHER]
