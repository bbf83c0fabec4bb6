# SPDX-License-Identifier: Apache-2.0
"""One end of a reliable connection over a wire with faults: go-back-N, as RoCE's RC transport.

Both directions are numbered on their own. On the emulated wire a packet is

| part     | bytes | meaning                                                           |
|----------|-------|-------------------------------------------------------------------|
| kind     | 1     | data, ACK or NAK                                                  |
| zero     | 1     |                                                                   |
| credits  | 2     | ACK, NAK: packets that the receiver has room for; data: 0         |
| PSN      | 4     | 24 bits; data: its number; ACK, NAK: the number expected next     |
| payload  | any   | data: what the link sends; ACK, NAK: none                         |
| checksum | 4     | CRC-32C over all that, in place of the ICRC                       |

little-endian. The rules are those of the InfiniBand Architecture, 9.7: the responder takes packets
in order alone, acknowledges several at once, answers a gap with one NAK (sequence error), and a
duplicate with an ACK; the requester goes back to the oldest packet that is not acknowledged upon a
NAK, and when a timer expires, and gives up after a number of timers without an answer. Credits
stand for those of the AETH: a receiver that has no room is neither flooded nor given up.

No thread, socket or clock is in here: time comes with each call, in seconds.
"""

import math
import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from codec.checksum import crc32c
from nic_emul.errors import ProtocolError, RetryExceeded
from nic_emul.link_counters import LinkCounters

PSNS = 1 << 24
WINDOW = 64
# The timer doubles each time: 8 retries take about ten seconds, in which a process that shares a
# machine with many others comes to its turn.
TIMER_S = 0.04
TIMER_MAX_S = 5.12
RETRIES = 8
_HEAD = struct.Struct("<BxHI")
_CRC = struct.Struct("<I")
OVERHEAD_BYTES = _HEAD.size + _CRC.size


class Kind(IntEnum):
    """What a packet is."""

    DATA = 1
    ACK = 2
    NAK = 3


@dataclass(frozen=True)
class _Sent:
    """A packet that is not acknowledged yet."""

    packet: bytes
    wire_bytes: int


