# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the point-to-point, group and call-form tests do."""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import nic_emul
from codec.engine import Packets
from nic_emul import Role, monitor
from nic_emul.sockets import Connection
from tests.nic_emul import model
from tests.nic_emul.checks import counted, expect_raw, make_input, same

BIG = 1_000_003


def _places() -> tuple[int, int, int, int]:
    rank, size = dist.get_rank(), dist.get_world_size()
    return rank, size, (rank + 1) % size, (rank - 1) % size


def big_sends_cross() -> None:
    """Every rank sends to both neighbours before it receives: no buffer could hold this."""
    rank, _, following, preceding = _places()
    data = make_input(rank, BIG, torch.float32)
    sends = [dist.isend(data, following, tag=1), dist.isend(data, preceding, tag=2)]
    left, right = torch.empty(BIG), torch.empty(BIG)
    receives = [dist.irecv(right, following, tag=2), dist.irecv(left, preceding, tag=1)]
    for work in [*receives, *sends]:
        work.wait()
    assert same(left, make_input(preceding, BIG, torch.float32))
    assert same(right, make_input(following, BIG, torch.float32))


def tags_out_of_order() -> None:
    """Receives are posted in the opposite order of the sends, and one tag has two messages."""
    rank, _, following, preceding = _places()
    sends = [
        dist.isend(torch.full((1000,), float(10 * rank + n)), following, tag=tag)
        for n, tag in enumerate([5, 6, 7, 5])
    ]
    for tag, expected in [(7, 2), (6, 1), (5, 0), (5, 3)]:
        data = torch.empty(1000)
        dist.recv(data, preceding, tag=tag)
        assert same(data, torch.full((1000,), float(10 * preceding + expected))), tag
    for work in sends:
        work.wait()


