# SPDX-License-Identifier: Apache-2.0
"""A connection whose packets meet faults: a queue pair of RoCE, over a TCP socket as the wire.

    link -> records -> Endpoint -> FaultyWire -> TCP -> Endpoint -> socket pair -> link
                       (go_back_n) (faults)

A record is one packet of a message, or a note. The link notices nothing: what arrives in order
comes out of a socket, as without faults. A thread drives either end, so that packets are answered
also while nobody receives. TCP carries each packet behind its length; opening and closing the
connection is TCP's own, and meets no faults, as RoCE has another service for that.
"""

import contextlib
import math
import os
import select
import socket
import struct
import threading
import time
from collections import deque

import numpy as np

from codec.engine import Packets
from nic_emul.errors import PeerLost, PeerTimeout, ProtocolError, TransportError
from nic_emul.faults import Faults, FaultyWire
from nic_emul.go_back_n import OVERHEAD_BYTES, WINDOW, Endpoint
from nic_emul.link_counters import LinkRegister
from nic_emul.packets import packet_wire_bytes
from nic_emul.sockets import Connection, close_abruptly

# A message may be as long as NCCL's (NCCL_MAX_NET_SIZE, 1 GiB); its first packet has its table.
_MESSAGE_BYTES_MAX = 1 << 30
_HEAD_BYTES_MAX = 64
_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 18
# What may wait for the TCP socket before new packets do.
_CARRIED_BYTES_MAX = 1 << 20
_LINGER_S = 5.0


