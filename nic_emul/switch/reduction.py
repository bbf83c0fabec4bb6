# SPDX-License-Identifier: Apache-2.0
"""The sums of one group: slices come up from every rank, and their sum goes down, coded once.

Every rank sends the slices of an operation up its link, in the same order. The switch takes one
slice from each rank, decodes and adds them in port order (ranks of one port in that of the job), in
FP32 (`arithmetic.py`), rounds once, codes once, and sends:

| operation      | slice i goes to                                                                 |
|----------------|---------------------------------------------------------------------------------|
| all-reduce     | every rank                                                                      |
| reduce-scatter | rank i mod n of the group's n, to which it is slice i div n                     |

Of every group the switch holds one sum and at most a few coded slices per rank: it reads no further
slice while a rank has not taken those. Ranks that disagree about the operation, a rank that dies,
hangs or sends damaged bytes end the group; all its ranks are told why.
"""

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from codec.errors import WirezipError
from nic_emul.errors import (
    CollectiveMismatch,
    JobFailed,
    PeerFailed,
    PeerLost,
    PeerTimeout,
    ProtocolError,
    TransportError,
)
from nic_emul.hello import Channel
from nic_emul.links import NOTE, NOTE_TEXT_BYTES_MAX, Note, RecvLink, SendLink
from nic_emul.message import (
    Header,
    Kind,
    Received,
    Traffic,
    body_crc,
    pack_table,
    same_message,
)
from nic_emul.nic import Nic
from nic_emul.ring import as_bytes
from nic_emul.roles import Collective
from nic_emul.schedule import SUM_SLICE_BYTES
from nic_emul.sockets import Connection, close_abruptly, receive_into
from nic_emul.switch.arithmetic import SUMMED_TYPES, SUMS, Accumulator
from nic_emul.switch.port import Port
from nic_emul.switch.request import STATION
from nic_emul.switch.traffic import traffic_of

U8 = NDArray[np.uint8]

# More than a rank lets wait (`in_network.py`): for one that is in order nobody ever waits.
_WAITING_MAX = 8
_LAST_WORDS_S = 2.0
_SUMMED = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)


@dataclass(frozen=True)
class Ends:
    """The two connections of one rank of a group, as they were accepted.

    Attributes:
        rank: in the job.
        position: in the group.
        port: that of its node.
        up, down: slices come from one, sums go to the other.
    """

    rank: int
    position: int
    port: Port
    up: socket.socket
    down: socket.socket

    @property
    def name(self) -> str:
        """What to call the rank in messages."""
        return f"rank {self.rank}"


class _Member:
    """One rank of the group, and the sums that it has been sent and may not have taken yet."""

    def __init__(self, ends: Ends, *, group: str, timeout_s: float) -> None:
        self.ends = ends
        self.refused: BaseException | None = None
        nic, channel = ends.port.nic, Channel.COLLECTIVE.name.lower()
        self.up = RecvLink(
            nic,
            Connection(ends.up, peer=ends.name, timeout_s=timeout_s),
            peer=ends.rank,
            tap=nic.tap(group=group, channel=channel, source=ends.rank, target=STATION),
        )
        self.down = SendLink(
            nic,
            Connection(ends.down, peer=ends.name, timeout_s=timeout_s),
            peer=ends.rank,
            fail=self._refuse,
            tap=nic.tap(group=group, channel=channel, source=STATION, target=ends.rank),
        )
        self._waiting: deque[int] = deque()

    def send(self, traffic: Traffic, index: int, data: U8, coded: Received) -> None:
        """Send a sum, once there is room."""
        if len(self._waiting) == _WAITING_MAX:
            self.down.wait(self._waiting.popleft())
        self._waiting.append(self.down.post(traffic, index=index, data=data, received=coded))

    def _refuse(self, error: BaseException) -> None:
        """Note that a sum could not be sent, and wake whoever waits for the next slice."""
        self.refused = error
        with contextlib.suppress(OSError):
            # Not the other direction, in which the rank is told.
            self.ends.up.shutdown(socket.SHUT_RD)


class _Departure(PeerLost):
    """A rank has left the group in peace."""


