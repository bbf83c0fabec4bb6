# SPDX-License-Identifier: Apache-2.0
"""Sends and receives, matched by tag, with a rendezvous as in NCCL's network transport.

A send announces itself (size, type, tag); the receiver answers "clear to send" when a receive has
been posted for it, and only then do the data travel, straight into the receiver's memory. So no
order of sends and receives can fill a buffer and block, nothing is allocated for data that nobody
waits for, and a receive from any source takes whichever announcement comes first.

Per pair of ranks and tag, sends meet receives in the order in which they were posted.
"""

import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch

from nic_emul.collectives import check_tensors, flatten, landing, put_back
from nic_emul.dtypes import describe
from nic_emul.errors import (
    CollectiveMismatch,
    GroupClosed,
    PeerLost,
    PeerTimeout,
    ProtocolError,
    UnsupportedOperation,
)
from nic_emul.hello import Channel
from nic_emul.links import Note, RecvLink, SendLink
from nic_emul.message import Header, Kind, Traffic
from nic_emul.ring import as_bytes
from nic_emul.roles import Collective, Role, resolve_role
from nic_emul.schedule import POINT_TO_POINT_SLICE_BYTES, cut
from nic_emul.transport import Transport
from nic_emul.work import NicWork

_ANNOUNCEMENTS_MAX = 65536


@dataclass(eq=False)
class _Send:
    """A send that has been announced, on `link` unless it is to this rank, and is not finished."""

    traffic: Traffic
    tensor: torch.Tensor
    link: SendLink | None
    work: NicWork
    deadline: float


@dataclass(eq=False)
class _Receive:
    """A receive that has been posted and is not finished."""

    source: int | None
    traffic: Traffic
    target: torch.Tensor
    work: NicWork
    deadline: float
    flat: torch.Tensor = field(default_factory=lambda: torch.empty(0))
    pieces: list[torch.Tensor] = field(default_factory=list)
    arrived: int = 0

    def prepare(self) -> None:
        """Make the memory ready that the data arrive in."""
        self.flat = landing(self.target)
        self.pieces = _pieces(self.flat)


