# SPDX-License-Identifier: Apache-2.0
"""The tables of links, with all ranks in one process: what waits for what, and what does not."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch.distributed as dist

from nic_emul import Nic, NicConfig, transport
from nic_emul.errors import GroupClosed, NicError
from nic_emul.failure import FailStop
from nic_emul.hello import Channel
from nic_emul.transport import Transport, announce
from tests.nic_emul.ranks import wait_until

SIZE = 3
P2P = Channel.POINT_TO_POINT


class Reports(FailStop):
    """Keeps what was reported, and leaves the process alone."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def report(self, where: str, error: BaseException) -> None:
        self.lines.append(f"{where}: {error}")


@pytest.fixture
def members() -> Iterator[list[Transport]]:
    """A group of three transports."""
    store = dist.HashStore()
    nic = Nic(NicConfig(engine="null", timeout_s=20))
    nic.failure = Reports()
    members = [
        Transport(nic, rank=rank, job_ranks=range(SIZE), timeout_s=20) for rank in range(SIZE)
    ]
    for rank in range(SIZE):
        announce(store, rank)
    threads = [threading.Thread(target=member.open, args=(store,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield members
    for member in members:
        if member._monitor is not None and member._monitor._thread.is_alive():
            member.disconnect()
        member.release()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Holds the connects of rank 0 to rank 2 up until it is set."""
    gate = threading.Event()
    greet = transport.greet

    def slow(sock: object, hello: transport.Hello, secret: bytes, peer: str) -> None:
        if (hello.source, hello.target) == (0, 2):
            assert gate.wait(20)
        greet(sock, hello, secret, peer)

    monkeypatch.setattr(transport, "greet", slow)
    yield gate
    gate.set()


class Attempt:
    """A link being opened in a thread of its own."""

    def __init__(self, open_link: Callable[[], object]) -> None:
        self.found: object = None
        self._thread = threading.Thread(target=self._run, args=(open_link,))
        self._thread.start()

    def result(self) -> object:
        self._thread.join(20)
        return self.found

    def _run(self, open_link: Callable[[], object]) -> None:
        try:
            self.found = open_link()
        except NicError as error:
            self.found = error


def test_slow_connect_holds_up_no_other_link(
    members: list[Transport], held: threading.Event
) -> None:
    attempts = [Attempt(lambda: members[0].send_link(2, P2P)) for _ in range(2)]
    wait_until(lambda: bool(members[0]._connecting), "nothing is being connected")
    assert members[0].send_link(1, P2P) is members[0].send_link(1, P2P)
    assert not any(attempt.found for attempt in attempts)
    held.set()
    link = members[0].send_link(2, P2P)
    assert [attempt.result() for attempt in attempts] == [link, link]


@pytest.mark.parametrize("end", [Transport.disconnect, lambda member: member._stop("a fault")])
def test_no_link_is_made_once_the_group_ends(
    members: list[Transport], held: threading.Event, end: Callable[[Transport], None]
) -> None:
    before = [*members[0]._send_links]
    attempt = Attempt(lambda: members[0].send_link(2, P2P))
    wait_until(lambda: bool(members[0]._connecting), "nothing is being connected")
    end(members[0])
    held.set()
    assert isinstance(attempt.result(), NicError)
    with pytest.raises(GroupClosed):
        members[0].send_link(1, P2P)
    assert [*members[0]._send_links] == before


def test_connect_that_waits_for_an_answer_ends_with_the_group(
    members: list[Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener takes the connection and never answers, as a stopped process does."""
    accepted = threading.Event()
    monkeypatch.setattr(members[2]._monitor, "_welcome", lambda _: accepted.set())
    attempt = Attempt(lambda: members[0].send_link(2, P2P))
    assert accepted.wait(20)
    assert attempt.found is None
    members[0]._stop("a fault")
    assert isinstance(attempt.result(), NicError)


def test_link_accepted_after_a_failure_is_aborted(members: list[Transport]) -> None:
    members[0]._stop("the first error")
    reports = members[0].nic.failure
    assert isinstance(reports, Reports)
    heard = "rank 1: rank 0 passed on: the first error"
    # Rank 2 is connected to rank 0 from the start; rank 1 hears of it when it connects.
    assert heard not in reports.lines
    members[1].send_link(0, P2P)
    wait_until(lambda: heard in reports.lines, "no abort was heard")
