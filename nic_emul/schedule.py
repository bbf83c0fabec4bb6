# SPDX-License-Identifier: Apache-2.0
"""Which elements move when: how NCCL's Ring algorithm with the Simple protocol cuts its data.

The numbers are those of NCCL 2.30 with one channel (NCCL_BUFFSIZE 4 MiB in NCCL_STEPS 8 steps of
512 KiB; `src/include/device.h`, `src/device/*.h`):

| operation                              | chunk                  | slice = one message            |
|----------------------------------------|------------------------|--------------------------------|
| all-reduce, all-gather, reduce-scatter | 4 steps = 2 MiB        | 2 steps = 1 MiB                |
| broadcast, reduce                      | 1 step = 512 KiB       | 512 KiB                        |
| send, all-to-all, gather, scatter      | -                      | 128 KiB (P2P_NET_CHUNKSIZE)    |

Data are worked off in loops; a loop moves one chunk per rank. All-reduce shrinks the chunk of its
last loop so that every rank has a part. A chunk that is not full is cut into slices of at least
1/32 of the full slice, each a multiple of 16 elements. Chunks and slices start at whole elements.
Empty chunks and slices send nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

STEP_BYTES = 512 * 1024
POINT_TO_POINT_SLICE_BYTES = 128 * 1024
# Of what the switch sums, which is not NCCL's to say: so short that a slice is added while the next
# one comes, and that a switch needs little memory.
SUM_SLICE_BYTES = 256 * 1024
_ALIGN_BYTES = 16


@dataclass(frozen=True)
class Grain:
    """How an algorithm cuts its data: steps of 512 KiB per slice, and slices per chunk."""

    steps_per_slice: int
    slices_per_chunk: int

    def slice_elements(self, itemsize: int) -> int:
        return self.steps_per_slice * STEP_BYTES // itemsize

    def chunk_elements(self, itemsize: int) -> int:
        return self.slices_per_chunk * self.slice_elements(itemsize)


RING = Grain(steps_per_slice=2, slices_per_chunk=2)
CHAIN = Grain(steps_per_slice=1, slices_per_chunk=1)

Span = tuple[int, int]


def slices(span: Span, grain: Grain, itemsize: int) -> list[Span]:
    """Cut the chunk `span`, (start, stop) in elements, into its slices."""
    start, stop = span
    count = stop - start
    full = grain.slice_elements(itemsize)
    even = 16 * _ceil_div(count, 16 * grain.slices_per_chunk)
    return cut(span, max(even, full // 32))


def cut(span: Span, elements: int) -> list[Span]:
    """Cut `span` into pieces of `elements`; the last may be shorter."""
    start, stop = span
    return [(at, min(at + elements, stop)) for at in range(start, stop, elements)]


def loops(count: int, grain: Grain, itemsize: int) -> list[Span]:
    """The loops of an operation whose ranks each work on `count` elements: one chunk each."""
    return cut((0, count), grain.chunk_elements(itemsize))


def all_reduce_loops(count: int, size: int, itemsize: int) -> Iterator[list[Span]]:
    """The chunks of each loop of an all-reduce of `count` elements, one per rank, some empty."""
    chunk = RING.chunk_elements(itemsize)
    for base in range(0, count, size * chunk):
        left = min(count - base, size * chunk)
        yield [(base + low, base + high) for low, high in shards(left, size, itemsize)]


def shards(count: int, size: int, itemsize: int) -> list[Span]:
    """Cut `count` elements into one shard a rank, as even as multiples of 16 bytes can be."""
    align = max(_ALIGN_BYTES // itemsize, 1)
    shard = align * _ceil_div(_ceil_div(count, size), align)
    return [(min(rank * shard, count), min((rank + 1) * shard, count)) for rank in range(size)]


def _ceil_div(value: int, by: int) -> int:
    return -(-value // by)
