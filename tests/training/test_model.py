# SPDX-License-Identifier: Apache-2.0
"""The GPT: sizes, causality, seeds, and that it learns."""

import math

import torch

from training.config import ModelConfig
from training.model import GPT, build_units, loss_of

CONFIG = ModelConfig(layers=2, width=32, heads=4, context=16)
VOCABULARY = CONFIG.vocabulary


def tokens(batch: int = 2, length: int = 16) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, length))


def test_number_of_parameters() -> None:
    c, v, t = CONFIG.width, VOCABULARY, CONFIG.context
    block = (3 * c * c + 3 * c) + (c * c + c) + (4 * c * c + 4 * c) + (4 * c * c + c) + 4 * c
    expected = (v + t) * c + CONFIG.layers * block + 2 * c + v * c
    assert sum(p.numel() for p in GPT(CONFIG, seed=0).parameters()) == expected


def test_logits_and_first_loss() -> None:
    logits = GPT(CONFIG, seed=0)(tokens())
    assert logits.shape == (2, 16, VOCABULARY)
    loss = loss_of(logits.bfloat16(), tokens())
    assert loss.dtype == torch.float32
    assert abs(loss.item() - math.log(VOCABULARY)) < 0.1


def test_head_is_not_tied_to_the_embedding() -> None:
    units = dict(build_units(CONFIG, seed=0))
    assert not torch.equal(units["embedding"].token.weight, units["head"].output.weight)


def test_no_token_sees_what_follows() -> None:
    model, first = GPT(CONFIG, seed=0), tokens(batch=1)
    second = first.clone()
    second[0, 9:] = (second[0, 9:] + 1) % VOCABULARY
    a, b = model(first), model(second)
    assert torch.equal(a[:, :9], b[:, :9])
    assert not torch.equal(a[:, 9], b[:, 9])


def test_shorter_sequences_than_the_context() -> None:
    assert GPT(CONFIG, seed=0)(tokens(length=3)).shape == (2, 3, VOCABULARY)


def test_the_seed_decides_every_parameter() -> None:
    def flat(seed: int) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in GPT(CONFIG, seed=seed).parameters()])

    assert torch.equal(flat(3), flat(3))
    assert not torch.equal(flat(3), flat(4))
    blocks = [unit for name, unit in build_units(CONFIG, 3) if name.startswith("block")]
    first, second = (block.attention.project.weight for block in blocks)
    assert not torch.equal(first, second)


def test_units_do_not_depend_on_what_was_drawn_before() -> None:
    a = dict(build_units(CONFIG, 3))["head"].output.weight
    torch.rand(100)
    b = dict(build_units(CONFIG, 3))["head"].output.weight
    assert torch.equal(a, b)


def test_residual_projections_start_smaller() -> None:
    block = dict(build_units(ModelConfig(layers=8, width=128, heads=4), 0))["block0"]
    assert abs(block.feed_forward.project.weight.std().item() - 0.02 / 4) < 2e-4
    assert abs(block.feed_forward.expand.weight.std().item() - 0.02) < 1e-3
    assert torch.all(block.attention_norm.weight == 1)
    assert torch.all(block.attention.query_key_value.bias == 0)


def test_it_learns_a_batch_by_heart() -> None:
    model, inputs, targets = GPT(CONFIG, seed=0), tokens(), tokens()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
