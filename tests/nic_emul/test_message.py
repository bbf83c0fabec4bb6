# SPDX-License-Identifier: Apache-2.0
"""Messages on a socket: what comes out is what went in, or a typed error; never anything else."""

import hmac
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import nic_emul
from codec.checksum import crc32c
from codec.format import Mode
from nic_emul import Collective, Role
from nic_emul.dtypes import describe
from nic_emul.errors import (
    AuthenticationError,
    CollectiveMismatch,
    CorruptMessage,
    PeerLost,
    PeerTimeout,
    ProtocolError,
)
from nic_emul.hello import HELLO_BYTES, Channel, Hello
from nic_emul.links import RecvLink, SendLink
from nic_emul.message import HEADER_BYTES, Header, Traffic, check_header, unpack_table
from nic_emul.sockets import Connection, set_blocking
from tests.nic_emul.ranks import ENGINES

FP32 = describe(torch.float32)
TRAFFIC = Traffic(
    collective=Collective.ALL_REDUCE,
    role=Role.GRADIENT,
    dtype=FP32,
    sequence=5,
    operation=2,
    root=3,
    tag=-7,
    total_bytes=2**40,
)
U8 = NDArray[np.uint8]
FIELD_BYTES = HELLO_BYTES - 32


def some_data(count: int) -> U8:
    generator = np.random.default_rng(count)
    return generator.normal(size=count).astype(np.float32).view(np.uint8)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socket(), socket.socket()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left.connect(listener.getsockname())
        right, _ = listener.accept()
    yield left, right
    left.close()
    right.close()


def receiver(sock: socket.socket, engine: str = "null", timeout_s: float = 5) -> RecvLink:
    nic = nic_emul.Nic(nic_emul.NicConfig(engine=engine))
    return RecvLink(nic, connection(sock, timeout_s), peer=1)


def connection(sock: socket.socket, timeout_s: float = 5) -> Connection:
    return Connection(sock, peer="rank 1", timeout_s=timeout_s)


def receive(link: RecvLink, out: U8, traffic: Traffic | None = None, index: int = 9) -> None:
    """Receive message `index` of `traffic`, by default `TRAFFIC`."""
    link.receive_body(link.receive_header(), traffic or TRAFFIC, index=index, out=out)


def message_bytes(data: U8, engine: str = "null", mtu: int = 4096) -> bytes:
    """What a sender puts on the socket for message 9 of `TRAFFIC`."""
    collected = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    nic = nic_emul.Nic(nic_emul.NicConfig(engine=engine, mtu=mtu))
    errors: list[BaseException] = []
    link = SendLink(nic, connection(ours), peer=1, fail=errors.append)
    reader = threading.Thread(target=_collect, args=(theirs, collected))
    reader.start()
    link.wait(link.post(TRAFFIC, index=9, data=data))
    link.close(deadline=0)
    reader.join()
    theirs.close()
    assert not errors
    return bytes(collected)


def _collect(sock: socket.socket, into: bytearray) -> None:
    while data := sock.recv(65536):
        into += data


@pytest.mark.parametrize("engine", ENGINES)
def test_message_arrives(pair: tuple[socket.socket, socket.socket], engine: str) -> None:
    data = some_data(3001)
    pair[0].sendall(message_bytes(data, engine))
    out = np.empty_like(data)
    receive(receiver(pair[1], engine), out)
    assert np.array_equal(out, data)


def test_raw_message_is_header_table_and_data() -> None:
    """The layout that the module's documentation gives."""
    data = some_data(2500)
    message = message_bytes(data)
    assert HEADER_BYTES == 52
    assert message[:4] == b"WZNC"
    assert message[52:58] == struct.pack("<3H", 4096, 4096, 10_000 - 2 * 4096)
    assert message[58:] == data.tobytes()


def test_every_damaged_byte_is_noticed(pair: tuple[socket.socket, socket.socket]) -> None:
    data = some_data(20)
    message = message_bytes(data)
    left, right = pair
    link = receiver(right)
    for position in range(len(message)):
        damaged = bytearray(message)
        damaged[position] ^= 0x41
        left.sendall(damaged)
        with pytest.raises((ProtocolError, CollectiveMismatch)):
            receive(link, np.empty_like(data))
        # What the receiver left unread must not be taken for the next message.
        right.setblocking(False)
        while _pending(right):
            pass
        set_blocking(right, 5)


def _pending(sock: socket.socket) -> bytes:
    try:
        return sock.recv(65536)
    except BlockingIOError:
        return b""


def test_truncated_message_ends_in_peer_lost(pair: tuple[socket.socket, socket.socket]) -> None:
    message = message_bytes(some_data(100))
    pair[0].sendall(message[:-1])
    pair[0].close()
    with pytest.raises(PeerLost):
        receive(receiver(pair[1]), np.empty(400, np.uint8))


def test_silence_ends_in_peer_timeout(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].sendall(message_bytes(some_data(100))[:60])
    with pytest.raises(PeerTimeout):
        receive(receiver(pair[1], timeout_s=0.2), np.empty(400, np.uint8))


@pytest.mark.parametrize(
    "change",
    [
        {"collective": Collective.ALL_GATHER},
        {"role": Role.PARAMETER},
        {"dtype": describe(torch.int32)},
        {"sequence": 6},
        {"operation": 0},
        {"root": 0},
        {"tag": 0},
        {"total_bytes": 0},
    ],
)
def test_every_field_is_compared(
    pair: tuple[socket.socket, socket.socket], change: dict[str, object]
) -> None:
    pair[0].sendall(message_bytes(some_data(100)))
    expected = replace(TRAFFIC, **change)  # type: ignore[arg-type]
    with pytest.raises(CollectiveMismatch, match="rank 1 sent all_reduce #5"):
        receive(receiver(pair[1]), np.empty(400, np.uint8), expected)


