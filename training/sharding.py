# SPDX-License-Identifier: Apache-2.0
"""A unit's parameters as one flat buffer, cut into one shard per rank.

A unit (embedding, block, head) is what a strategy gathers, reduces and frees at a time. Its
parameters are views of one flat BF16 buffer: matrices first, then gains and biases, so that
weight decay covers a prefix; then padding, so that all shards have the same length.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from training.config import OptimizerConfig, ReduceDtype
from training.network import Network
from training.optimizer import AdamState, adamw_step
from training.strategy import Strategy

# Shards are multiples of 16 bytes in BF16, which is how collective libraries align their slices.
ALIGN_ELEMENTS = 8


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a unit lies in its flat buffer, and where the buffer is cut.

    Attributes:
        shapes: shapes of the tensors, in the order in which they lie.
        world_size: number of shards.
        decayed: elements before the first gain or bias.
    """

    shapes: tuple[torch.Size, ...]
    world_size: int
    decayed: int

    @classmethod
    def of(cls, tensors: Iterable[Tensor], *, world_size: int) -> "Layout":
        shapes = tuple(tensor.shape for tensor in tensors)
        decayed = sum(shape.numel() for shape in shapes if len(shape) >= 2)
        return cls(shapes, world_size, decayed)

    @property
    def numel(self) -> int:
        """Elements without padding."""
        return sum(shape.numel() for shape in self.shapes)

    @property
    def shard_numel(self) -> int:
        """Elements of one shard, the padding of the last included."""
        return math.ceil(self.numel / self.world_size / ALIGN_ELEMENTS) * ALIGN_ELEMENTS

    @property
    def padded(self) -> int:
        """Elements of the flat buffer."""
        return self.shard_numel * self.world_size

    def views(self, flat: Tensor) -> list[Tensor]:
        """The tensors, as views of `flat` `(padded,)`."""
        pieces = flat[: self.numel].split([shape.numel() for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def pack(self, tensors: Iterable[Tensor], *, dtype: torch.dtype) -> Tensor:
        """A new flat buffer `(padded,)` of `dtype` holding `tensors`; the padding is zero."""
        flat = torch.empty(self.padded, dtype=dtype)
        flat[self.numel :].zero_()
        for view, tensor in zip(self.views(flat), tensors, strict=True):
            view.copy_(tensor)
        return flat

    def shard(self, flat: Tensor, rank: int) -> Tensor:
        """The part of `flat` that belongs to `rank`, a view `(shard_numel,)`."""
        return flat[rank * self.shard_numel : (rank + 1) * self.shard_numel]

    def decayed_in_shard(self, rank: int) -> int:
        """How many elements at the start of a rank's shard take weight decay."""
        return min(max(self.decayed - rank * self.shard_numel, 0), self.shard_numel)


class _Place(NamedTuple):
    """A parameter, or a transpose of it, inside the flat buffer (elements)."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int


class ShardedUnit:
    """One unit on one rank: its module, its optimizer shard, and the moves between them.

    Attributes:
        name: of the unit.
        module: runs on BF16 parameters while these are gathered.
        layout: of the flat buffer.
        flat: BF16 `(padded,)`, what the parameters of `module` are views of; empty when released.
        state: FP32 optimizer shard.
        parameter_names: names of the parameters in `module`, in the order of `layout`.
    """

    def __init__(
        self,
        name: str,
        module: nn.Module,
        *,
        strategy: Strategy,
        network: Network,
        reduce_dtype: ReduceDtype,
    ) -> None:
        """Take over `module`, whose FP32 parameters must be the same on every rank."""
        self.name = name
        self.module = module
        self._strategy = strategy
        self._network = network
        self._reduce_dtype = torch.bfloat16 if reduce_dtype == "bf16" else torch.float32
        # A stable sort: matrices, then gains and biases, each in the order of the module.
        named = sorted(module.named_parameters(), key=lambda pair: pair[1].ndim < 2)
        self.parameter_names = tuple(name for name, _ in named)
        self._parameters = [parameter for _, parameter in named]
        self._gradient: Tensor | None = None
        self.layout = Layout.of(self._parameters, world_size=network.world_size)

        full = self.layout.pack((p.detach() for p in self._parameters), dtype=torch.float32)
        self.state = AdamState.of(
            self.layout.shard(full, network.rank).clone(),
            decayed=self.layout.decayed_in_shard(network.rank),
        )
        self._hold(full.to(torch.bfloat16))
        if strategy.shards_parameters:
            self.release()

    def gather(self) -> None:
        """Give the module its parameters: the BF16 cast of every rank's master shard."""
        if not self.flat.numel():
            self._hold(torch.empty(self.layout.padded, dtype=torch.bfloat16))
        self._network.all_gather(self.flat, self.state.master.to(torch.bfloat16))

    def release(self) -> None:
        """Give the memory of the parameters back until they are gathered again."""
        self.flat = torch.empty(0, dtype=torch.bfloat16)
        for parameter in self._parameters:
            parameter.data = self.flat

    def forward(self, x: Tensor) -> Tensor:
        """Run the module. The graph remembers where in `flat` its parameters lie rather than the
        parameters themselves; so releasing frees them, and the backward sees what `flat` then is.
        """
        with (
            torch.autocast("cpu", dtype=torch.bfloat16),
            torch.autograd.graph.saved_tensors_hooks(self._save, self._restore),
        ):
            return cast(Tensor, self.module(x))

    def _hold(self, flat: Tensor) -> None:
        self.flat = flat
        for parameter, view in zip(self._parameters, self.layout.views(flat), strict=True):
            parameter.data = view

    def _save(self, tensor: Tensor) -> "Tensor | _Place":
        if tensor.untyped_storage().data_ptr() != self.flat.untyped_storage().data_ptr():
            return tensor
        return _Place(tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def _restore(self, saved: "Tensor | _Place") -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        return self.flat.as_strided(saved.shape, saved.stride, saved.offset)

    def reduce_gradients(self) -> None:
        """Sum the gradients of the last backward over ranks; keep all of it or this rank's shard.

        The backward must have scaled its loss by 1 / world size, so that the sum is the mean.
        """
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        full = self.layout.pack(gradients, dtype=self._reduce_dtype)
        for parameter in self._parameters:
            parameter.grad = None
        if self._strategy.shards_gradients:
            self._gradient = full.new_empty(self.layout.shard_numel)
            self._network.reduce_scatter(self._gradient, full)
        else:
            self._network.all_reduce_gradient(full)
            self._gradient = full

    def gradient_shard(self) -> Tensor:
        """This rank's shard of the reduced gradient, `(shard_numel,)`."""
        if self._gradient is None:
            raise RuntimeError(f"{self.name}: the gradient was never reduced or already used")
        if self._strategy.shards_gradients:
            return self._gradient
        return self.layout.shard(self._gradient, self._network.rank)

    def update(self, *, step: int, lr: float, scale: float, config: OptimizerConfig) -> None:
        """Step the master shard along the reduced gradient times `scale`, which is then dropped."""
        gradient = self.gradient_shard().float() * scale
        self._gradient = None
        adamw_step(self.state, gradient, step=step, lr=lr, config=config)

    def hash_into(self, digest: "hashlib._Hash") -> None:
        """Add the unpadded FP32 master and BF16 parameters, both as little-endian bytes."""
        master = self.state.master.new_empty(self.layout.padded)
        self._network.all_gather_state(master, self.state.master)
        if self._strategy.shards_parameters:
            self.gather()
        for flat in (master, self.flat):
            digest.update(flat[: self.layout.numel].view(torch.uint8).numpy().tobytes())
        if self._strategy.shards_parameters:
            self.release()
