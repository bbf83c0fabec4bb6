# SPDX-License-Identifier: Apache-2.0
"""The network interface as NCCL's plugins have it: what it returns when, matches, and refuses."""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import nic_emul
from codec.engine import Packets
from nic_emul import Collective, Role
from nic_emul.dtypes import describe
from nic_emul.errors import (
    CollectiveMismatch,
    MessageTooLong,
    PeerLost,
    ProtocolError,
    UnsupportedOperation,
)
from nic_emul.links import RecvLink, RecvRequest, SendLink, SendRequest
from nic_emul.message import Traffic
from nic_emul.net import HANDLE_BYTES_MAX, Net
from nic_emul.requests import MAX_REQUESTS, MemoryRegion, dereg_mr, reg_mr
from tests.nic_emul import checks, nccl
from tests.nic_emul.ranks import ENGINES, run_ranks, wait_until

U8 = NDArray[np.uint8]
BYTES = describe(torch.uint8)
FP32 = describe(torch.float32)
SIZE = 3
T = TypeVar("T")


def open_nets(stack: ExitStack, count: int, engine: str = "null", **options: object) -> list[Net]:
    nets = []
    for rank in range(count):
        nic = nic_emul.Nic(nic_emul.NicConfig(engine=engine, timeout_s=20, **options))  # type: ignore[arg-type]
        nic.set_rank(rank)
        nets.append(Net(nic))
        stack.callback(nets[-1].close)
    return nets


def open_links(stack: ExitStack, nets: list[Net]) -> list[tuple[SendLink, RecvLink]]:
    links = nccl.link_up(nets)
    for net, (send, receive) in zip(nets, links, strict=True):
        stack.callback(net.close_recv, receive)
        stack.callback(net.close_send, send)
    return links


@pytest.fixture
def nets() -> Iterator[list[Net]]:
    with ExitStack() as stack:
        yield open_nets(stack, 2)


@pytest.fixture
def ends(nets: list[Net]) -> Iterator[tuple[SendLink, RecvLink]]:
    """The two ends of a link from the first interface to the second."""
    with ExitStack() as stack:
        links = open_links(stack, nets)
        yield links[0][0], links[1][1]


def memory(size: int, fill: int = 0) -> tuple[U8, MemoryRegion]:
    buffer = np.full(size, fill, np.uint8)
    return buffer, reg_mr(buffer, BYTES)


def send(link: SendLink, data: U8, tag: int) -> SendRequest:
    request = link.isend(data, tag, reg_mr(data, BYTES))
    assert request is not None
    return request


def receive(link: RecvLink, *parts: tuple[U8, int]) -> RecvRequest:
    buffers, tags = [buffer for buffer, _ in parts], [tag for _, tag in parts]
    request = link.irecv(buffers, tags, [reg_mr(buffer, BYTES) for buffer in buffers])
    assert request is not None
    return request


def soon(call: Callable[[], T | None]) -> T:
    """What `call` returns once it returns something."""
    found: list[T | None] = [None]

    def again() -> bool:
        found[0] = call()
        return found[0] is not None

    wait_until(again, "nothing came of it")
    assert found[0] is not None
    return found[0]


def test_handles_are_small_and_connections_take_their_time(nets: list[Net]) -> None:
    handle, listener = nets[1].listen()
    assert 0 < len(handle) <= HANDLE_BYTES_MAX
    assert listener.accept() is None
    assert nets[0].connect(handle) is None
    receiving, sending = soon(listener.accept), soon(lambda: nets[0].connect(handle))
    # The same handle again is another connection.
    assert nets[0].connect(handle) is None
    nets[0].close_send(sending)
    nets[1].close_recv(receiving)
    listener.close()


def test_handles_that_lead_nowhere(nets: list[Net]) -> None:
    handle, listener = nets[1].listen()
    for wrong in (handle[:-1], bytes(len(handle))):
        with pytest.raises(ProtocolError):
            nets[0].connect(wrong)
    # A listener whose secret it does not know says nothing and hangs up.
    with pytest.raises(PeerLost, match="refused"):
        soon(lambda: nets[0].connect(handle[:-1] + bytes([handle[-1] ^ 1])))
    assert listener.accept() is None
    nets[1].close()
    with pytest.raises(PeerLost):
        soon(lambda: nets[0].connect(handle))


def test_senders_with_another_mtu_are_refused() -> None:
    with ExitStack() as stack:
        ours = open_nets(stack, 1)[0]
        theirs = open_nets(stack, 1, mtu=1024)[0]
        handle, listener = ours.listen()
        link = soon(lambda: theirs.connect(handle))
        with pytest.raises(CollectiveMismatch, match="1024"):
            soon(listener.accept)
        theirs.close_send(link)


def test_sizes_are_those_of_the_messages(ends: tuple[SendLink, RecvLink]) -> None:
    buffer, _ = memory(100)
    request = receive(ends[1], (buffer, 7))
    assert request.test() == (False, [])
    with pytest.raises(UnsupportedOperation):
        ends[1].iflush(request)
    sent = send(ends[0], np.arange(60, dtype=np.uint8), 7)
    assert request.wait() == [60]
    assert sent.wait() == [60]
    assert sent.test() == (True, [60])
    assert request.test() == (True, [60])
    ends[1].iflush(request)
    assert np.array_equal(buffer[:60], np.arange(60))
    assert not buffer[60:].any()