@pytest.mark.parametrize(("index", "size"), [(8, 400), (9, 404), (9, 396)])
def test_index_and_size_are_compared(
    pair: tuple[socket.socket, socket.socket], index: int, size: int
) -> None:
    pair[0].sendall(message_bytes(some_data(100)))
    with pytest.raises(CollectiveMismatch):
        receive(receiver(pair[1]), np.empty(size, np.uint8), index=index)


def lying(table: list[int], payload_bytes: int) -> bytes:
    """A message of 8,192 logical bytes whose header is in order and whose sizes are not."""
    header = Header.describe(TRAFFIC, index=9, logical_bytes=8192, block_bytes=4096)
    return header.with_body(payload_bytes, 0).pack() + struct.pack(f"<{len(table)}H", *table)


@pytest.mark.parametrize(
    ("table", "payload_bytes"),
    [
        ([4096, 4096], 0),
        ([4096, 4096], 8193),
        ([4096, 4096], 2**32 - 1),
        ([4096, 4096], 8191),
        ([4096, 4095], 8191),
        ([0, 4096], 4096),
        ([0x8000, 4096], 4096),
        ([0x8000 | 4096, 4096], 8192),
        ([0x8000 | 100, 0x8000 | 100], 201),
        ([0x4000 | 4096, 4096], 8192),
        ([0x2000 | 4096, 4096], 8192),
    ],
)
def test_impossible_sizes_are_refused(
    pair: tuple[socket.socket, socket.socket], table: list[int], payload_bytes: int
) -> None:
    pair[0].sendall(lying(table, payload_bytes))
    link = receiver(pair[1])
    with pytest.raises(ProtocolError):
        receive(link, np.empty(8192, np.uint8))
    assert link._staging.size <= 8192


def test_frame_for_the_null_engine_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """Ranks must not silently disagree about compression."""
    coding = next(name for name in ENGINES if name != "null")
    data = np.zeros(8192, np.uint8)
    pair[0].sendall(message_bytes(data, coding))
    with pytest.raises(CorruptMessage):
        receive(receiver(pair[1], "null"), np.empty_like(data))


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_random_headers_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        Header.unpack(data)


@given(st.binary(min_size=HELLO_BYTES, max_size=HELLO_BYTES))
def test_random_hellos_are_refused(data: bytes) -> None:
    with pytest.raises(AuthenticationError):
        Hello.unpack(data, b"secret")


@given(st.binary(min_size=FIELD_BYTES, max_size=FIELD_BYTES), st.booleans())
def test_hellos_that_a_member_would_never_say_are_refused(data: bytes, is_ours: bool) -> None:
    """A member of the job knows the secret, and may still be of another version, or mad."""
    start = Hello(3, 4, Channel.COLLECTIVE, 1024).pack(b"secret")[:5] if is_ours else b""
    fields = start + data[len(start) :]
    packed = fields + hmac.digest(b"secret", b"hello" + fields, "sha256")
    try:
        hello = Hello.unpack(packed, b"secret")
    except ProtocolError:
        return
    assert hello.pack(b"secret") == packed


@given(st.binary(min_size=HEADER_BYTES - 4, max_size=HEADER_BYTES - 4), st.booleans())
def test_headers_with_a_good_checksum_are_not_believed(data: bytes, is_ours: bool) -> None:
    """Whatever they say, only the message that must come next is received."""
    expected = Header.describe(TRAFFIC, index=9, logical_bytes=8192, block_bytes=4096)
    start = expected.pack()[:5] if is_ours else b""
    fixed = start + data[len(start) :]
    packed = fixed + struct.pack("<I", crc32c(np.frombuffer(fixed, np.uint8)))
    with pytest.raises((ProtocolError, CollectiveMismatch)):
        check_header(Header.unpack(packed), expected, "rank 1")


@given(
    st.lists(st.integers(0, 2**16 - 1) | st.sampled_from([4096, 0x8001, 0x8FFF]), min_size=3,
             max_size=3),
    st.integers(0, 2**32 - 1) | st.integers(1, 3 * 4096),
)  # fmt: skip
def test_tables_are_believed_only_if_they_fit(words: list[int], payload_bytes: int) -> None:
    header = Header.describe(TRAFFIC, index=9, logical_bytes=2 * 4096 + 100, block_bytes=4096)
    table = struct.pack("<3H", *words)
    lengths = [word & 0x1FFF for word in words]
    fits = [
        length == block if word < 0x8000 else 1 <= length < block and word < 0xA000
        for word, length, block in zip(words, lengths, (4096, 4096, 100), strict=True)
    ]
    if all(fits) and sum(lengths) == payload_bytes:
        found, modes = unpack_table(table, header.with_body(payload_bytes, 0))
        assert found.tolist() == lengths
        assert [mode != Mode.RAW for mode in modes] == [word >= 0x8000 for word in words]
    else:
        with pytest.raises(ProtocolError):
            unpack_table(table, header.with_body(payload_bytes, 0))


def test_hello() -> None:
    hello = Hello(3, 4, Channel.POINT_TO_POINT, 1024)
    packed = hello.pack(b"secret")
    assert Hello.unpack(packed, b"secret") == hello
    with pytest.raises(AuthenticationError):
        Hello.unpack(packed, b"another")
    for position in range(HELLO_BYTES):
        damaged = bytearray(packed)
        damaged[position] ^= 1
        with pytest.raises(AuthenticationError):
            Hello.unpack(bytes(damaged), b"secret")