def batch_exchange() -> None:
    rank, _, following, preceding = _places()
    out, data = torch.empty(5000), make_input(rank, 5000, torch.float32)
    operations = [
        dist.P2POp(dist.isend, data, following),
        dist.P2POp(dist.irecv, out, preceding),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert same(out, make_input(preceding, 5000, torch.float32))


def receive_from_anyone() -> None:
    rank, size, _, _ = _places()
    if rank:
        dist.send(torch.full((100,), rank, dtype=torch.int64), 0, tag=3)
        return
    seen = set()
    for _ in range(size - 1):
        data = torch.empty(100, dtype=torch.int64)
        source = dist.recv(data, tag=3)
        assert same(data, torch.full((100,), source))
        seen.add(source)
    assert seen == set(range(1, size))


def send_to_self() -> None:
    rank = dist.get_rank()
    data, out = make_input(rank, 300, torch.bfloat16), torch.empty(300, dtype=torch.bfloat16)
    work = dist.isend(data, rank)
    received = dist.irecv(out, rank)
    received.wait()
    work.wait()
    assert same(out, data)


def odd_shapes() -> None:
    """Empty, scalar and strided tensors, and sizes around a slice, in several types."""
    rank, _, _, preceding = _places()
    for count in (0, 1, 3, 32768, 32769):
        for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
            out = torch.empty(count, dtype=dtype)
            rows = counted(lambda d=dtype, c=count, o=out: _shift(make_input(rank, c, d), o))
            assert same(out, make_input(preceding, count, dtype)), (count, dtype)
            row = next((r for k, r in rows.items() if k[0] == "send"), None)
            expect_raw(row, model.pair_messages(count, dtype.itemsize), 4096)
    out = torch.zeros(4, 6)[:, ::2]
    _shift(torch.arange(12.0).view(3, 4).T + rank, out)
    assert same(out, torch.arange(12.0).view(3, 4).T + preceding)
    scalar = torch.tensor(0.0)
    _shift(torch.tensor(float(rank)), scalar)
    assert scalar.item() == preceding


def _shift(data: torch.Tensor, out: torch.Tensor) -> None:
    _, _, following, preceding = _places()
    work = dist.isend(data, following)
    dist.recv(out, preceding)
    work.wait()


def beside_collectives() -> None:
    """Sends and collectives of one group are in flight together."""
    rank, size, following, preceding = _places()
    out = torch.empty(BIG)
    receive = dist.irecv(out, preceding, tag=9)
    total = torch.ones(BIG)
    reduce = dist.all_reduce(total, async_op=True)
    send = dist.isend(make_input(rank, BIG, torch.float32), following, tag=9)
    for work in (reduce, receive, send):
        work.wait()
    assert same(out, make_input(preceding, BIG, torch.float32))
    assert same(total, torch.full((BIG,), float(size)))


def connect_from_all_sides(groups: int, delay_s: float) -> None:
    """All ranks open links to all others at once, in new groups, with receives posted first."""
    rank, size = dist.get_rank(), dist.get_world_size()
    welcome = monitor.Monitor._welcome

    def late(self: monitor.Monitor, stranger: monitor._Stranger) -> None:
        time.sleep(delay_s)
        welcome(self, stranger)

    monitor.Monitor._welcome = late
    others = [(rank + distance) % size for distance in range(1, size)]
    # The pairs that could wait for each other come last.
    others.sort(key=lambda peer: peer == rank ^ 1)
    for number in range(groups):
        group = dist.new_group(backend="wirezip")
        received = {peer: torch.zeros(1000) for peer in others}
        works = [dist.irecv(received[peer], peer, group=group) for peer in others]
        dist.barrier(group=group)
        data = torch.full((1000,), float(100 * rank + number))
        works += [dist.isend(data, peer, group=group) for peer in others]
        for work in works:
            work.wait()
        for peer in others:
            assert same(received[peer], torch.full((1000,), float(100 * peer + number)))


def sends_are_read_when_cleared() -> None:
    """The elements are read when the receiver is there, contiguous or not; not by the monitor."""
    rank = dist.get_rank()
    for data in (torch.zeros(6, 4), torch.zeros(4, 6).T, torch.zeros(6, 0)):
        if rank == 0:
            work = dist.isend(data, 1)
            finisher = work.get_future().then(lambda _: threading.current_thread().name)
            data.fill_(7)
            dist.barrier()
            work.wait()
            assert finisher.wait() == "wirezip-send-1"
        else:
            dist.barrier()
            out = torch.empty(6, data.size(1))
            dist.recv(out, 0)
            assert same(out, torch.full(out.shape, 7.0))


def slow_sends_make_progress() -> None:
    """Many sends are cleared at once; all together take longer than the timeout, each does not."""
    whole = Connection.send_packets

    def slow(connection: Connection, head: bytes, packets: Packets) -> None:
        time.sleep(0.2)
        whole(connection, head, packets)

    Connection.send_packets = slow
    tensors = [torch.full((1000,), 1.0) for _ in range(12)]
    if dist.get_rank() == 0:
        works = [dist.isend(tensor, 1) for tensor in tensors]
    else:
        works = [dist.irecv(tensor.zero_(), 0) for tensor in tensors]
    for work in works:
        work.wait()
    assert all(same(tensor, torch.ones(1000)) for tensor in tensors)


def reads_in_order() -> None:
    """Inputs are what the operations before have left, as on a stream, whatever their layout."""
    rank, size = dist.get_rank(), dist.get_world_size()
    filled = float(size)
    strided = [torch.ones(size, 4).T for _ in range(2)]
    flat = torch.ones(size, 4)
    factor = torch.ones(1)
    inputs = [*strided, flat, factor]
    outs = {
        name: torch.zeros(shape)
        for name, shape in {
            "reduce_scatter list": (4,),
            "all_to_all_single": (4, size),
            "all_to_all": (size, 4),
            "gather": (size, 4),
            "scatter": (4,),
            "all_gather list": (size, 4),
            "coalesced": (4,),
            "premul": (4,),
        }.items()
    }
    gate = threading.Event()
    dist.group.WORLD._worker.submit(lambda: _ignore(gate.wait(60)), [])
    works = [dist.all_reduce(tensor, async_op=True) for tensor in inputs]
    columns, rows = list(strided[0].T), list(flat)
    turned = torch.zeros(size, 4).T
    works += [
        dist.reduce_scatter(outs["reduce_scatter list"], columns, async_op=True),
        dist.all_to_all_single(turned, strided[1], [4 // size] * size, async_op=True),
        dist.all_to_all(list(outs["all_to_all"]), columns, async_op=True),
        dist.gather(columns[0], list(outs["gather"]) if rank == 0 else None, async_op=True),
        dist.scatter(outs["scatter"], columns if rank == 0 else None, async_op=True),
        dist.all_gather(list(outs["all_gather list"]), columns[rank], async_op=True),
    ]
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.reduce_scatter_single(outs["coalesced"], flat)
    ones = torch.ones(4)
    premul = dist._make_nccl_premul_sum(factor)
    works += [manager, dist.all_reduce(ones, op=premul, async_op=True)]
    # Only the tensors are the group's until the work is done; their lists are the caller's.
    columns.clear()
    rows.clear()
    gate.set()
    for work in works:
        work.wait()
    outs["all_to_all_single"].copy_(turned)
    outs["premul"].copy_(ones)
    expected = dict.fromkeys(outs, filled) | {
        "reduce_scatter list": filled * size,
        "coalesced": filled * size,
        "premul": filled * size,
        "gather": filled if rank == 0 else 0.0,
    }
    for name, out in outs.items():
        assert same(out, torch.full(out.shape, expected[name])), (name, out)


def _ignore(_: object) -> None:
    """Makes an operation of an expression."""


def point_to_point() -> list[nic_emul.CounterRow]:
    for check in (
        big_sends_cross,
        tags_out_of_order,
        batch_exchange,
        receive_from_anyone,
        send_to_self,
        odd_shapes,
        beside_collectives,
    ):
        check()
        dist.barrier()
    return nic_emul.local_nic().counters.rows()


def subgroups() -> list[nic_emul.CounterRow]:
    """Groups of some ranks, with roles, used from several threads at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    evens = dist.new_group(
        list(range(0, size, 2)),
        backend="wirezip",
        pg_options=nic_emul.GroupOptions(role=Role.OPTIMIZER_STATE),
    )
    everybody = [dist.new_group(backend="wirezip") for _ in range(3)]
    pairs = [dist.new_group([r, (r + 1) % size], backend="wirezip") for r in range(size)]
    if rank % 2 == 0:
        data = torch.full((1000,), float(rank))
        dist.all_reduce(data, group=evens)
        assert data[0] == sum(range(0, size, 2))
        dist.broadcast(data, group_src=0, group=evens)
    _many_threads(everybody)
    # Around a circle of groups only asynchronous calls get on.
    sums = {owner: torch.full((10,), float(rank)) for owner in (rank, (rank - 1) % size)}
    works = [dist.all_reduce(t, group=pairs[owner], async_op=True) for owner, t in sums.items()]
    for (owner, data), work in zip(sums.items(), works, strict=True):
        work.wait()
        assert data[0] == owner + (owner + 1) % size
    for group in everybody:
        dist.destroy_process_group(group)
    return nic_emul.local_nic().counters.rows()


def _many_threads(groups: list[dist.ProcessGroup]) -> None:
    size = dist.get_world_size()
    wrong: list[int] = []

    def reduce_often(number: int, group: dist.ProcessGroup) -> None:
        for step in range(20):
            data = torch.full((20_000,), float(number + step))
            dist.all_reduce(data, group=group)
            if not same(data, torch.full((20_000,), float((number + step) * size))):
                wrong.append(number)

    threads = [threading.Thread(target=reduce_often, args=pair) for pair in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def asynchronous() -> None:
    """Many operations in flight; handles, futures and results."""
    size = dist.get_world_size()
    tensors = [torch.full((3000,), float(n)) for n in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    last = works[-1].get_future().wait()
    assert all(work.is_completed() for work in works)
    assert last[0].data_ptr() == tensors[-1].data_ptr()
    for number, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        assert work.wait()
        assert work.wait(timedelta(seconds=1))
        assert work.is_success()
        assert work.exception() is None
        assert work.result()[0].data_ptr() == tensor.data_ptr()
        assert same(tensor, torch.full((3000,), float(number * size)))
    doubled = (
        dist.all_reduce(tensors[1], async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    )
    assert doubled.wait()[0] == 2.0 * size * size


def every_call_form() -> None:
    """Lists, coalesced calls, old names, shapes, objects: each gives what its plain form gives."""
    rank, size, _, _ = _places()
    parts = [make_input(r, 500, torch.float32) for r in range(size)]
    outs = [torch.empty(500) for _ in range(size)]
    dist.all_gather(outs, parts[rank])
    assert all(same(found, expected) for found, expected in zip(outs, parts, strict=True))

    out = torch.empty(500)
    dist.reduce_scatter(out, [part.clone() for part in parts])
    assert same(out, model.fold([parts[rank]] * size, rank, torch.add))

    # The output of a reduce-scatter may be a part of its input.
    whole = torch.cat(parts)
    own = whole[rank * 500 : (rank + 1) * 500]
    dist.reduce_scatter_single(own, whole)
    assert same(own, model.fold([parts[rank]] * size, rank, torch.add))

    with dist._coalescing_manager(async_ops=True) as manager:
        a, b = torch.full((10,), 1.0), torch.full((20,), 2.0)
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    assert (a[0], b[0]) == (size, 2 * size)
    with dist._coalescing_manager():
        gathered = [torch.empty(size * 3), torch.empty(size * 4)]
        dist.all_gather_single(gathered[0], torch.full((3,), float(rank)))
        dist.all_gather_single(gathered[1], torch.full((4,), float(rank)))
    assert same(gathered[1], torch.arange(size).float().repeat_interleave(4))
    with dist._coalescing_manager():
        dist.reduce_scatter_single(out, torch.cat(parts))
    assert same(out, model.fold([parts[rank]] * size, rank, torch.add))
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        work = dist.broadcast(a, 0, async_op=True)
    manager.wait()
    assert work is not None

    group = dist.group.WORLD
    out = torch.empty(size * 500)
    group._allgather_base(out, parts[rank]).wait()
    assert same(out, torch.cat(parts))
    options = dist.ReduceScatterOptions()
    small = torch.empty(500)
    group._reduce_scatter_base(small, torch.cat(parts), options).wait()
    assert same(small, model.fold([parts[rank]] * size, rank, torch.add))

    rows = torch.arange(size * 6.0).view(size * 2, 3) + 100 * rank
    swapped = torch.empty_like(rows)
    dist.all_to_all_single(swapped, rows)
    assert same(
        swapped,
        torch.cat([torch.arange(6.0).view(2, 3) + 6 * rank + 100 * r for r in range(size)]),
    )
    uneven = torch.empty(sum(r + 1 for r in range(size)), 2)
    dist.all_to_all_single(
        uneven,
        torch.full((size * (rank + 1), 2), float(rank)),
        output_split_sizes=[r + 1 for r in range(size)],
        input_split_sizes=[rank + 1] * size,
    )
    assert same(uneven[:, 0], torch.cat([torch.full((r + 1,), float(r)) for r in range(size)]))

    _shapes(rank, size)
    _objects(rank, size)


def _shapes(rank: int, size: int) -> None:
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))
    strided = torch.zeros(6, 8)[::2, ::2]
    strided += rank
    dist.all_reduce(strided)
    assert same(strided, torch.full((3, 4), float(sum(range(size)))))
    # One element with a stride: torch calls it contiguous.
    lonely = torch.full((1, 2), float(rank))[:, 0]
    dist.all_reduce(lonely)
    assert lonely.item() == sum(range(size))
    wanted = torch.nn.Parameter(torch.full((4,), float(rank)))
    dist.broadcast(wanted, 0)
    assert wanted.requires_grad
    assert same(wanted.detach(), torch.zeros(4))
    factor = dist._make_nccl_premul_sum(0.3)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = [make_input(r, 900, dtype) for r in range(size)]
        rounded = torch.tensor(0.3, dtype=dtype).double()
        changed = [(data.double() * rounded).to(dtype) for data in inputs]
        data = inputs[rank].clone()
        dist.all_reduce(data, op=factor)
        assert same(data, model.all_reduce(changed, torch.add)), dtype
    number = torch.complex(torch.tensor([1.0 * rank]), torch.tensor([2.0]))
    dist.all_reduce(number)
    assert number.item() == complex(sum(range(size)), 2 * size)


def _objects(rank: int, size: int) -> None:
    found: list[object] = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": r} for r in range(size)]
    shared = [f"from {rank}"]
    dist.broadcast_object_list(shared, src=size - 1)
    assert shared == [f"from {size - 1}"]
    gathered: list[object] = [None] * size
    dist.gather_object(rank * 2, gathered if rank == 0 else None)
    assert gathered == ([2 * r for r in range(size)] if rank == 0 else [None] * size)
    given: list[object] = [None]
    dist.scatter_object_list(given, [f"for {r}" for r in range(size)] if rank == 0 else None)
    assert given == [f"for {rank}"]
    if size > 1 and rank < 2:
        passed: list[object] = [{"a": 1}, "b"] if rank == 0 else [None, None]
        dist.send_object_list(passed, 1) if rank == 0 else dist.recv_object_list(passed, 0)
        assert passed == [{"a": 1}, "b"]


def wrong_calls() -> list[str]:
    """Calls that mean nothing raise in the caller, and the group goes on."""
    size = dist.get_world_size()
    calls = [
        lambda: dist.all_reduce(torch.ones(3), op=dist.ReduceOp.BAND),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), op=dist.ReduceOp.AVG),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.uint32)),
        lambda: dist.all_reduce(torch.ones(3).to_sparse()),
        lambda: dist.all_gather_single(torch.empty(5 * size), torch.ones(4)),
        lambda: dist.reduce_scatter_single(torch.empty(4), torch.ones(5 * size)),
        lambda: dist.group.WORLD.allgather([[torch.empty(2)] * (size + 1)], [torch.ones(2)]),
        lambda: dist.all_to_all_single(torch.empty(size + 1), torch.ones(size + 1)),
        lambda: dist.group.WORLD.send([torch.ones(1)], size, 0),
        lambda: dist.new_group(backend="wirezip", pg_options={"role": "gradient"}),
    ]
    raised = []
    for call in calls:
        try:
            call()
            raised.append("nothing")
        except (nic_emul.errors.NicError, ValueError) as error:
            raised.append(type(error).__name__)
    total = torch.ones(10)
    dist.all_reduce(total)
    assert total[0] == size
    return raised
