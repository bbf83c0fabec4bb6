# SPDX-License-Identifier: Apache-2.0
"""Flat layouts, and that released parameters are gone until they are gathered."""

import copy
import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from training.config import ModelConfig
from training.memory import MemoryMeter
from training.mesh import Cluster
from training.model import build_units
from training.network import Network
from training.sharding import ALIGN_ELEMENTS, Layout, ShardedUnit
from training.strategy import PRESETS, parse_strategy

ONE = Cluster(nodes=1, ranks_per_node=1)

SHAPES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=6)


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_shards_put_together_are_the_tensors(shapes: list[list[int]], world_size: int) -> None:
    tensors = [torch.randn(shape) for shape in shapes]
    layout = Layout.of(tensors, world_size=world_size)
    flat = layout.pack(tensors, dtype=torch.float32)
    shards = [layout.part(flat, rank, world_size) for rank in range(world_size)]
    assert len({shard.numel() for shard in shards}) == 1
    together = layout.views(torch.cat(shards))
    assert all(torch.equal(a, b) for a, b in zip(together, tensors, strict=True))


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_padding_is_zero_and_as_small_as_alignment_allows(
    shapes: list[list[int]], world_size: int
) -> None:
    tensors = [torch.ones(shape) for shape in shapes]
    layout = Layout.of(tensors, world_size=world_size)
    flat = layout.pack(tensors, dtype=torch.bfloat16)
    assert flat.numel() == layout.padded
    assert torch.all(flat[: layout.numel] == 1)
    assert torch.all(flat[layout.numel :] == 0)
    assert layout.padded % (world_size * ALIGN_ELEMENTS) == 0
    assert layout.padded - layout.numel < world_size * ALIGN_ELEMENTS


@given(rows=st.integers(1, 40), gains=st.integers(1, 40), world_size=st.integers(1, 9))
def test_decay_covers_the_matrices_whatever_the_cut(rows: int, gains: int, world_size: int) -> None:
    layout = Layout.of([torch.ones(rows, 3), torch.ones(gains)], world_size=world_size)
    decayed = torch.zeros(layout.padded)
    for rank in range(world_size):
        end = layout.decayed_in_part(rank, world_size)
        layout.part(decayed, rank, world_size)[:end] = 1
    assert decayed.sum() == rows * 3
    assert torch.all(decayed[: rows * 3] == 1)


def test_packing_casts() -> None:
    tensors = [torch.tensor([1.0, 2.0], dtype=torch.bfloat16)]
    flat = Layout.of(tensors, world_size=1).pack(tensors, dtype=torch.float32)
    assert flat.tolist() == [1.0, 2.0, 0, 0, 0, 0, 0, 0]


def block(strategy: str, *, cluster: Cluster = ONE, rank: int = 0) -> ShardedUnit:
    """A block on a rank whose collectives, if it has others beside it, must not be called."""
    config = ModelConfig(layers=1, width=32, heads=2, context=8)
    module = dict(build_units(config, seed=1))["block0"]
    return ShardedUnit(
        "block0",
        module,
        strategy=parse_strategy(strategy, cluster),
        network=Network(rank=rank, world_size=cluster.world_size, groups={}),
        memory=MemoryMeter(),
        reduce_dtype="bf16",
    )


def storage_of(unit: ShardedUnit) -> StorageWeakRef:
    return StorageWeakRef(unit.flat.untyped_storage())


def test_replicated_parameters_are_there_from_the_start() -> None:
    unit = block("zero2")
    assert unit.flat.numel() == unit.layout.padded
    assert torch.equal(unit.flat, unit.state.master.bfloat16())


