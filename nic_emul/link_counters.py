# SPDX-License-Identifier: Apache-2.0
"""What happened to the packets of links with faults, counted where it happened.

Every packet that is put on the wire is accounted for. Summed over both ends of links that were
closed in order:

    transmitted - lost + duplicated = arrived
    transmitted = packets + control_packets + retransmitted_packets + acks + naks
    arrived = accepted + duplicates + out_of_order + not_ready + damaged + acks_seen + naks_seen
    accepted = packets + control_packets        nothing is missing, nothing came twice
    damaged = corrupted                         every bit that flipped was noticed
    packets, wire_bytes                         are those of `Counters`
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields


@dataclass(kw_only=True)
class LinkCounters:
    """Totals of one end of a link, or a sum of several.

    Attributes:
        packets, wire_bytes: packets of messages, sent for the first time, and their bytes on the
            wire as `packets.py` has them. Nothing else here is part of any other figure.
        control_packets: announcements and notes, each in a packet of its own.
        retransmitted_packets, retransmitted_wire_bytes: all packets sent again; the bytes are those
            of packets of messages.
        acks, naks: acknowledgements sent, positive and negative.
        timeouts: times that nothing was acknowledged in time.
        lost, corrupted, duplicated, reordered, delayed: what the wire did to packets of any kind
            that this end sent; corrupted counts both copies of a packet that is also duplicated.
        accepted: packets received in their turn.
        duplicates, out_of_order: packets discarded since they came again, or too early.
        not_ready: packets discarded since what came before waits to be received.
        damaged: packets discarded for their checksum.
        acks_seen, naks_seen: acknowledgements received.
    """

    packets: int = 0
    wire_bytes: int = 0
    control_packets: int = 0
    retransmitted_packets: int = 0
    retransmitted_wire_bytes: int = 0
    acks: int = 0
    naks: int = 0
    timeouts: int = 0
    lost: int = 0
    corrupted: int = 0
    duplicated: int = 0
    reordered: int = 0
    delayed: int = 0
    accepted: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    not_ready: int = 0
    damaged: int = 0
    acks_seen: int = 0
    naks_seen: int = 0

    @property
    def transmitted(self) -> int:
        """Packets of all kinds that were put on the wire."""
        own = self.packets + self.control_packets + self.retransmitted_packets
        return own + self.acks + self.naks

    @property
    def arrived(self) -> int:
        """Packets of all kinds that came off the wire."""
        discarded = self.duplicates + self.out_of_order + self.not_ready + self.damaged
        return self.accepted + discarded + self.acks_seen + self.naks_seen

    def as_dict(self) -> dict[str, int]:
        """The totals as JSON types."""
        return asdict(self)


NAMES = tuple(field.name for field in fields(LinkCounters))


def add_up(rows: Iterable[LinkCounters]) -> LinkCounters:
    """The sum of `rows`."""
    total = LinkCounters()
    for row in rows:
        for name in NAMES:
            setattr(total, name, getattr(total, name) + getattr(row, name))
    return total


class LinkRegister:
    """The counters of all links of one NIC; each is written by its link's thread alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: list[LinkCounters] = []

    def open(self) -> LinkCounters:
        """The counters of a new link."""
        counters = LinkCounters()
        with self._lock:
            self._links.append(counters)
        return counters

    def total(self) -> LinkCounters:
        """The sum over all links so far."""
        with self._lock:
            return add_up(self._links)
