# SPDX-License-Identifier: Apache-2.0
"""One direction between two ranks: a sending end with its own thread, and a receiving end.

A link is a connection. Messages flow one way; short notes flow back: clear-to-send, goodbye, abort.
The sender thread encodes and sends while the thread that called `isend` receives and reduces, and
so a ring never waits for a full socket buffer. Its notes are read by a monitor (`monitor.py`), and
so a dead receiver is noticed also by a sender that has nothing to send.

The two ends are what NCCL calls comms, and their operations are those of its network plugins
(ncclNet v8 to v11): `isend` and `irecv` start something and return a request, or None while 32 are
unfinished; `test` says whether it is done. Messages are matched in order: one goes to the oldest
receive posted for its tag, and waits on the wire until there is one, together with all that come
after it. Nothing is received behind the caller's back: `test` takes what is there, `wait` blocks.
"""

import contextlib
import queue
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from codec.engine import Packets
from codec.errors import FrameError
from nic_emul.capture import Tap
from nic_emul.errors import (
    CollectiveMismatch,
    CorruptMessage,
    JobFailed,
    MessageTooLong,
    PeerLost,
    PeerTimeout,
    ProtocolError,
    UnsupportedOperation,
)
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
from nic_emul.requests import MAX_REQUESTS, MemoryRegion
from nic_emul.roles import Collective, Role, resolve_role
from nic_emul.sockets import Connection
from nic_emul.trace import LinkTrace

U8 = NDArray[np.uint8]
Fail = Callable[[BaseException], object]
_NUMBERS = 1 << 32


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


class _Numbering:
    """Numbers the messages of a link, the same at both ends.

    A message that belongs to an operation has its place in that; any other, in the link.
    """

    def __init__(self, role: Role | None) -> None:
        self.role = role
        self._traffic: Traffic | None = None
        self._index = 0
        self._plain = 0

    def place(self, traffic: Traffic, region: MemoryRegion) -> tuple[Traffic, int]:
        """The traffic and index of the next message of `traffic`, in memory of `region`."""
        if traffic.dtype != region.dtype:
            traffic = replace(traffic, dtype=region.dtype)
        self._index = self._index + 1 if traffic == self._traffic else 0
        self._traffic = traffic
        return traffic, self._index

    def plain(self, tag: int, region: MemoryRegion, size: int) -> Traffic:
        """The traffic of the next message that belongs to no operation: a send."""
        dtype = region.dtype
        self._plain = (self._plain + 1) % _NUMBERS
        return Traffic(
            collective=Collective.SEND,
            role=resolve_role(Collective.SEND, floating=dtype.floating, declared=self.role),
            dtype=dtype,
            sequence=self._plain,
            tag=tag,
            total_bytes=size,
        )


@dataclass(frozen=True)
class SendRequest:
    """A send in progress; its memory stays as it is until it is done."""

    link: "SendLink"
    ticket: int
    size: int

    def test(self) -> tuple[bool, list[int]]:
        """Whether it is done, and the sizes in bytes of what was sent if so.

        Raises:
            TransportError: the link failed.
        """
        if not self.link.sent(self.ticket):
            self.link.check()
            return False, []
        return True, [self.size]

    def wait(self) -> list[int]:
        """Return the sizes once it is done.

        Raises:
            TransportError: the link failed, or nothing was sent for as long as the timeout.
        """
        self.link.wait(self.ticket)
        return [self.size]


