# SPDX-License-Identifier: Apache-2.0
"""How two ranks recognise each other when a connection opens.

Rank 0 of a group draws a secret and leaves it in the job's store, where only members of the job can
read it. The connecting side sends a hello with an HMAC over its fields, the listening side answers
with an HMAC of its own: each has proved that it knows the secret, and nothing was allocated or
believed before.
"""

import hashlib
import hmac
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

from nic_emul.config import ALGORITHMS, ELEMENT_SOURCES, Algorithm, ElementSource
from nic_emul.errors import AuthenticationError, PeerLost, ProtocolError
from nic_emul.message import PROTOCOL_VERSION
from nic_emul.sockets import receive_into, send_all

_MAGIC = b"WZHI"
_FIELDS = struct.Struct("<4sBBHIIHBBB")
_MAC_BYTES = hashlib.sha256().digest_size
HELLO_BYTES = _FIELDS.size + _MAC_BYTES
SECRET_BYTES = 32


class Channel(IntEnum):
    """What a connection carries. Each ordered pair of ranks has at most one of each."""

    COLLECTIVE = 0
    POINT_TO_POINT = 1


@dataclass(frozen=True)
class Hello:
    """Who connects to whom, for what, and with which settings, which must be the same at both."""

    source: int
    target: int
    channel: Channel
    mtu: int
    ranks_per_node: int = 1
    algorithm: Algorithm = "ring"
    element: ElementSource = "tagged"
    faults: bool = False

    def pack(self, secret: bytes) -> bytes:
        """The hello as it travels, `HELLO_BYTES` long."""
        fields = _FIELDS.pack(
            _MAGIC,
            PROTOCOL_VERSION,
            self.channel,
            self.mtu,
            self.source,
            self.target,
            self.ranks_per_node,
            ALGORITHMS.index(self.algorithm),
            ELEMENT_SOURCES.index(self.element),
            self.faults,
        )
        return fields + _mac(secret, b"hello", fields)

    @classmethod
    def unpack(cls, data: bytes, secret: bytes) -> "Hello":
        """Undo `pack`.

        Raises:
            AuthenticationError: the sender does not know the secret.
            ProtocolError: it does, but speaks another version, or says what nobody says.
        """
        fields, mac = data[: _FIELDS.size], data[_FIELDS.size :]
        if not hmac.compare_digest(mac, _mac(secret, b"hello", fields)):
            raise AuthenticationError("a connection did not present the job's secret")
        magic, version, channel, mtu, source, target, *settings = _FIELDS.unpack(fields)
        if magic != _MAGIC or version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"hello: expected protocol version {PROTOCOL_VERSION}; found {version}"
            )
        ranks_per_node, algorithm, element, faults = settings
        for name, found, choices in (
            ("channel", channel, Channel),
            ("algorithm", algorithm, ALGORITHMS),
            ("element", element, ELEMENT_SOURCES),
            ("faults", faults, (False, True)),
        ):
            if found >= len(choices):
                raise ProtocolError(
                    f"hello: expected {name} 0 to {len(choices) - 1}; found {found}"
                )
        return cls(
            source,
            target,
            Channel(channel),
            mtu,
            ranks_per_node,
            ALGORITHMS[algorithm],
            ELEMENT_SOURCES[element],
            bool(faults),
        )


def greet(sock: socket.socket, hello: Hello, secret: bytes, peer: str) -> None:
    """Say `hello` to `peer` on a blocking socket and check the answer.

    Raises:
        PeerLost: the listener refused, or is not one of ours.
        PeerTimeout: no answer.
        AuthenticationError: the listener does not know the secret.
    """
    packed = hello.pack(secret)
    send_all(sock, [packed], peer)
    answer = bytearray(_MAC_BYTES)
    try:
        receive_into(sock, memoryview(answer), peer)
    except PeerLost as error:
        raise PeerLost(f"{peer} refused the connection ({error})") from error
    if not hmac.compare_digest(bytes(answer), answer_to(packed, secret)):
        raise AuthenticationError(f"{peer}: the listener did not present the job's secret")


def answer_to(packed_hello: bytes, secret: bytes) -> bytes:
    """What the listening side answers to a hello."""
    return _mac(secret, b"answer", packed_hello)


def _mac(secret: bytes, purpose: bytes, fields: bytes) -> bytes:
    return hmac.digest(secret, purpose + fields, "sha256")
