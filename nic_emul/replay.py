# SPDX-License-Identifier: Apache-2.0
"""How long would a step take on slower links? A recorded step is replayed with their rate.

What ranks computed, coded and decoded takes as long as it was recorded; what they waited for is
worked out again, as a max-plus recurrence:

    ready    = max(posted, thread of the link free) + coding
    leaves   = port of the sender's node, first in first out: a token bucket of rate and depth
    arrives  = max(leaves, ready + bytes * copying, port of the receiver's node) + latency
    received = max(asked for, arrives) + decoding

Nothing is fitted to the links that are replayed: copying and latency are measured on a link without
a limit (`measure_path`), rate and depth are what the kernel was told.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from nic_emul.errors import ReplayError
from nic_emul.trace import Event, Link

# On a testbed a message is a part of a TCP stream: Ethernet, IPv4, and TCP with time stamps.
ETHERNET_BYTES = 14
IP_TCP_BYTES = 20 + 32


@dataclass(frozen=True)
class Post:
    """Queue a message of `size` bytes, as it goes into the socket; the link's thread takes
    `coding_s` to begin with it, once it is free, and to code it."""

    gap_s: float
    link: Link
    size: int
    coding_s: float


@dataclass(frozen=True)
class Receive:
    """Receive the next message of a link; what follows its last byte takes `after_s`."""

    gap_s: float
    link: Link
    after_s: float


@dataclass(frozen=True)
class Flush:
    """Wait until all that was queued on a link is sent; to notice takes `after_s`."""

    gap_s: float
    link: Link
    after_s: float


Operation = Post | Receive | Flush


@dataclass(frozen=True)
class RankStep:
    """What a rank does in a step: operations, each `gap_s` after the one before, and a rest.

    Attributes:
        tail_s: from the last operation to the end of the step.
    """

    operations: tuple[Operation, ...]
    tail_s: float


@dataclass(frozen=True)
class Path:
    """What a message costs where no link is limited: seconds, and seconds a byte."""

    latency_s: float
    copy_s_per_byte: float


@dataclass(frozen=True)
class Wire:
    """What the nodes are connected by.

    Attributes:
        bytes_per_s: rate of each direction of each node's cable, in bytes of Ethernet frames;
            infinite if it is not limited.
        burst_bytes: what passes at once after a pause.
        mtu: of the cable.
    """

    bytes_per_s: float
    burst_bytes: float
    mtu: int = 1500

    def frame_bytes(self, size: int) -> int:
        """Bytes of the Ethernet frames that carry `size` bytes of a TCP stream."""
        segment = self.mtu - IP_TCP_BYTES
        return size + -(-size // segment) * (ETHERNET_BYTES + IP_TCP_BYTES)


def frame_bytes_sent(step: RankStep, wire: Wire) -> int:
    """Bytes of Ethernet frames that a rank sends in a step."""
    return sum(wire.frame_bytes(op.size) for op in step.operations if isinstance(op, Post))


def replay(
    steps: Sequence[RankStep], *, wire: Wire, path: Path, node_of: Callable[[int], int]
) -> list[float]:
    """When each rank ends the step that all begin at zero, in seconds; `steps` by rank.

    Messages within a node cost the path alone.

    Raises:
        ReplayError: a rank receives what nobody sends.
    """
    run = _Run(steps, wire, path, node_of)
    while run.advance():
        pass
    return run.finish()


def measure_path(traces: Sequence[Sequence[Event]]) -> Path:
    """Latency and copying, from messages whose receiver was waiting while they were sent.

    Args:
        traces: of all ranks, of steps on links that are not limited.

    Raises:
        ReplayError: there are too few such messages.
    """
    sent: dict[Link, deque[Event]] = {}
    for event in (e for trace in traces for e in trace if e.kind == "sent" and e.link is not None):
        sent.setdefault(event.link, deque()).append(event)  # type: ignore[arg-type]
    sizes, seconds = [], []
    for event in (e for trace in traces for e in trace if e.kind == "received"):
        queued = sent.get(event.link) if event.link is not None else None
        if not queued:
            raise ReplayError(f"expected a message on {event.link}; found none that was sent")
        message = queued.popleft()
        if event.start < message.middle < event.middle:
            sizes.append(message.size)
            seconds.append(event.middle - message.middle)
    if len(set(sizes)) < 2:
        raise ReplayError("expected messages of different sizes to measure; found none")
    slope, _ = np.polyfit(sizes, seconds, 1)
    slope = max(float(slope), 0.0)
    return Path(max(fmean(seconds) - slope * fmean(sizes), 0.0), slope)


def rank_step(events: Sequence[Event], begin: float, end: float) -> RankStep:
    """What a rank did from `begin` to `end`, of its `events`.

    Raises:
        ReplayError: a message that was queued then was not sent then.
    """
    within = [e for e in events if begin <= e.end <= end]
    sent: dict[Link, deque[Event]] = {}
    for event in within:
        if event.kind == "sent" and event.link is not None:
            sent.setdefault(event.link, deque()).append(event)
    operations: list[Operation] = []
    free: dict[Link, float] = {}
    now = begin
    calls = [e for e in within if e.kind in ("posted", "received", "waited")]
    for event in sorted(calls, key=lambda e: e.end):
        assert event.link is not None  # what is marked has none, and is left out
        if event.kind == "posted":
            if not sent.get(event.link):
                raise ReplayError(f"expected the message queued on {event.link}; it was not sent")
            message = sent[event.link].popleft()
            coding = message.middle - max(event.end, free.get(event.link, begin))
            free[event.link] = message.end
            operations.append(Post(event.end - now, event.link, message.size, coding))
        elif event.kind == "received":
            operations.append(Receive(event.start - now, event.link, event.end - event.middle))
        else:
            after = event.end - max(event.start, free.get(event.link, begin))
            operations.append(Flush(event.start - now, event.link, max(after, 0.0)))
        now = event.end
    return RankStep(tuple(operations), end - now)


@dataclass
class _Bucket:
    """One direction of a cable: what enters leaves in order, at the rate, after the burst."""

    rate: float
    depth: float
    free: float = 0.0
    tokens: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = self.depth

    def send(self, ready: float, size: int) -> float:
        """When the last of `size` bytes that are there at `ready` leaves."""
        if self.rate == float("inf"):
            return ready
        start = max(ready, self.free)
        tokens = min(self.depth, self.tokens + (start - self.free) * self.rate)
        end = start + max(size - tokens, 0.0) / self.rate
        self.tokens = max(tokens - size, 0.0)
        self.free = end
        return end


class _Run:
    """A replay in progress. The rank that is behind goes on first, so that ports see messages in
    the order of time."""

    def __init__(
        self, steps: Sequence[RankStep], wire: Wire, path: Path, node_of: Callable[[int], int]
    ) -> None:
        self._steps = steps
        self._wire = wire
        self._path = path
        self._node_of = node_of
        self._now = [0.0] * len(steps)
        self._next = [0] * len(steps)
        self._egress: dict[int, _Bucket] = {}
        self._ingress: dict[int, _Bucket] = {}
        self._coder: dict[Link, float] = {}
        self._left: dict[Link, float] = {}
        self._arrivals: dict[Link, deque[float]] = {}

    def advance(self) -> bool:
        """Do the next operation of the rank that is behind and can go on; False if none can."""
        ready = [rank for rank in range(len(self._steps)) if self._can_go_on(rank)]
        if not ready:
            return False
        rank = min(ready, key=lambda r: self._now[r])
        operation = self._steps[rank].operations[self._next[rank]]
        self._next[rank] += 1
        now = self._now[rank] + operation.gap_s
        if isinstance(operation, Post):
            self._post(operation, now)
        elif isinstance(operation, Receive):
            now = max(now, self._arrivals[operation.link].popleft()) + operation.after_s
        else:
            now = max(now, self._left.get(operation.link, 0.0)) + operation.after_s
        self._now[rank] = now
        return True

    def finish(self) -> list[float]:
        """When each rank is done."""
        for rank, step in enumerate(self._steps):
            if self._next[rank] < len(step.operations):
                link = step.operations[self._next[rank]].link
                raise ReplayError(f"rank {rank}: expected a message on {link}; nobody sends it")
        return [now + step.tail_s for now, step in zip(self._now, self._steps, strict=True)]

    def _can_go_on(self, rank: int) -> bool:
        operations = self._steps[rank].operations
        if self._next[rank] == len(operations):
            return False
        operation = operations[self._next[rank]]
        return not isinstance(operation, Receive) or bool(self._arrivals.get(operation.link))

    def _post(self, message: Post, now: float) -> None:
        link = message.link
        ready = max(now, self._coder.get(link, 0.0)) + message.coding_s
        leaves = arrives = ready + message.size * self._path.copy_s_per_byte
        self._coder[link] = leaves
        source, target = self._node_of(link.source), self._node_of(link.target)
        if source != target:
            size = self._wire.frame_bytes(message.size)
            leaves = max(leaves, self._port(self._egress, source).send(ready, size))
            arrives = max(leaves, self._port(self._ingress, target).send(ready, size))
        self._left[link] = leaves
        self._arrivals.setdefault(link, deque()).append(arrives + self._path.latency_s)

    def _port(self, ports: dict[int, _Bucket], node: int) -> _Bucket:
        return ports.setdefault(node, _Bucket(self._wire.bytes_per_s, self._wire.burst_bytes))
