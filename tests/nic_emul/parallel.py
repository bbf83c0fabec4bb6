# SPDX-License-Identifier: Apache-2.0
"""Programs that split the model: what crosses the network are activations and their gradients."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

import nic_emul
from tests.nic_emul.programs import STEPS, Block, Result, digest, make_batch, make_model, train

WIDTH = 64


def whole(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def fsdp1() -> Result:
    """The wrapper that came before `fully_shard`: flat parameters, one unit a block."""
    model = FullyShardedDataParallel(
        make_model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu")
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = train(model, optimizer)
    # Unpadded: what pads a flat parameter is never written.
    with FullyShardedDataParallel.summon_full_params(model):
        return losses, digest([parameter.clone() for parameter in model.parameters()])


def split_layers(model: nn.Module, mesh: DeviceMesh) -> None:
    """Columns, then rows, of both layers of each block; the logits are gathered."""
    plan = {
        "1.up": ColwiseParallel(),
        "1.down": RowwiseParallel(),
        "2.up": ColwiseParallel(),
        "2.down": RowwiseParallel(),
        "3": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, plan)


def tensor_parallel() -> Result:
    """Every layer split over all ranks, which read the same batch."""
    model = make_model()
    split_layers(model, init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",)))
    # SGD: the fused steps of others do not mix plain parameters with split ones.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    losses = train(model, optimizer, same_batch=True)
    return losses, digest([whole(parameter) for parameter in model.parameters()])


def two_dimensions() -> Result:
    """Layers split in pairs, and parameters sharded across pairs; four ranks."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = make_model()
    split_layers(model, mesh["tp"])
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    losses = train(model, optimizer, same_batch=True)
    # Gathers parameters over both dimensions: what training sent is counted before.
    roles = {(row.collective, row.role) for row in sent()}
    assert ("all_reduce", "activation") in roles
    assert ("all_gather", "parameter") in roles
    assert ("reduce_scatter", "gradient") in roles
    return losses, digest([whole(parameter) for parameter in model.parameters()])


class Experts(nn.Module):
    """A mixture of experts, one expert a rank: tokens go to their expert and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, dist.get_world_size())
        self.expert = Block(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        weight, choice = self.gate(tokens).softmax(-1).max(-1)
        order = choice.argsort(stable=True)
        counts = choice.bincount(minlength=dist.get_world_size())
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts)
        leave, arrive = counts.tolist(), arriving.tolist()
        group = dist.group.WORLD
        received = all_to_all_single_autograd(tokens[order], arrive, leave, group)
        answers = all_to_all_single_autograd(self.expert(received), leave, arrive, group)
        mixed = torch.empty_like(tokens).index_copy(0, order, answers)
        return x + (weight.unsqueeze(-1) * mixed).view_as(x)


def experts() -> Result:
    """All-to-all of activations forwards and of their gradients backwards; the rest as in DDP."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Embedding(97, WIDTH), Experts(), nn.Linear(WIDTH, 97))
    torch.manual_seed(dist.get_rank())
    for parameter in model[1].expert.parameters():
        nn.init.normal_(parameter, std=0.1)
    shared = [p for name, p in model.named_parameters() if "expert" not in name]

    def reduce_shared() -> None:
        for parameter in shared:
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = train(model, optimizer, before_step=reduce_shared)
    mine = digest(list(model[1].expert.parameters()))
    everyones: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    return losses, f"{digest(shared)} {everyones}"


def pipeline() -> Result:
    """Two micro-batches more than stages, one forward, one backward: send and receive."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    first, last = rank == 0, rank == size - 1
    layers = [*([nn.Embedding(97, WIDTH)] if first else []), Block(WIDTH)]
    model = nn.Sequential(*layers, *([nn.Linear(WIDTH, 97)] if last else []))
    stage = PipelineStage(model, rank, size, torch.device("cpu"))

    def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        tokens = make_batch(step, same=True)
        found: list[torch.Tensor] = []
        if first:
            schedule.step(tokens[:, :-1])
        elif last:
            schedule.step(target=tokens[:, 1:], losses=found)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        loss = torch.stack(found).mean() if last else torch.zeros(())
        dist.broadcast(loss, size - 1)
        losses.append(loss.item())
    everyones: list[object] = [None] * size
    dist.all_gather_object(everyones, digest(list(model.parameters())))
    return losses, str(everyones)


def sent() -> list[nic_emul.CounterRow]:
    return [row for row in nic_emul.local_nic().counters.rows() if row.messages]
