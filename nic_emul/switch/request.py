# SPDX-License-Identifier: Apache-2.0
"""How a rank asks the switch for a connection, and how each proves that it belongs to the job.

The switch speaks first: a challenge, drawn anew for every connection, so that nothing that was
overheard can be said again. The rank sends its request with an HMAC over challenge and request,
keyed with the job's secret; the switch answers with an HMAC over the same and its answer. Until
then nothing was believed, and nothing was allocated but these bytes.

| part      | bytes              | from   | meaning                                            |
|-----------|--------------------|--------|----------------------------------------------------|
| challenge | 40                 | switch | magic, version, 32 random bytes                    |
| request   | 76 + 32            | rank   | what it wants (`Request`), HMAC-SHA256             |
| answer    | 4 + at most 512    | switch | 1 for yes or 0 for no and the reason; HMAC-SHA256  |
"""

import hmac
import secrets
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address

from nic_emul.errors import AuthenticationError, PeerLost, ProtocolError
from nic_emul.message import PROTOCOL_VERSION
from nic_emul.sockets import receive_into, send_all

_MAGIC = b"WZSW"
_CHALLENGE = struct.Struct("<4sB3x32s")
_FIELDS = struct.Struct("<4sBBHIIdIIIIH2x32s")
_ANSWER = struct.Struct("<BxH")
_MAC_BYTES = 32
_REASON_BYTES_MAX = 512
TOKEN_BYTES = 32
# The switch's in place of a rank of the job, in addresses of captured frames: far from all ranks.
STATION = 0xFFFFFD
# On a `CONTROL` connection a rank asks for the counters with this byte; the answer is a size and as
# many bytes of JSON, a list of `PortRow`.
REPORT = b"R"
REPORT_SIZE = struct.Struct("<I")


