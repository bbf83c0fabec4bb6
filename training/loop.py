# SPDX-License-Identifier: Apache-2.0
"""One optimizer step of a sharded model: the same few lines for every strategy.

Forward and backward walk the chain of units. Each unit's graph is its own: its input is detached,
and the gradient that arrives there seeds the backward of the unit before. So gathering, reducing
and freeing are plain calls between units instead of hooks. With `prefetch`, the parameters of the
next unit are gathered while one computes; nothing else overlaps.

On bits: a step is a function of the seed, the world size, the micro-batches, and the order in
which gradients are summed: over the ranks of a mesh, over micro-batches, over meshes. Every rank
scales its losses beforehand (exact for powers of two, short of underflow). Two ranks sum the same
in either order. With more, strategies whose gradients take the same rings agree, as zero2, zero3
and hpz do; others, up to the rounding of sums. All-reduce and reduce-scatter of a ring sum alike
as long as a unit fits into one round (2 MiB a rank, as in NCCL). The gradient's norm is summed in
n parts on n ranks, in one order for all strategies.
"""

import hashlib
import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from training.config import RunConfig, strategy_of
from training.dump import ActivationRecorder, write_dump
from training.errors import DivergenceError
from training.memory import Memory, MemoryMeter, UnitSize, predict_memory
from training.mesh import Group
from training.model import build_units, loss_of
from training.network import Network
from training.optimizer import clip_factor, learning_rate
from training.sharding import ShardedUnit


@dataclass(frozen=True)
class StepResult:
    """What a step came to, the same on every rank.

    Attributes:
        loss: mean over the batch, nats; an FP32 value.
        grad_norm: global norm before clipping; an FP32 value.
        lr: learning rate that was applied.
    """

    loss: float
    grad_norm: float
    lr: float


class _Passed(NamedTuple):
    """A unit that ran forth: its input, and its output unless it is to run again."""

    unit: ShardedUnit
    x: Tensor
    output: Tensor | None


