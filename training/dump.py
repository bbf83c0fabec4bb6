# SPDX-License-Identifier: Apache-2.0
"""The tensors of a step, as safetensors: `tensors/step-000005.safetensors` in the run folder.

A dump holds all that its step read or computed before it updated anything. Names say what a tensor
is, what part of the model it belongs to, and which one it is: `role/part/place`, as in
`gradient/attention/block0.query_key_value.weight`.

    role                  what                                                         type
    gradient              of the loss, before clipping                                 BF16 or FP32
    gradient_fp32         the same as the optimizer takes it, before clipping          FP32
    parameter             what the step ran on                                         BF16
    master                what the optimizer keeps of them                             FP32
    exp_avg, exp_avg_sq   Adam's moments                                               FP32
    activation            residual stream, attention output, and feed-forward hidden   BF16
    activation_gradient   gradients of those                                           BF16

`gradient` is of the run's `reduce_dtype`. Where that is BF16, `gradient_fp32` are BF16 values in a
wider box. The attention output is what the output projection takes; the hidden activation of the
feed-forward is behind the GELU or ReLU.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from training.sharding import ShardedUnit

# Where a block takes the two activations that are recorded beside the residual stream.
_INPUTS = {"attention.project": "attention", "feed_forward.project": "feed_forward"}


# Modules of a block that are parts of the model by themselves.
_PARTS = ("attention", "feed_forward")


class ActivationRecorder:
    """Keeps the activations of one forward pass and, once the backward has run, their gradients.

    It only looks on: what flows through the graph is not changed, so neither is any loss.

    Attributes:
        tensors: what was kept, by its name in a dump.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    @contextmanager
    def watching(self, unit: ShardedUnit) -> Iterator[None]:
        """Keep what the projections of `unit` take in while this lasts."""
        handles = [
            module.register_forward_pre_hook(self._keeper(part, unit.name))
            for name, module in unit.module.named_modules()
            if (part := _INPUTS.get(name))
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def keep(self, part: str, place: str, tensor: Tensor) -> None:
        """Keep `tensor`, which is part of a graph, and later its gradient."""
        self.tensors[f"activation/{part}/{place}"] = tensor.detach().clone()

        def keep_gradient(gradient: Tensor) -> None:
            self.tensors[f"activation_gradient/{part}/{place}"] = gradient.detach().clone()

        tensor.register_hook(keep_gradient)

    def _keeper(self, part: str, place: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def keep_input(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.keep(part, place, inputs[0])

        return keep_input


def write_dump(
    folder: Path, step: int, units: Sequence[ShardedUnit], activations: ActivationRecorder
) -> Path:
    """Write the dump of a step whose gradients are there and whose update is still to come.

    Args:
        folder: the run folder.
        units: of the only rank, so that every shard is whole.

    Returns:
        The path of the file, which appears complete or not at all.
    """
    tensors = dict(activations.tensors)
    for unit in units:
        gradient = unit.gradient_shard()
        flats = {
            "gradient": gradient,
            "gradient_fp32": gradient.float(),
            "parameter": unit.state.master.to(torch.bfloat16),
            "master": unit.state.master,
            "exp_avg": unit.state.exp_avg,
            "exp_avg_sq": unit.state.exp_avg_sq,
        }
        for role, flat in flats.items():
            views = unit.layout.views(flat)
            for name, view in zip(unit.parameter_names, views, strict=True):
                # Safetensors refuses tensors that share memory, as views of one buffer do.
                tensors[f"{role}/{_part_and_place(unit.name, name)}"] = view.clone()
    path = folder / "tensors" / f"step-{step:06}.safetensors"
    path.parent.mkdir(exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    save_file(tensors, partial, metadata={"step": str(step)})
    partial.replace(path)
    return path


def _part_and_place(unit: str, parameter: str) -> str:
    """`part/place` of a parameter: `attention/block0.project.weight`, `head/output.weight`."""
    first, _, rest = parameter.partition(".")
    if first in _PARTS:
        return f"{first}/{unit}.{rest}"
    if first.endswith("norm"):
        return f"norm/{unit}.{parameter}"
    return f"{unit}/{parameter}"
