# SPDX-License-Identifier: Apache-2.0
"""What the collectives must produce and send, computed in one process from the documentation.

Written from the tables in `nic_emul/schedule.py`, `ring.py` and `packets.py`, without their code:
element by element ownership instead of loops over slices.
"""

import math
from collections.abc import Callable

import torch

KIB = 1024
Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def all_reduce_owner(count: int, ranks: int, itemsize: int) -> torch.Tensor:
    """The rank at which each element of an all-reduce is complete, int64 `(count,)`."""
    full = 2048 * KIB // itemsize
    owner = torch.empty(count, dtype=torch.int64)
    whole = count // (ranks * full) * (ranks * full)
    index = torch.arange(count)
    owner[:whole] = index[:whole] // full % ranks
    rest = count - whole
    if rest:
        step = max(16 // itemsize, 1)
        share = math.ceil(rest / ranks)
        chunk = math.ceil(share / step) * step
        owner[whole:] = (index[whole:] - whole) // chunk
    return owner


def fold(inputs: list[torch.Tensor], last: int, combine: Combine) -> torch.Tensor:
    """Combine the ranks' inputs in ring order: last + 1, last + 2, ..., last."""
    ranks = len(inputs)
    result = inputs[(last + 1) % ranks].clone()
    for step in range(2, ranks + 1):
        result = combine(result, inputs[(last + step) % ranks])
    return result


def all_reduce(inputs: list[torch.Tensor], combine: Combine) -> torch.Tensor:
    """The result of an all-reduce of flat inputs."""
    ranks = len(inputs)
    owner = all_reduce_owner(inputs[0].numel(), ranks, inputs[0].itemsize)
    result = inputs[0].clone()
    for rank in range(ranks):
        mine = owner == rank
        result[mine] = fold([data[mine] for data in inputs], rank, combine)
    return result


def slice_sizes(elements: int, itemsize: int, *, chunk_kib: int, slice_kib: int) -> list[int]:
    """Bytes of each message that moves `elements`, where a loop moves a chunk."""
    sizes = []
    per_chunk = chunk_kib // slice_kib
    while elements:
        chunk = min(elements, chunk_kib * KIB // itemsize)
        elements -= chunk
        limit = max(math.ceil(chunk / (16 * per_chunk)) * 16, slice_kib * KIB // itemsize // 32)
        while chunk:
            part = min(chunk, limit)
            sizes.append(part * itemsize)
            chunk -= part
    return sizes


def ring_messages(elements: int, itemsize: int) -> list[int]:
    """Message sizes of one rank's part in all-gather and reduce-scatter."""
    return slice_sizes(elements, itemsize, chunk_kib=2048, slice_kib=1024)


def chain_messages(elements: int, itemsize: int) -> list[int]:
    """Message sizes of a broadcast or reduce."""
    return slice_sizes(elements, itemsize, chunk_kib=512, slice_kib=512)


def pair_messages(elements: int, itemsize: int) -> list[int]:
    """Message sizes of a send."""
    size, full = elements * itemsize, 128 * KIB
    return [full] * (size // full) + ([size % full] if size % full else [])


def all_reduce_messages(count: int, ranks: int, itemsize: int, rank: int) -> list[int]:
    """Sizes of all messages that `rank` sends in an all-reduce.

    It sends every chunk but its own while reducing, and every chunk but its successor's after.
    """
    full = ranks * 2048 * KIB // itemsize
    sizes = []
    for start in range(0, count, full):
        owner = all_reduce_owner(min(full, count - start), ranks, itemsize)
        chunks = [int((owner == r).sum()) for r in range(ranks)]
        messages = [ring_messages(chunk, itemsize) for chunk in chunks]
        for left_out in (rank, (rank + 1) % ranks):
            sizes += [size for r in range(ranks) if r != left_out for size in messages[r]]
    return sizes


def shard_owner(count: int, ranks: int, itemsize: int) -> torch.Tensor:
    """The local rank that each element of a two-level all-reduce is for, int64 `(count,)`."""
    step = max(16 // itemsize, 1)
    shard = math.ceil(math.ceil(count / ranks) / step) * step
    return torch.arange(count) // max(shard, 1)


def two_level_all_reduce(
    inputs: list[torch.Tensor], grid: list[list[int]], combine: Combine
) -> torch.Tensor:
    """The result of an all-reduce within the rows of `grid`, and then between them."""
    local_ranks = len(grid[0])
    owner = shard_owner(inputs[0].numel(), local_ranks, inputs[0].itemsize)
    result = inputs[0].clone()
    for local in range(local_ranks):
        mine = owner == local
        sums = [fold([inputs[rank][mine] for rank in row], local, combine) for row in grid]
        result[mine] = all_reduce(sums, combine)
    return result


def two_level_fold(
    inputs: list[torch.Tensor], grid: list[list[int]], rank: int, combine: Combine
) -> torch.Tensor:
    """Part `rank` of a reduce-scatter in two levels, of every rank's share of that part."""
    (node,) = (number for number, row in enumerate(grid) if rank in row)
    local = grid[node].index(rank)
    sums = [fold([inputs[member] for member in row], local, combine) for row in grid]
    return fold(sums, node, combine)


def uncoded_totals(messages: list[int], mtu: int) -> dict[str, int]:
    """The four totals and the message count of messages that travel raw."""
    packets = [math.ceil(size / mtu) for size in messages]
    # Every packet but a message's last is full, and an MTU is a multiple of four.
    padding = sum(-size % 4 for size in messages)
    return {
        "messages": len(messages),
        "logical_bytes": sum(messages),
        "payload_bytes": sum(messages),
        "wire_bytes": sum(messages) + padding + 82 * sum(packets) + 20 * len(messages),
        "packets": sum(packets),
    }
