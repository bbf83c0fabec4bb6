# SPDX-License-Identifier: Apache-2.0
"""When the messages of collectives were sent and received on one rank: what a replay is made of.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Link(NamedTuple):
    """One direction between two ranks of the job, in one group."""

    group: str
    source: int
    target: int


@dataclass(frozen=True)
class Event:
    """Something that a rank did.

    Attributes:
        kind: `posted`, a message was queued by the thread that runs a collective; `waited`, that
            thread waited until the link had sent all; `received`, it received one; `sent`, the
            link's own thread coded one and gave it to the socket; or what was marked (`begin`).
        end: when it was done.
        start: when it began.
        middle: when coding was done (`sent`), when the last byte was there (`received`).
        link: whose message it was.
        size: bytes given to the socket (`sent`).
    """

    kind: str
    end: float
    start: float = 0.0
    middle: float = 0.0
    link: Link | None = None
    size: int = 0


class LinkTrace:
    """Notes what happens to the messages of one link; `now` is when."""

    def __init__(self, events: list[Event], link: Link) -> None:
        self._events = events
        self._link = link

    def posted(self) -> None:
        self._note("posted")

    def waited(self, start: float) -> None:
        self._note("waited", start)

    def received(self, start: float, arrived: float) -> None:
        self._note("received", start, arrived)

    def sent(self, start: float, coded: float, size: int) -> None:
        self._note("sent", start, coded, size)

    def _note(self, kind: str, start: float = 0.0, middle: float = 0.0, size: int = 0) -> None:
        self._events.append(Event(kind, time.perf_counter(), start, middle, self._link, size))


class Trace:
    """What one rank did, in the order in which it was done."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def link(self, group: str, source: int, target: int) -> LinkTrace:
        """What notes the messages of a link."""
        return LinkTrace(self.events, Link(group, source, target))

    def mark(self, kind: str) -> None:
        """Note that something begins or ends now."""
        self.events.append(Event(kind, time.perf_counter()))

    def write(self, path: Path) -> None:
        """Write the events, one JSON array a line."""
        with path.open("w") as file:
            for e in self.events:
                file.write(json.dumps([e.kind, e.end, e.start, e.middle, e.link, e.size]) + "\n")


def read_trace(path: Path) -> list[Event]:
    """The events that `Trace.write` wrote."""
    return [_event(json.loads(line)) for line in path.read_text().splitlines()]


def _event(fields: list[Any]) -> Event:
    kind, end, start, middle, link, size = fields
    return Event(kind, end, start, middle, None if link is None else Link(*link), size)
