# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the switch's failure tests do, and what strangers say to a switch."""

import os
import signal
import socket
import time

import torch
import torch.distributed as dist

import nic_emul
from nic_emul.switch.request import Purpose, Request
from tests.nic_emul.faults import FOREVER_S, is_culprit, work_until_something_breaks


def kill_switch(pid: int, how: str) -> None:
    """The switch dies while the ranks work, or while they are idle."""
    dist.all_reduce(torch.ones(1000))
    dist.barrier()
    if is_culprit():
        os.kill(pid, signal.SIGKILL)
    if how == "idle":
        time.sleep(FOREVER_S)
    work_until_something_breaks()


def leave_before_a_sum() -> None:
    """The culprit leaves in peace, and the others want another sum of all."""
    dist.all_reduce(torch.ones(1000))
    if is_culprit():
        dist.destroy_process_group()
        os._exit(0)
    dist.all_reduce(torch.ones(1000))


def disagree(about: str) -> None:
    """One rank has another size, order or reduction in mind when the switch sums."""
    dist.all_reduce(torch.ones(1000))
    if about == "count":
        dist.all_reduce(torch.ones(1001 if is_culprit() else 1000))
    elif about == "dtype":
        dist.all_reduce(torch.ones(1000, dtype=torch.float16 if is_culprit() else torch.bfloat16))
    elif about == "reduction":
        op = dist.ReduceOp.AVG if is_culprit() else dist.ReduceOp.SUM
        dist.all_reduce(torch.ones(1000), op=op)
    else:
        data = torch.ones(3 * 500)
        if is_culprit():
            dist.all_reduce(data)
        else:
            dist.reduce_scatter_single(torch.ones(500), data)
    time.sleep(FOREVER_S)


def strangers_knock() -> bool:
    """Connections without the secret come, say nonsense or nothing, and change nothing."""
    config = nic_emul.local_nic().config
    assert config.switch is not None
    dist.all_reduce(torch.ones(1000))
    silent = socket.create_connection(config.switch)
    request = Request(purpose=Purpose.CONTROL, rank=0, node=0, mtu=4096).pack()
    for nonsense in (b"", b"GET / HTTP/1.0\r\n\r\n", request + bytes(32), os.urandom(4096)):
        with socket.create_connection(config.switch) as stranger:
            stranger.settimeout(10)
            challenge = stranger.recv(40, socket.MSG_WAITALL)
            assert len(challenge) == 40
            stranger.sendall(nonsense)
            if len(nonsense) > 100:
                assert _rest(stranger) == b"", "a stranger was answered"
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    silent.close()
    return bool((tensor == dist.get_world_size()).all())


def _rest(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1)
    except ConnectionResetError:
        return b""


def remake_groups() -> list[float]:
    """Groups of some of the ranks come and go, and the switch sums for each."""
    rank, found = dist.get_rank(), []
    for _ in range(3):
        group = dist.new_group([0, 2])
        if rank in (0, 2):
            tensor = torch.full((500,), float(rank + 1))
            dist.all_reduce(tensor, group=group)
            found.append(float(tensor[0]))
            dist.destroy_process_group(group)
    tensor = torch.full((500,), float(rank + 1))
    dist.all_reduce(tensor)
    return [*found, float(tensor[-1])]


def alias_output(count: int) -> bool:
    """The output of a reduce-scatter is a part of its input, and not that of this rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.arange(size * count, dtype=torch.float32)
    other = (rank + 1) % size * count
    expected = size * data[rank * count : (rank + 1) * count]
    out = data[other : other + count]
    dist.reduce_scatter_single(out, data)
    return torch.equal(out, expected)


def everything_else(count: int) -> list[nic_emul.CounterRow]:
    """Reductions that the switch does not do, of which the ring takes care."""
    size = dist.get_world_size()
    for dtype, op, value in (
        (torch.float32, dist.ReduceOp.MAX, 3.0),
        (torch.float64, dist.ReduceOp.SUM, 3.0 * size),
        (torch.int64, dist.ReduceOp.SUM, 3 * size),
        (torch.bool, dist.ReduceOp.SUM, True),
    ):
        tensor = torch.full((count,), 3, dtype=torch.float64).to(dtype)
        dist.all_reduce(tensor, op=op)
        assert torch.equal(tensor, torch.full((count,), value).to(dtype)), (dtype, op)
    return nic_emul.local_nic().counters.rows()
