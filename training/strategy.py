# SPDX-License-Identifier: Apache-2.0
"""What each rank keeps of parameters and gradients, and what that moves.

Optimizer states (FP32 master, two moments) are always sharded. One loop (`training/loop.py`) runs
every strategy; a strategy only says, for parameters and for gradients, whether every rank keeps
all of it or its own shard. What follows for the network, with P padded
parameters over all units, n ranks, BF16 parameters (2 bytes) and g bytes per gradient element
(2, or 4 with `reduce_dtype = "fp32"`), in bytes that one rank sends per step:

    name    gradients (role gradient)            parameters (role parameter)
    zero1   all-reduce      2 g P (n-1)/n        all-gather after the step            2 P (n-1)/n
    zero2   reduce-scatter    g P (n-1)/n        all-gather after the step            2 P (n-1)/n
    zero3   reduce-scatter    g P (n-1)/n        all-gather before forward, again
                                                 before backward                  2 * 2 P (n-1)/n

ZeRO-1 could reduce-scatter too, and would then move what ZeRO-2 moves; here it keeps the whole
gradient, hence the all-reduce. Two scalars (loss, squared gradient norm) are all-reduced beside
this in role other. Initial parameters are not sent: every rank makes the same from the seed.

On bits: with two ranks all three give the same, since a sum of two does not depend on the order.
With more, ZeRO-2 and ZeRO-3 do; ZeRO-1 joins them as long as a unit fits into one round of the
ring (2 MiB a rank, as in NCCL), because then all-reduce and reduce-scatter cut it alike.

Padding: a unit's P is rounded up so that each rank's shard is a multiple of 16 bytes in BF16
(`training/sharding.py`).
"""

import enum
from dataclasses import dataclass

from training.config import ReduceDtype, StrategyName


class Placement(enum.Enum):
    """Where something lives between its uses."""

    REPLICATED = "all of it on every rank"
    SHARDED = "one n-th on each rank"


@dataclass(frozen=True)
class Strategy:
    """Where parameters and gradients live; sharded parameters have sharded gradients."""

    name: StrategyName
    parameters: Placement
    gradients: Placement

    def __post_init__(self) -> None:
        if self.shards_parameters and not self.shards_gradients:
            raise ValueError(f"{self.name}: expected sharded gradients with sharded parameters")

    @property
    def shards_parameters(self) -> bool:
        return self.parameters is Placement.SHARDED

    @property
    def shards_gradients(self) -> bool:
        return self.gradients is Placement.SHARDED

    def sent_bytes(
        self, padded: int, *, world_size: int, reduce_dtype: ReduceDtype
    ) -> dict[tuple[str, str], int]:
        """Logical bytes that all ranks together send in a step, by (role, collective).

        Args:
            padded: P, the elements of all units with padding.
        """
        # A ring passes every byte n-1 times; an all-reduce does so twice.
        gradient = (world_size - 1) * padded * (2 if reduce_dtype == "bf16" else 4)
        parameter = (world_size - 1) * padded * 2
        return {
            ("gradient", "reduce_scatter" if self.shards_gradients else "all_reduce"): (
                gradient if self.shards_gradients else 2 * gradient
            ),
            ("parameter", "all_gather"): 2 * parameter if self.shards_parameters else parameter,
        }


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("zero1", parameters=Placement.REPLICATED, gradients=Placement.REPLICATED),
        Strategy("zero2", parameters=Placement.REPLICATED, gradients=Placement.SHARDED),
        Strategy("zero3", parameters=Placement.SHARDED, gradients=Placement.SHARDED),
    )
}