class SendLink:
    """The sending end of a link to rank `peer` of the group.

    Attributes:
        connection: what it sends over.
        peer: rank at the other end.
    """

    def __init__(
        self,
        nic: Nic,
        connection: Connection,
        *,
        peer: int,
        fail: Fail,
        tap: Tap | None = None,
        trace: LinkTrace | None = None,
        role: Role | None = None,
        intra: bool = False,
    ) -> None:
        """Start the thread of the link, which tells `fail` what ends it.

        Args:
            role: what `isend` carries, unless an operation says otherwise; None leaves it to the
                type.
            intra: the peer is on this node, and so messages do not pass the NIC.
        """
        self.connection = connection
        self.peer = peer
        self._name = connection.peer
        self._nic = nic
        self._fail = fail
        self._intra = intra
        self._numbering = _Numbering(role)
        self._error: BaseException | None = None
        self._tap = tap
        self._trace = trace
        self._jobs: queue.SimpleQueue[_Job | Callable[[], None] | None] = queue.SimpleQueue()
        self._posted = 0
        self._sent = 0
        self._stopped = False
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"wirezip-send-{peer}", daemon=True)
        self._thread.start()

    def isend(
        self,
        data: U8,
        tag: int,
        region: MemoryRegion,
        traffic: Traffic | None = None,
        *,
        received: Received | None = None,
    ) -> SendRequest | None:
        """Begin to send `data`, uint8 `(n,)`, registered as part of `region`; n may be 0.

        Args:
            tag: what the receiver matches it by; an operation has its own instead.
            traffic: the operation that it belongs to, which the receiver must be in as well. It
                takes the place of the handle that ncclNet v10 passes to profilers.
            received: what `irecv` made `data` of: where the NIC is passed, it goes on as it is.

        Returns:
            None while as many sends as ncclNet allows are unfinished.

        Raises:
            UnsupportedOperation: `data` is not in `region`.
            TransportError: the link has failed.
        """
        self.check()
        region.check(data)
        if self._posted - self._sent >= MAX_REQUESTS:
            return None
        if traffic is None:
            traffic, index = self._numbering.plain(tag, region, data.size), 0
        else:
            traffic, index = self._numbering.place(traffic, region)
        ticket = self.post(traffic, index=index, data=data, received=received)
        return SendRequest(self, ticket, data.size)

    def make_room(self) -> None:
        """Return once `isend` has room for one more.

        Raises:
            TransportError: the link failed, or nothing was sent for as long as the timeout.
        """
        self.wait(self._posted - MAX_REQUESTS + 1)

    def check(self) -> None:
        """Raise what ended the link, if something did."""
        if self._stopped:
            raise self._error or JobFailed(f"link to {self._name} is closed")

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
                self.check()
                moved = self._progress.wait(self.connection.timeout_s)
                if not moved and self._sent == before:
                    raise PeerTimeout(
                        f"{self._name} took nothing for {self.connection.timeout_s:g} s"
                    )
        if self._trace is not None:
            self._trace.waited(start)

    def close(self, deadline: float) -> None:
        """Send what is queued, until `deadline` (`time.monotonic`), then close."""
        self._jobs.put(None)
        self._thread.join(max(deadline - time.monotonic(), 0))
        self.abort()
        self._thread.join()
        self.connection.close()

    def abort(self, error: BaseException | None = None) -> None:
        """Fail whoever waits for this link, here with `error`, and at the peer."""
        with self._progress:
            self._error = self._error or error
            self._stopped = True
            self._progress.notify_all()
        self.connection.shut()

    def _run(self) -> None:
        try:
            while self._send_next():
                pass
        except Exception as error:
            with self._progress:
                stopped = self._stopped
                self._stopped = True
                self._error = self._error or error
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
        if not job.data.size:
            # An announcement, or a message of no bytes, which has no body.
            self.connection.send(header.pack())
            return
        if self._intra:
            self._nic.pass_by(job.traffic, job.data.size)
            head, coded = header.with_body(job.data.size, 0).pack(), time.perf_counter()
            self.connection.send(head, job.data.data)
            self._note_sent(start, coded, len(head) + job.data.size)
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
        head, coded = (
            header.with_body(packets.payload.size, crc).pack() + table,
            time.perf_counter(),
        )
        self.connection.send_packets(head, packets)
        self._note_sent(start, coded, len(head) + packets.payload.size)

    def _note_sent(self, start: float, coded: float, size: int) -> None:
        if self._trace is not None:
            self._trace.sent(start, coded, size)


@dataclass
class _Slot:
    """One buffer of a posted receive; `size` is that of the message in it, None before.

    `received` is that message as it came, if it is kept.
    """

    out: U8
    tag: int
    region: MemoryRegion
    size: int | None = None
    received: Received | None = None


class RecvRequest:
    """A receive in progress, into one buffer or several."""

    def __init__(
        self, link: "RecvLink", slots: list[_Slot], traffic: Traffic | None, keep: bool
    ) -> None:
        self._link = link
        self.slots = slots
        self.traffic = traffic
        self.keep = keep

    @property
    def received(self) -> Received | None:
        """The message of the only buffer as it came, to pass on while the buffer stays as it is.

        None if it was not kept and, within a node, where there are no packets.
        """
        (slot,) = self.slots
        return slot.received

    @property
    def done(self) -> bool:
        """Whether every buffer has its message."""
        return all(slot.size is not None for slot in self.slots)

    def test(self) -> tuple[bool, list[int]]:
        """Take what has arrived; whether the receive is done, and the sizes in bytes if so.

        Raises:
            TransportError: what arrived is not what was expected, or the peer is gone.
        """
        while not self.done and self._link.advance(wait=False):
            pass
        return (True, self._sizes()) if self.done else (False, [])

    def wait(self) -> list[int]:
        """Receive until it is done; the sizes in bytes.

        Raises:
            TransportError: as for `test`, or nothing came for as long as the timeout.
        """
        while not self.done:
            self._link.advance(wait=True)
        return self._sizes()

    def _sizes(self) -> list[int]:
        return [slot.size or 0 for slot in self.slots]


