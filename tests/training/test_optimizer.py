# SPDX-License-Identifier: Apache-2.0
"""AdamW on shards against torch's, the schedule, and clipping."""

import dataclasses
import itertools

import pytest
import torch

from training.config import OptimizerConfig
from training.optimizer import AdamState, adamw_step, clip_factor, learning_rate

CONFIG = OptimizerConfig(peak_lr=1e-2, final_lr=1e-3, warmup_steps=4, weight_decay=0.3)


def test_adamw_has_the_bits_of_torch() -> None:
    start, decayed = torch.randn(1000), 613
    state = AdamState.of(start.clone(), decayed=decayed)
    matrices, vectors = start[:decayed].clone(), start[decayed:].clone()
    groups = [
        {"params": [matrices], "weight_decay": CONFIG.weight_decay},
        {"params": [vectors], "weight_decay": 0.0},
    ]
    betas = (CONFIG.beta1, CONFIG.beta2)
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=betas, eps=CONFIG.eps, foreach=False)
    for step in range(5):
        gradient, lr = torch.randn(1000), 1e-2 / (step + 1)
        adamw_step(state, gradient, step=step, lr=lr, config=CONFIG)
        for group in optimizer.param_groups:
            group["lr"] = lr
        matrices.grad, vectors.grad = gradient[:decayed].clone(), gradient[decayed:].clone()
        optimizer.step()
        assert torch.equal(state.master, torch.cat([matrices, vectors]))


@pytest.mark.parametrize("decayed", [0, 7])
def test_only_the_prefix_decays(decayed: int) -> None:
    state = AdamState.of(torch.ones(7), decayed=decayed)
    adamw_step(state, torch.zeros(7), step=0, lr=0.1, config=CONFIG)
    assert torch.all(state.master == (torch.tensor(1 - 0.1 * 0.3) if decayed else 1.0))


def test_learning_rate_over_a_run() -> None:
    rates = [learning_rate(step, steps=24, config=CONFIG) for step in range(24)]
    assert rates[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert rates[4] == 0.01
    assert rates[-1] == pytest.approx(0.001)
    assert all(a > b for a, b in itertools.pairwise(rates[4:]))


@pytest.mark.parametrize("steps", [1, 4, 5])
def test_runs_that_end_in_or_after_the_warm_up(steps: int) -> None:
    rates = [learning_rate(step, steps=steps, config=CONFIG) for step in range(steps)]
    assert all(0 < rate <= CONFIG.peak_lr for rate in rates)


def test_no_warm_up() -> None:
    config = dataclasses.replace(CONFIG, warmup_steps=0)
    assert learning_rate(0, steps=10, config=config) == config.peak_lr


def test_a_tail_at_a_constant_rate() -> None:
    config = dataclasses.replace(CONFIG, tail_steps=3, tail_lr=1e-5)
    rates = [learning_rate(step, steps=27, config=config) for step in range(27)]
    assert rates[:24] == [learning_rate(step, steps=24, config=CONFIG) for step in range(24)]
    assert rates[24:] == [1e-5] * 3


def test_clipping() -> None:
    assert clip_factor(4.0, clip_norm=1.0) == 0.25
    assert clip_factor(0.5, clip_norm=1.0) == 1.0
    assert clip_factor(4.0, clip_norm=0.0) == 1.0
    assert clip_factor(0.0, clip_norm=1.0) == 1.0