class _Seed(torch.autograd.Function):
    """A scalar whose backward puts a given gradient on `y`, bit for bit.

    `torch.autograd.backward(y, gradient)` does the same, but loads a package for symbolic
    mathematics (to compare shapes), which takes a rank longer than a step of a small model.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return y.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *scalar: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient, None


class ShardedTrainer:
    """The model and optimizer of one rank under `config.strategy`."""

    def __init__(self, config: RunConfig, network: Network) -> None:
        self._config = config
        self._network = network
        self.strategy = strategy_of(config)
        self.memory = MemoryMeter()
        # One unit at a time: a unit is whole in FP32 only until it is sharded.
        self.units = [
            ShardedUnit(
                name,
                module,
                strategy=self.strategy,
                network=network,
                memory=self.memory,
                reduce_dtype=config.network.reduce_dtype,
            )
            for name, module in build_units(config.model, config.seed)
        ]

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return sum(unit.layout.numel for unit in self.units)

    @property
    def padded_parameters(self) -> int:
        """Parameters of the model with the padding of every unit."""
        return sum(unit.layout.padded for unit in self.units)

    @property
    def predicted_memory(self) -> Memory:
        """What the formulas say that this rank needs."""
        config = self._config
        parts = self._network.world_size * config.data.micro_batches
        return predict_memory(
            self.strategy,
            [UnitSize(unit.layout.numel, unit.layout.padded) for unit in self.units],
            config.model,
            sequences=config.data.batch_size // parts,
            micro_batches=config.data.micro_batches,
            gradient_bytes=2 if config.network.reduce_dtype == "bf16" else 4,
            prefetch=config.prefetch,
            recompute=config.recompute,
        )

    def step(
        self, index: int, tokens: Tensor, targets: Tensor, *, dump: Path | None = None
    ) -> StepResult:
        """Train on this rank's part of batch `index` (from 0), int64 `(B, T)` each.

        Args:
            dump: run folder to write the step's tensors to, if wanted; one rank only.

        Raises:
            DivergenceError: the loss or the gradient norm is not finite.
        """
        recorder = ActivationRecorder() if dump else None
        local_loss = self._accumulate(tokens, targets, recorder)
        loss, grad_norm = self._statistics(index, local_loss)
        if dump and recorder:
            write_dump(dump, index, self.units, recorder)
        optimizer = self._config.optimizer
        lr = learning_rate(index, steps=self._config.steps, config=optimizer)
        scale = clip_factor(grad_norm, clip_norm=optimizer.clip_norm)
        for unit in self.units:
            unit.update(step=index, lr=lr, scale=scale, config=optimizer)
        return StepResult(loss, grad_norm, lr)

    def _accumulate(
        self, tokens: Tensor, targets: Tensor, recorder: ActivationRecorder | None
    ) -> Tensor:
        """Run all micro-batches; the mean loss. Gradients are reduced when it returns."""
        count = self._config.data.micro_batches
        losses = [
            self._forward_backward(*part, recorder, last=index == count - 1)
            for index, part in enumerate(
                zip(tokens.chunk(count), targets.chunk(count), strict=True)
            )
        ]
        return torch.stack(losses).mean()

    def _forward_backward(
        self,
        tokens: Tensor,
        targets: Tensor,
        recorder: ActivationRecorder | None,
        *,
        last: bool,
    ) -> Tensor:
        """Run all units forth and back, and add their gradients to those of the step.

        Args:
            last: whether this is the step's last micro-batch.
        """
        # Each part is a method, so that no variable keeps a tensor of one unit while others run.
        passed = self._forward(tokens, recorder)
        loss, gradient = self._loss(passed[-1].output, targets)
        while passed:
            gradient = self._backward(passed.pop(), gradient, position=len(passed), last=last)
        return loss

    def _forward(self, tokens: Tensor, recorder: ActivationRecorder | None) -> list[_Passed]:
        """Run all units forth."""
        passed: list[_Passed] = []
        x = tokens
        for position, unit in enumerate(self.units):
            unit.gather()
            self._prefetch(position + 1)
            x = x.detach().requires_grad_(x.is_floating_point())
            self.memory.watch("activations", x)
            recompute = self._config.recompute and unit is not self.units[-1]
            with (
                recorder.watching(unit) if recorder else nullcontext(),
                torch.set_grad_enabled(not recompute),
            ):
                y = unit.forward(x)
            if recorder and unit is not self.units[-1]:
                # Behind the head there are logits, no residual stream.
                recorder.keep("residual", unit.name, y)
            passed.append(_Passed(unit, x, None if recompute else y))
            x = y
            unit.release_after_forward()
        return passed

    def _loss(self, logits: Tensor | None, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a micro-batch, and the gradient of its share of the step's at `logits`."""
        assert logits is not None  # the last unit never runs again
        self.memory.watch("activations", logits)
        with self.memory.watching_graph():
            loss = loss_of(logits, targets)
        parts = self._network.world_size * self._config.data.micro_batches
        (gradient,) = torch.autograd.grad(loss / parts, logits)
        return loss.detach(), gradient

    def _backward(self, passed: _Passed, gradient: Tensor, *, position: int, last: bool) -> Tensor:
        """Run a unit back, from the gradient of its output to that of its input, and reduce.

        Args:
            position: of the unit in the chain.
            last: whether this is the step's last micro-batch.
        """
        unit, x, output = passed
        unit.gather(backward=True)
        self._prefetch(position - 1, backward=True)
        y = unit.forward(x) if output is None else output
        torch.autograd.backward(_Seed.apply(y, gradient))  # type: ignore[no-untyped-call]
        unit.release()
        unit.reduce_gradients(last=last)
        # Tokens have no gradient, but then no unit is left either.
        return gradient if x.grad is None else x.grad

    def _prefetch(self, position: int, *, backward: bool = False) -> None:
        """Begin to gather the unit that comes next, if there is one."""
        if self._config.prefetch and 0 <= position < len(self.units):
            self.units[position].start_gather(backward=backward)

    def _statistics(self, index: int, loss: Tensor) -> tuple[float, float]:
        """Mean loss and global gradient norm over ranks, in one all-reduce of n + 1 scalars."""
        strategy, network = self.strategy, self._network
        # The parts of other ranks stay zero, which changes no bit of theirs when it is added.
        scalars = torch.zeros(1 + network.world_size)
        scalars[0] = loss / network.world_size
        if strategy.is_first_replica(network.rank):
            parts = zip(*(unit.gradient_squares() for unit in self.units), strict=True)
            mine = torch.stack([torch.stack(part).sum() for part in parts])
            start = 1 + strategy.optimizer_part(network.rank) * mine.numel()
            scalars[start : start + mine.numel()] = mine
        network.all_reduce_scalars(scalars)
        mean_loss, norm = scalars[0].item(), scalars[1:].sum().sqrt().item()
        if not (math.isfinite(mean_loss) and math.isfinite(norm)):
            raise DivergenceError(
                f"step {index}: expected a finite loss and gradient norm; "
                f"found {mean_loss} and {norm}"
            )
        return mean_loss, norm

    def parameter_hash(self) -> str:
        """SHA-256 over every unit's FP32 master and BF16 parameters, unpadded, in model order.

        It depends neither on strategy nor on world size. Its own traffic is of role optimizer
        state and, where parameters are gathered, parameter: count before calling.

        Raises:
            DivergenceError: ranks hold different parameters.
        """
        digest = hashlib.sha256()
        for unit in self.units:
            unit.hash_into(digest)
        mine = torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)
        everyones = mine.new_empty(self._network.world_size * mine.numel())
        self._network.all_gather_state(everyones, mine, Group(1, self._network.world_size))
        for rank, other in enumerate(everyones.view(self._network.world_size, -1)):
            if not torch.equal(mine, other):
                raise DivergenceError(
                    f"ranks {self._network.rank} and {rank} hold different parameters"
                )
        return digest.hexdigest()
