# SPDX-License-Identifier: Apache-2.0
"""The replay of recorded steps, against cases worked out by hand."""

import math
from pathlib import Path

import pytest

from nic_emul.errors import ReplayError
from nic_emul.replay import (
    Flush,
    Operation,
    Post,
    RankStep,
    Receive,
    Wire,
    frame_bytes_sent,
    measure_path,
    rank_step,
    replay,
)
from nic_emul.replay import Path as WirePath
from nic_emul.trace import Event, Link, Trace, read_trace

# A thousand bytes of a stream are a frame of 1,066.
SIZE, FRAME = 1000, 1066
SLOW = Wire(FRAME, 0)
AT_ONCE = WirePath(0.0, 0.0)


def link(source: int, target: int) -> Link:
    return Link("0", source, target)


def ends(*ranks: list[Operation], wire: Wire = SLOW, path: WirePath = AT_ONCE) -> list[float]:
    """When ranks on nodes of their own end, with a rest of 0.5 s each."""
    steps = [RankStep(tuple(operations), 0.5) for operations in ranks]
    return replay(steps, wire=wire, path=path, node_of=lambda rank: rank)


def test_frames_of_a_stream() -> None:
    wire = Wire(1.0, 0, mtu=1500)
    assert [wire.frame_bytes(n) for n in (1, 1448, 1449, 2896)] == [67, 1514, 1581, 3028]
    assert Wire(1.0, 0, mtu=9000).frame_bytes(8948) == 9014
    step = RankStep((Post(0, link(0, 1), SIZE, 0), Flush(0, link(0, 1), 0)), 0)
    assert frame_bytes_sent(step, wire) == FRAME


def test_one_message() -> None:
    # Posted at 1, coded at 1.25, gone at 2.25, there at 2.5; decoded at 2.625.
    found = ends(
        [Post(1, link(0, 1), SIZE, 0.25), Flush(0, link(0, 1), 0)],
        [Receive(0.5, link(0, 1), 0.125)],
        path=WirePath(0.25, 0.0),
    )
    assert found == pytest.approx([2.25 + 0.5, 2.625 + 0.5])


def test_who_comes_late_does_not_wait() -> None:
    found = ends([Post(0, link(0, 1), SIZE, 0)], [Receive(7, link(0, 1), 0.125)])
    assert found == pytest.approx([0.5, 7.625])


def test_copying_counts_where_it_is_slower_than_the_wire() -> None:
    found = ends(
        [Post(0, link(0, 1), SIZE, 0)], [Receive(0, link(0, 1), 0)], path=WirePath(0, 0.004)
    )
    assert found[1] == pytest.approx(4 + 0.5)


def test_messages_of_a_link_are_coded_and_sent_in_order() -> None:
    # Coding the second, until 4, overlaps with the first on the wire, from 2 to 3.
    found = ends(
        [Post(0, link(0, 1), SIZE, 2), Post(0, link(0, 1), SIZE, 2)],
        [Receive(0, link(0, 1), 0), Receive(0, link(0, 1), 0)],
    )
    assert found[1] == pytest.approx(5 + 0.5)


def test_a_bucket_lets_its_depth_through_and_fills_again() -> None:
    deep = Wire(FRAME, 1.5 * FRAME)
    # The first passes at once; the second has half its tokens. At 4.5 the bucket is full again.
    posts = [Post(gap, link(0, 1), SIZE, 0) for gap in (0, 0, 4.5)]
    receives = [Receive(0, link(0, 1), 0) for _ in posts]
    assert ends(posts[:1], receives[:1], wire=deep)[1] == pytest.approx(0.5)
    assert ends(posts[:2], receives[:2], wire=deep)[1] == pytest.approx(1.0)
    assert ends(posts, receives, wire=deep)[1] == pytest.approx(5.0)


def test_two_senders_share_the_port_of_their_receiver() -> None:
    found = ends(
        [Post(0, link(0, 2), SIZE, 0)],
        [Post(0, link(1, 2), SIZE, 0)],
        [Receive(0, link(0, 2), 0), Receive(0, link(1, 2), 0)],
    )
    assert found[2] == pytest.approx(2.5)


def test_two_receivers_share_the_port_of_their_sender() -> None:
    found = ends(
        [Post(0, link(0, 1), SIZE, 0), Post(0, link(0, 2), SIZE, 0)],
        [Receive(0, link(0, 1), 0)],
        [Receive(0, link(0, 2), 0)],
    )
    assert found[1:] == pytest.approx([1.5, 2.5])


