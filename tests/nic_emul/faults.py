# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the failure tests do: one of them does something terrible, once."""

import contextlib
import os
import signal
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import nic_emul
from codec.engine import Engine, Packets
from nic_emul import backend, go_back_n, hello, message, nic
from nic_emul.element_source import Source
from nic_emul.hello import HELLO_BYTES, Channel, Hello
from nic_emul.queue_pair import QueuePair
from nic_emul.sockets import Connection

CULPRIT = 1
FOREVER_S = 120


def is_culprit() -> bool:
    return dist.get_rank() == CULPRIT


def work_until_something_breaks(count: int = 200_000) -> None:
    while True:
        dist.all_reduce(torch.ones(count))


def die_between_collectives() -> None:
    dist.barrier()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGKILL)
    work_until_something_breaks()


def die_while_others_are_idle() -> None:
    dist.barrier()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(FOREVER_S)


def die_in_mid_message() -> None:
    dist.barrier()
    if is_culprit():
        # One packet leaves, the rest of the message never does.
        def torn(connection: Connection, head: bytes, packets: Packets) -> None:
            connection.send(head[:-1])
            os.kill(os.getpid(), signal.SIGKILL)

        Connection.send_packets = QueuePair.send_packets = torn
    work_until_something_breaks()


def die_in_backward() -> None:
    """DDP waits in C++ for collectives that will never be done."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    model(torch.ones(1, 64)).sum().backward()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        model(torch.ones(1, 64)).sum().backward()


def die_in_functional_collective() -> None:
    """The functional collectives wait in C++, too."""
    import torch.distributed._functional_collectives as functional

    dist.barrier()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        functional.all_reduce(torch.ones(1000), "sum", dist.group.WORLD).sum()


def die_with_a_child() -> None:
    """The dead rank leaves a forked child behind, which has inherited its connections."""
    dist.barrier()
    if is_culprit():
        if os.fork() == 0:
            _outlive_the_others()
        os.kill(os.getpid(), signal.SIGKILL)
    work_until_something_breaks()


def _outlive_the_others() -> None:
    # The test waits for the ends of pipes; only the sockets may stay.
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:"):
                os.close(int(descriptor))
    time.sleep(90)
    os._exit(0)


def raise_in_user_code() -> None:
    dist.barrier()
    if is_culprit():
        raise ArithmeticError("a bug in the program")
    work_until_something_breaks()


def hang() -> None:
    dist.barrier()
    if is_culprit():
        time.sleep(FOREVER_S)
    work_until_something_breaks()


def stop_process() -> None:
    """The culprit is stopped: its kernel keeps the connections, nothing is ever read."""
    dist.barrier()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGSTOP)
    work_until_something_breaks(5_000_000)


def flip_bit_on_the_wire(part: str) -> None:
    """A bit of a message flips after the sender's checksums were computed."""
    dist.barrier()
    if is_culprit():
        whole = Connection.send_packets

        def damaged(connection: Connection, head: bytes, packets: Packets) -> None:
            changed, payload = bytearray(head), packets.payload.copy()
            # Header, then table, then payload.
            target, at = {
                "header": (changed, 20),
                "table": (changed, len(head) - 1),
                "payload": (payload, payload.size // 2),
            }[part]
            target[at] ^= 0x10
            whole(connection, bytes(changed), Packets(payload, packets.lengths, packets.modes))

        Connection.send_packets = damaged
    for step in range(20):
        tensor = torch.full((50_000,), float(step))
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((50_000,), 3.0 * step)), "wrong data got through"
    time.sleep(FOREVER_S)


class _Damaging:
    """An engine that damages a frame before the message's checksum is computed."""

    name = "damaging"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def encode(self, *args: Any, **options: Any) -> Packets:
        packets = self._engine.encode(*args, **options)
        payload = packets.payload.copy()
        payload[payload.size // 2] ^= 0x10
        return Packets(payload, packets.lengths, packets.modes)

    def decode(self, *args: Any, **options: Any) -> None:
        self._engine.decode(*args, **options)


def damage_frames() -> None:
    dist.barrier()
    if is_culprit():
        local = nic_emul.local_nic()
        local._engine = _Damaging(local._engine)
    for _ in range(5):
        tensor = torch.ones(50_000)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((50_000,), 3.0)), "wrong data got through"
    time.sleep(FOREVER_S)