@pytest.mark.parametrize("strategy", [*PRESETS, "p=1x1,g=2x1,os=2x1", "p=2x1,g=2x1,os=2x2"])
def test_optimizer_shards_are_the_parameters_and_decay_with_them(strategy: str) -> None:
    cluster = Cluster(nodes=2, ranks_per_node=2)
    point = parse_strategy(strategy, cluster)
    whole = block("zero2")
    matrices = sum(p.numel() for p in whole.module.parameters() if p.ndim >= 2)
    seen = torch.zeros(whole.layout.numel, dtype=torch.int)
    for rank in range(4):
        unit = block(strategy, cluster=cluster, rank=rank)
        assert unit.flat.numel() == (unit.layout.padded if point.is_resident else 0)
        size = unit.layout.padded // point.optimizer.size
        assert unit.state.master.numel() == size
        start = point.optimizer_part(rank) * size
        known = whole.state.master[: whole.layout.numel][start : start + size]
        assert torch.equal(unit.state.master[: known.numel()], known)
        assert unit.state.decayed == min(max(matrices - start, 0), size)
        seen[start : start + size] += 1
    assert set(seen.tolist()) == {4 // point.optimizer.size}


def test_released_memory_is_freed_although_a_graph_used_it() -> None:
    unit = block("maz3")
    assert unit.flat.numel() == 0
    unit.gather()
    storage = storage_of(unit)
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16, requires_grad=True)
    y = unit.forward(x)
    assert not storage.expired()
    unit.release_after_forward()
    gc.collect()
    assert storage.expired()
    assert all(parameter.numel() == 0 for parameter in unit.module.parameters())

    unit.gather(backward=True)
    y.sum().backward()
    storage = storage_of(unit)
    unit.release()
    unit.reduce_gradients()
    del y
    gc.collect()
    assert storage.expired()


def test_what_was_gathered_ahead_is_used_once() -> None:
    unit = block("maz3")
    unit.start_gather()
    assert unit.flat.numel() == 0
    unit.gather()
    flat = unit.flat
    assert torch.equal(flat, unit.state.master.bfloat16())
    unit.gather()
    assert unit.flat is flat
    unit.release()
    unit.state.master.zero_()
    unit.refresh()
    unit.gather()
    assert not unit.flat.any()


def test_gradients_through_a_release_are_those_without() -> None:
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16)
    gradients = []
    for strategy in ("zero2", "maz3"):
        unit, leaf = block(strategy), x.clone().requires_grad_()
        unit.gather()
        y = unit.forward(leaf)
        unit.release_after_forward()
        assert unit.flat.numel() == (unit.layout.padded if strategy == "zero2" else 0)
        unit.gather(backward=True)
        y.float().square().sum().backward()
        unit.release()
        unit.reduce_gradients()
        assert leaf.grad is not None
        gradients.append((leaf.grad, unit.gradient_shard()))
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)
        assert a.abs().sum() > 0


def test_the_backward_computes_with_what_was_gathered_last() -> None:
    unit, x = block("maz3"), torch.randn(2, 8, 32, dtype=torch.bfloat16)
    x.requires_grad_()
    unit.gather()
    y = unit.forward(x)
    unit.release()
    unit.state.master.zero_()
    unit.refresh()
    unit.gather()
    y.backward(torch.ones_like(y))
    # With all weights zero, only the residual path carries the gradient.
    assert torch.equal(x.grad, torch.ones_like(x))


def test_a_gradient_is_used_once() -> None:
    with pytest.raises(RuntimeError, match="block0: the gradient was never reduced"):
        block("zero2").gradient_shard()


@given(shapes=SHAPES, replicas=st.sampled_from([1, 2, 3, 6]))
def test_squares_do_not_depend_on_how_the_optimizer_is_sharded(
    shapes: list[list[int]], replicas: int
) -> None:
    cluster = Cluster(nodes=1, ranks_per_node=6)
    module = torch.nn.Module()
    for index, shape in enumerate(shapes):
        module.register_parameter(str(index), torch.nn.Parameter(torch.randn(shape)))

    def squares(mesh: int) -> list[float]:
        found = {}
        for rank in range(6):
            point = parse_strategy(f"p=1x1,g=1x1,os={mesh}x1", cluster)
            network = Network(rank=rank, world_size=6, groups={})
            unit = ShardedUnit(
                "unit",
                copy.deepcopy(module),
                strategy=point,
                network=network,
                memory=MemoryMeter(),
                reduce_dtype="fp32",
            )
            # What every rank would have once replicas are added up.
            with torch.no_grad():
                unit._gradient = unit.layout.pack(
                    sorted(module.parameters(), key=lambda p: p.ndim < 2), dtype=torch.float32
                )
            found[point.optimizer_part(rank)] = [s.item() for s in unit.gradient_squares()]
        return [square for part in sorted(found) for square in found[part]]

    assert squares(6 // replicas) == squares(6)
