# SPDX-License-Identifier: Apache-2.0
"""The parts of the switch one by one: its hello, its arithmetic, its relay, its bounds."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from nic_emul import Nic, NicConfig
from nic_emul.dtypes import describe
from nic_emul.errors import AuthenticationError, CollectiveMismatch, PeerLost, SwitchLost
from nic_emul.hello import HELLO_BYTES
from nic_emul.links import NOTE, Note, RecvLink, SendLink
from nic_emul.message import HEADER_BYTES, Traffic
from nic_emul.roles import Collective, Role
from nic_emul.sockets import Connection
from nic_emul.switch import server
from nic_emul.switch.arithmetic import Accumulator
from nic_emul.switch.port import Port
from nic_emul.switch.relay import PIECE_BYTES, Relay
from nic_emul.switch.request import Asked, Purpose, Request, ask
from nic_emul.switch.server import Switch
from nic_emul.uplink import Uplink

SECRET = bytes(range(32))
CONTROL = Request(purpose=Purpose.CONTROL, rank=3, node=1, mtu=4096)
TRAFFIC = Traffic(
    collective=Collective.ALL_REDUCE,
    role=Role.GRADIENT,
    dtype=describe(torch.bfloat16),
    sequence=7,
    total_bytes=1 << 20,
)
Pair = tuple[socket.socket, socket.socket]


def connected(timeout_s: float = 5) -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    left.settimeout(timeout_s)
    right.settimeout(timeout_s)
    return left, right


@pytest.fixture
def nic() -> Nic:
    return Nic(NicConfig(engine="null"))


# Request and answer


def test_requests_survive_the_way() -> None:
    request = Request(
        purpose=Purpose.FORWARD, rank=70_000, node=1 << 20, mtu=1024, timeout_s=1.5, target_node=9,
        target_host="10.1.2.3", target_port=65535, group_size=12, position=11, group=SECRET,
    )  # fmt: skip
    assert Request.unpack(request.pack()) == request


def converse(request: Request, ours: bytes, theirs: bytes, answer: str | None) -> object:
    """What `ask` with secret `ours` finds out at a switch with secret `theirs`."""
    left, right = connected()
    found: list[object] = []

    def attend() -> None:
        try:
            asked = Asked(right, theirs)
        except (AuthenticationError, PeerLost) as error:
            found.append(error)
            right.close()
            return
        found.append(asked.request)
        asked.accept() if answer is None else asked.refuse(answer)

    thread = threading.Thread(target=attend)
    thread.start()
    try:
        return ask(left, request, ours, "the switch"), found
    finally:
        left.close()
        thread.join()
        right.close()


def test_both_sides_know_the_secret() -> None:
    assert converse(CONTROL, SECRET, SECRET, None) == ("", [CONTROL])
    assert converse(CONTROL, SECRET, SECRET, "no such MTU") == ("no such MTU", [CONTROL])
    with pytest.raises(PeerLost, match="the switch refused the connection"):
        converse(CONTROL, SECRET, bytes(32), None)


def test_what_was_overheard_cannot_be_said_again() -> None:
    left, right = connected()
    overheard = bytearray(4096)
    with left, right:
        thread = threading.Thread(target=lambda: Asked(right, SECRET).accept())
        thread.start()
        left.recv(40, socket.MSG_PEEK)
        assert ask(left, CONTROL, SECRET, "the switch") == ""
        thread.join()
    recorder, switch = connected()
    with recorder, switch:
        # The same conversation again, of which the rank's part is written down.
        thread = threading.Thread(target=lambda: Asked(switch, SECRET).accept())
        thread.start()
        tapped, rank = connected()
        with tapped, rank:
            tapped.sendall(recorder.recv(4096))
            asking = threading.Thread(target=lambda: _ignore_loss(rank))
            asking.start()
            size = tapped.recv_into(overheard)
            recorder.sendall(overheard[:size])
            thread.join()
        asking.join()
    again, switch = connected()
    with again, switch:
        again.sendall(overheard[:size])
        with pytest.raises(AuthenticationError, match="did not present the job's secret"):
            Asked(switch, SECRET)


def _ignore_loss(rank: socket.socket) -> None:
    with pytest.raises(PeerLost):
        ask(rank, CONTROL, SECRET, "the switch")


# Arithmetic


def add(*slices: torch.Tensor) -> torch.Tensor:
    accumulator = Accumulator()
    accumulator.begin(slices[0])
    for slice_ in slices[1:]:
        accumulator.add(slice_)
    return accumulator.result()


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(torch.float32, 0x7FC00000), (torch.bfloat16, 0x7FC0), (torch.float16, 0x7E00)],
)
def test_every_nan_of_a_sum_is_the_same(dtype: torch.dtype, bits: int) -> None:
    integers = torch.int32 if dtype is torch.float32 else torch.int16
    sign, quiet = (1 << (8 * dtype.itemsize - 1)), bits
    strange = np.array([quiet | 5, quiet | sign, quiet + 1 - (quiet & -quiet)], np.int64)
    odd = torch.from_numpy((strange ^ sign) - sign).to(integers).view(dtype)
    one = torch.ones(3, dtype=dtype)
    infinity = torch.full((3,), float("inf"), dtype=dtype)
    for slices in ((odd, one), (one, odd), (odd, odd.flip(0)), (infinity, -infinity)):
        assert torch.equal(add(*slices).view(integers), torch.full((3,), bits, dtype=integers))


def test_sums_are_rounded_once_and_in_order() -> None:
    # In BF16 256 + 1 is 256 at every hop of a ring; the switch sees 258.
    first, one = (torch.tensor([value], dtype=torch.bfloat16) for value in (256.0, 1.0))
    assert add(first, one, one).item() == 258.0
    assert add(one, one, first).item() == 258.0
    large, small = torch.tensor([2.0**24]), torch.tensor([1.0])
    assert add(large, small, small).item() == 2.0**24
    assert add(small, small, large).item() == 2.0**24 + 2
    zero = torch.tensor([-0.0])
    assert add(zero, zero).view(torch.int32).item() == -(2**31)
    tiny = torch.tensor([2.0**-149, 2.0**-149 * 3])
    assert torch.equal(add(tiny, tiny), torch.tensor([2.0**-148, 2.0**-148 * 3]))


# Relay


@pytest.fixture
def relayed(nic: Nic) -> Iterator[tuple[socket.socket, socket.socket, Port, Port]]:
    """The two ends of a link through a relay, its hello already said, and the two ports."""
    source, switch_source = connected()
    target, switch_target = connected()
    up, down = Port(0, nic), Port(1, nic)
    relay = Relay(switch_source, switch_target, up=up, down=down)
    thread = threading.Thread(target=relay.run, daemon=True)
    thread.start()
    source.sendall(bytes(HELLO_BYTES))
    assert receive(target, HELLO_BYTES) == bytes(HELLO_BYTES)
    yield source, target, up, down
    source.close()
    target.close()
    thread.join(10)
    assert not thread.is_alive()
    assert switch_source.fileno() == switch_target.fileno() == -1


def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := sock.recv(size - len(data))):
        data += piece
    return data


def message(nic: Nic, size: int) -> bytes:
    """A message of `size` bytes as a link sends it."""
    left, right = connected()
    with left:
        link = SendLink(
            nic, Connection(right, peer="rank 1", timeout_s=5), peer=1, fail=pytest.fail
        )
        link.post(TRAFFIC, index=0, data=np.arange(size, dtype=np.uint32).astype(np.uint8))
        data = receive(left, HEADER_BYTES + 2 * -(-size // 4096) + size)
        link.close(0)
    return data


def test_messages_pass_in_pieces_and_are_counted(
    nic: Nic, relayed: tuple[socket.socket, socket.socket, Port, Port]
) -> None:
    source, target, up, down = relayed
    size = 5 * PIECE_BYTES + 17
    sent = message(nic, size)
    source.sendall(sent[:PIECE_BYTES])
    # The rest is not there yet, and what has come is passed on.
    assert receive(target, PIECE_BYTES) == sent[:PIECE_BYTES]
    source.sendall(sent[PIECE_BYTES:])
    assert receive(target, len(sent) - PIECE_BYTES) == sent[PIECE_BYTES:]
    (sender,) = nic.counters.rows()
    for port, way in ((up, "up"), (down, "down")):
        (row,) = port.rows()
        assert row[way] == {
            name: getattr(sender, name)
            for name in ("messages", "logical_bytes", "payload_bytes", "wire_bytes", "packets")
        }
        assert not any(row["up" if way == "down" else "down"].values())
    target.sendall(b"notes")
    assert receive(source, 5) == b"notes"


@pytest.mark.parametrize("at", [0, 4, 20, HEADER_BYTES + 1])
def test_damage_is_passed_on_and_not_counted(
    nic: Nic, relayed: tuple[socket.socket, socket.socket, Port, Port], at: int
) -> None:
    """Magic, version, a field, the table: the receiver refuses them, who knows better."""
    source, target, up, _ = relayed
    sent = bytearray(message(nic, 10_000))
    sent[at] ^= 0x40
    source.sendall(sent + sent)
    assert receive(target, 2 * len(sent)) == sent + sent
    assert up.rows() == []


@pytest.mark.parametrize("closing", ["source", "target"])
def test_either_end_closes_the_other(
    nic: Nic, relayed: tuple[socket.socket, socket.socket, Port, Port], closing: str
) -> None:
    source, target, _, _ = relayed
    part = message(nic, 10_000)[:5000]
    source.sendall(part)
    if closing == "source":
        source.close()
        # What was on its way arrives before the end.
        assert receive(target, 10_000) == part
    else:
        assert receive(target, 5000) == part
        target.sendall(b"bye")
        target.close()
        assert receive(source, 10) == b"bye"


# The switch


@contextmanager
def serving(nic: Nic) -> Iterator[Switch]:
    """A switch in this process, which leaves no thread behind."""
    before = set(threading.enumerate())
    switch = Switch(nic, socket.create_server(("127.0.0.1", 0)), SECRET)
    thread = threading.Thread(target=switch.serve, daemon=True)
    thread.start()
    yield switch
    switch.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert set(threading.enumerate()) == before


def test_silent_strangers_are_sent_away(nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_STRANGER_S", 0.2)
    monkeypatch.setattr(server, "_STRANGERS_MAX", 2)
    with serving(nic) as switch:
        silent = [socket.create_connection(switch.address, timeout=5) for _ in range(3)]
        found = [len(receive(sock, 41)) for sock in silent]
        # The first two are asked who they are, and then hear no more.
        assert found == [40, 40, 0]
        uplink = Uplink(switch.address, SECRET, timeout_s=5)
        uplink.attach(CONTROL)
        assert uplink.rows() == []
        uplink.close()
        for sock in silent:
            sock.close()


def test_what_the_switch_refuses(nic: Nic) -> None:
    with serving(nic) as switch, socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
        nobody.close()
        uplink = Uplink(switch.address, SECRET, timeout_s=5)
        for request, error, text in (
            (replace(CONTROL, mtu=1024), CollectiveMismatch, "has WIREZIP_MTU 4096; rank 3 has 1"),
            (
                replace(CONTROL, purpose=Purpose.FORWARD, target_host="127.0.0.1",
                        target_port=closed),
                PeerLost,
                f"127.0.0.1:{closed} cannot be reached",
            ),
            (replace(CONTROL, purpose=Purpose.SUM_UP, group_size=2, position=2), CollectiveMismatch,
             "is in a group of another size"),
        ):  # fmt: skip
            with socket.socket() as sock, pytest.raises(error, match=text):
                uplink.dial(sock, request)
        with socket.socket() as sock, pytest.raises(SwitchLost):
            Uplink(switch.address, bytes(32), timeout_s=5).dial(sock, CONTROL)


@contextmanager
def group_of_two(nic: Nic, timeout_s: float) -> Iterator[tuple[Switch, list[Pair]]]:
    """Two ranks' connections up and down, as a switch sums over them."""
    with serving(nic) as switch:
        uplink = Uplink(switch.address, SECRET, timeout_s=5)
        pairs = []
        for rank in range(2):
            up, down = socket.socket(), socket.socket()
            for sock, purpose in ((up, Purpose.SUM_UP), (down, Purpose.SUM_DOWN)):
                request = replace(CONTROL, purpose=purpose, rank=rank, node=rank, position=rank,
                                  timeout_s=timeout_s, group_size=2, group=SECRET)  # fmt: skip
                uplink.dial(sock, request)
            pairs.append((up, down))
        yield switch, pairs
        for pair in pairs:
            for sock in pair:
                sock.close()


