# SPDX-License-Identifier: Apache-2.0
"""AdamW on flat FP32 shards, and the learning rate over a run."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from training.config import OptimizerConfig


@dataclass(frozen=True)
class AdamState:
    """One rank's part of a unit: FP32 `(shard,)` each, updated in place.

    Attributes:
        master: the parameters that the optimizer knows; what runs is their BF16 cast.
        exp_avg: first moment.
        exp_avg_sq: second moment.
        decayed: the first so many elements take weight decay.
    """

    master: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    decayed: int

    @classmethod
    def of(cls, master: Tensor, *, decayed: int) -> "AdamState":
        return cls(master, torch.zeros_like(master), torch.zeros_like(master), decayed)


def learning_rate(step: int, *, steps: int, config: OptimizerConfig) -> float:
    """Rate of `step` (from 0): linear to `peak_lr`, a cosine to `final_lr`, then `tail_lr`."""
    cosine_end = steps - config.tail_steps
    if step >= cosine_end:
        return config.tail_lr
    if step < config.warmup_steps:
        return config.peak_lr * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, cosine_end - 1 - config.warmup_steps)
    fallen = 0.5 * (1 - math.cos(math.pi * progress))
    return config.peak_lr - (config.peak_lr - config.final_lr) * fallen


def clip_factor(norm: float, *, clip_norm: float) -> float:
    """What to multiply gradients by so that their global norm is at most `clip_norm` (0: off)."""
    if clip_norm == 0 or norm <= clip_norm:
        return 1.0
    return clip_norm / norm


def adamw_step(
    state: AdamState, gradient: Tensor, *, step: int, lr: float, config: OptimizerConfig
) -> None:
    """One update, in the order of operations of `torch.optim.AdamW`, so that bits can be compared.

    Args:
        gradient: FP32 `(shard,)`, clipped.
        step: from 0.
    """
    state.master[: state.decayed].mul_(1 - lr * config.weight_decay)
    state.exp_avg.lerp_(gradient, 1 - config.beta1)
    state.exp_avg_sq.mul_(config.beta2).addcmul_(gradient, gradient, value=1 - config.beta2)
    correction1 = 1 - config.beta1 ** (step + 1)
    correction2 = 1 - config.beta2 ** (step + 1)
    denominator = (state.exp_avg_sq.sqrt() / math.sqrt(correction2)).add_(config.eps)
    state.master.addcdiv_(state.exp_avg, denominator, value=-lr / correction1)
