# SPDX-License-Identifier: Apache-2.0
"""A GPT: pre-norm, causal attention, GELU(tanh) or ReLU, untied head.

The model is a chain of units (embedding, one per block, head). Each maps one tensor to the next,
so that a sharded loop can run, gather and free them one at a time: nothing crosses from one unit
to another but the residual stream. Units are built one at a time too, each from its own seed, so
that no rank ever has to hold the whole model in FP32.

Shapes: B sequences, T tokens, C channels, H heads, V entries of the vocabulary.
"""

import math
from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 (the name everyone uses)
from torch import Tensor, nn

from training.config import ModelConfig


class Embedding(nn.Module):
    """Tokens, int64 (B, T), to the residual stream (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return cast(Tensor, self.token(tokens) + self.position(positions))


class Attention(nn.Module):
    """Causal multi-head self-attention, (B, T, C) to (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        # (B, T, 3, H, C/H) to three of (B, H, T, C/H)
        query, key, value = self.query_key_value(x).view(shape).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return cast(Tensor, self.project(y.transpose(1, 2).reshape(x.shape)))


class FeedForward(nn.Module):
    """Two layers with an activation between them, (B, T, C) to (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.project = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.expand(x)
        if self.activation == "relu":
            return cast(Tensor, self.project(F.relu(hidden)))
        return cast(Tensor, self.project(F.gelu(hidden, approximate="tanh")))


class Block(nn.Module):
    """Attention and feed-forward on the residual stream, (B, T, C) to (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return cast(Tensor, x + self.feed_forward(self.feed_forward_norm(x)))


class Head(nn.Module):
    """The residual stream (B, T, C) to logits (B, T, V)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.output = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.output(self.norm(x)))


def build_units(config: ModelConfig, seed: int) -> Iterator[tuple[str, nn.Module]]:
    """Yield (name, unit) in the order of the forward pass, each initialised in FP32 when asked for.

    The same seed gives the same parameters on every rank and in every strategy.
    """
    chain: list[tuple[str, type[Embedding | Block | Head]]] = [("embedding", Embedding)]
    chain += [(f"block{i}", Block) for i in range(config.layers)]
    chain += [("head", Head)]
    for index, (name, kind) in enumerate(chain):
        unit = kind(config)
        _initialise(unit, layers=config.layers, seed=seed * len(chain) + index)
        yield name, unit


def _initialise(unit: nn.Module, *, layers: int, seed: int) -> None:
    """GPT-2's: normal(0, 0.02), residual projections smaller by sqrt(2 layers), biases zero."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in unit.named_parameters():
        if parameter.ndim < 2:
            # Gains stay at one and biases start at zero.
            nn.init.constant_(parameter, 1.0 if name.endswith("norm.weight") else 0.0)
            continue
        std = 0.02 / math.sqrt(2 * layers) if name.endswith("project.weight") else 0.02
        nn.init.normal_(parameter, std=std, generator=generator)


class GPT(nn.Module):
    """All units as one module, for whoever wants the whole: (B, T) tokens to (B, T, V) logits."""

    def __init__(self, config: ModelConfig, *, seed: int) -> None:
        super().__init__()
        self.units = nn.ModuleDict(dict(build_units(config, seed)))

    def forward(self, tokens: Tensor) -> Tensor:
        x = tokens
        for unit in self.units.values():
            x = unit(x)
        return x


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, FP32 scalar, of logits (B, T, V) for targets int64 (B, T)."""
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
