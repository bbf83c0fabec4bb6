# SPDX-License-Identifier: Apache-2.0
"""One direction between two ranks: a sending end with its own thread, and a receiving end.

A link is a TCP connection. Messages flow one way; short notes flow back: clear-to-send, goodbye,
abort. The sender thread encodes and sends while the thread that called `post` receives and reduces,
and so a ring never waits for a full socket buffer. Its notes are read by the group's monitor
(`transport.py`), and so a dead receiver is noticed also by a sender that has nothing to send.
"""

import contextlib
import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from codec.engine import Packets
from codec.errors import FrameError
from nic_emul.capture import Tap
from nic_emul.errors import CorruptMessage, JobFailed, PeerLost, PeerTimeout, ProtocolError
from nic_emul.message import (
    HEADER_BYTES,
    Header,
    Kind,
    Received,
    Traffic,
    body_crc,
    check_header,
    pack_table,
    unpack_table,
)
from nic_emul.nic import Nic
from nic_emul.sockets import close_abruptly, receive_into, send_all, set_blocking
from nic_emul.trace import LinkTrace

U8 = NDArray[np.uint8]
Fail = Callable[[BaseException], object]


class Note(IntEnum):
    """What a receiver tells its sender."""

    CLEAR_TO_SEND = 1
    GOODBYE = 2
    ABORT = 3
    LEFT = 4


NOTE = struct.Struct("<BxHI")
NOTE_TEXT_BYTES_MAX = 512


@dataclass(frozen=True)
class _Job:
    """A message for the sender thread; `received` is how it came here, if it goes on so."""

    traffic: Traffic
    index: int
    data: U8
    kind: Kind
    ticket: int
    received: Received | None