class Reduction:
    """The sums of one group of ranks."""

    def __init__(self, nic: Nic, ends: Sequence[Ends], *, group: str, timeout_s: float) -> None:
        """`ends` are those of all ranks, which wait for each other for at most `timeout_s`.

        `nic` codes the sums; `group` names the group in captures.
        """
        self._nic = nic
        self._accumulator = Accumulator()
        self._staging = np.empty(SUM_SLICE_BYTES, np.uint8)
        self._by_port = [
            _Member(one, group=group, timeout_s=timeout_s)
            for one in sorted(ends, key=lambda one: (one.port.number, one.rank))
        ]
        self._by_position = sorted(self._by_port, key=lambda member: member.ends.position)
        self._left: list[_Member] = []

    def run(self) -> None:
        """Sum whatever comes until all ranks have left or one fails, tell the others, and close."""
        reason = ""
        try:
            while self._slice_comes():
                self._sum()
        except PeerFailed as error:
            reason = error.reason
        except WirezipError as error:
            reason = f"the switch: {type(error).__name__}: {error}"
        self._close(reason)

    def shut(self) -> None:
        """Have `run` come to its end."""
        for member in self._by_port:
            close_abruptly(member.ends.up)
            close_abruptly(member.ends.down)

    def _slice_comes(self) -> bool:
        """Whether there is a slice to sum, once there is, however long that takes; or all left.

        Raises:
            TransportError: a rank died, failed, takes no sums, or left while others want one.
        """
        while staying := [member for member in self._by_port if member not in self._left]:
            poll = select.poll()
            for member in staying:
                poll.register(member.ends.up, select.POLLIN)
            poll.poll()
            gone = [member for member in staying if _has_ended(member.ends.up)]
            for member in gone:
                farewell = self._farewell(member)
                if not isinstance(farewell, _Departure):
                    raise farewell
            self._left += gone
            if any(_is_readable(m.ends.up) for m in staying if m not in gone):
                if self._left:
                    raise _Departure(f"{self._left[0].ends.name} has left the group")
                return True
        return False

    def _sum(self) -> None:
        """Take a slice from each rank, and send their sum."""
        first = self._by_port[0]
        with self._hearing(first):
            header = first.up.receive_header()
            traffic = _check(header)
        for member in self._by_port:
            slice_ = self._take(member, header, traffic)
            if member is first:
                self._accumulator.begin(slice_)
            else:
                self._accumulator.add(slice_)
        data = as_bytes(self._accumulator.result())
        packets = self._nic.encode(traffic, data)
        coded = Received(packets, body_crc(pack_table(packets), packets.payload))
        targets, index = self._by_port, header.index
        if traffic.collective is Collective.REDUCE_SCATTER:
            index, position = divmod(header.index, len(self._by_position))
            targets = [self._by_position[position]]
        for member in targets:
            with self._hearing(member):
                member.send(traffic, index, data, coded)

    def _take(self, member: _Member, header: Header, traffic: Traffic) -> torch.Tensor:
        """The slice of `member`, which must be the one that `header` announces."""
        first = self._by_port[0]
        with self._hearing(member):
            found = header if member is first else member.up.receive_header()
            if not same_message(found, header):
                raise CollectiveMismatch(
                    f"{first.ends.name} sent {header}; {member.ends.name} sent {found}"
                )
            out = self._staging[: header.logical_bytes]
            member.up.receive_body(found, traffic, index=header.index, out=out)
        return torch.from_numpy(out).view(traffic.dtype.torch_dtype)

    @contextlib.contextmanager
    def _hearing(self, member: _Member) -> Iterator[None]:
        """Find out why `member` is gone, if it is."""
        try:
            yield
        except (PeerLost, JobFailed):
            raise self._farewell(member) from None
        except ProtocolError as error:
            raise type(error)(f"from {member.ends.name}: {error}") from error

    def _farewell(self, member: _Member) -> TransportError:
        """Why `member` is gone: it says so before it leaves, unless it was killed."""
        if isinstance(member.refused, PeerTimeout):
            return member.refused
        found = _last_words(member.ends.down)
        name = member.ends.name
        if found is None:
            return PeerLost(f"{name} died or was killed")
        note, text = found
        if note is Note.ABORT:
            return PeerFailed(name, text)
        return _Departure(f"{name} has left the group")

    def _close(self, reason: str) -> None:
        """Tell the ranks that remain the `reason`, if there is one, and release all links."""
        deadline = time.monotonic() + _LAST_WORDS_S
        if reason:
            for member in self._by_port:
                with contextlib.suppress(PeerLost, PeerTimeout):
                    member.up.notify(Note.ABORT, text=reason)
            # Who waits for a sum is to hear the reason before it sees the link end.
            self._await_ends(deadline)
        for member in self._by_port:
            member.down.close(deadline)
            close_abruptly(member.ends.up)
            member.up.close()

    def _await_ends(self, deadline: float) -> None:
        for member in self._by_port:
            while not _has_ended(member.ends.up) and time.monotonic() < deadline:
                # What is still coming up would hide the end behind it.
                with contextlib.suppress(OSError):
                    member.ends.up.recv(SUM_SLICE_BYTES, socket.MSG_DONTWAIT)
                _is_readable(member.ends.up, deadline - time.monotonic())


def _check(header: Header) -> Traffic:
    """The traffic of the slice that `header` announces.

    Raises:
        ProtocolError: it is none that the switch adds.
    """
    traffic = traffic_of(header)
    size, itemsize = header.logical_bytes, traffic.dtype.torch_dtype.itemsize
    if (
        header.kind != Kind.DATA
        or traffic.collective not in _SUMMED
        or traffic.operation not in SUMS
        or traffic.dtype.torch_dtype not in SUMMED_TYPES
        or not 1 <= size <= SUM_SLICE_BYTES
        or size % itemsize
    ):
        raise ProtocolError(
            f"{header}: expected a slice of 1 to {SUM_SLICE_BYTES} bytes of a floating-point sum"
        )
    return traffic


def _is_readable(sock: socket.socket, timeout_s: float = 0.0) -> bool:
    """Whether something comes, or the end does, within `timeout_s`."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(max(timeout_s, 0.0) * 1000))


def _has_ended(sock: socket.socket) -> bool:
    """Whether the other end has closed, and everything before that was read."""
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _last_words(sock: socket.socket) -> tuple[Note, str] | None:
    """The note that a rank left on its way out, None if there is none."""
    if not _is_readable(sock, _LAST_WORDS_S):
        return None
    head = bytearray(NOTE.size)
    try:
        receive_into(sock, memoryview(head), "a rank")
        kind, length, _ = NOTE.unpack(head)
        text = bytearray(min(length, NOTE_TEXT_BYTES_MAX))
        receive_into(sock, memoryview(text), "a rank")
    except (PeerLost, PeerTimeout):
        return None
    if kind not in (Note.GOODBYE, Note.ABORT):
        return None
    return Note(kind), text.decode(errors="replace")
