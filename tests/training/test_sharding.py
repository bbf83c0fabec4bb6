# SPDX-License-Identifier: Apache-2.0
"""Flat layouts, and that released parameters are gone until they are gathered."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from training.config import ModelConfig
from training.model import build_units
from training.network import Network
from training.sharding import ALIGN_ELEMENTS, Layout, ShardedUnit
from training.strategy import STRATEGIES

SHAPES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=6)


@given(shapes=SHAPES, world_size=st.integers(1, 9))
def test_shards_put_together_are_the_tensors(shapes: list[list[int]], world_size: int) -> None:
    tensors = [torch.randn(shape) for shape in shapes]
    layout = Layout.of(tensors, world_size=world_size)
    flat = layout.pack(tensors, dtype=torch.float32)
    shards = [layout.shard(flat, rank) for rank in range(world_size)]
    assert all(shard.numel() == layout.shard_numel for shard in shards)
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
    assert layout.shard_numel % ALIGN_ELEMENTS == 0
    assert layout.padded - layout.numel < world_size * ALIGN_ELEMENTS


@given(rows=st.integers(1, 40), gains=st.integers(1, 40), world_size=st.integers(1, 9))
def test_decay_covers_the_matrices_whatever_the_cut(rows: int, gains: int, world_size: int) -> None:
    layout = Layout.of([torch.ones(rows, 3), torch.ones(gains)], world_size=world_size)
    decayed = torch.zeros(layout.padded)
    for rank in range(world_size):
        layout.shard(decayed, rank)[: layout.decayed_in_shard(rank)] = 1
    assert decayed.sum() == rows * 3
    assert torch.all(decayed[: rows * 3] == 1)


def test_packing_casts() -> None:
    tensors = [torch.tensor([1.0, 2.0], dtype=torch.bfloat16)]
    flat = Layout.of(tensors, world_size=1).pack(tensors, dtype=torch.float32)
    assert flat.tolist() == [1.0, 2.0, 0, 0, 0, 0, 0, 0]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """A network of one rank: every collective is a copy."""
    store: Path = tmp_path_factory.mktemp("store") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    world = dist.group.WORLD
    assert world is not None
    yield Network(gradient=world, parameter=world, state=world, other=world)
    dist.destroy_process_group()


def block(network: Network, strategy: str) -> ShardedUnit:
    config = ModelConfig(layers=1, width=32, heads=2, context=8)
    module = dict(build_units(config, seed=1))["block0"]
    return ShardedUnit(
        "block0", module, strategy=STRATEGIES[strategy], network=network, reduce_dtype="bf16"
    )


def storage_of(unit: ShardedUnit) -> StorageWeakRef:
    return StorageWeakRef(unit.flat.untyped_storage())


def test_replicated_parameters_are_there_from_the_start(network: Network) -> None:
    unit = block(network, "zero2")
    assert unit.flat.numel() == unit.layout.padded
    assert torch.equal(unit.flat, unit.state.master.bfloat16())


def test_released_memory_is_freed_although_a_graph_used_it(network: Network) -> None:
    unit = block(network, "zero3")
    assert unit.flat.numel() == 0
    unit.gather()
    storage = storage_of(unit)
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16, requires_grad=True)
    y = unit.forward(x)
    assert not storage.expired()
    unit.release()
    gc.collect()
    assert storage.expired()
    assert all(parameter.numel() == 0 for parameter in unit.module.parameters())

    unit.gather()
    y.sum().backward()
    storage = storage_of(unit)
    unit.reduce_gradients()
    unit.release()
    del y
    gc.collect()
    assert storage.expired()


def test_gradients_through_a_release_are_those_without(network: Network) -> None:
    x = torch.randn(2, 8, 32, dtype=torch.bfloat16)
    gradients = []
    for strategy in ("zero2", "zero3"):
        unit, leaf = block(network, strategy), x.clone().requires_grad_()
        if strategy == "zero3":
            unit.gather()
        y = unit.forward(leaf)
        if strategy == "zero3":
            unit.release()
            unit.gather()
        y.float().square().sum().backward()
        unit.reduce_gradients()
        assert leaf.grad is not None
        gradients.append((leaf.grad, unit.gradient_shard()))
    for a, b in zip(*gradients, strict=True):
        assert torch.equal(a, b)
        assert a.abs().sum() > 0


def test_the_backward_computes_with_what_was_gathered_last(network: Network) -> None:
    unit, x = block(network, "zero3"), torch.randn(2, 8, 32, dtype=torch.bfloat16)
    x.requires_grad_()
    unit.gather()
    y = unit.forward(x)
    unit.release()
    unit.state.master.zero_()
    unit.gather()
    y.backward(torch.ones_like(y))
    # With all weights zero, only the residual path carries the gradient.
    assert torch.equal(x.grad, torch.ones_like(x))


def test_a_gradient_is_used_once(network: Network) -> None:
    with pytest.raises(RuntimeError, match="block0: the gradient was never reduced"):
        block(network, "zero2").gradient_shard()
