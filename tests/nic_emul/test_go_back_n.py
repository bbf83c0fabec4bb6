# SPDX-License-Identifier: Apache-2.0
"""Go-back-N between two endpoints over wires with faults, in one thread and made-up time."""

import math
import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.checksum import crc32c
from nic_emul.errors import ProtocolError, RetryExceeded
from nic_emul.faults import Faults, FaultyWire
from nic_emul.go_back_n import OVERHEAD_BYTES, PSNS, RETRIES, WINDOW, Endpoint
from nic_emul.link_counters import LinkCounters, add_up

NONE = Faults()
FLIGHT_S = 1e-4


class Side:
    """An endpoint, the wire that leads away from it, and what arrived."""

    def __init__(self, faults: Faults, name: str, first_psn: int = 0) -> None:
        self.counters = LinkCounters()
        self.endpoint = Endpoint(self.counters, peer=name, first_psn=first_psn)
        self.wire = FaultyWire(faults, name, self.counters)
        self.got: list[bytes] = []

    def send(self, now: float) -> list[bytes]:
        for packet in self.endpoint.transmit(now):
            self.wire.put(packet, now)
        return self.wire.take(now)

    def collect(self) -> None:
        while (payload := self.endpoint.take()) is not None:
            self.got.append(payload)


class Pair:
    """Two sides and the time, which goes by while packets fly and while nothing happens."""

    def __init__(self, faults: Faults, first_psn: int = 0) -> None:
        self.left = Side(faults, "left", first_psn)
        self.right = Side(faults, "right", first_psn)
        self.now = 0.0

    def turn(self, *, collect: bool = True) -> bool:
        """Let both sides do what they can; whether a packet moved."""
        moved = False
        for source, target in ((self.left, self.right), (self.right, self.left)):
            for packet in source.send(self.now):
                moved = True
                target.endpoint.receive(packet, self.now + FLIGHT_S)
            if collect:
                target.collect()
        self.now += FLIGHT_S
        return moved

    def settle(self) -> None:
        """Run until there is nothing left to do."""
        for _ in range(1_000_000):
            if not self.turn():
                sides = (self.left, self.right)
                due = [side.endpoint.deadline() for side in sides]
                due += [side.wire.deadline() for side in sides]
                if min(due) == math.inf:
                    assert all(side.endpoint.idle() and side.wire.empty() for side in sides)
                    return
                self.now = max(self.now, min(due))
        raise AssertionError("does not come to rest")

    def check_books(self) -> LinkCounters:
        """The counters of both, which must account for every packet."""
        total = add_up([self.left.counters, self.right.counters])
        assert total.arrived == total.transmitted - total.lost + total.duplicated
        assert total.damaged == total.corrupted
        assert total.accepted == total.packets + total.control_packets
        return total


def payloads(side: str, count: int) -> list[bytes]:
    return [f"{side} {number} ".encode() * (1 + number % 5) for number in range(count)]


def exchange(pair: Pair, counts: tuple[int, int]) -> LinkCounters:
    sent = payloads("a", counts[0]), payloads("b", counts[1])
    for side, data in zip((pair.left, pair.right), sent, strict=True):
        for number, payload in enumerate(data):
            side.endpoint.post(payload, 100 if number % 3 else 0)
    pair.settle()
    assert (pair.right.got, pair.left.got) == sent
    return pair.check_books()


def test_without_faults_each_packet_is_sent_once() -> None:
    total = exchange(Pair(NONE), (1000, 10))
    assert (total.packets, total.control_packets) == (672, 338)
    assert total.wire_bytes == 67_200
    assert total.retransmitted_packets == total.timeouts == total.naks == 0
    # Packets that arrive together are acknowledged together.
    assert total.acks <= 1000 // WINDOW + 12


RATE = st.sampled_from([0.0, 0.0, 1e-3, 0.03, 0.2])


@given(
    st.builds(
        Faults,
        loss=RATE,
        corrupt=RATE,
        duplicate=RATE,
        reorder=RATE,
        delay=RATE,
        delay_s=st.sampled_from([1e-4, 2e-3, 0.3]),
        seed=st.integers(0, 2**32),
    ),
    st.integers(0, 400),
    st.integers(0, 400),
    st.sampled_from([0, 5, PSNS - 1, PSNS - 200]),
)
@settings(max_examples=40)
def test_nothing_is_lost_or_twice_or_out_of_order(
    faults: Faults, count: int, back: int, first_psn: int
) -> None:
    exchange(Pair(faults, first_psn), (count, back))


