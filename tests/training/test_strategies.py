# SPDX-License-Identifier: Apache-2.0
"""All strategies with real ranks: the bits of a plain trainer, and the bytes of the formulas."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from tests.training.many import Trained, train_many
from tests.training.reference import ReferenceRun, train_reference
from tests.training.runs import tiny
from training.config import RunConfig, override, strategy_of
from training.strategy import PRESETS
from training.volumes import Volume, sent_bytes

pytestmark = pytest.mark.ranks

# Nodes x ranks of each, and points beside the presets that say something there.
SPELLED = {
    (1, 1): ("p=1x1,g=1x1,os=1x1,host",),
    (1, 2): (),
    (2, 1): ("p=1x1,g=1x1,os=1x2,host",),
    (2, 2): (
        "p=1x1,g=1x1,os=2x1",  # the optimizer replicated over nodes
        "p=1x1,g=2x1,os=2x1",
        "p=2x1,g=2x1,os=2x2",  # gradients all-reduced, then cut further
        "p=2x2,g=2x2,os=2x2,b=1x1",  # whole parameters kept until the backward
        "p=2x1,g=2x2,os=2x2,b=1x1,host",
    ),
    (1, 4): ("p=2x1,g=4x1,os=4x1", "p=4x1,g=4x1,os=4x1,b=2x1"),
    (4, 1): ("p=1x2,g=1x2,os=1x4", "p=1x4,g=1x4,os=1x4,b=1x2"),
}
SHAPES = tuple(SPELLED)


def config(shape: tuple[int, int], *, steps: int | None = None) -> RunConfig:
    """A short run; four ranks have a longer one in the full tier."""
    nodes, ranks = shape
    steps = steps or (4 if nodes * ranks < 4 else 2)
    return override(tiny("zero2", nodes * ranks, steps=steps), ranks_per_node=ranks)


def names(shape: tuple[int, int]) -> tuple[str, ...]:
    """Every point that has a name, each once, and the spelled ones."""
    return (*(name for name in PRESETS if name != "mics"), *SPELLED[shape])


Runs = Callable[[tuple[int, int]], dict[str, Trained]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    """The runs of `tiny` on a cluster with each strategy, made once."""
    made: dict[tuple[int, int], dict[str, Trained]] = {}

    def get(shape: tuple[int, int]) -> dict[str, Trained]:
        if shape not in made:
            made[shape] = train_with(names(shape), config(shape))
        return made[shape]

    return get


def train_with(strategies: Sequence[str], base: RunConfig) -> dict[str, Trained]:
    trained = train_many([override(base, strategy=strategy) for strategy in strategies])
    return dict(zip(strategies, trained, strict=True))


@pytest.fixture(scope="module")
def references() -> Callable[[int], ReferenceRun]:
    made: dict[int, ReferenceRun] = {}

    def get(world_size: int) -> ReferenceRun:
        if world_size not in made:
            made[world_size] = train_reference(config((world_size, 1)))
        return made[world_size]

    return get


# One rank sums nothing and two sum the same in either order: the bits must be the reference's.
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1)])
def test_bits_of_the_unsharded_reference(
    runs: Runs, references: Callable[[int], ReferenceRun], shape: tuple[int, int]
) -> None:
    reference = references(shape[0] * shape[1])
    assert reference.losses[-1] < reference.losses[0] - 0.5
    for strategy, trained in runs(shape).items():
        assert trained.losses == reference.losses, strategy
        assert trained.grad_norms == reference.grad_norms, strategy
        assert trained.param_hash == reference.param_hash, strategy


# Four ranks add BF16 numbers in the order of their rings, the reference from rank 0 to 3.
@pytest.mark.parametrize("shape", [(2, 2)])
def test_four_ranks_agree_with_the_reference_within_tolerance(
    runs: Runs, references: Callable[[int], ReferenceRun], shape: tuple[int, int]
) -> None:
    for strategy, trained in runs(shape).items():
        assert trained.losses == pytest.approx(references(4).losses, rel=1e-3), strategy


# Units of `tiny` fit into one round of the ring, in which an all-reduce sums in the same order.
def test_the_same_rings_give_the_same_bits(runs: Runs) -> None:
    trained = runs((2, 2))
    alike = ("ddp", "zero1", "zero2", "zero3", "hpz", "p=2x2,g=2x2,os=2x2,b=1x1")
    assert len({trained[strategy].param_hash for strategy in alike}) == 1
    assert trained["maz3"].param_hash == trained["p=2x1,g=2x2,os=2x2,b=1x1,host"].param_hash
    # In the node first, then between: another order, which shows that the test can fail.
    assert trained["maz3"].param_hash != trained["zero3"].param_hash


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_logical_bytes_are_those_of_the_formulas(runs: Runs, shape: tuple[int, int]) -> None:
    for strategy, trained in runs(shape).items():
        check_bytes(strategy, trained, config(shape))


def check_bytes(
    strategy: str, trained: Trained, base: RunConfig, *, gradient_bytes: int = 2
) -> None:
    point = strategy_of(override(base, strategy=strategy))
    hierarchical = base.network.algorithm == "hierarchical"
    expected = sent_bytes(
        point,
        trained.padded,
        gradient_bytes=gradient_bytes,
        micro_batches=base.data.micro_batches,
        hierarchical=hierarchical,
    )
    counted = {key: volume for key, volume in trained.sent.items() if key[0] != "other"}
    assert counted == {
        key: Volume(base.steps * volume.between, base.steps * volume.inside)
        for key, volume in expected.items()
    }, strategy
    if hierarchical:
        return
    # The loss, and the squared norm in as many parts as there are ranks, in FP32.
    ranks = base.world_size
    others = [volume.total for key, volume in trained.sent.items() if key[0] == "other"]
    assert sum(others) == base.steps * 2 * (ranks - 1) * 4 * (1 + ranks), strategy


@pytest.mark.full
@pytest.mark.parametrize("shape", [(1, 4), (2, 2), (4, 1)])
def test_twenty_steps_on_four_ranks(shape: tuple[int, int]) -> None:
    base = config(shape, steps=20)
    reference = train_reference(base)
    for strategy in names(shape):
        # One at a time: ranks have a minute.
        (trained,) = train_with((strategy,), base).values()
        assert trained.losses == pytest.approx(reference.losses, rel=1e-3), strategy
        check_bytes(strategy, trained, base)


def test_gathering_ahead_changes_nothing(runs: Runs) -> None:
    ahead = dataclasses.replace(config((2, 2)), prefetch=True)
    for strategy, trained in train_with(("zero3", "hpz", "maz3"), ahead).items():
        before = runs((2, 2))[strategy]
        assert trained == before
        assert trained.memory == trained.predicted
        assert trained.memory.parameters > before.memory.parameters


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 2)])
def test_memory_is_that_of_the_formulas(runs: Runs, shape: tuple[int, int]) -> None:
    for strategy, trained in runs(shape).items():
        assert trained.memory == trained.predicted, strategy


def in_parts(base: RunConfig, micro_batches: int) -> RunConfig:
    data = dataclasses.replace(base.data, micro_batches=micro_batches)
    return dataclasses.replace(base, data=data)


def test_bytes_of_micro_batches() -> None:
    base = in_parts(config((2, 2), steps=1), 2)
    for strategy, trained in train_with(
        ("zero1", "zero2", "zero3", "hsdp", "hpz", "maz3", "p=1x1,g=2x1,os=2x1"), base
    ).items():
        check_bytes(strategy, trained, base)
        assert trained.memory == trained.predicted


def unclipped(base: RunConfig) -> RunConfig:
    """Without the norm, which is summed in as many parts as there are ranks."""
    return dataclasses.replace(base, optimizer=dataclasses.replace(base.optimizer, clip_norm=0.0))


def test_micro_batches_of_one_rank_are_the_ranks_of_one_micro_batch() -> None:
    (one,) = train_many([in_parts(unclipped(config((1, 1))), 2)])
    two = train_with(("zero1", "zero3"), unclipped(config((2, 1))))
    for trained in two.values():
        assert trained.param_hash == one.param_hash
        assert trained.losses == one.losses


def test_recomputing_changes_nothing(runs: Runs) -> None:
    again = dataclasses.replace(config((2, 1)), recompute=True)
    for strategy, trained in train_with(("zero2", "zero3", "hpz", "maz3"), again).items():
        before = runs((2, 1))[strategy]
        assert trained == before
        assert trained.memory == trained.predicted
        assert trained.memory.activations < before.memory.activations // 2


def test_collectives_within_nodes_first() -> None:
    base = override(config((2, 2), steps=1), algorithm="hierarchical")
    trained = train_with(("ddp", "zero3", "maz3", "hpz"), base)
    for strategy, each in trained.items():
        check_bytes(strategy, each, base)
    # Its rings within nodes and between them are those that zero3 has now, too.
    assert trained["zero3"].param_hash == trained["maz3"].param_hash


def test_gradients_reduced_in_fp32() -> None:
    base = config((2, 1), steps=2)
    network = dataclasses.replace(base.network, reduce_dtype="fp32")
    (trained,) = train_many([dataclasses.replace(base, network=network)])
    check_bytes("zero2", trained, base, gradient_bytes=4)


def test_another_seed_gives_another_run(runs: Runs) -> None:
    (other,) = train_many([override(config((1, 1)), seed=2)])
    assert other.losses != runs((1, 1))["zero2"].losses