def disagree(about: str) -> None:
    odd = is_culprit()
    tensor = torch.ones(10_000)
    if about == "count":
        dist.all_reduce(torch.ones(10_016 if odd else 10_000))
    elif about == "dtype":
        dist.all_reduce(torch.ones(10_000, dtype=torch.int32 if odd else torch.float32))
    elif about == "reduction":
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)
    elif about == "root":
        dist.broadcast(tensor, 2 if odd else 0)
    elif about == "collective":
        if odd:
            dist.broadcast(tensor, 0)
        else:
            dist.all_reduce(tensor)
    elif about == "order":
        if odd:
            dist.barrier()
        dist.all_reduce(tensor)
    elif about == "role":
        role = nic_emul.Role.PARAMETER if odd else nic_emul.Role.GRADIENT
        options = nic_emul.GroupOptions(role=role)
        dist.all_reduce(tensor, group=dist.new_group(backend="wirezip", pg_options=options))
    elif about == "send size":
        if odd:
            dist.send(torch.ones(11), 0)
        elif dist.get_rank() == 0:
            dist.recv(torch.ones(12), CULPRIT)
    elif about == "send dtype":
        if odd:
            dist.send(torch.ones(10, dtype=torch.int32), 0)
        elif dist.get_rank() == 0:
            dist.recv(torch.ones(10), CULPRIT)
    time.sleep(FOREVER_S)


def receive_what_nobody_sends() -> None:
    dist.barrier()
    if dist.get_rank() == 0:
        dist.recv(torch.ones(4), CULPRIT, tag=7)
    time.sleep(FOREVER_S)


def send_what_nobody_receives() -> None:
    dist.barrier()
    if is_culprit():
        dist.send(torch.ones(4), 0, tag=7)
    time.sleep(FOREVER_S)


def leave_while_others_wait(how: str) -> None:
    """The culprit leaves in peace while the others wait, of whom one has no link to it."""
    dist.barrier()
    if is_culprit():
        time.sleep(0.5)
        dist.destroy_process_group()
        os._exit(0)
    if how == "receive":
        dist.recv(torch.ones(4), CULPRIT)
    elif how == "send":
        dist.send(torch.ones(4), CULPRIT)
    else:
        dist.group.WORLD._transport.recv_link(CULPRIT, Channel.POINT_TO_POINT)


def catch_and_go_on() -> str:
    """A program that swallows the error is ended all the same."""
    dist.barrier()
    if is_culprit():
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        work_until_something_breaks()
    except nic_emul.errors.TransportError:
        time.sleep(FOREVER_S)
    return "survived"


def strangers_knock() -> bool:
    """Connections without the secret come, say nonsense or nothing, and change nothing."""
    group = dist.group.WORLD
    address = group._transport._addresses[dist.get_rank()]
    silent = socket.create_connection(address)
    for nonsense in (b"", b"GET / HTTP/1.0\r\n\r\n", bytes(HELLO_BYTES), os.urandom(4096)):
        with socket.create_connection(address) as stranger:
            stranger.sendall(nonsense)
            stranger.settimeout(10)
            if len(nonsense) >= HELLO_BYTES:
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(1) == b"", "a stranger was answered"
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    silent.close()
    return bool(np.all(tensor.numpy() == dist.get_world_size()))