class Endpoint:
    """The state of one end, and what it does next."""

    def __init__(self, counters: LinkCounters, *, peer: str, first_psn: int = 0) -> None:
        """`peer` is what messages call the other end, which has the same `first_psn`."""
        self._counters = counters
        self._peer = peer
        # Sending. `_again` is how many of `_unacknowledged` have been sent since going back.
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._unacknowledged: deque[_Sent] = deque()
        self._next_psn = first_psn
        self._again = 0
        self._credits = WINDOW
        self._timer = math.inf
        self._timer_s = TIMER_S
        self._silent_timers = 0
        # Receiving.
        self._expected = first_psn
        self._arrived: deque[bytes] = deque()
        self._answer: Kind | None = None
        self._told_gap = False
        self._told_full = False

    def post(self, payload: bytes, wire_bytes: int) -> None:
        """Send `payload` in a packet of its own, of `wire_bytes` if it is one of a message."""
        self._waiting.append((payload, wire_bytes))

    def backlog(self) -> int:
        """Packets posted and never sent."""
        return len(self._waiting)

    def idle(self) -> bool:
        """Whether everything posted was acknowledged, and nothing is to be answered."""
        return not (self._waiting or self._unacknowledged or self._answer)

    def deadline(self) -> float:
        """When to call `transmit` again if nothing arrives before; infinity for never."""
        return self._timer

    def take(self) -> bytes | None:
        """The next payload in order; None if it has not arrived."""
        if not self._arrived:
            return None
        payload = self._arrived.popleft()
        if self._told_full and len(self._arrived) <= WINDOW // 2:
            self._answer = self._answer or Kind.ACK
        return payload

    def receive(self, packet: bytes | memoryview, now: float) -> None:
        """A packet came off the wire.

        Raises:
            ProtocolError: no such packet is ever sent.
        """
        size = len(packet) - _CRC.size
        if size < _HEAD.size:
            raise ProtocolError(
                f"{self._peer}: packet: expected at least {OVERHEAD_BYTES} bytes; "
                f"found {len(packet)}"
            )
        if _CRC.unpack_from(packet, size)[0] != crc32c(np.frombuffer(packet, np.uint8, size)):
            self._counters.damaged += 1
            return
        kind, credits, psn = _HEAD.unpack_from(packet)
        self._silent_timers = 0
        if kind == Kind.DATA and psn < PSNS and size > _HEAD.size:
            self._take_data(psn, bytes(packet[_HEAD.size : size]))
        elif kind in (Kind.ACK, Kind.NAK) and psn < PSNS and size == _HEAD.size:
            self._take_answer(Kind(kind), psn, credits, now)
        else:
            raise ProtocolError(
                f"{self._peer}: packet: expected kind 1 to 3 and a PSN below {PSNS}; "
                f"found kind {kind}, PSN {psn}, {size - _HEAD.size} bytes"
            )

    def transmit(self, now: float) -> list[bytes]:
        """The packets to put on the wire at `now`: answers, packets again, new packets.

        Raises:
            RetryExceeded: the peer has answered nothing for too many timers.
        """
        if now >= self._timer:
            self._expire(now)
        packets = self._answers()
        # One packet may always be under way, to learn of room that opened.
        room = max(self._credits, 1)
        while self._again < min(len(self._unacknowledged), room):
            packets.append(self._send_again())
        while self._waiting and self._again == len(self._unacknowledged) < room:
            packets.append(self._send_next())
        if self._unacknowledged and self._timer == math.inf:
            self._timer = now + self._timer_s
        return packets

    def _send_again(self) -> bytes:
        sent = self._unacknowledged[self._again]
        self._again += 1
        self._counters.retransmitted_packets += 1
        self._counters.retransmitted_wire_bytes += sent.wire_bytes
        return sent.packet

    def _send_next(self) -> bytes:
        payload, wire_bytes = self._waiting.popleft()
        packet = _pack(Kind.DATA, 0, self._next_psn, payload)
        self._unacknowledged.append(_Sent(packet, wire_bytes))
        self._again = len(self._unacknowledged)
        self._next_psn = (self._next_psn + 1) % PSNS
        if wire_bytes:
            self._counters.packets += 1
            self._counters.wire_bytes += wire_bytes
        else:
            self._counters.control_packets += 1
        return packet

    def _expire(self, now: float) -> None:
        self._counters.timeouts += 1
        self._silent_timers += 1
        if self._silent_timers > RETRIES:
            raise RetryExceeded(f"{self._peer} answered nothing to {RETRIES} retries of a packet")
        self._again = 0
        self._timer_s = min(2 * self._timer_s, TIMER_MAX_S)
        self._timer = now + self._timer_s

    def _answers(self) -> list[bytes]:
        kind, self._answer = self._answer, None
        if kind is None:
            return []
        if kind is Kind.ACK:
            self._counters.acks += 1
        else:
            self._counters.naks += 1
        room = WINDOW - len(self._arrived)
        self._told_full = room == 0
        return [_pack(kind, room, self._expected, b"")]

    def _take_data(self, psn: int, payload: bytes) -> None:
        ahead = (psn - self._expected) % PSNS
        if ahead >= PSNS // 2:
            self._counters.duplicates += 1
        elif ahead:
            self._counters.out_of_order += 1
            if not self._told_gap:
                self._answer = Kind.NAK
                self._told_gap = True
            return
        elif len(self._arrived) >= WINDOW:
            self._counters.not_ready += 1
        else:
            self._counters.accepted += 1
            self._arrived.append(payload)
            self._expected = (psn + 1) % PSNS
            self._told_gap = False
            self._answer = Kind.ACK
            return
        self._answer = self._answer or Kind.ACK

    def _take_answer(self, kind: Kind, psn: int, credits: int, now: float) -> None:
        if kind is Kind.ACK:
            self._counters.acks_seen += 1
        else:
            self._counters.naks_seen += 1
        oldest = (self._next_psn - len(self._unacknowledged)) % PSNS
        acknowledged = (psn - oldest) % PSNS
        if acknowledged >= PSNS // 2:
            return
        if acknowledged > len(self._unacknowledged):
            raise ProtocolError(
                f"{self._peer}: acknowledgement: expected PSN {oldest} to {self._next_psn}; "
                f"found {psn}"
            )
        for _ in range(acknowledged):
            self._unacknowledged.popleft()
        self._again = max(self._again - acknowledged, 0)
        opened = self._credits == 0 and credits > 0
        self._credits = min(credits, WINDOW)
        if kind is Kind.NAK or opened:
            self._again = 0
        if acknowledged or opened:
            self._timer_s = TIMER_S
            self._timer = now + TIMER_S
        if not self._unacknowledged:
            self._timer = math.inf


def _pack(kind: Kind, credits: int, psn: int, payload: bytes) -> bytes:
    head = _HEAD.pack(kind, credits, psn) + payload
    return head + _CRC.pack(crc32c(np.frombuffer(head, np.uint8)))