def test_messages_of_no_bytes(ends: tuple[SendLink, RecvLink]) -> None:
    buffers = [memory(4)[0], memory(0)[0]]
    requests = [receive(ends[1], (buffer, 1)) for buffer in buffers]
    for _ in buffers:
        send(ends[0], np.empty(0, np.uint8), 1)
    assert [request.wait() for request in requests] == [[0], [0]]


def test_several_buffers_in_one_receive(ends: tuple[SendLink, RecvLink]) -> None:
    """They fill by tag, whatever the order of the sends; equal tags fill in order."""
    buffers = [memory(50)[0] for _ in range(4)]
    request = receive(ends[1], *zip(buffers, (5, 6, 5, 9), strict=True))
    for fill, tag in enumerate((9, 5, 6, 5)):
        assert not request.done
        send(ends[0], np.full(10 + fill, fill, np.uint8), tag)
    assert request.wait() == [11, 12, 13, 10]
    assert [int(buffer[0]) for buffer in buffers] == [1, 2, 3, 0]


def test_message_waits_for_the_receive_of_its_tag(ends: tuple[SendLink, RecvLink]) -> None:
    first, second = memory(8)[0], memory(8)[0]
    send(ends[0], np.full(8, 2, np.uint8), 2)
    send(ends[0], np.full(8, 1, np.uint8), 1)
    one = receive(ends[1], (first, 1))
    wait_until(lambda: ends[1].advance(wait=False) or ends[1]._view is None, "nothing came")
    assert one.test() == (False, [])
    with pytest.raises(CollectiveMismatch, match="no receive is posted for that tag"):
        one.wait()
    two = receive(ends[1], (second, 2))
    assert [one.wait(), two.wait()] == [[8], [8]]
    assert (first[0], second[0]) == (1, 2)


def test_message_longer_than_its_buffer(ends: tuple[SendLink, RecvLink]) -> None:
    buffer, _ = memory(9)
    request = receive(ends[1], (buffer, 0))
    send(ends[0], np.ones(10, np.uint8), 0)
    for call in (request.wait, request.test):
        with pytest.raises(MessageTooLong, match="expected at most 9 bytes; found 10"):
            call()
    assert not buffer.any()


def test_ends_that_disagree_about_the_type(ends: tuple[SendLink, RecvLink]) -> None:
    buffer = np.zeros(8, np.uint8)
    request = ends[1].irecv([buffer], [0], [reg_mr(buffer, FP32)])
    assert request is not None
    send(ends[0], np.ones(8, np.uint8), 0)
    with pytest.raises(CollectiveMismatch):
        request.wait()


def test_memory_must_be_registered(ends: tuple[SendLink, RecvLink]) -> None:
    buffer, region = memory(100)
    other, _ = memory(100)
    for wrong in (other, np.concatenate([buffer, other])):
        with pytest.raises(UnsupportedOperation, match="memory region"):
            ends[0].isend(wrong, 0, region)
        with pytest.raises(UnsupportedOperation, match="memory region"):
            ends[1].irecv([wrong], [0], [region])
    assert ends[0].isend(buffer[10:20], 0, region) is not None
    dereg_mr(region)
    with pytest.raises(UnsupportedOperation, match="registered"):
        ends[0].isend(buffer, 0, region)


def test_no_more_requests_than_nccl_has(ends: tuple[SendLink, RecvLink]) -> None:
    data, region = memory(1 << 20)
    sent = 0
    while ends[0].isend(data, 0, region) is not None:
        sent += 1
        assert sent < 10 * MAX_REQUESTS
    # What the sockets hold is sent; the rest is unfinished.
    assert sent >= MAX_REQUESTS
    requests = []
    while (request := ends[1].irecv([data], [0], [region])) is not None:
        requests.append(request)
    assert len(requests) == MAX_REQUESTS
    for request in requests:
        assert request.wait() == [data.size]
    ends[0].make_room()
    assert ends[0].isend(data, 0, region) is not None
    for _ in range(sent + 1 - len(requests)):
        late = ends[1].irecv([data], [0], [region])
        assert late is not None
        late.wait()


def test_test_never_waits_for_the_rest_of_a_message(ends: tuple[SendLink, RecvLink]) -> None:
    """Not even where a message stops in the middle of its header, table or payload."""
    data = np.arange(10_000, dtype=np.uint8)
    whole = bytearray()
    wire = ends[0].connection

    class Recorder(type(wire)):  # type: ignore[misc]
        def send_packets(self, head: bytes, packets: Packets) -> None:
            whole.extend(head + packets.payload.tobytes())

    ends[0].connection = Recorder(wire.sock, peer=wire.peer, timeout_s=wire.timeout_s)
    send(ends[0], data, 3).wait()
    buffer, _ = memory(data.size)
    request = receive(ends[1], (buffer, 3))
    for position in range(0, len(whole), 97):
        assert request.test() == (False, [])
        wire.sock.sendall(whole[position : position + 97])
    wait_until(lambda: request.test()[0], "the message did not arrive")
    assert np.array_equal(buffer, data)


