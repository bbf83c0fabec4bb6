# SPDX-License-Identifier: Apache-2.0
"""Blocking sockets whose every operation either completes, or raises a typed error in time."""

import socket
import struct
from collections.abc import Sequence

from nic_emul.errors import PeerLost, PeerTimeout

_TIMEVAL = struct.Struct("@ll")


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
