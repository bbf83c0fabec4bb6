# SPDX-License-Identifier: Apache-2.0
"""Blocking sockets whose every operation either completes, or raises a typed error in time."""

import select
import socket
import struct
from collections.abc import Sequence

from codec.engine import Packets
from nic_emul.errors import PeerLost, PeerTimeout

_TIMEVAL = struct.Struct("@ll")


class Connection:
    """One end of a connection between two ranks, over which links talk.

    Attributes:
        sock: what to wait on for data.
        peer: what to call the rank at the other end in messages.
        timeout_s: seconds without progress after which it counts as hung.
        error: what ended the connection, where that is known.
    """

    def __init__(self, sock: socket.socket, *, peer: str, timeout_s: float) -> None:
        set_blocking(sock, timeout_s)
        self.sock = sock
        self.peer = peer
        self.timeout_s = timeout_s
        self.error: BaseException | None = None

    def send(self, *parts: bytes | memoryview) -> None:
        """Send the concatenation of `parts`, which belong to no packet that is counted.

        Raises:
            PeerLost, PeerTimeout.
        """
        send_all(self.sock, parts, self.peer)

    def send_packets(self, head: bytes, packets: Packets) -> None:
        """Send `head` and the payloads of `packets`, one message.

        Raises:
            PeerLost, PeerTimeout.
        """
        send_all(self.sock, [head, packets.payload.data], self.peer)

    def receive(self, view: memoryview) -> None:
        """Fill `view`.

        Raises:
            PeerLost, PeerTimeout.
        """
        receive_into(self.sock, view, self.peer)

    def receive_some(self, view: memoryview) -> int:
        """Put into `view` what is there, and return how many bytes that was, without waiting.

        Raises:
            PeerLost: the connection has ended.
        """
        try:
            count = self.sock.recv_into(view, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"{self.peer}: connection lost ({error})") from error
        if count == 0 and len(view):
            raise PeerLost(f"{self.peer} closed the connection")
        return count

    def wait(self) -> None:
        """Return once something is there or the connection ends; takes as long as it takes."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.poll()

    def shut(self) -> None:
        """End both directions, so that threads blocked here and at the peer wake up."""
        close_abruptly(self.sock)

    def close(self) -> None:
        """Release the socket."""
        self.abandon()

    def abandon(self) -> None:
        """Close this process' copy of the socket and nothing else; for a forked child."""
        self.sock.close()


def set_blocking(sock: socket.socket, timeout_s: float | None) -> None:
    """Make `sock` block in the kernel, for at most `timeout_s` without progress; None has no limit.

    Python's own timeouts make a socket non-blocking and poll around every call; kernel timeouts let
    one call move a whole message.
    """
    sock.settimeout(None)
    seconds, micros = 0, 0
    if timeout_s is not None:
        seconds = int(timeout_s)
        micros = max(int((timeout_s - seconds) * 1e6), 0 if seconds else 1)
    value = _TIMEVAL.pack(seconds, micros)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def receive_into(sock: socket.socket, view: memoryview, peer: str) -> None:
    """Fill `view` from `sock`.

    Raises:
        PeerLost: the connection ended first.
        PeerTimeout: nothing came for as long as the socket's timeout.
    """
    got = 0
    while got < len(view):
        try:
            count = sock.recv_into(view[got:], 0, socket.MSG_WAITALL)
        except BlockingIOError as error:
            raise PeerTimeout(f"{peer} sent nothing within the timeout") from error
        except OSError as error:
            raise PeerLost(f"{peer}: connection lost ({error})") from error
        if count == 0:
            raise PeerLost(f"{peer} closed the connection")
        got += count


def send_all(sock: socket.socket, parts: Sequence[bytes | memoryview], peer: str) -> None:
    """Send the concatenation of `parts`.

    Raises:
        PeerLost: the connection ended first.
        PeerTimeout: the peer took nothing for as long as the socket's timeout.
    """
    left = [memoryview(part).cast("B") for part in parts if len(part)]
    while left:
        try:
            count = sock.sendmsg(left)
        except BlockingIOError as error:
            raise PeerTimeout(f"{peer} took nothing within the timeout") from error
        except OSError as error:
            raise PeerLost(f"{peer}: connection lost ({error})") from error
        while left and count >= len(left[0]):
            count -= len(left.pop(0))
        if left:
            left[0] = left[0][count:]


def close_abruptly(sock: socket.socket) -> None:
    """End both directions, so that threads blocked on `sock` wake up, here and at the peer."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        # Already disconnected: nobody is left to wake.
        return
