# SPDX-License-Identifier: Apache-2.0
"""Meshes and groups: what fits a cluster, who works with whom, and what lies between nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.mesh import Cluster, Group, Mesh


@st.composite
def clusters_and_groups(draw: st.DrawFn) -> tuple[Cluster, Group]:
    cluster = Cluster(nodes=draw(st.integers(1, 6)), ranks_per_node=draw(st.integers(1, 6)))
    divisors = [size for size in range(1, 37) if cluster.world_size % size == 0]
    outer = draw(st.sampled_from(divisors))
    inner = draw(st.sampled_from([size for size in divisors if outer % size == 0]))
    return cluster, Group(inner, outer)


def test_ranks_fill_nodes() -> None:
    assert Cluster.of(12, 4) == Cluster(nodes=3, ranks_per_node=4)
    assert Cluster(nodes=3, ranks_per_node=4).world_size == 12


@pytest.mark.parametrize(
    ("ranks", "nodes", "fits"),
    [
        (1, 1, True),
        (2, 1, True),
        (4, 1, True),
        (4, 2, True),
        (4, 6, True),
        (3, 1, False),  # does not divide a node
        (4, 4, False),  # does not divide the nodes
        (2, 2, False),  # crosses nodes that it does not fill
        (8, 1, False),
        (4, 12, False),
        (0, 1, False),
        (1, 0, False),
    ],
)
def test_which_meshes_fit(ranks: int, nodes: int, fits: bool) -> None:
    assert Mesh(ranks, nodes).fits(Cluster(nodes=6, ranks_per_node=4)) is fits


def test_meshes_inside_meshes() -> None:
    assert Mesh(2, 1).divides(Mesh(4, 1))
    assert Mesh(2, 1).divides(Mesh(4, 3))
    assert not Mesh(4, 1).divides(Mesh(2, 3))
    assert not Mesh(4, 2).divides(Mesh(4, 3))
    assert str(Mesh(4, 3)) == "4x3"


@given(clusters_and_groups())
def test_every_rank_is_in_one_group(drawn: tuple[Cluster, Group]) -> None:
    cluster, group = drawn
    groups = group.all(cluster.world_size)
    assert sorted(rank for members in groups for rank in members) == list(range(cluster.world_size))
    for members in groups:
        assert len(members) == group.size
        for index, rank in enumerate(members):
            assert group.members(rank) == members
            assert group.index(rank) == index


@given(clusters_and_groups())
def test_crossings_are_links_between_nodes(drawn: tuple[Cluster, Group]) -> None:
    cluster, group = drawn
    node = [rank for rank in range(cluster.nodes) for _ in range(cluster.ranks_per_node)]
    links = [
        (members[i], members[(i + 1) % group.size])
        for members in group.all(cluster.world_size)
        for i in range(group.size)
    ]
    expected = sum(node[a] != node[b] for a, b in links)
    assert group.crossings(cluster) == expected


def test_groups_of_a_small_cluster() -> None:
    assert [list(members) for members in Group(1, 2).all(4)] == [[0, 1], [2, 3]]
    assert [list(members) for members in Group(2, 4).all(4)] == [[0, 2], [1, 3]]
    assert [list(members) for members in Group(2, 4).all(8)] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert [list(members) for members in Group(4, 4).all(4)] == [[0], [1], [2], [3]]
    two_nodes = Cluster(nodes=2, ranks_per_node=2)
    assert Group(1, 2).crossings(two_nodes) == 0
    assert Group(1, 4).crossings(two_nodes) == 2
    assert Group(2, 4).crossings(two_nodes) == 4
