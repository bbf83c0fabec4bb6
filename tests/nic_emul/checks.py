# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the collective tests do: call, compare with the model, count."""

from collections.abc import Callable

import torch
import torch.distributed as dist

import nic_emul
from tests.nic_emul import model

INTEGERS = (torch.int64, torch.uint8)
Rows = list[nic_emul.CounterRow]


def make_input(rank: int, count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """A flat tensor that every rank can rebuild for every other."""
    generator = torch.Generator().manual_seed(1000 * seed + 10 * count + rank)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if not dtype.is_floating_point:
        low = 0 if dtype is torch.uint8 else -(2**40)
        return torch.randint(low, 256 if low == 0 else 2**40, (count,), generator=generator).to(
            dtype
        )
    data = torch.randn(count, generator=generator) * 3
    if count > 40:
        # Values whose sum depends on the order, and values that only bytes tell apart. At most one
        # rank has a NaN at a place: which of two NaNs survives an addition is not defined.
        data[0:8] = torch.tensor([3e38, -3e38, 1e-40, -0.0, 0.0, 1e30, -1e30, 5e-324])
        data[10 + rank] = float("nan")
        data[20 + rank] = float("inf")
    return data.to(dtype)


def same(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and bytes."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    return torch.equal(_bytes(found), _bytes(expected))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    copy = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return copy.copy_(tensor.reshape(-1)).view(torch.uint8)


def counted(call: Callable[[], object]) -> dict[tuple[str, str, str], nic_emul.CounterRow]:
    """Run `call` and return what the counters gained, by (collective, role, dtype)."""
    counters = nic_emul.local_nic().counters
    before = counters.snapshot()
    call()
    return {row.key: row for row in counters.delta(before)}


def expect_raw(found: object, messages: list[int], mtu: int) -> None:
    """Check a row of counters against messages that travelled raw."""
    expected = model.uncoded_totals(messages, mtu)
    if not messages:
        assert found is None or found.messages == 0, found
        return
    assert isinstance(found, nic_emul.CounterRow)
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.raw_packets, found.coded_frames, found.constant_frames) == (found.packets, 0, 0)


def combiner(op: dist.ReduceOp.RedOpType) -> model.Combine:
    return {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.AVG: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
        dist.ReduceOp.BAND: torch.bitwise_and,
        dist.ReduceOp.BOR: torch.bitwise_or,
        dist.ReduceOp.BXOR: torch.bitwise_xor,
    }[op]


def scaled(data: torch.Tensor, factor: float) -> torch.Tensor:
    """`data` times `factor`, both and the product rounded to the dtype, in double precision."""
    rounded = torch.tensor(factor, dtype=data.dtype).double()
    return (data.double() * rounded).to(data.dtype)


def prepared(
    op: dist.ReduceOp.RedOpType, inputs: list[torch.Tensor]
) -> tuple[list[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]:
    """What AVG does to the inputs and to the result."""
    size = len(inputs)
    if op != dist.ReduceOp.AVG:
        return inputs, lambda result: result
    if inputs[0].dtype.is_floating_point:
        return [scaled(data, 1 / size) for data in inputs], lambda result: result
    return inputs, lambda result: result.abs() // size * result.sign()


OPERATIONS = [
    (torch.float32, dist.ReduceOp.SUM),
    (torch.float32, dist.ReduceOp.AVG),
    (torch.float32, dist.ReduceOp.MAX),
    (torch.bfloat16, dist.ReduceOp.SUM),
    (torch.bfloat16, dist.ReduceOp.AVG),
    (torch.float16, dist.ReduceOp.SUM),
    (torch.float16, dist.ReduceOp.PRODUCT),
    (torch.float64, dist.ReduceOp.SUM),
    (torch.int64, dist.ReduceOp.AVG),
    (torch.int64, dist.ReduceOp.MIN),
    (torch.int64, dist.ReduceOp.BXOR),
    (torch.uint8, dist.ReduceOp.SUM),
    (torch.uint8, dist.ReduceOp.BAND),
    (torch.uint8, dist.ReduceOp.BOR),
    (torch.bool, dist.ReduceOp.SUM),
    (torch.bool, dist.ReduceOp.PRODUCT),
]


def role_of(default: str, dtype: torch.dtype) -> str:
    return default if dtype.is_floating_point else "other"


def label(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def reductions(counts: list[int], operations: list[int], raw: bool, mtu: int) -> Rows:
    """all_reduce, reduce_scatter and reduce of every size and operation."""
    for count in counts:
        for index in operations:
            _reduce_everything(count, *OPERATIONS[index], raw, mtu)
    return nic_emul.local_nic().counters.rows()


def _reduce_everything(
    count: int, dtype: torch.dtype, op: dist.ReduceOp.RedOpType, raw: bool, mtu: int
) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    what = f"{op} of {count} {dtype} on rank {rank} of {size}"
    itemsize, combine, role = dtype.itemsize, combiner(op), role_of("gradient", dtype)
    inputs = [make_input(r, count, dtype) for r in range(size)]
    changed, finish = prepared(op, inputs)

    tensor = inputs[rank].clone()
    rows = counted(lambda: dist.all_reduce(tensor, op=op))
    assert same(tensor, finish(model.all_reduce(changed, combine))), f"all_reduce {what}"
    if raw:
        messages = model.all_reduce_messages(count, size, itemsize, rank) if size > 1 else []
        expect_raw(rows.get(("all_reduce", role, label(dtype))), messages, mtu)

    root = size - 1
    tensor = inputs[rank].clone()
    rows = counted(lambda: dist.reduce(tensor, root, op=op))
    reduced = finish(model.fold(changed, root, combine))
    assert same(tensor, reduced if rank == root else inputs[rank]), f"reduce {what}"
    if raw:
        messages = [] if rank == root else model.chain_messages(count, itemsize)
        expect_raw(rows.get(("reduce", role, label(dtype))), messages, mtu)

    wide = [make_input(r, size * count, dtype, seed=1) for r in range(size)]
    changed, finish = prepared(op, wide)
    mine = slice(rank * count, (rank + 1) * count)
    expected = finish(model.fold([data[mine] for data in changed], rank, combine))
    out, data = torch.empty(count, dtype=dtype), wide[rank].clone()
    rows = counted(lambda: dist.reduce_scatter_single(out, data, op=op))
    assert same(out, expected), f"reduce_scatter {what}"
    assert same(data, wide[rank]), f"reduce_scatter changed its input: {what}"
    if raw:
        messages = model.ring_messages(count, itemsize) * (size - 1)
        expect_raw(rows.get(("reduce_scatter", role, label(dtype))), messages, mtu)


def movements(counts: list[int], dtypes: list[torch.dtype], raw: bool, mtu: int) -> Rows:
    """all_gather, broadcast, all_to_all, gather and scatter of every size and type."""
    for count in counts:
        for dtype in dtypes:
            _gather_and_broadcast(count, dtype, raw, mtu)
            _pairwise(count, dtype, raw, mtu)
    return nic_emul.local_nic().counters.rows()


def _gather_and_broadcast(count: int, dtype: torch.dtype, raw: bool, mtu: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    role, name, itemsize = role_of("parameter", dtype), label(dtype), dtype.itemsize
    inputs = [make_input(r, count, dtype) for r in range(size)]
    out, data = torch.empty(size * count, dtype=dtype), inputs[rank].clone()
    rows = counted(lambda: dist.all_gather_single(out, data))
    assert same(out, torch.cat(inputs)), f"all_gather {count} {dtype}"
    assert same(data, inputs[rank])
    if raw:
        messages = model.ring_messages(count, itemsize) * (size - 1)
        expect_raw(rows.get(("all_gather", role, name)), messages, mtu)
    # In place: the input is this rank's part of the output.
    out = torch.zeros(size * count, dtype=dtype)
    own = out[rank * count : (rank + 1) * count]
    own.copy_(data)
    dist.all_gather_single(out, own)
    assert same(out, torch.cat(inputs)), f"all_gather in place {count} {dtype}"

    root = 1 % size
    tensor = inputs[rank].clone()
    rows = counted(lambda: dist.broadcast(tensor, root))
    assert same(tensor, inputs[root]), f"broadcast {count} {dtype}"
    if raw:
        last = (rank + 1) % size == root
        messages = [] if last else model.chain_messages(count, itemsize)
        expect_raw(rows.get(("broadcast", role, name)), messages, mtu)


def _pairwise(count: int, dtype: torch.dtype, raw: bool, mtu: int) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    name, itemsize = label(dtype), dtype.itemsize

    def part(source: int, target: int) -> torch.Tensor:
        # Every pair has its own size, some of them zero.
        return make_input(source, count * ((source + 2 * target) % 3), dtype, seed=target)

    data = [part(rank, target) for target in range(size)]
    outs = [torch.empty_like(part(source, rank)) for source in range(size)]
    rows = counted(lambda: dist.all_to_all(outs, data))
    for source in range(size):
        assert same(outs[source], part(source, rank)), f"all_to_all {count} {dtype} from {source}"
    if raw:
        pairs = [t for t in range(size) if t != rank]
        messages = [m for t in pairs for m in model.pair_messages(data[t].numel(), itemsize)]
        expect_raw(rows.get(("all_to_all", role_of("activation", dtype), name)), messages, mtu)

    inputs = [make_input(r, count, dtype) for r in range(size)]
    root = size // 2
    collected = [torch.empty(count, dtype=dtype) for _ in range(size)] if rank == root else None
    dist.gather(inputs[rank], collected, dst=root)
    for source, found in enumerate(collected or []):
        assert same(found, inputs[source]), f"gather {count} {dtype} from {source}"
    out = torch.empty(count, dtype=dtype)
    dist.scatter(out, inputs if rank == root else None, src=root)
    assert same(out, inputs[rank]), f"scatter {count} {dtype}"
