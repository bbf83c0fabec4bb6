# SPDX-License-Identifier: Apache-2.0
"""Memory of a rank by kind: measured while it trains, and predicted by formula.

    kind              what
    parameters        BF16 shards, and whole units while they are gathered
    host_parameters   the same shards where they are in host memory
    gradients         reduced gradients, or their part of this rank
    optimizer         FP32 masters and both moments
    activations       what graphs keep for the backward, the loss's included, and units' inputs
    buffers           a unit's gradients before and while they are reduced, and its update

Measured are the bytes of tensors that live at once, at their peak. A tensor counts until its memory
is freed, whoever holds on to it; one that a collective takes or fills, until its owner lets it go.
What single operations allocate for themselves is not seen.
"""

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from training.config import ModelConfig
from training.strategy import Strategy
from training.volumes import PARAMETER_BYTES


@dataclass(frozen=True)
class Memory:
    """Bytes by kind, each at its own peak."""

    parameters: int
    host_parameters: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int

    @property
    def device(self) -> int:
        """All but those of the host. Peaks of kinds need not coincide: no less than their sum."""
        total: int = sum(getattr(self, kind) for kind in KINDS)
        return total - self.host_parameters


KINDS = tuple(field.name for field in fields(Memory))


class MemoryMeter:
    """Adds up what lives, by kind."""

    def __init__(self) -> None:
        # Finalizers run wherever a tensor dies: in a worker, or in this thread while it holds this.
        self._lock = threading.RLock()
        self._watched: dict[int, tuple[str, int]] = {}
        self._living = dict.fromkeys(KINDS, 0)
        self._peaks = dict.fromkeys(KINDS, 0)

    @property
    def peak(self) -> Memory:
        """The largest that each kind was."""
        with self._lock:
            return Memory(**self._peaks)

    @property
    def living(self) -> Memory:
        """What lives now."""
        with self._lock:
            return Memory(**self._living)

    def watch(self, kind: str, tensor: Tensor) -> None:
        """Count the memory of `tensor` as `kind` from now on, until it is freed."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if not size:
            return
        with self._lock:
            if key in self._watched:
                self._forget(key)
            else:
                weakref.finalize(storage, self._forget, key)
            self._watched[key] = kind, size
            self._living[kind] += size
            self._peaks[kind] = max(self._peaks[kind], self._living[kind])

    def release(self, tensor: Tensor) -> None:
        """Stop counting `tensor`, which its owner has let go; a thread that has just run its
        collective may hold on to it for a moment."""
        self._forget(tensor.untyped_storage()._cdata)

    @contextmanager
    def watching_graph(self) -> Iterator[None]:
        """Count what graphs that are made meanwhile keep for their backward."""

        def keep(tensor: Tensor) -> Tensor:
            self.watch("activations", tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield

    def _forget(self, key: int) -> None:
        with self._lock:
            kind, size = self._watched.pop(key, (KINDS[0], 0))
            self._living[kind] -= size


@dataclass(frozen=True)
class UnitSize:
    """Elements of a unit.

    Attributes:
        numel: without padding.
        padded: with it.
    """

    numel: int
    padded: int


def predict_memory(
    strategy: Strategy,
    units: Sequence[UnitSize],
    model: ModelConfig,
    *,
    sequences: int,
    micro_batches: int,
    gradient_bytes: int,
    prefetch: bool,
    recompute: bool,
) -> Memory:
    """What the training loop needs of a rank.

    Args:
        units: in the order of the forward.
        sequences: of a micro-batch on one rank.
        gradient_bytes: of an element while it is reduced.
    """
    needed = strategy_memory(strategy, units, gradient_bytes=gradient_bytes, prefetch=prefetch)
    activations = activation_bytes(
        model, sequences=sequences, micro_batches=micro_batches, recompute=recompute
    )
    return replace(needed, activations=activations)


def strategy_memory(
    strategy: Strategy, units: Sequence[UnitSize], *, gradient_bytes: int, prefetch: bool
) -> Memory:
    """The same without activations: what is the strategy's."""
    padded = sum(unit.padded for unit in units)
    shards = PARAMETER_BYTES * padded // strategy.parameters.size
    return Memory(
        parameters=(0 if strategy.host else shards) + _gathered(strategy, units, prefetch=prefetch),
        host_parameters=shards if strategy.host else 0,
        gradients=gradient_bytes * padded // strategy.gradients.size,
        optimizer=12 * padded // strategy.optimizer.size,
        activations=0,
        buffers=max(_buffers(strategy, unit, gradient_bytes) for unit in units),
    )


def _gathered(strategy: Strategy, units: Sequence[UnitSize], *, prefetch: bool) -> int:
    """Units that are whole, and shards for the backward, when there are most of both."""
    if strategy.is_resident:
        return 0
    whole = [PARAMETER_BYTES * unit.padded for unit in units]
    if strategy.has_secondary and strategy.backward.size == 1:
        return sum(whole)
    kept, most = 0, 0
    for index, size in enumerate(whole):
        if strategy.has_secondary:
            kept += size // strategy.backward.size
        # The next in the forward, the one before in the backward, when as many shards are kept.
        neighbours = [*whole[max(index - 1, 0) : index], *whole[index + 1 : index + 2]]
        most = max(most, kept + size + (max(neighbours, default=0) if prefetch else 0))
    return most


def _buffers(strategy: Strategy, unit: UnitSize, gradient_bytes: int) -> int:
    """A unit's gradients before and behind each reduction, and what its update takes."""
    parts, shards = strategy.parameters.size, strategy.gradients.size
    flat = gradient_bytes * unit.padded
    stages = [PARAMETER_BYTES * unit.numel + flat]
    if parts > 1:
        stages.append(flat + flat // parts)
    if shards > parts:
        stages.append(flat // parts + flat // shards)
    # The FP32 gradient and the BF16 cast of the updated masters.
    stages.append((4 + PARAMETER_BYTES) * unit.padded // strategy.optimizer.size)
    return max(stages)


def activation_bytes(
    model: ModelConfig, *, sequences: int, micro_batches: int, recompute: bool
) -> int:
    """What is kept for the backward of a micro-batch: of all units at the end of its forward or,
    with `recompute`, of one.

    Args:
        sequences: of a micro-batch on one rank.
        micro_batches: of a step, whose tokens and targets are there from the start.
    """
    tokens = sequences * model.context
    stream = 2 * tokens * model.width
    # Mean and reciprocal deviation, BF16; FP32 sums of exponentials of attention's rows.
    norm, rows = 2 * 2 * tokens, 4 * tokens * model.heads
    # The activation keeps what it takes, but for a ReLU, and the projection keeps what it gives.
    hidden = (8 if model.activation == "gelu" else 4) * stream
    # Both norms' outputs, query, key and value, attention's output, the stream between.
    block = (2 + 3 + 1 + 1) * stream + hidden + 2 * norm + rows
    positions = 8 * model.context
    head = stream + norm
    # Logits in BF16, their logarithmic softmax in FP32, and a number.
    loss = (2 + 4) * tokens * model.vocabulary + 4
    batch = 2 * 8 * tokens * micro_batches
    # Units keep the streams between them as their inputs.
    whole = (model.layers + 1) * stream + head + loss
    if recompute:
        return batch + max(whole, model.layers * stream + block)
    return batch + positions + whole + model.layers * block