def test_peer_that_closes(nets: list[Net]) -> None:
    links = nccl.link_up(nets)
    buffer, region = memory(10)
    request = links[1][1].irecv([buffer], [0], [region])
    assert request is not None
    # The sender goes: the receive fails. The receiver goes: sends fail.
    nets[0].close_send(links[0][0])
    with pytest.raises(PeerLost):
        wait_until(lambda: request.test()[0], "received from nobody")
    nets[0].close_recv(links[0][1])
    with pytest.raises(PeerLost, match="closed"):
        wait_until(lambda: links[1][0].isend(buffer, 0, region) is None, "sends to nobody")
    nets[1].close_send(links[1][0])
    nets[1].close_recv(links[1][1])


def test_threads_and_ports_are_gone_after_close() -> None:
    before = set(threading.enumerate())
    with ExitStack() as stack:
        nets = open_nets(stack, 2)
        open_links(stack, nets)
        address = nets[0]._monitor.address
    assert set(threading.enumerate()) <= before
    with socket.socket() as again:
        assert again.connect_ex(address) == errno.ECONNREFUSED


def totals(rows: list[nic_emul.CounterRow]) -> list[dict[str, object]]:
    """Rows without seconds."""
    return [
        {name: value for name, value in row.as_dict().items() if not name.endswith("_s")}
        for row in rows
    ]


def reduce_with_torch(count: int) -> tuple[bytes, list[dict[str, object]]]:
    tensor = checks.make_input(dist.get_rank(), count, torch.float32)
    dist.all_reduce(tensor)
    return tensor.numpy().tobytes(), totals(nic_emul.local_nic().counters.rows())


@pytest.mark.ranks
@pytest.mark.parametrize("engine", [ENGINES[0], ENGINES[-1]])
def test_all_reduce_of_nccl_gives_the_bytes_of_the_collective(engine: str) -> None:
    """Played against the interface alone: the same sums, the same packets, the same frames."""
    count = 1_700_003
    environment = {"WIREZIP_ENGINE": engine}
    expected = run_ranks(reduce_with_torch, SIZE, count, environment=environment)
    traffic = Traffic(
        collective=Collective.ALL_REDUCE,
        role=Role.GRADIENT,
        dtype=FP32,
        sequence=1,
        total_bytes=4 * count,
    )
    with ExitStack() as stack:
        nets = open_nets(stack, SIZE, engine)
        links = open_links(stack, nets)
        inputs = [checks.make_input(rank, count, torch.float32).numpy() for rank in range(SIZE)]
        rings = [nccl.Ring(rank, SIZE, links[rank], inputs[rank], traffic) for rank in range(SIZE)]
        nccl.run([ring.all_reduce() for ring in rings])
        found = [
            (data.tobytes(), totals(net.nic.counters.rows()))
            for data, net in zip(inputs, nets, strict=True)
        ]
    assert found == expected


STEP = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(0, 6000)),
    st.tuples(st.just("receive"), st.integers(0, 2), st.integers(0, 6000)),
    st.tuples(st.just("test"), st.integers(0, MAX_REQUESTS), st.just(0)),
)


@given(st.lists(STEP, max_size=60))
@settings(max_examples=25)
def test_any_order_of_calls_matches_by_tag(steps: list[tuple[str, int, int]]) -> None:
    """Sends meet the receives of their tag in order, however calls of both ends interleave."""
    with ExitStack() as stack:
        link = open_links(stack, open_nets(stack, 2))
        sending, receiving = link[0][0], link[1][1]
        sent: dict[int, list[U8]] = {0: [], 1: [], 2: []}
        received: dict[int, list[tuple[U8, RecvRequest]]] = {0: [], 1: [], 2: []}
        for what, number, size in steps:
            if what == "send":
                data = np.full(size, len(sent[number]) + 100 * number, np.uint8)
                if sending.isend(data, number, reg_mr(data, BYTES)) is not None:
                    sent[number].append(data)
            elif what == "receive":
                _post(receiving, received, number)
            else:
                requests = [request for posted in received.values() for _, request in posted]
                for request in requests[number : number + 1]:
                    request.test()
        # Whatever is left: every message finds a receive once there is one for it.
        for tag, messages in sent.items():
            while len(received[tag]) < len(messages):
                assert _post(receiving, received, tag) or receiving.advance(wait=True)
        for tag, messages in sent.items():
            for data, (buffer, request) in zip(messages, received[tag], strict=False):
                assert request.wait() == [data.size]
                assert np.array_equal(buffer[: data.size], data)
            assert not any(request.done for _, request in received[tag][len(messages) :])


def _post(
    link: RecvLink, received: dict[int, list[tuple[U8, RecvRequest]]], tag: int
) -> RecvRequest | None:
    buffer = np.zeros(6000, np.uint8)
    request = link.irecv([buffer], [tag], [reg_mr(buffer, BYTES)])
    if request is not None:
        received[tag].append((buffer, request))
    return request