class PointToPoint:
    """The sends and receives of one rank of a group.

    Attributes:
        role: what the group's floating-point tensors are; None leaves it to each operation.
    """

    def __init__(self, transport: Transport, role: Role | None) -> None:
        self.role = role
        self._transport = transport
        self._state = threading.Condition()
        self._next_number: dict[int, int] = {}
        self._sends: dict[tuple[int, int], _Send] = {}
        self._posted: list[_Receive] = []
        self._announced: dict[int, deque[Header]] = {}
        self._granted: dict[tuple[int, int], _Receive] = {}
        self._links: dict[int, RecvLink] = {}
        self._heard: dict[int, float] = {}
        self._gone: set[int] = set()
        self._readers: list[threading.Thread] = []
        transport.on_opened = self._opened
        transport.on_clear_to_send = self._clear_to_send
        transport.on_departed = self._departed
        transport.on_stopped = self._stopped
        transport.on_tick = self._check_deadlines

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> NicWork:
        """Send `tensor` to rank `peer` of the group; done when its memory may change again."""
        self._check(tensor, peer)
        link = None if peer == self._transport.rank else self._link_to(peer)
        with self._state:
            number = self._next_number.get(peer, 0)
            self._next_number[peer] = (number + 1) & 0xFFFFFFFF
            traffic = self._traffic(tensor, number, tag)
            send = _Send(traffic, tensor, link, NicWork([tensor]), self._deadline())
            self._sends[peer, number] = send
        if link is None:
            self._announce(peer, _announcement(traffic, self._transport.nic.config.mtu))
        else:
            link.post(traffic, index=0, data=np.empty(0, np.uint8), kind=Kind.ANNOUNCE)
        return send.work

    def receive(self, tensor: torch.Tensor, peer: int | None, tag: int) -> NicWork:
        """Receive into `tensor` from rank `peer` of the group, None for whoever sends first."""
        self._check(tensor, self._transport.rank if peer is None else peer)
        receive = _Receive(
            peer, self._traffic(tensor, 0, tag), tensor, NicWork([tensor]), self._deadline()
        )
        with self._state:
            if peer in self._gone:
                raise PeerLost(f"{self._name(peer)} has left the group")
            self._posted.append(receive)
        self._match()
        return receive.work

    def drain(self, deadline: float) -> bool:
        """Wait for every send, until `deadline` (`time.monotonic`); whether all are done."""
        with self._state:
            while self._sends and (left := deadline - time.monotonic()) > 0:
                self._state.wait(left)
            return not self._sends

    def join(self) -> None:
        """Wait for the reader threads, which end when the transport closes."""
        for reader in self._readers:
            reader.join()

    def _check(self, tensor: torch.Tensor, peer: int) -> None:
        self._transport.nic.failure.check()
        check_tensors([tensor])
        if not 0 <= peer < self._transport.size:
            raise UnsupportedOperation(
                f"peer: expected rank 0 to {self._transport.size - 1}; found {peer}"
            )

    def _link_to(self, peer: int) -> SendLink:
        try:
            return self._transport.send_link(peer, Channel.POINT_TO_POINT)
        except Exception as error:
            self._transport.fail(error)
            raise

    def _traffic(self, tensor: torch.Tensor, number: int, tag: int) -> Traffic:
        dtype = describe(tensor.dtype)
        return Traffic(
            collective=Collective.SEND,
            role=resolve_role(Collective.SEND, floating=dtype.floating, declared=self.role),
            dtype=dtype,
            sequence=number,
            tag=tag,
            total_bytes=tensor.nbytes,
        )

    def _name(self, peer: int | None) -> str:
        return "any rank" if peer is None else self._transport.name_of(peer)

    def _deadline(self) -> float:
        return time.monotonic() + self._transport.timeout_s

    # Receiving side

    def _opened(self, link: RecvLink) -> None:
        reader = threading.Thread(
            target=self._read, args=(link,), name=f"wirezip-receive-{link.peer}", daemon=True
        )
        with self._state:
            self._links[link.peer] = link
            self._readers.append(reader)
        reader.start()

    def _read(self, link: RecvLink) -> None:
        try:
            while True:
                link.wait()
                try:
                    header = link.receive_header()
                except PeerLost:
                    self._left(link.peer)
                    return
                if header.kind == Kind.ANNOUNCE:
                    self._announce(link.peer, header)
                else:
                    self._take(link, header)
        except Exception as error:
            self._transport.fail(error)

    def _announce(self, peer: int, header: Header) -> None:
        with self._state:
            waiting = self._announced.setdefault(peer, deque())
            waiting.append(header)
            if len(waiting) > _ANNOUNCEMENTS_MAX:
                raise ProtocolError(
                    f"{self._name(peer)}: more than {_ANNOUNCEMENTS_MAX} sends at once"
                )
        self._match()

    def _match(self) -> None:
        """Grant every announced send that a posted receive waits for."""
        while True:
            with self._state:
                found = self._take_match()
                if found is None:
                    return
                peer, header, receive = found
                receive.traffic = self._traffic(receive.target, header.sequence, header.tag)
                receive.prepare()
                receive.deadline = self._deadline()
                if receive.pieces and peer != self._transport.rank:
                    self._granted[peer, header.sequence] = receive
            self._grant(peer, header, receive)

    def _take_match(self) -> tuple[int, Header, _Receive] | None:
        for receive in self._posted:
            peers = list(self._announced) if receive.source is None else [receive.source]
            for peer in peers:
                for header in self._announced.get(peer, ()):
                    if header.tag == receive.traffic.tag:
                        self._announced[peer].remove(header)
                        self._posted.remove(receive)
                        return peer, header, receive
        return None

    def _grant(self, peer: int, header: Header, receive: _Receive) -> None:
        expected = _announcement(receive.traffic, self._transport.nic.config.mtu)
        if header != expected:
            error = CollectiveMismatch(
                f"this rank expected {expected}; {self._name(peer)} sent {header}"
            )
            receive.work.fail(error)
            self._transport.fail(error)
            raise error
        if peer == self._transport.rank:
            self._copy(header.sequence, receive)
            return
        self._links[peer].notify(Note.CLEAR_TO_SEND, header.sequence)
        if not receive.pieces:
            receive.work.complete(peer)

    def _copy(self, number: int, receive: _Receive) -> None:
        with self._state:
            send = self._sends.pop((self._transport.rank, number))
        put_back(receive.target, flatten(send.tensor))
        send.work.complete()
        receive.work.complete(self._transport.rank)

    def _take(self, link: RecvLink, header: Header) -> None:
        key = (link.peer, header.sequence)
        receive = self._granted.get(key)
        if receive is None:
            raise ProtocolError(
                f"{self._name(link.peer)} sent data that it was not cleared for: {header}"
            )
        piece = receive.pieces[receive.arrived]
        link.receive_body(header, receive.traffic, index=receive.arrived, out=as_bytes(piece))
        receive.arrived += 1
        self._heard[link.peer] = time.monotonic()
        if receive.arrived == len(receive.pieces):
            with self._state:
                del self._granted[key]
            put_back(receive.target, receive.flat)
            receive.work.complete(link.peer)

    def _left(self, peer: int) -> None:
        with self._state:
            self._gone.add(peer)
            waiting = [r for (source, _), r in self._granted.items() if source == peer]
            waiting += [receive for receive in self._posted if receive.source == peer]
        if waiting:
            raise PeerLost(f"{self._name(peer)} left before a send of its was complete")

    def _departed(self, peer: int) -> None:
        with self._state:
            uncleared = [
                number
                for (target, number), send in self._sends.items()
                if target == peer and send.deadline != math.inf
            ]
            # Behind what the peer has sent, the end of its link follows, which a thread reads.
            is_read = peer in self._links
        if uncleared:
            raise PeerLost(f"{self._name(peer)} left before it received a send")
        if not is_read:
            self._left(peer)

    # Sending side

    def _clear_to_send(self, link: SendLink, number: int) -> None:
        send = self._sends.get((link.peer, number))
        if send is None or send.link is not link:
            raise ProtocolError(
                f"{self._name(link.peer)} cleared a send that was never announced: {number}"
            )
        # From here on the link notices when the peer takes nothing.
        send.deadline = math.inf
        # This is the monitor's thread, which must not wait: neither for a copy of the tensor nor
        # for the callbacks of a finished operation.
        link.call(lambda: self._transmit(link, send))

    def _transmit(self, link: SendLink, send: _Send) -> None:
        pieces = _pieces(flatten(send.tensor))
        for index, piece in enumerate(pieces):
            link.post(send.traffic, index=index, data=as_bytes(piece))
        link.call(lambda: self._sent(link.peer, send.traffic.sequence))

    def _sent(self, peer: int, number: int) -> None:
        with self._state:
            send = self._sends.pop((peer, number))
            self._state.notify_all()
        send.work.complete()

    # When something goes wrong

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        with self._state:
            deadlines = [
                (s.deadline, f"a send to {self._name(peer)}")
                for (peer, _), s in self._sends.items()
            ]
            deadlines += [
                (r.deadline, f"a receive from {self._name(r.source)}") for r in self._posted
            ]
            # One receive waits while the data of another arrive.
            deadlines += [
                (
                    max(r.deadline, self._heard.get(peer, 0) + self._transport.timeout_s),
                    f"a receive from {self._name(peer)}",
                )
                for (peer, _), r in self._granted.items()
            ]
        late = [what for deadline, what in deadlines if deadline < now]
        if late:
            self._transport.fail(
                PeerTimeout(f"{late[0]} made no progress in {self._transport.timeout_s:g} s")
            )

    def _stopped(self) -> None:
        error = self._transport.nic.failure.error or GroupClosed("the group has been shut down")
        with self._state:
            unfinished = [send.work for send in self._sends.values()]
            unfinished += [receive.work for receive in (*self._posted, *self._granted.values())]
            self._sends.clear()
            self._posted.clear()
            self._granted.clear()
            self._state.notify_all()
        for work in unfinished:
            work.fail(error)


def _announcement(traffic: Traffic, block_bytes: int) -> Header:
    return Header.describe(
        traffic, index=0, logical_bytes=0, block_bytes=block_bytes, kind=Kind.ANNOUNCE
    )


def _pieces(flat: torch.Tensor) -> list[torch.Tensor]:
    elements = POINT_TO_POINT_SLICE_BYTES // flat.itemsize
    return [flat[low:high] for low, high in cut((0, flat.numel()), elements)]
