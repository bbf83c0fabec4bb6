# SPDX-License-Identifier: Apache-2.0
"""Collectives in two levels: bits of the model, bytes of the formulas, and when there are none."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import nic_emul
from nic_emul import CounterRow, schedule
from nic_emul.topology import Topology
from tests.nic_emul import checks, model
from tests.nic_emul.checks import make_input, same
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.nic_emul.test_collectives import check_conservation

SUM, AVG, MAX = dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX
OPERATIONS = [
    (torch.float32, SUM),
    (torch.float32, AVG),
    (torch.bfloat16, SUM),
    (torch.float16, MAX),
    (torch.int64, AVG),
    (torch.bool, SUM),
]
Grid = list[list[int]]


def environment(per_node: int, **others: str) -> dict[str, str]:
    return {
        "WIREZIP_RANKS_PER_NODE": str(per_node),
        "WIREZIP_ALGORITHM": "hierarchical",
        **others,
    }


def test_groups_with_two_levels() -> None:
    two = Topology(2)
    assert two.grid([0, 1, 2, 3, 4, 5]) == ((0, 1), (2, 3), (4, 5))
    # A group of some ranks of the job, as the group numbers them.
    assert two.grid([0, 1, 4, 5]) == ((0, 1), (2, 3))
    # Ranks of a node need not stand beside each other.
    assert two.grid([4, 0, 5, 1]) == ((0, 2), (1, 3))
    assert Topology(3).grid([1, 2, 4, 5]) == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("ranks_per_node", "job_ranks"),
    [(1, [0, 1, 2, 3]), (4, [0, 1, 2, 3]), (2, [0, 1, 2]), (2, [0, 2, 4]), (2, [3]), (2, [0, 1])],
)
def test_groups_without(ranks_per_node: int, job_ranks: list[int]) -> None:
    assert Topology(ranks_per_node).grid(job_ranks) is None


def test_shards_are_even_and_aligned() -> None:
    assert schedule.shards(10, 3, 4) == [(0, 4), (4, 8), (8, 10)]
    assert schedule.shards(3, 2, 4) == [(0, 3), (3, 3)]
    assert schedule.shards(0, 2, 4) == [(0, 0), (0, 0)]
    assert schedule.shards(3, 2, 16) == [(0, 2), (2, 3)]


def two_levels(members: list[int], grid: Grid, counts: list[int]) -> list[CounterRow]:
    """All three collectives of every size and operation on the group of `members`."""
    group = dist.new_group(members, backend="wirezip")
    if dist.get_rank() in members:
        for count in counts:
            for dtype, op in OPERATIONS:
                _check(group, grid, count, dtype, op)
    return nic_emul.local_nic().counters.rows()


def _check(
    group: dist.ProcessGroup,
    grid: Grid,
    count: int,
    dtype: torch.dtype,
    op: dist.ReduceOp.RedOpType,
) -> None:
    rank, size = group.rank(), group.size()
    what = f"{op} of {count} {dtype} on rank {rank} of {size}"
    combine = checks.combiner(op)
    inputs = [make_input(r, count, dtype) for r in range(size)]
    changed, finish = checks.prepared(op, inputs)
    tensor = inputs[rank].clone()
    dist.all_reduce(tensor, op=op, group=group)
    assert same(tensor, finish(model.two_level_all_reduce(changed, grid, combine))), what

    wide = [make_input(r, size * count, dtype, seed=1) for r in range(size)]
    changed, finish = checks.prepared(op, wide)
    mine = slice(rank * count, (rank + 1) * count)
    expected = finish(model.two_level_fold([d[mine] for d in changed], grid, rank, combine))
    data = wide[rank].clone()
    out = torch.empty(count, dtype=dtype)
    dist.reduce_scatter_single(out, data, op=op, group=group)
    assert same(out, expected), what
    assert same(data, wide[rank]), what
    # The output may be a part of the input.
    dist.reduce_scatter_single(data[mine], data, op=op, group=group)
    assert same(data[mine], expected), what

    out = torch.empty(size * count, dtype=dtype)
    dist.all_gather_single(out, inputs[rank].clone(), group=group)
    assert same(out, torch.cat(inputs)), what
    out.zero_()
    own = out[rank * count : (rank + 1) * count].copy_(inputs[rank])
    dist.all_gather_single(out, own, group=group)
    assert same(out, torch.cat(inputs)), what


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("size", "per_node", "members", "grid", "counts"),
    [
        (4, 2, [0, 1, 2, 3], [[0, 1], [2, 3]], [0, 1, 3, 64, 1001]),
        (6, 3, [0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]], [5, 1003]),
        (6, 2, [0, 1, 2, 3, 4, 5], [[0, 1], [2, 3], [4, 5]], [7, 1002]),
        (6, 3, [1, 2, 3, 5], [[0, 1], [2, 3]], [1001]),
    ],
)
def test_bits_of_the_model(
    size: int, per_node: int, members: list[int], grid: Grid, counts: list[int]
) -> None:
    ranks = run_ranks(two_levels, size, members, grid, counts, environment=environment(per_node))
    check_conservation(ranks)


@pytest.mark.ranks
def test_engines_and_many_slices() -> None:
    """More than a slice for each level, coded."""
    ranks = run_ranks(
        two_levels,
        4,
        [0, 1, 2, 3],
        [[0, 1], [2, 3]],
        [150_003],
        environment=environment(2, WIREZIP_ENGINE=ENGINES[-1]),
    )
    check_conservation(ranks)
    assert all(any(row.coded_frames for row in rows) for rows in ranks)


def three(count: int) -> dict[str, CounterRow]:
    """What each collective sends, of FP32 that divide by all ranks."""
    size = dist.get_world_size()
    data, whole = torch.ones(count), torch.ones(size * count)
    rows = {}
    for name, call in {
        "all_reduce": lambda: dist.all_reduce(data),
        "reduce_scatter": lambda: dist.reduce_scatter_single(data, whole),
        "all_gather": lambda: dist.all_gather_single(whole, data),
    }.items():
        (rows[name],) = checks.counted(call).values()
    return rows


@pytest.mark.ranks
@pytest.mark.parametrize(("nodes", "per_node"), [(2, 3), (3, 2)])
def test_bytes_of_the_formulas(nodes: int, per_node: int) -> None:
    count = 6 * 4096
    part = 4 * count
    for rows in run_ranks(three, nodes * per_node, count, environment=environment(per_node)):
        reduced = rows["all_reduce"]
        # The shard of each local rank is all-reduced between nodes ...
        assert reduced.logical_bytes == 2 * (nodes - 1) * part // (nodes * per_node)
        # ... and crosses the node twice, on its way to one rank and from it.
        assert reduced.intra_bytes == 2 * (per_node - 1) * part // per_node
        for name in ("reduce_scatter", "all_gather"):
            assert rows[name].logical_bytes == (nodes - 1) * part
            assert rows[name].intra_bytes == (per_node - 1) * nodes * part
        assert all(row.payload_bytes == row.logical_bytes for row in rows.values())


@pytest.mark.ranks
def test_other_groups_use_a_ring() -> None:
    """Five ranks on nodes of two do what they do without the setting, byte for byte."""
    arguments = ([1, 1001], [0, 3], False, 4096)
    flat = run_ranks(checks.reductions, 5, *arguments, environment={"WIREZIP_RANKS_PER_NODE": "2"})
    found = run_ranks(checks.reductions, 5, *arguments, environment=environment(2))
    for rows, before in zip(found, flat, strict=True):
        assert [replace(r, encode_s=0.0) for r in rows] == [
            replace(r, encode_s=0.0) for r in before
        ]