def last_note(sock: socket.socket) -> tuple[Note, str]:
    kind, length, _ = NOTE.unpack(receive(sock, NOTE.size))
    return Note(kind), receive(sock, length).decode()


def test_a_rank_that_takes_no_sums_is_not_served_without_bound(nic: Nic) -> None:
    """It and the others are told in time; until then the switch holds eight sums at most."""
    slices = 400
    data = np.zeros(256 * 1024, np.uint8)
    with group_of_two(nic, timeout_s=0.5) as (switch, pairs):
        links = [
            SendLink(
                nic,
                Connection(up, peer="the switch", timeout_s=20),
                peer=0,
                fail=lambda error: None,
            )
            for up, _ in pairs
        ]
        for index in range(slices):
            for link in links:
                link.post(TRAFFIC, index=index, data=data)
        note, text = last_note(pairs[0][0])
        assert note is Note.ABORT
        assert "PeerTimeout" in text
        assert "rank 0 took nothing" in text or "rank 1 took nothing" in text
        came = {row["port"]: row["up"]["messages"] for row in switch.rows()}
        assert all(messages < slices / 2 for messages in came.values()), came
        for link in links:
            link.close(0)


@pytest.mark.parametrize(
    ("traffic", "size", "text"),
    [
        (replace(TRAFFIC, collective=Collective.ALL_GATHER), 1024, "expected a slice of 1 to"),
        (replace(TRAFFIC, dtype=describe(torch.int16)), 1024, "expected a slice of 1 to"),
        (replace(TRAFFIC, operation=3), 1024, "expected a slice of 1 to"),
        (TRAFFIC, 1023, "expected a slice of 1 to"),
        (TRAFFIC, 256 * 1024 + 2, "expected a slice of 1 to 262144 bytes"),
    ],
)
def test_what_the_switch_does_not_add(nic: Nic, traffic: Traffic, size: int, text: str) -> None:
    with group_of_two(nic, timeout_s=5) as (_, pairs):
        connection = Connection(pairs[0][0], peer="the switch", timeout_s=5)
        link = SendLink(nic, connection, peer=0, fail=lambda error: None)
        link.post(traffic, index=0, data=np.zeros(size, np.uint8))
        for up, _ in pairs:
            note, found = last_note(up)
            assert note is Note.ABORT
            assert "from rank 0" in found
            assert text in found
        link.close(0)


def test_sums_reach_only_their_owner(nic: Nic) -> None:
    """Slice i of a reduce-scatter goes to rank i mod n, as its slice i div n."""
    traffic = replace(TRAFFIC, collective=Collective.REDUCE_SCATTER)
    with group_of_two(nic, timeout_s=5) as (_, pairs):
        links = [
            SendLink(
                nic, Connection(up, peer="the switch", timeout_s=5), peer=0, fail=lambda error: None
            )
            for up, _ in pairs
        ]
        for index in range(4):
            values = torch.full((8,), float(index + 1), dtype=torch.bfloat16)
            for link in links:
                link.post(traffic, index=index, data=values.view(torch.uint8).numpy())
        for rank, (_, down) in enumerate(pairs):
            receiver = RecvLink(nic, Connection(down, peer="the switch", timeout_s=5), peer=0)
            for index in range(2):
                out = np.empty(16, np.uint8)
                receiver.receive_body(receiver.receive_header(), traffic, index=index, out=out)
                total = torch.from_numpy(out).view(torch.bfloat16)
                assert torch.equal(total, torch.full((8,), 2.0 * (2 * index + rank + 1)).bfloat16())
        for link in links:
            link.close(0)
