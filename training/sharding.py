# SPDX-License-Identifier: Apache-2.0
"""A unit's parameters as one flat buffer, cut into shards.

A unit (embedding, block, head) is what a strategy gathers, reduces and frees at a time. Its
parameters are views of one flat BF16 buffer: matrices first, then gains and biases, so that
weight decay covers a prefix; then padding, so that all shards have the same length. The padding is
that of one shard a rank, however few a strategy makes: so every strategy cuts the buffer evenly.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.distributed import Work

from training.config import OptimizerConfig, ReduceDtype
from training.memory import MemoryMeter
from training.mesh import Group
from training.network import Network
from training.optimizer import AdamState, adamw_step
from training.strategy import Strategy

# Shards are multiples of 16 bytes in BF16, which is how collective libraries align their slices.
ALIGN_ELEMENTS = 8


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a unit lies in its flat buffer, and where the buffer may be cut.

    Attributes:
        shapes: shapes of the tensors, in the order in which they lie.
        world_size: into how many shards the buffer can be cut, and into any divisor of that.
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
    def padded(self) -> int:
        """Elements of the flat buffer."""
        return (
            self.world_size
            * ALIGN_ELEMENTS
            * math.ceil(self.numel / self.world_size / ALIGN_ELEMENTS)
        )

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

    def part(self, flat: Tensor, index: int, parts: int) -> Tensor:
        """Part `index` of `flat`, the buffer or a part of it, cut into `parts`: a view."""
        size = flat.numel() // parts
        return flat[index * size : (index + 1) * size]

    def decayed_in_part(self, index: int, parts: int) -> int:
        """How many elements at the start of a part of the buffer take weight decay."""
        size = self.padded // parts
        return min(max(self.decayed - index * size, 0), size)


class _Place(NamedTuple):
    """A parameter, or a transpose of it, inside the flat buffer (elements)."""

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int


class ShardedUnit:
    """One unit on one rank: its module, what the rank keeps of it, and the moves between these.

    Between its uses, a rank keeps a BF16 shard of the parameters and an FP32 shard of the optimizer
    states, and from the forward to the backward perhaps another BF16 shard. Where every rank keeps
    all parameters, the shard is what the module runs on, and nothing is gathered or released.

    Attributes:
        name: of the unit.
        module: runs on BF16 parameters while these are gathered.
        strategy: what this rank keeps of it.
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
        memory: MemoryMeter,
        reduce_dtype: ReduceDtype,
    ) -> None:
        """Take over `module`, whose FP32 parameters must be the same on every rank."""
        self.name = name
        self.module = module
        self.strategy = strategy
        self._network = network
        self._memory = memory
        self._reduce_dtype = torch.bfloat16 if reduce_dtype == "bf16" else torch.float32
        # A stable sort: matrices, then gains and biases, each in the order of the module.
        named = sorted(module.named_parameters(), key=lambda pair: pair[1].ndim < 2)
        self.parameter_names = tuple(name for name, _ in named)
        self._parameters = [parameter for _, parameter in named]
        self._gradient: Tensor | None = None
        self._secondary: Tensor | None = None
        self._incoming: tuple[Tensor, Work | None] | None = None
        self.layout = Layout.of(self._parameters, world_size=network.world_size)

        full = self.layout.pack((p.detach() for p in self._parameters), dtype=torch.float32)
        index, parts = strategy.optimizer_part(network.rank), strategy.optimizer.size
        self.state = AdamState.of(
            self.layout.part(full, index, parts).clone(),
            decayed=self.layout.decayed_in_part(index, parts),
        )
        for tensor in (self.state.master, self.state.exp_avg, self.state.exp_avg_sq):
            memory.watch("optimizer", tensor)
        flat = full.to(torch.bfloat16)
        self.flat: Tensor = flat
        self._hold(flat)
        if strategy.is_resident:
            self._shard = flat
        else:
            index, parts = strategy.parameter_part(network.rank), strategy.parameters.size
            self._shard = self.layout.part(flat, index, parts).clone()
            self.release()
        memory.watch("host_parameters" if strategy.host else "parameters", self._shard)

    @property
    def optimizer_range(self) -> range:
        """Elements of the flat buffer in the optimizer shard, without padding."""
        size = self.state.master.numel()
        start = min(self.strategy.optimizer_part(self._network.rank) * size, self.layout.numel)
        return range(start, min(start + size, self.layout.numel))

    def start_gather(self, *, backward: bool = False) -> None:
        """Begin what `gather` does, and return while it goes on."""
        if self.flat.numel() or self._incoming:
            return
        flat = torch.empty(self.layout.padded, dtype=torch.bfloat16)
        self._memory.watch("parameters", flat)
        shard, group = self._shard, self.strategy.forward_group
        if backward and self._secondary is not None:
            shard, group = self._secondary, self.strategy.backward_group
        self._incoming = flat, self._network.start_all_gather(flat, shard, group)

    def gather(self, *, backward: bool = False) -> None:
        """Give the module its parameters, for the forward or for the backward."""
        self.start_gather(backward=backward)
        if self._incoming is None:
            return
        flat, work = self._incoming
        self._incoming = None
        self._network.wait_for(work)
        self._hold(flat)

    def release_after_forward(self) -> None:
        """Keep of the parameters what the backward gathers from, and give the rest back."""
        strategy = self.strategy
        if strategy.has_secondary:
            if strategy.backward.size == 1:
                return
            index = strategy.backward_group.index(self._network.rank)
            self._secondary = self.layout.part(self.flat, index, strategy.backward.size).clone()
            self._memory.watch("parameters", self._secondary)
        self.release()

    def release(self) -> None:
        """Give the memory of all gathered parameters back."""
        if self.strategy.is_resident:
            return
        self._memory.release(self.flat)
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
            self._memory.watch("activations", tensor)
            return tensor
        return _Place(tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def _restore(self, saved: "Tensor | _Place") -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        return self.flat.as_strided(saved.shape, saved.stride, saved.offset)

    def reduce_gradients(self, *, last: bool = True) -> None:
        """Sum the gradients of the last backward over ranks and add them to this step's.

        The backward must have scaled its loss by 1 / (world size * micro-batches), so that the sum
        is the mean. This rank then has its part of the sum, over the ranks of its mesh alone until
        the last backward of the step.

        Args:
            last: whether this was the last backward of the step.
        """
        strategy, network = self.strategy, self._network
        part = self._pack_gradients()
        for group in (strategy.forward_group, strategy.scatter_group):
            if group.size > 1:
                whole, part = part, part.new_empty(part.numel() // group.size)
                self._memory.watch("buffers", part)
                network.reduce_scatter(part, whole, group)
                self._memory.release(whole)
        if self._secondary is not None:
            self._memory.release(self._secondary)
            self._secondary = None
        if self._gradient is None:
            self._gradient = part
            self._memory.watch("gradients", part)
        else:
            self._gradient += part
            self._memory.release(part)
        if last:
            network.all_reduce_gradient(self._gradient, strategy.replica_group)

    def _pack_gradients(self) -> Tensor:
        """The gradients of the last backward as a flat buffer, in the type of the reduction."""
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        packed = self.layout.pack(gradients, dtype=self._reduce_dtype)
        for tensor in (packed, *gradients):
            self._memory.watch("buffers", tensor)
        for parameter in self._parameters:
            parameter.grad = None
        return packed

    def gradient_shard(self) -> Tensor:
        """This rank's part of the reduced gradient, as large as its optimizer shard."""
        if self._gradient is None:
            raise RuntimeError(f"{self.name}: the gradient was never reduced or already used")
        group = Group(self.strategy.gradients.size, self.strategy.optimizer.size)
        return self.layout.part(self._gradient, group.index(self._network.rank), group.size)

    def gradient_squares(self) -> list[Tensor]:
        """Squared norms of this rank's part of the reduced gradient, in parts of one n-th of the
        unit on n ranks, whatever the strategy: FP32 scalars."""
        shard = self.gradient_shard()
        parts = self.layout.world_size // self.strategy.optimizer.size
        pieces = (self.layout.part(shard, index, parts).float() for index in range(parts))
        return [torch.dot(piece, piece) for piece in pieces]

    def update(self, *, step: int, lr: float, scale: float, config: OptimizerConfig) -> None:
        """Step the masters along the reduced gradient times `scale`, which is then dropped, and
        have every rank get its shard of the parameters from those who updated it."""
        gradient = self.gradient_shard().float() * scale
        self._memory.watch("buffers", gradient)
        if self._gradient is not None:
            self._memory.release(self._gradient)
            self._gradient = None
        adamw_step(self.state, gradient, step=step, lr=lr, config=config)
        self.refresh()

    def refresh(self) -> None:
        """Make the parameters the BF16 casts of the masters."""
        updated = self.state.master.to(torch.bfloat16)
        self._memory.watch("buffers", updated)
        self._network.all_gather(self._shard, updated, self.strategy.refresh_group)
        self._memory.release(updated)

    def hash_into(self, digest: "hashlib._Hash") -> None:
        """Add the unpadded FP32 master and BF16 parameters, both as little-endian bytes."""
        strategy, network = self.strategy, self._network
        part = self.state.master.new_empty(self.layout.padded // strategy.parameters.size)
        network.all_gather_state(part, self.state.master, strategy.refresh_group)
        master = part.new_empty(self.layout.padded)
        network.all_gather_state(master, part, strategy.forward_group)
        self.gather()
        for flat in (master, self.flat):
            digest.update(flat[: self.layout.numel].view(torch.uint8).numpy().tobytes())
        self.release()