def test_a_ring_takes_its_hops_one_after_the_other() -> None:
    size, hops = 4, 6

    def rank(me: int) -> list[Operation]:
        operations: list[Operation] = [Post(0.25, link(me, (me + 1) % size), SIZE, 0.125)]
        for hop in range(hops):
            operations.append(Receive(0, link((me - 1) % size, me), 0.0625))
            if hop < hops - 1:
                operations.append(Post(0.25, link(me, (me + 1) % size), SIZE, 0.125))
        return operations

    found = ends(*(rank(me) for me in range(size)))
    assert found == pytest.approx([hops * (0.25 + 0.125 + 1 + 0.0625) + 0.5] * size)


def test_one_late_rank_delays_all() -> None:
    def rank(me: int, late: float) -> list[Operation]:
        there, here = link(me, 1 - me), link(1 - me, me)
        first = [Post(late, there, SIZE, 0), Receive(0, here, 0)]
        return [*first, Post(0, there, SIZE, 0), Receive(0, here, 0)]

    assert ends(rank(0, 0), rank(1, 3)) == pytest.approx([5.5, 5.5])


def test_ranks_of_a_node_do_without_the_wire() -> None:
    steps = [
        RankStep((Post(0, link(0, 1), SIZE, 0),), 0),
        RankStep((Receive(0, link(0, 1), 0),), 0),
    ]
    for node_of, expected in ((lambda rank: 0, 0.25), (lambda rank: rank, 1.25)):
        found = replay(steps, wire=SLOW, path=WirePath(0.25, 0), node_of=node_of)
        assert found[1] == pytest.approx(expected)


def test_no_limit() -> None:
    free = Wire(math.inf, math.inf)
    found = ends(
        [Post(0, link(0, 1), SIZE, 0)], [Receive(0, link(0, 1), 0)], wire=free,
        path=WirePath(0.25, 0.001),
    )  # fmt: skip
    assert found[1] == pytest.approx(0.25 + 1 + 0.5)


def test_what_nobody_sends_is_an_error() -> None:
    with pytest.raises(ReplayError, match="rank 1: expected a message"):
        ends([], [Receive(0, link(0, 1), 0)])


def test_a_step_is_read_from_a_trace(tmp_path: Path) -> None:
    there, back = link(0, 1), link(1, 0)
    trace = Trace()
    trace.events += [
        Event("posted", 0.5, link=there),
        Event("begin", 1.0),
        Event("posted", 1.25, link=there),
        Event("posted", 1.375, link=there),
        # Begun late, for the thread had to wake up; the second only when the first was out.
        Event("sent", 1.75, 1.375, 1.5, there, 800),
        Event("sent", 2.5, 1.875, 2.25, there, 900),
        Event("received", 3.0, 1.5, 2.75, back),
        Event("waited", 3.5, 3.25, link=there),
        Event("end", 4.0),
        Event("posted", 4.5, link=there),
    ]
    trace.write(tmp_path / "trace")
    events = read_trace(tmp_path / "trace")
    assert events == trace.events
    assert rank_step(events, 1.0, 4.0) == RankStep(
        (
            Post(0.25, there, 800, 0.25),
            Post(0.125, there, 900, 0.5),
            Receive(0.125, back, 0.25),
            Flush(0.25, there, 0.25),
        ),
        0.5,
    )
    with pytest.raises(ReplayError, match="was not sent"):
        rank_step(events, 0.0, 1.0)


def test_the_path_is_measured_where_the_receiver_waited() -> None:
    there = link(0, 1)
    sent, received = [], []
    for number, size in enumerate((1000, 2000, 4000)):
        at = 10.0 * number
        sent.append(Event("sent", at + 1, at, at + 0.5, there, size))
        received.append(Event("received", at + 9, at, at + 0.5 + 0.25 + size * 0.001, there))
    # Who asks for it late finds it there: that says nothing about the path.
    sent.append(Event("sent", 41, 40, 40.5, there, 3000))
    received.append(Event("received", 60, 50, 50.1, there))
    path = measure_path([sent, received])
    assert path.latency_s == pytest.approx(0.25)
    assert path.copy_s_per_byte == pytest.approx(0.001)
    with pytest.raises(ReplayError, match="different sizes"):
        measure_path([sent[:1], received[:1]])
    with pytest.raises(ReplayError, match="none that was sent"):
        measure_path([[], received])