class QueuePair(Connection):
    """One end of such a connection."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        peer: str,
        timeout_s: float,
        faults: Faults,
        name: str,
        mtu: int,
        register: LinkRegister,
    ) -> None:
        """Take over the TCP socket `sock`; `name` tells this end from all others of the job."""
        inside, outside = socket.socketpair()
        super().__init__(outside, peer=peer, timeout_s=timeout_s)
        inside.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        counters = register.open()
        self._inside = inside
        self._tcp = sock
        self._packet_bytes_max = (
            mtu + _HEAD_BYTES_MAX + 2 * (_MESSAGE_BYTES_MAX // mtu) + OVERHEAD_BYTES
        )
        self._endpoint = Endpoint(counters, peer=peer)
        self._wire = FaultyWire(faults, name, counters)
        self._posted: deque[tuple[bytes, int]] = deque()
        self._room = threading.Condition()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._to_carry = bytearray()
        self._carried = bytearray()
        self._delivering = memoryview(b"")
        self._deadline = math.inf
        self._said_all = self._heard_all = self._unread = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=f"wirezip-qp {name}", daemon=True)
        self._thread.start()

    def send(self, *parts: bytes | memoryview) -> None:
        self._post([(b"".join(parts), 0)])

    def send_packets(self, head: bytes, packets: Packets) -> None:
        ends = np.cumsum(packets.lengths).tolist()
        payload, last = packets.payload.data, len(ends) - 1
        records, start = [], 0
        for index, end in enumerate(ends):
            size = packet_wire_bytes(end - start, first=index == 0, last=index == last)
            records.append(((head if index == 0 else b"") + payload[start:end].tobytes(), size))
            start = end
        self._post(records)

    def receive(self, view: memoryview) -> None:
        try:
            super().receive(view)
        except PeerLost as error:
            raise self.error or error from None

    def receive_some(self, view: memoryview) -> int:
        try:
            return super().receive_some(view)
        except PeerLost as error:
            raise self.error or error from None

    def shut(self) -> None:
        """Wake whoever waits here, send what was posted, and end both directions."""
        with self._room:
            self._deadline = min(self._deadline, time.monotonic() + _LINGER_S)
            self._room.notify_all()
        close_abruptly(self.sock)
        self._rouse()

    def close(self) -> None:
        self.shut()
        self._thread.join()
        self.abandon()

    def abandon(self) -> None:
        super().abandon()
        self._tcp.close()
        self._inside.close()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    # Any thread

    def _post(self, records: list[tuple[bytes, int]]) -> None:
        """Queue `records`, and wait for room while too many are queued.

        Raises:
            TransportError: the connection has ended, or nothing was acknowledged for as long as
                the timeout.
        """
        for at in range(0, len(records), WINDOW):
            with self._room:
                while len(self._posted) >= WINDOW and not self._ended:
                    before = len(self._posted)
                    moved = self._room.wait(self.timeout_s)
                    if not moved and len(self._posted) == before:
                        raise PeerTimeout(f"{self.peer} took nothing within the timeout")
                if self._ended:
                    raise self.error or PeerLost(f"{self.peer}: connection lost")
                self._posted.extend(records[at : at + WINDOW])
            self._rouse()

    def _rouse(self) -> None:
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    # The thread of the connection

    def _run(self) -> None:
        try:
            while not self._finished():
                self._turn()
        except TransportError as error:
            self.error = error
        except OSError as error:
            self.error = PeerLost(f"{self.peer}: connection lost ({error})")
        finally:
            with self._room:
                self._ended = True
                self._room.notify_all()
            close_abruptly(self._tcp)
            close_abruptly(self._inside)

    def _finished(self) -> bool:
        """Whether there is nothing more to do, or no more time for it."""
        if self._heard_all and (self._unread or not len(self._delivering)):
            return self._said_all
        return time.monotonic() >= self._deadline

    def _turn(self) -> None:
        """Wait until something can be done, and do all of it."""
        self._await()
        self._receive()
        self._deliver()
        now = time.monotonic()
        self._take_posted()
        if not (self._said_all or self._heard_all or len(self._to_carry) > _CARRIED_BYTES_MAX):
            for packet in self._endpoint.transmit(now):
                self._wire.put(packet, now)
        # When the peer is about to go, nothing is late any more.
        for packet in self._wire.take(math.inf if self._heard_all else now):
            self._to_carry += _LENGTH.pack(len(packet)) + packet
        self._carry()

    def _await(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        # A peer that has said all still takes what is on its way to it.
        events = 0 if self._heard_all else select.POLLIN
        events |= select.POLLOUT if self._to_carry else 0
        if events:
            poll.register(self._tcp, events)
        if len(self._delivering) and not self._unread:
            poll.register(self._inside, select.POLLOUT)
        due = self._deadline
        if not (self._said_all or self._heard_all):
            due = min(due, self._endpoint.deadline(), self._wire.deadline())
        wait_s = max(due - time.monotonic(), 0)
        ready = poll.poll(None if wait_s == math.inf else math.ceil(wait_s * 1e3))
        if any(descriptor == self._wake for descriptor, _ in ready):
            os.eventfd_read(self._wake)

    def _receive(self) -> None:
        """Take what the wire has brought."""
        try:
            data = b"" if self._heard_all else self._tcp.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            # The peer is gone without a word: its end is its last one.
            data = b""
        if not data:
            self._heard_all = True
            return
        self._carried += data
        now, start = time.monotonic(), 0
        while len(self._carried) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._carried, start)
            if not OVERHEAD_BYTES <= size <= self._packet_bytes_max:
                raise ProtocolError(
                    f"{self.peer}: packet: expected {OVERHEAD_BYTES} to {self._packet_bytes_max} "
                    f"bytes; found {size}"
                )
            end = start + _LENGTH.size + size
            if end > len(self._carried):
                break
            self._endpoint.receive(bytes(self._carried[start + _LENGTH.size : end]), now)
            start = end
        del self._carried[:start]

    def _deliver(self) -> None:
        """Give the link what has arrived in order; nobody may be there to take it any more."""
        while True:
            if not len(self._delivering):
                self._delivering = memoryview(self._endpoint.take() or b"")
                if not len(self._delivering):
                    return
            try:
                sent = self._inside.send(self._delivering)
            except BlockingIOError:
                return
            except OSError:
                self._unread = True
                sent = len(self._delivering)
            self._delivering = self._delivering[sent:]

    def _take_posted(self) -> None:
        with self._room:
            while self._posted and self._endpoint.backlog() < WINDOW:
                self._endpoint.post(*self._posted.popleft())
            self._room.notify_all()

    def _carry(self) -> None:
        """Hand TCP what has come through the faults; at the end, say that nothing more comes."""
        while self._to_carry:
            try:
                sent = self._tcp.send(self._to_carry)
            except BlockingIOError:
                return
            except OSError:
                self._to_carry.clear()
                self._said_all = True
                return
            del self._to_carry[:sent]
        said = self._deadline < math.inf and not self._posted and self._endpoint.idle()
        if not self._said_all and (self._heard_all or (said and self._wire.empty())):
            self._said_all = True
            with contextlib.suppress(OSError):
                self._tcp.shutdown(socket.SHUT_WR)