class Purpose(IntEnum):
    """What a connection to the switch is for."""

    CONTROL = 0
    FORWARD = 1
    SUM_UP = 2
    SUM_DOWN = 3


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a rank wants of the switch.

    Attributes:
        purpose: the kind of connection. `CONTROL`: to ask for counters, and to notice the end of
            the switch. `FORWARD`: to another rank. `SUM_UP` and `SUM_DOWN`: slices to be summed
            over a group, and the sums; the group begins when all its ranks have both.
        rank, node: who asks: rank in the job, and its node, which is the number of its port.
        mtu: of the rank's NIC.
        timeout_s: seconds without progress after which a member of the group counts as hung.
        target_node, target_host, target_port: node and address that a forwarded link leads to.
        group_size, position: ranks in the group whose slices are summed; who of them asks.
        group: 32 bytes that only the members of the group know.
    """

    purpose: Purpose
    rank: int
    node: int
    mtu: int
    timeout_s: float = 0.0
    target_node: int = 0
    target_host: str = "0.0.0.0"
    target_port: int = 0
    group_size: int = 0
    position: int = 0
    group: bytes = bytes(TOKEN_BYTES)

    def pack(self) -> bytes:
        """The request as it travels, without its HMAC."""
        return _FIELDS.pack(
            _MAGIC,
            PROTOCOL_VERSION,
            self.purpose,
            self.mtu,
            self.rank,
            self.node,
            self.timeout_s,
            self.target_node,
            int(IPv4Address(self.target_host)),
            self.group_size,
            self.position,
            self.target_port,
            self.group,
        )

    @classmethod
    def unpack(cls, data: bytes) -> "Request":
        """Undo `pack`, of bytes whose HMAC was right.

        Raises:
            ProtocolError: the sender speaks another version.
        """
        magic, version, purpose, mtu, rank, node, timeout_s, *rest = _FIELDS.unpack(data)
        if magic != _MAGIC or version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"request: expected protocol version {PROTOCOL_VERSION}; found {version}"
            )
        if purpose not in Purpose._value2member_map_:
            raise ProtocolError(f"request: expected purpose 0 to {max(Purpose)}; found {purpose}")
        target_node, target_host, group_size, position, target_port, group = rest
        return cls(
            purpose=Purpose(purpose),
            rank=rank,
            node=node,
            mtu=mtu,
            timeout_s=timeout_s,
            target_node=target_node,
            target_host=str(IPv4Address(target_host)),
            target_port=target_port,
            group_size=group_size,
            position=position,
            group=group,
        )


def ask(sock: socket.socket, request: Request, secret: bytes, switch: str) -> str:
    """Put `request` to the switch on a blocking socket; its reason for a no, empty for a yes.

    Args:
        switch: what to call it in messages.

    Raises:
        PeerLost, PeerTimeout: it is gone, or does not answer, as it does whoever has another
            secret.
        AuthenticationError: the listener does not know the secret.
        ProtocolError: it speaks another version, or is no switch of ours.
    """
    challenge = _receive(sock, _CHALLENGE.size, switch)
    magic, version, _ = _CHALLENGE.unpack(challenge)
    if magic != _MAGIC or version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"{switch}: expected a switch of protocol version {PROTOCOL_VERSION}; "
            f"found {magic!r} {version}"
        )
    asked = challenge + request.pack()
    send_all(sock, [asked[_CHALLENGE.size :], _mac(secret, b"request", asked)], switch)
    try:
        answer = _receive(sock, _ANSWER.size, switch)
    except PeerLost as error:
        raise PeerLost(f"{switch} refused the connection ({error})") from error
    yes, length = _ANSWER.unpack(answer)
    if length > _REASON_BYTES_MAX:
        raise ProtocolError(f"{switch}: expected a short reason; found {length} bytes")
    answer += _receive(sock, length, switch)
    mac = _receive(sock, _MAC_BYTES, switch)
    if not hmac.compare_digest(mac, _mac(secret, b"answer", asked + answer)):
        raise AuthenticationError(f"{switch}: the listener did not present the job's secret")
    return "" if yes else answer[_ANSWER.size :].decode(errors="replace") or "no reason given"


class Asked:
    """A request that has been read at the switch, and waits for its answer."""

    def __init__(self, sock: socket.socket, secret: bytes) -> None:
        """Challenge whoever is at the other end of `sock`, and read the request.

        Raises:
            AuthenticationError: it does not know the secret.
            ProtocolError: it does, but speaks another version.
            PeerLost, PeerTimeout: it is gone, or says nothing.
        """
        challenge = _CHALLENGE.pack(_MAGIC, PROTOCOL_VERSION, secrets.token_bytes(32))
        send_all(sock, [challenge], _WHO)
        fields = _receive(sock, _FIELDS.size, _WHO)
        mac = _receive(sock, _MAC_BYTES, _WHO)
        self._sock = sock
        self._secret = secret
        self._asked = challenge + fields
        if not hmac.compare_digest(mac, _mac(secret, b"request", self._asked)):
            raise AuthenticationError("a connection did not present the job's secret")
        self.request = Request.unpack(fields)

    def accept(self) -> None:
        """Say yes.

        Raises:
            PeerLost, PeerTimeout.
        """
        self._answer(_ANSWER.pack(1, 0))

    def refuse(self, reason: str) -> None:
        """Say no, and why.

        Raises:
            PeerLost, PeerTimeout.
        """
        text = reason.encode()[:_REASON_BYTES_MAX]
        self._answer(_ANSWER.pack(0, len(text)) + text)

    def _answer(self, answer: bytes) -> None:
        mac = _mac(self._secret, b"answer", self._asked + answer)
        send_all(self._sock, [answer, mac], _WHO)


_WHO = "a connection"


def _receive(sock: socket.socket, size: int, peer: str) -> bytes:
    data = bytearray(size)
    receive_into(sock, memoryview(data), peer)
    return bytes(data)


def _mac(secret: bytes, purpose: bytes, data: bytes) -> bytes:
    return hmac.digest(secret, b"wirezip switch " + purpose + data, "sha256")