class RecvLink:
    """The receiving end of a link from rank `peer` of the group. One thread at a time receives.

    Attributes:
        connection: what it receives from.
        peer: rank at the other end.
    """

    def __init__(
        self,
        nic: Nic,
        connection: Connection,
        *,
        peer: int,
        tap: Tap | None = None,
        trace: LinkTrace | None = None,
        role: Role | None = None,
        intra: bool = False,
    ) -> None:
        """`role` and `intra` as in `SendLink`."""
        self.connection = connection
        self.peer = peer
        self._name = connection.peer
        self._nic = nic
        self._tap = tap
        self._trace = trace
        self._kind = Kind.INTRA if intra else Kind.DATA
        self._arrived = 0.0
        self._numbering = _Numbering(role)
        self._notes = threading.Lock()
        self._header = bytearray(HEADER_BYTES)
        self._staging: U8 = np.empty(0, np.uint8)
        self._posted: deque[RecvRequest] = deque()
        # The message being received, and the memory that its next bytes go to: None while no
        # receive is posted for it.
        self._intake: Iterator[memoryview | None] | None = None
        self._view: memoryview | None = None
        self._error: Exception | None = None

    def irecv(
        self,
        buffers: Sequence[U8],
        tags: Sequence[int],
        regions: Sequence[MemoryRegion],
        traffic: Traffic | None = None,
        *,
        keep: bool = False,
    ) -> RecvRequest | None:
        """Post a receive into `buffers`, uint8 `(n,)` each, a message by its tag into each.

        A message may be shorter than its buffer, unless it belongs to an operation.

        Args:
            tags, regions: one for each buffer.
            traffic: the operation that the message belongs to, as in `SendLink.isend`.
            keep: the messages as they came, too, to be passed on (`RecvRequest.received`).

        Returns:
            None while as many receives as ncclNet allows are unfinished.

        Raises:
            UnsupportedOperation: a buffer is not in its region.
        """
        for buffer, region in zip(buffers, regions, strict=True):
            region.check(buffer)
        if len(self._posted) >= MAX_REQUESTS:
            return None
        parts = zip(buffers, tags, regions, strict=True)
        request = RecvRequest(self, [_Slot(*part) for part in parts], traffic, keep)
        self._posted.append(request)
        return request

    def iflush(self, request: RecvRequest) -> None:
        """Make received data visible to whoever computes. On a CPU they are, once it is done.

        NCCL flushes after a NIC has written to the memory of a GPU (GPUDirect).

        Raises:
            UnsupportedOperation: the receive is not done.
        """
        if not request.done:
            raise UnsupportedOperation("iflush: expected a receive that is done")

    def advance(self, *, wait: bool) -> bool:
        """Receive a message into the receive posted for it: all of it (`wait`), or what is there.

        Returns:
            Whether a message was completed.

        Raises:
            TransportError: it is not what was expected, the peer is gone or, with `wait`, silent.
        """
        if self._error is not None:
            raise self._error
        start = time.perf_counter()
        if self._intake is None:
            self._intake = self._take_message()
        try:
            if self._view is None:
                # A new message, or one that a receive may have been posted for meanwhile.
                self._view = next(self._intake)
            while self._view is not None:
                if not self._fill(self._view, wait):
                    return False
                self._view = next(self._intake)
        except StopIteration:
            self._intake = self._view = None
            if self._trace is not None:
                self._trace.received(start, self._arrived)
            return True
        except Exception as error:
            self._error = error
            raise
        if wait:
            raise CollectiveMismatch(
                f"{self._name} sent {Header.unpack(self._header)}; "
                "no receive is posted for that tag"
            )
        return False

    def wait(self) -> None:
        """Return once a message begins, or the connection ends; takes as long as it takes."""
        self.connection.wait()

    def receive_header(self) -> Header:
        """The next header, whatever it announces; only its checksum has been checked."""
        self.connection.receive(memoryview(self._header))
        return Header.unpack(self._header)

    def receive_body(self, header: Header, traffic: Traffic, *, index: int, out: U8) -> None:
        """Receive what follows `header`, which must announce message `index` of `traffic`.

        Raises:
            PeerLost, PeerTimeout, ProtocolError, CorruptMessage, CollectiveMismatch.
        """
        slot = _Slot(out, header.tag, MemoryRegion(out, traffic.dtype))
        for view in self._take_body(header, traffic, slot, index=index):
            self.connection.receive(view)

    def notify(self, note: Note, value: int = 0, text: str = "") -> None:
        """Tell the sender something.

        Raises:
            PeerLost, PeerTimeout.
        """
        data = text.encode()[:NOTE_TEXT_BYTES_MAX]
        with self._notes:
            self.connection.send(NOTE.pack(note, len(data), value) + data)

    def leave(self, note: Note, text: str = "") -> None:
        """Tell the sender that nothing more is received, if it is still there to hear it."""
        with contextlib.suppress(PeerLost, PeerTimeout):
            self.notify(note, text=text)
        self.connection.shut()

    def close(self) -> None:
        """Release the connection; `leave` comes first."""
        self.connection.close()

    def _fill(self, view: memoryview, wait: bool) -> bool:
        """Put what comes next into `view`, the whole of it or what is there; whether it is full."""
        if wait:
            self.connection.receive(view)
            return True
        self._view = view[self.connection.receive_some(view) :]
        return not len(self._view)

    def _take_message(self) -> Iterator[memoryview | None]:
        """Receive one message; yields memory to be filled, and None where a receive is missing."""
        yield memoryview(self._header)
        header = Header.unpack(self._header)
        while (found := self._match(header.tag)) is None:
            yield None
        request, slot = found
        if request.traffic is None:
            traffic, index = self._numbering.plain(header.tag, slot.region, slot.out.size), 0
            traffic = self._fit(header, traffic, slot)
        else:
            traffic, index = self._numbering.place(request.traffic, slot.region)
        yield from self._take_body(header, traffic, slot, index=index, keep=request.keep)
        slot.size = slot.out.size
        if request.done:
            self._posted.remove(request)

    def _match(self, tag: int) -> tuple[RecvRequest, _Slot] | None:
        for request in self._posted:
            for slot in request.slots:
                if slot.tag == tag and slot.size is None:
                    return request, slot
        return None

    def _fit(self, header: Header, traffic: Traffic, slot: _Slot) -> Traffic:
        """What a message of its own must be, given its size; cuts the buffer to that."""
        size = header.logical_bytes
        if size > slot.out.size:
            raise MessageTooLong(
                f"{self._name}: {header}: expected at most {slot.out.size} bytes; found {size}"
            )
        slot.out = slot.out[:size]
        return replace(traffic, total_bytes=size)

    def _take_body(
        self, header: Header, traffic: Traffic, slot: _Slot, *, index: int, keep: bool = False
    ) -> Iterator[memoryview]:
        """Receive what follows `header` into the buffer of `slot`; yields memory to be filled."""
        out = slot.out
        expected = Header.describe(
            traffic,
            index=index,
            logical_bytes=out.size,
            block_bytes=self._nic.config.mtu,
            kind=self._kind,
        )
        check_header(header, expected, self._name)
        if not out.size:
            return
        if self._kind is Kind.INTRA:
            yield self._check_intra(header, out)
            self._arrived = time.perf_counter()
            self._nic.pass_by(traffic, out.size, received=True)
            return
        table = bytearray(2 * -(-out.size // header.block_bytes))
        yield memoryview(table)
        lengths, modes = unpack_table(table, header)
        # Without a marked packet the payload is the data, and needs no staging.
        marked = np.count_nonzero(modes) > 0
        payload = self._stage(header.payload_bytes, keep) if marked else out
        yield payload.data
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
        if keep:
            slot.received = Received(packets, header.body_crc)

    def _check_intra(self, header: Header, out: U8) -> memoryview:
        if header.payload_bytes != out.size:
            raise ProtocolError(
                f"{self._name}: {header}: expected {out.size} payload bytes within the node; "
                f"found {header.payload_bytes}"
            )
        return out.data

    def _stage(self, size: int, keep: bool) -> U8:
        if keep:
            return np.empty(size, np.uint8)
        if self._staging.size < size:
            self._staging = np.empty(size, np.uint8)
        return self._staging[:size]
