# SPDX-License-Identifier: Apache-2.0
"""Links over wires with faults: what arrives, what is counted, and how they end."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
import torch

import nic_emul
from nic_emul.dtypes import describe
from nic_emul.errors import ConfigError, PeerLost, ProtocolError
from nic_emul.faults import Faults
from nic_emul.go_back_n import OVERHEAD_BYTES
from nic_emul.link_counters import LinkRegister, add_up
from nic_emul.queue_pair import QueuePair
from nic_emul.requests import reg_mr
from tests.nic_emul.fault_soak import check_books, soak
from tests.nic_emul.ranks import ENGINES, wait_until
from tests.nic_emul.test_net import open_links, open_nets

EVERYTHING = "loss=0.02,corrupt=0.02,duplicate=0.02,reorder=0.02,delay=0.02:2ms,seed=3"
BYTES = describe(torch.uint8)


@pytest.mark.parametrize("engine", [ENGINES[0], ENGINES[-1]])
def test_messages_arrive_whole_and_the_books_balance(engine: str) -> None:
    generator = np.random.default_rng(5)
    sizes = [int(size) for size in generator.integers(1, 60_000, 40)]
    with ExitStack() as stack:
        nets = open_nets(stack, 2, engine, mtu=1024, faults=Faults.parse(EVERYTHING))
        with ExitStack() as inner:
            links = open_links(inner, nets)
            for size in sizes:
                data = generator.normal(size=size).astype(np.float32).view(np.uint8)
                out = np.zeros_like(data)
                sent = links[0][0].isend(data, 0, reg_mr(data, describe(torch.float32)))
                received = links[1][1].irecv([out], [0], [reg_mr(out, describe(torch.float32))])
                assert sent is not None
                assert received is not None
                assert received.wait() == [data.size]
                assert np.array_equal(out, data)
        total = add_up(net.nic.links.total() for net in nets)
        check_books(total, [row.as_dict() for net in nets for row in net.nic.counters.rows()])
        assert min(total.retransmitted_packets, total.damaged, total.duplicates, total.naks) > 0
        assert total.retransmitted_wire_bytes > 0


@pytest.mark.ranks
@pytest.mark.parametrize("engine", [ENGINES[0], ENGINES[-1]])
def test_collectives_give_the_same_bits_as_without_faults(engine: str) -> None:
    """The short form of `make fault-soak`."""
    total = soak(20_000, engine=engine)
    assert min(total.lost, total.damaged, total.duplicates, total.out_of_order) > 0
    assert total.retransmitted_packets > 0


class Raw:
    """A queue pair, and the socket at the other end of its wire."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.wire = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        self.pair = QueuePair(
            ours,
            peer="rank 1",
            timeout_s=5,
            faults=Faults(),
            name="raw",
            mtu=4096,
            register=LinkRegister(),
        )


@pytest.fixture
def raw() -> Iterator[Raw]:
    made = Raw()
    yield made
    made.wire.close()
    made.pair.close()


@pytest.mark.parametrize("size", [0, 11, 2**31, 2**32 - 1])
def test_impossible_lengths_end_it_at_once(raw: Raw, size: int) -> None:
    raw.wire.sendall(struct.pack("<I", size) + bytes(20))
    with pytest.raises(ProtocolError, match=f"found {size}"):
        raw.pair.receive(memoryview(bytearray(1)))
    with pytest.raises(ProtocolError):
        raw.pair.send(b"x")
    assert len(raw.pair._carried) < 100


def test_end_of_the_wire_in_mid_packet(raw: Raw) -> None:
    raw.wire.sendall(struct.pack("<I", 100) + bytes(20))
    raw.wire.close()
    with pytest.raises(PeerLost):
        raw.pair.receive(memoryview(bytearray(1)))
    wait_until(lambda: raw.pair._ended, "the connection did not end")
    with pytest.raises(PeerLost):
        raw.pair.send(b"x")


def test_peer_that_has_said_all_still_gets_what_waits_for_it(raw: Raw) -> None:
    payload = bytes(range(256)) * 4096
    raw.wire.settimeout(10)
    raw.pair._tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    raw.wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.pair.send(payload)
    wait_until(lambda: bool(raw.pair._to_carry), "all of it fits into the sockets")
    raw.wire.shutdown(socket.SHUT_WR)
    wait_until(lambda: raw.pair._heard_all, "the end was not noticed")
    assert raw.pair._to_carry
    # Nobody closes the pair meanwhile, which would wake it.
    packet = b"".join(iter(lambda: raw.wire.recv(1 << 16), b""))
    assert struct.unpack_from("<I", packet) == (len(payload) + OVERHEAD_BYTES,)
    assert payload in packet
    assert len(packet) == 4 + OVERHEAD_BYTES + len(payload)


def test_nothing_is_left_after_close(raw: Raw) -> None:
    raw.wire.close()
    raw.pair.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("wirezip-qp raw")]
    assert (raw.pair.sock.fileno(), raw.pair._tcp.fileno(), raw.pair._inside.fileno()) == (-1,) * 3


def test_faults_are_read_and_written() -> None:
    text = "loss=0.001,corrupt=0.002,duplicate=0.003,reorder=0.004,delay=0.005:2ms,seed=7"
    faults = Faults.parse(text.replace(",", " , "))
    assert faults == Faults(
        loss=0.001,
        corrupt=0.002,
        duplicate=0.003,
        reorder=0.004,
        delay=0.005,
        delay_s=0.002,
        seed=7,
    )
    assert str(faults) == text
    assert Faults.parse("delay=1e-3:1.5s").delay_s == 1.5
    assert Faults.parse("delay=1e-3:20us").delay_s == pytest.approx(2e-5)
    environment = {"WIREZIP_FAULTS": "loss=0.5"}
    assert nic_emul.NicConfig.from_environment(environment).faults == Faults(loss=0.5)
    assert nic_emul.NicConfig.from_environment({}).faults is None
    environment |= {"WIREZIP_SWITCH": "127.0.0.1:9", "WIREZIP_SWITCH_SECRET": "00" * 16}
    with pytest.raises(ConfigError, match="WIREZIP_SWITCH as well"):
        nic_emul.NicConfig.from_environment(environment)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss", "loss"),
        ("loss=", "''"),
        ("loss=1", "'1'"),
        ("loss=-0.1", "'-0.1'"),
        ("loss=nan", "'nan'"),
        ("loss=0.1,loss=0.1", "loss once"),
        ("los=0.1", "'los'"),
        ("", "''"),
        ("loss=0.1,", "''"),
        ("delay=0.1", "'0.1'"),
        ("delay=0.1:2", "'0.1:2'"),
        ("delay=0.1:-2ms", "'0.1:-2ms'"),
        ("delay=0.1:infs", "'0.1:infs'"),
        ("delay=x:2ms", "'x'"),
        ("seed=1.5", "'1.5'"),
    ],
)
def test_faults_that_mean_nothing(text: str, found: str) -> None:
    with pytest.raises(ConfigError, match="WIREZIP_FAULTS") as error:
        Faults.parse(text)
    assert found in str(error.value)