@pytest.mark.parametrize(
    ("faults", "names"),
    [
        (Faults(loss=0.05), ["lost", "retransmitted_packets", "naks", "out_of_order", "timeouts"]),
        (Faults(corrupt=0.05), ["corrupted", "damaged", "retransmitted_packets"]),
        (Faults(duplicate=0.05), ["duplicated", "duplicates"]),
        (Faults(reorder=0.05), ["reordered", "out_of_order", "naks"]),
        (Faults(delay=0.05, delay_s=1e-3), ["delayed", "out_of_order"]),
    ],
)
def test_every_fault_leaves_its_traces(faults: Faults, names: list[str]) -> None:
    total = exchange(Pair(faults), (2000, 2000)).as_dict()
    assert [name for name in names if not total[name]] == []
    others = {"lost", "corrupted", "duplicated", "reordered", "delayed"} - {*names}
    assert [name for name in others if total[name]] == []


def test_same_seed_same_fate() -> None:
    def fates(seed: int, name: str) -> list[list[bytes]]:
        text = f"loss=.1,corrupt=.1,duplicate=.1,reorder=.1,delay=.1:1s,seed={seed}"
        wire = FaultyWire(Faults.parse(text), name, LinkCounters())
        found = []
        for number in range(300):
            wire.put(number.to_bytes(8, "little"), number)
            found.append(wire.take(number))
        return found

    assert fates(1, "one") == fates(1, "one")
    different = [fates(1, "one"), fates(2, "one"), fates(1, "two")]
    assert all(first != second for first, second in pairwise([*different, different[0]]))


def test_receiver_that_is_busy_is_waited_for() -> None:
    """It is not flooded, however long it takes nothing; and not given up."""
    pair = Pair(NONE)
    data = payloads("a", 5 * WINDOW)
    for payload in data:
        pair.left.endpoint.post(payload, 100)
    while pair.now < 60:
        if not pair.turn(collect=False):
            pair.now = max(pair.now, pair.left.endpoint.deadline())
    counters = pair.left.counters
    assert pair.right.counters.accepted == WINDOW
    assert counters.packets == WINDOW + 1
    assert counters.timeouts > RETRIES
    assert counters.retransmitted_packets == counters.timeouts
    pair.settle()
    assert pair.right.got == data
    assert pair.check_books().not_ready == pair.right.counters.not_ready > 0


def test_silence_ends_in_retry_exceeded() -> None:
    side = Side(NONE, "left")
    side.endpoint.post(b"x", 100)
    now = 0.0
    for _ in range(1 + RETRIES):
        assert len(side.endpoint.transmit(now)) == 1
        now = side.endpoint.deadline()
    assert 5 < now < 60
    with pytest.raises(RetryExceeded, match=f"{RETRIES} retries"):
        side.endpoint.transmit(now)


def test_window_is_bounded() -> None:
    side = Side(NONE, "left")
    for payload in payloads("a", 3 * WINDOW):
        side.endpoint.post(payload, 100)
    assert len(side.endpoint.transmit(0.0)) == WINDOW
    assert side.endpoint.transmit(0.0) == []
    assert side.endpoint.backlog() == 2 * WINDOW


def test_gap_is_told_once() -> None:
    left, right = Side(NONE, "left"), Side(NONE, "right")
    for payload in payloads("a", 10):
        left.endpoint.post(payload, 100)
    packets = left.endpoint.transmit(0.0)
    for packet in packets[1:]:
        right.endpoint.receive(packet, 0.0)
    answers = right.endpoint.transmit(0.0)
    assert len(answers) == right.counters.naks == 1
    left.endpoint.receive(answers[0], 0.0)
    assert left.endpoint.transmit(0.0) == packets
    for packet in packets:
        right.endpoint.receive(packet, 0.0)
    (answer,) = right.endpoint.transmit(0.0)
    left.endpoint.receive(answer, 0.0)
    assert left.endpoint.idle()


@given(st.binary(max_size=200))
def test_foreign_packets_are_counted_or_refused(data: bytes) -> None:
    """Whatever arrives, nothing is taken for data; what is too short to be a packet ends it."""
    side = Side(NONE, "left")
    if len(data) < OVERHEAD_BYTES:
        with pytest.raises(ProtocolError):
            side.endpoint.receive(data, 0.0)
        return
    side.endpoint.receive(data, 0.0)
    assert side.counters.damaged == 1
    assert side.endpoint.take() is None


@given(
    st.integers(0, 4),
    st.integers(0, 2**16 - 1),
    st.sampled_from([0, 1, PSNS - 1, PSNS, 2**32 - 1]),
    st.binary(max_size=2),
)
def test_nonsense_with_a_good_checksum_is_refused(
    kind: int, room: int, psn: int, payload: bytes
) -> None:
    head = struct.pack("<BxHI", kind, room, psn) + payload
    packet = head + struct.pack("<I", crc32c(np.frombuffer(head, np.uint8)))
    side = Side(NONE, "left")
    try:
        side.endpoint.receive(packet, 0.0)
    except ProtocolError:
        assert side.endpoint.take() is None
    else:
        assert kind in (1, 2, 3)
        assert psn < PSNS
        assert bool(payload) == (kind == 1)
        assert side.counters.arrived == 1
        assert side.endpoint.take() == (payload if (kind, psn) == (1, 0) else None)