def overheard_hello() -> bool:
    """A hello that is repeated byte for byte gets nobody in."""
    group = dist.group.WORLD
    dist.barrier()
    transport = group._transport
    peer = (dist.get_rank() + 1) % dist.get_world_size()
    heard = Hello(dist.get_rank(), peer, Channel.COLLECTIVE, 4096).pack(transport._secret)
    with socket.create_connection(transport._addresses[peer]) as again:
        again.sendall(heard)
        again.settimeout(10)
        data = again.recv(4096)
        while data:
            data = again.recv(4096)
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    return bool(tensor[0] == dist.get_world_size())


def init_with_own(
    rank: int, size: int, store: dist.Store, variable: str, own: str, others: str
) -> None:
    """Have the culprit set a variable to something else than the other ranks do."""
    os.environ[variable] = own if rank == CULPRIT else others
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    dist.barrier()
    time.sleep(FOREVER_S)


def init_with_faults_on_one_side(rank: int, size: int, store: dist.Store) -> None:
    if rank == CULPRIT:
        os.environ["WIREZIP_FAULTS"] = "loss=0.1"
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    dist.barrier()
    time.sleep(FOREVER_S)


def init_with_another_version(rank: int, size: int, store: dist.Store) -> None:
    """The culprit's hellos are of a later version of the protocol."""
    if rank == CULPRIT:
        hello.PROTOCOL_VERSION += 1
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    dist.barrier()
    time.sleep(FOREVER_S)


def send_another_version() -> None:
    """The culprit's messages are of a later version of the protocol, its hellos are not."""
    dist.barrier()
    if is_culprit():
        message.PROTOCOL_VERSION += 1
    work_until_something_breaks()


def init_over_a_dead_wire(rank: int, size: int, store: dist.Store) -> None:
    """Connections open, and hardly a packet comes through; timers are short, so as not to wait."""
    go_back_n.TIMER_S, go_back_n.TIMER_MAX_S = 0.001, 0.01
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    work_until_something_breaks()


def init_and_leave_nothing(rank: int, size: int, store: dist.Store) -> list[str]:
    """Threads and sockets of the NIC that are left once the group is destroyed."""
    before = _sockets()
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    dist.all_reduce(torch.ones(100_000))
    work = dist.isend(torch.ones(10), (rank + 1) % size)
    dist.recv(torch.ones(10), (rank - 1) % size)
    work.wait()
    assert _sockets() - before
    dist.destroy_process_group()
    threads = [thread.name for thread in threading.enumerate()]
    return [name for name in threads if name.startswith("wirezip")] + sorted(_sockets() - before)


def _sockets() -> set[str]:
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {target for target in found if target.startswith("socket:")}


def init_with_short_timeout(rank: int, size: int, store: dist.Store) -> None:
    """The timeout of the group itself counts where it is shorter than the NIC's."""
    dist.init_process_group(
        "wirezip", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=2)
    )
    hang()


def init_while_one_rank_compiles(rank: int, size: int, store: dist.Store) -> float:
    """One rank's engine takes longer to be ready than the timeout."""
    if rank == CULPRIT:
        warm_up = nic._warm_up

        def slow(source: Source, engine: Engine, block_bytes: int) -> None:
            time.sleep(3)
            warm_up(source, engine, block_bytes)

        nic._warm_up = slow
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
    tensor = torch.ones(100)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return float(tensor[0])


def leave_with_work_unfinished(how: str) -> str:
    """One rank gives up an operation that the others never join, and goes on without the group."""
    dist.barrier()
    if not is_culprit():
        time.sleep(FOREVER_S)
    group = dist.group.WORLD
    works = [
        dist.all_reduce(torch.ones(10), async_op=True),
        dist.all_reduce(torch.ones(10), async_op=True),
        dist.irecv(torch.ones(10), 0),
    ]
    backend._SHUTDOWN_S = 0.2
    getattr(group, how)()
    found = []
    for work in works:
        try:
            work.get_future().wait()
        except nic_emul.errors.GroupClosed:
            found.append(type(work.exception()).__name__)
    return " ".join(found)


def init_without_one_rank(rank: int, size: int, store: dist.Store) -> None:
    if rank == CULPRIT:
        raise ArithmeticError("never came")
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=size)
