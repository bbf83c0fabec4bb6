# SPDX-License-Identifier: Apache-2.0
"""Collectives in two levels, for groups of N nodes with R ranks each: within nodes, then between.

| operation      | within the node           | between nodes              | within the node    |
|----------------|---------------------------|----------------------------|--------------------|
| all-reduce     | reduce-scatter, R shards  | all-reduce of the shard    | all-gather, shards |
| reduce-scatter | reduce-scatter, N parts a | reduce-scatter of those    |                    |
|                | rank                      |                            |                    |
| all-gather     |                           | all-gather, one part a node| all-gather of those|

Every step is a ring of `ring.py`, over some of the group's ranks. So shard l is summed first over
the ranks of each node, l+1, l+2, ..., l, and then over nodes in the order of a ring of nodes. Of
parts of c bytes, a rank sends (N-1)c to other nodes in a reduce-scatter or an all-gather, and of a
tensor of S bytes 2(N-1)/N S/R in an all-reduce: R ranks share the way that the ring leads through
one of them. What crosses the wire is coded there for the first time.
"""

import torch

from nic_emul import ring
from nic_emul.reduce_ops import Reduction
from nic_emul.ring import Exchange
from nic_emul.schedule import shards
from nic_emul.topology import Grid


class Levels:
    """The two rings that this rank is in: with its node, and with its fellows on other nodes."""

    def __init__(self, exchange: Exchange, grid: Grid) -> None:
        self.grid = grid
        node = next(row for row in grid if exchange.rank in row)
        self.local = node.index(exchange.rank)
        self.within = exchange.over(node)
        self.between = exchange.over([row[self.local] for row in grid])

    def order(self) -> list[int]:
        """The group's ranks, those with the same place in their nodes beside each other."""
        return [rank for fellows in zip(*self.grid, strict=True) for rank in fellows]


def all_reduce(exchange: Exchange, grid: Grid, flat: torch.Tensor, reduction: Reduction) -> None:
    """Reduce `flat` over the group, in place."""
    levels = Levels(exchange, grid)
    spans = shards(flat.numel(), levels.within.size, flat.itemsize)
    parts = [flat[low:high] for low, high in spans]
    own = parts[levels.local]
    ring.reduce_parts(levels.within, own, parts, reduction)
    ring.all_reduce(levels.between, own, reduction.of_sums())
    ring.gather_parts(levels.within, parts)
    exchange.finish()


def reduce_scatter(
    exchange: Exchange, grid: Grid, out: torch.Tensor, data: torch.Tensor, reduction: Reduction
) -> None:
    """Reduce `data`, `(n * out.numel(),)`, over the group; `out` gets this rank's part."""
    levels = Levels(exchange, grid)
    parts = data.view(exchange.size, out.numel())
    arranged = torch.cat([parts[rank] for rank in levels.order()]).chunk(levels.within.size)
    sums = torch.empty_like(arranged[0])
    ring.reduce_parts(levels.within, sums, arranged, reduction)
    ring.reduce_scatter(levels.between, out, sums, reduction.of_sums())
    exchange.finish()


def all_gather(exchange: Exchange, grid: Grid, out: torch.Tensor) -> None:
    """Gather parts: rank r's part of `out`, `(n * part,)`, is in place and goes to all others."""
    levels = Levels(exchange, grid)
    parts = out.view(exchange.size, out.numel() // exchange.size)
    arranged = torch.empty_like(parts)
    order = levels.order()
    arranged[order.index(exchange.rank)].copy_(parts[exchange.rank])
    first = levels.local * levels.between.size
    ring.gather_parts(levels.between, list(arranged[first : first + levels.between.size]))
    ring.gather_parts(levels.within, arranged.view(-1).chunk(levels.within.size))
    for place, rank in enumerate(order):
        parts[rank].copy_(arranged[place])
    exchange.finish()
