# SPDX-License-Identifier: Apache-2.0
"""ZeRO-1, 2 and 3 with real ranks: the bits of a plain trainer, and the bytes of the formulas."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.reference import ReferenceRun, train_reference
from tests.training.runs import run, tiny
from training.config import override
from training.records import Run
from training.strategy import STRATEGIES, Placement, Strategy

pytestmark = pytest.mark.ranks

STRATEGY_NAMES = tuple(STRATEGIES)
Runs = Callable[[str, int], Run]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The run of `tiny` with a strategy and a world size, made once."""
    made: dict[tuple[str, int], Run] = {}

    def get(strategy: str, world_size: int) -> Run:
        key = (strategy, world_size)
        if key not in made:
            folder = tmp_path_factory.mktemp(f"{strategy}-{world_size}") / "run"
            made[key] = run(tiny(strategy, world_size), folder)
        return made[key]

    return get


@pytest.fixture(scope="module")
def references() -> Callable[[int], ReferenceRun]:
    made: dict[int, ReferenceRun] = {}
    return lambda ranks: made.setdefault(ranks, train_reference(tiny("zero2", ranks)))


def test_the_three_differ_in_what_is_sharded() -> None:
    sharded = {
        name: (strategy.parameters, strategy.gradients).count(Placement.SHARDED)
        for name, strategy in STRATEGIES.items()
    }
    assert sharded == {"zero1": 0, "zero2": 1, "zero3": 2}


def test_replicated_gradients_of_sharded_parameters_mean_nothing() -> None:
    with pytest.raises(ValueError, match="zero3: expected sharded gradients"):
        Strategy("zero3", parameters=Placement.SHARDED, gradients=Placement.REPLICATED)


# One rank sums nothing and two sum the same in either order: the bits must be the reference's.
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_bits_of_the_unsharded_reference(
    runs: Runs, references: Callable[[int], ReferenceRun], strategy: str, world_size: int
) -> None:
    sharded, reference = runs(strategy, world_size), references(world_size)
    assert sharded.losses == reference.losses
    assert [record.grad_norm for record in sharded.steps] == reference.grad_norms
    assert sharded.summary.param_hash == reference.param_hash
    assert sharded.losses[-1] < sharded.losses[0] - 0.5


# Four ranks add BF16 numbers in the order of the ring, the reference from rank 0 to 3.
def test_four_ranks_agree_with_the_reference_within_tolerance(
    runs: Runs, references: Callable[[int], ReferenceRun]
) -> None:
    assert runs("zero2", 4).losses == pytest.approx(references(4).losses, rel=1e-3)


# Units of `tiny` fit into one round of the ring, in which an all-reduce sums in the same order.
def test_four_ranks_have_the_same_bits_in_every_strategy(runs: Runs) -> None:
    all_three = [runs(strategy, 4) for strategy in STRATEGY_NAMES]
    assert len({tuple(each.losses) for each in all_three}) == 1
    assert len({each.summary.param_hash for each in all_three}) == 1


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("strategy", STRATEGY_NAMES)
def test_logical_bytes_are_those_of_the_formula(runs: Runs, strategy: str, world_size: int) -> None:
    summary = runs(strategy, world_size).summary
    expected = STRATEGIES[strategy].sent_bytes(
        summary.padded_parameters, world_size=world_size, reduce_dtype="bf16"
    )
    counted = {
        (row["role"], row["collective"]): row["logical_bytes"] / summary.steps
        for row in summary.rows
        if row["role"] != "other"
    }
    assert counted == {key: size for key, size in expected.items() if size}
    # The loss and the squared norm: two FP32 numbers through a ring.
    others = [row["logical_bytes"] for row in summary.rows if row["role"] == "other"]
    assert sum(others) == 2 * (world_size - 1) * 8 * summary.steps


def test_volumes_in_units_of_the_model() -> None:
    # Bytes per parameter and rank, times n/(n-1): 2 + 4, 2 + 2, 4 + 2 as in the ZeRO paper's terms.
    for name, factor in (("zero1", 6), ("zero2", 4), ("zero3", 6)):
        sent = STRATEGIES[name].sent_bytes(1000, world_size=4, reduce_dtype="bf16")
        assert sum(sent.values()) == factor * 1000 * 3
    wide = STRATEGIES["zero2"].sent_bytes(1000, world_size=4, reduce_dtype="fp32")
    assert wide["gradient", "reduce_scatter"] == 4 * 1000 * 3


def test_gradients_reduced_in_fp32(tmp_path: Path) -> None:
    config = tiny("zero2", 2, steps=2)
    network = dataclasses.replace(config.network, reduce_dtype="fp32")
    result = run(dataclasses.replace(config, network=network), tmp_path / "run")
    expected = STRATEGIES["zero2"].sent_bytes(
        result.summary.padded_parameters, world_size=2, reduce_dtype="fp32"
    )
    assert result.summary.by_collective["reduce_scatter"]["logical_bytes"] == (
        2 * expected["gradient", "reduce_scatter"]
    )
    dtypes = {row["role"]: row["dtype"] for row in result.summary.rows if row["role"] != "other"}
    assert dtypes == {"gradient": "float32", "parameter": "bfloat16"}


def test_another_seed_gives_another_run(runs: Runs, tmp_path: Path) -> None:
    other = run(override(tiny("zero2", 1), seed=2), tmp_path / "run")
    assert other.losses != runs("zero2", 1).losses
    assert other.summary.text_sha256 == runs("zero2", 1).summary.text_sha256
