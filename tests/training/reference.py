# SPDX-License-Identifier: Apache-2.0
"""The same training without any sharding: one process, whole tensors, torch's optimizer.

It shares the model and the data with `training`, and nothing of `loop`, `sharding`, `optimizer`
or `network`. What it must imitate to arrive at the same bits: each rank has its own part of the
batch and its own backward; BF16 gradients are summed in BF16, which is the same in either order
for two ranks; the squared norm is summed shard by shard.
"""

import hashlib
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from training.config import RunConfig
from training.data import Batches, load_corpus
from training.model import GPT, loss_of


@dataclass(frozen=True)
class ReferenceRun:
    losses: list[float]
    grad_norms: list[float]
    param_hash: str


class ReferenceTrainer:
    """FP32 masters of a whole GPT, and a BF16 copy that computes."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.master = GPT(config.model, seed=config.seed)
        self.model = GPT(config.model, seed=config.seed).bfloat16()
        matrices = [p for p in self.master.parameters() if p.ndim >= 2]
        vectors = [p for p in self.master.parameters() if p.ndim < 2]
        options = config.optimizer
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": options.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            betas=(options.beta1, options.beta2),
            eps=options.eps,
            foreach=False,
        )

    def step(self, index: int, batches: Batches) -> tuple[float, float]:
        ranks = self.config.world_size
        self._copy_masters()
        losses, sums = [], [torch.zeros_like(p) for p in self.model.parameters()]
        for rank in range(ranks):
            loss, gradients = self._backward(*batches.at(index, rank=rank, world_size=ranks))
            losses.append(loss / ranks)
            for total, gradient in zip(sums, gradients, strict=True):
                total += gradient
        norm = self._norm(sums)
        clip = self.config.optimizer.clip_norm
        for parameter, gradient in zip(self.master.parameters(), sums, strict=True):
            parameter.grad = gradient.float() * min(1.0, clip / norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate(index)
        self.optimizer.step()
        return torch.stack(losses).sum().item(), norm

    def _copy_masters(self) -> None:
        with torch.no_grad():
            pairs = zip(self.model.parameters(), self.master.parameters(), strict=True)
            for parameter, master in pairs:
                parameter.copy_(master)

    def _backward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
        self.model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = self.model(tokens)
        loss = loss_of(logits, targets)
        (loss / self.config.world_size).backward()
        return loss.detach(), [p.grad for p in self.model.parameters()]

    def _norm(self, gradients: list[Tensor]) -> float:
        """Squares summed shard by shard, then over the units of a rank, then over ranks."""
        of = dict(zip(self.model.parameters(), gradients, strict=True))
        squares: list[list[Tensor]] = [[] for _ in range(self.config.world_size)]
        for unit in self.model.units.values():
            flat = torch.cat([of[p].flatten().float() for p in in_flat_order(unit)])
            padded = F.pad(flat, (0, -flat.numel() % (8 * len(squares))))
            for rank, shard in enumerate(padded.chunk(len(squares))):
                squares[rank].append(torch.dot(shard, shard))
        total = torch.stack([torch.stack(of_rank).sum() for of_rank in squares]).sum()
        return total.sqrt().item()

    def _learning_rate(self, index: int) -> float:
        options, steps = self.config.optimizer, self.config.steps
        if index < options.warmup_steps:
            return options.peak_lr * (index + 1) / options.warmup_steps
        progress = (index - options.warmup_steps) / (steps - 1 - options.warmup_steps)
        fallen = 0.5 * (1 - math.cos(math.pi * progress))
        return options.peak_lr - (options.peak_lr - options.final_lr) * fallen

    def param_hash(self) -> str:
        self._copy_masters()
        digest = hashlib.sha256()
        for name, unit in self.master.units.items():
            for whole in (unit, self.model.units[name]):
                for parameter in in_flat_order(whole):
                    digest.update(parameter.detach().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def in_flat_order(unit: nn.Module) -> list[nn.Parameter]:
    """Matrices, then gains and biases."""
    parameters = list(unit.parameters())
    return [p for p in parameters if p.ndim >= 2] + [p for p in parameters if p.ndim < 2]


def train_reference(config: RunConfig) -> ReferenceRun:
    """Train `config` with its ranks one after the other in this process, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batches = Batches(
            load_corpus(config.data), config.model.context, config.data.batch_size, config.seed
        )
        trainer = ReferenceTrainer(config)
        results = [trainer.step(index, batches) for index in range(config.steps)]
        return ReferenceRun([r[0] for r in results], [r[1] for r in results], trainer.param_hash())
    finally:
        torch.set_num_threads(threads)
