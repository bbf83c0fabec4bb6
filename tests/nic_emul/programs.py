# SPDX-License-Identifier: Apache-2.0
"""Ordinary PyTorch programs: they know nothing of the backend but its name.

Each returns what another engine must reproduce bit for bit: the losses and the hash of the final
parameters.
"""

import hashlib
from collections.abc import Callable

import torch
import torch._dynamo  # optimizers import it at their first step, which takes seconds
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import (
    all_gather_tensor,
    all_reduce,
    all_to_all_single,
    reduce_scatter_tensor,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import nic_emul

assert torch._dynamo

Result = tuple[list[float], str]
STEPS = 4


class Block(nn.Module):
    """A residual block with a layer norm, to have tensors of several sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def make_model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Embedding(97, 64), Block(64), Block(64), nn.Linear(64, 97))


def make_batch(step: int, *, same: bool = False) -> torch.Tensor:
    """Tokens of a step, `same` on all ranks or of each its own."""
    generator = torch.Generator().manual_seed(100 * step + (0 if same else dist.get_rank()))
    return torch.randint(0, 97, (4, 33), generator=generator)


def digest(tensors: list[torch.Tensor]) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    clip: bool = False,
    same_batch: bool = False,
    before_step: Callable[[], None] = lambda: None,
) -> list[float]:
    """Losses of `STEPS` steps, summed over ranks; `before_step` is called between the gradients
    and the optimizer."""
    losses = []
    for step in range(STEPS):
        tokens = make_batch(step, same=same_batch)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before_step()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item())
    return losses


def run_and_count(program: Callable[[], Result]) -> tuple[Result, int]:
    """Run `program`; also how many of the packets it sent were coded."""
    result = program()
    return result, sum(row.coded_frames for row in nic_emul.local_nic().counters.rows())


def ddp() -> Result:
    """Gradients all-reduced in buckets, from C++, while the backward pass goes on."""
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = train(model, optimizer, clip=True)
    return losses, digest(list(model.parameters()))


def zero_redundancy() -> Result:
    """DDP whose optimizer states are sharded, and parameters broadcast."""
    model = DistributedDataParallel(make_model())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-2
    )
    losses = train(model, optimizer)
    return losses, digest(list(model.parameters()))


def fsdp2(reduce: torch.dtype, reshard: bool) -> Result:
    """Parameters gathered and gradients scattered in BF16 mixed precision."""
    model = make_model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
    for layer in model:
        fully_shard(layer, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mp_policy=policy, reshard_after_forward=reshard)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = train(model, optimizer, clip=True)
    return losses, digest([parameter.full_tensor() for parameter in model.parameters()])


def fsdp2_bf16() -> Result:
    return fsdp2(torch.bfloat16, True)


def fsdp2_fp32() -> Result:
    return fsdp2(torch.float32, False)


def hybrid() -> Result:
    """Sharded in pairs, replicated across pairs; four ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    model = make_model()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    losses = train(model, optimizer)
    return losses, digest([parameter.full_tensor() for parameter in model.parameters()])


def functional() -> Result:
    """Functional collectives and DTensor, against plain arithmetic."""
    rank, size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    data = torch.arange(12.0).view(4, 3) + rank
    base = torch.arange(12.0).view(4, 3)
    total = base * size + sum(range(size))
    assert torch.equal(all_reduce(data, "sum", world) + 0, total)
    gathered = all_gather_tensor(data, 0, world) + 0
    assert torch.equal(gathered, torch.cat([base + r for r in range(size)]))
    wide = torch.cat([data + 10 * r for r in range(size)])
    assert torch.equal(reduce_scatter_tensor(wide, "sum", 0, world) + 0, total + 10 * size * rank)
    mixed = all_to_all_single(wide, [4] * size, [4] * size, world) + 0
    assert torch.equal(mixed, torch.cat([base + r + 10 * rank for r in range(size)]))

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    whole = torch.randn(8 * size + 1, 5)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(rows.full_tensor(), whole)
    columns = rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.full_tensor(), whole)
    assert torch.equal(columns.redistribute(mesh, [Replicate()]).to_local(), whole)
    product = rows @ distribute_tensor(torch.eye(5), mesh, [Replicate()])
    norm = distribute_tensor(whole, mesh, [Shard(0)]).sum()
    return [norm.full_tensor().item()], digest([product.full_tensor()])