class SendLink:
    """The sending end of a link to rank `peer` of the group."""

    def __init__(
        self,
        nic: Nic,
        sock: socket.socket,
        *,
        peer: int,
        name: str,
        timeout_s: float,
        fail: Fail,
        tap: Tap | None = None,
        trace: LinkTrace | None = None,
        intra: bool = False,
    ) -> None:
        """`intra`: the peer is on this node, and so messages do not pass the NIC."""
        set_blocking(sock, timeout_s)
        self.sock = sock
        self.peer = peer
        self._name = name
        self._nic = nic
        self._timeout_s = timeout_s
        self._fail = fail
        self._tap = tap
        self._trace = trace
        self._intra = intra
        self._jobs: queue.SimpleQueue[_Job | Callable[[], None] | None] = queue.SimpleQueue()
        self._posted = 0
        self._sent = 0
        self._stopped = False
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"wirezip-send-{peer}", daemon=True)
        self._thread.start()

    def post(
        self,
        traffic: Traffic,
        *,
        index: int,
        data: U8,
        kind: Kind = Kind.DATA,
        received: Received | None = None,
    ) -> int:
        """Queue message `index` of `traffic`; `data`, uint8 `(n,)`, stays as it is until sent.

        `received` is what `RecvLink` made `data` of: where the NIC is passed, it goes on as it is.

        Returns:
            A ticket for `sent` and `wait`. Tickets of one link rise by one.
        """
        with self._progress:
            self._posted += 1
            ticket = self._posted
        if self._trace is not None:
            self._trace.posted()
        self._jobs.put(_Job(traffic, index, data, kind, ticket, received))
        return ticket

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` in the link's thread, once all that was posted so far is sent."""
        self._jobs.put(function)

    def sent(self, ticket: int) -> bool:
        """Whether the buffer of `ticket` may change again."""
        return self._sent >= ticket

    def wait(self, ticket: int) -> None:
        """Return once everything up to `ticket` is sent.

        Raises:
            PeerTimeout: nothing was sent for as long as the timeout.
            JobFailed: the link failed meanwhile.
        """
        start = time.perf_counter()
        with self._progress:
            while self._sent < ticket:
                before = self._sent
                if self._stopped:
                    raise JobFailed(f"link to {self._name} is closed")
                moved = self._progress.wait(self._timeout_s)
                if not moved and self._sent == before:
                    raise PeerTimeout(f"{self._name} took nothing for {self._timeout_s:g} s")
        if self._trace is not None:
            self._trace.waited(start)

    def close(self, deadline: float) -> None:
        """Send what is queued, until `deadline` (`time.monotonic`), then close."""
        self._jobs.put(None)
        self._thread.join(max(deadline - time.monotonic(), 0))
        self.abort()
        self._thread.join()
        self.sock.close()

    def abort(self) -> None:
        """Fail whoever waits for this link, here and at the peer."""
        with self._progress:
            self._stopped = True
            self._progress.notify_all()
        close_abruptly(self.sock)

    def _run(self) -> None:
        try:
            while self._send_next():
                pass
        except Exception as error:
            with self._progress:
                stopped = self._stopped
                self._stopped = True
                self._progress.notify_all()
            if not stopped:
                self._fail(error)

    def _send_next(self) -> bool:
        # A function of its own, so that nothing holds on to the data while the thread is idle.
        job = self._jobs.get()
        if job is None:
            return False
        if not isinstance(job, _Job):
            job()
            return True
        self._send(job)
        with self._progress:
            self._sent = job.ticket
            self._progress.notify_all()
        return True

    def _send(self, job: _Job) -> None:
        start = time.perf_counter()
        header = Header.describe(
            job.traffic,
            index=job.index,
            logical_bytes=job.data.size,
            block_bytes=self._nic.config.mtu,
            kind=Kind.INTRA if self._intra and job.kind is Kind.DATA else job.kind,
        )
        if job.kind is Kind.ANNOUNCE:
            send_all(self.sock, [header.pack()], self._name)
            return
        if self._intra:
            self._nic.pass_by(job.traffic, job.data.size)
            self._give(start, header.with_body(job.data.size, 0).pack(), job.data)
            return
        if job.received is not None:
            packets = job.received.packets
            self._nic.forward(job.traffic, job.data.size, packets)
        else:
            packets = self._nic.encode(job.traffic, job.data)
        if self._tap is not None:
            self._tap.sent(job.traffic, job.data.size, packets)
        table = pack_table(packets)
        crc = body_crc(table, packets.payload) if job.received is None else job.received.crc
        self._give(
            start, header.with_body(packets.payload.size, crc).pack() + table, packets.payload
        )

    def _give(self, start: float, head: bytes, payload: U8) -> None:
        """Send what was begun to be made at `start`."""
        coded = time.perf_counter()
        send_all(self.sock, [head, payload.data], self._name)
        if self._trace is not None:
            self._trace.sent(start, coded, len(head) + payload.size)


class RecvLink:
    """The receiving end of a link from rank `peer` of the group. One thread at a time receives."""

    def __init__(
        self,
        nic: Nic,
        sock: socket.socket,
        *,
        peer: int,
        name: str,
        timeout_s: float,
        tap: Tap | None = None,
        trace: LinkTrace | None = None,
        intra: bool = False,
    ) -> None:
        """`intra`: the peer is on this node, and so messages do not pass the NIC."""
        set_blocking(sock, timeout_s)
        self.sock = sock
        self.peer = peer
        self._name = name
        self._nic = nic
        self._tap = tap
        self._trace = trace
        self._kind = Kind.INTRA if intra else Kind.DATA
        self._arrived = 0.0
        self._notes = threading.Lock()
        self._header = bytearray(HEADER_BYTES)
        self._staging: U8 = np.empty(0, np.uint8)

    def receive(
        self, traffic: Traffic, *, index: int, out: U8, keep: bool = False
    ) -> Received | None:
        """Receive message `index` of `traffic` into `out`, uint8 `(n,)`, n >= 1.

        Returns:
            With `keep`, the message as it came, to pass on for as long as `out` stays as it is;
            None within a node, where there are no packets.

        Raises:
            PeerLost, PeerTimeout, ProtocolError, CorruptMessage, CollectiveMismatch.
        """
        start = time.perf_counter()
        header = self.receive_header()
        received = self.receive_body(header, traffic, index=index, out=out, keep=keep)
        if self._trace is not None:
            self._trace.received(start, self._arrived)
        return received

    def wait(self) -> None:
        """Return once a message begins, or the connection ends; takes as long as it takes."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        poll.poll()

    def receive_header(self) -> Header:
        """The next header, whatever it announces; only its checksum has been checked."""
        receive_into(self.sock, memoryview(self._header), self._name)
        return Header.unpack(self._header)

    def receive_body(
        self, header: Header, traffic: Traffic, *, index: int, out: U8, keep: bool = False
    ) -> Received | None:
        """Receive what follows `header`, which must announce message `index` of `traffic`."""
        expected = Header.describe(
            traffic,
            index=index,
            logical_bytes=out.size,
            block_bytes=self._nic.config.mtu,
            kind=self._kind,
        )
        check_header(header, expected, self._name)
        if self._kind is Kind.INTRA:
            self._receive_intra(header, traffic, out)
            return None
        table = bytearray(2 * -(-out.size // header.block_bytes))
        receive_into(self.sock, memoryview(table), self._name)
        lengths, modes = unpack_table(table, header)
        # Without a marked packet the payload is the data, and needs no staging.
        payload = self._stage(header.payload_bytes, keep) if modes.any() else out
        receive_into(self.sock, payload.data, self._name)
        self._arrived = time.perf_counter()
        if body_crc(table, payload) != header.body_crc:
            raise CorruptMessage(f"{self._name}: {header}: the checksum of the body is wrong")
        packets = Packets(payload, lengths, modes)
        try:
            self._nic.decode(traffic, packets, out)
        except FrameError as error:
            raise CorruptMessage(f"{self._name}: {header}: {error}") from error
        if self._tap is not None:
            self._tap.received(lengths.size)
        return Received(packets, header.body_crc) if keep else None

    def _receive_intra(self, header: Header, traffic: Traffic, out: U8) -> None:
        if header.payload_bytes != out.size:
            raise ProtocolError(
                f"{self._name}: {header}: expected {out.size} payload bytes within the node; "
                f"found {header.payload_bytes}"
            )
        receive_into(self.sock, out.data, self._name)
        self._arrived = time.perf_counter()
        self._nic.pass_by(traffic, out.size, received=True)

    def notify(self, note: Note, value: int = 0, text: str = "") -> None:
        """Tell the sender something.

        Raises:
            PeerLost, PeerTimeout.
        """
        data = text.encode()[:NOTE_TEXT_BYTES_MAX]
        with self._notes:
            send_all(self.sock, [NOTE.pack(note, len(data), value) + data], self._name)

    def leave(self, note: Note, text: str = "") -> None:
        """Tell the sender that nothing more is received, if it is still there to hear it."""
        with contextlib.suppress(PeerLost, PeerTimeout):
            self.notify(note, text=text)
        close_abruptly(self.sock)

    def close(self) -> None:
        """Release the socket; `leave` comes first."""
        self.sock.close()

    def _stage(self, size: int, keep: bool) -> U8:
        if keep:
            return np.empty(size, np.uint8)
        if self._staging.size < size:
            self._staging = np.empty(size, np.uint8)
        return self._staging[:size]
