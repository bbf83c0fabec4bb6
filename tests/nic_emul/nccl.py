# SPDX-License-Identifier: Apache-2.0
"""NCCL's ring all-reduce, played against the NIC's network interface as NCCL's proxies do it.

No process group and no other thread of ours: each rank is a coroutine that starts what it can,
tests what is unfinished and gives way, so nothing here works unless every call returns at once.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nic_emul.links import RecvLink, RecvRequest, SendLink, SendRequest
from nic_emul.message import Received, Traffic
from nic_emul.net import ListenComm, Net
from nic_emul.requests import MemoryRegion, reg_mr
from nic_emul.schedule import RING, Span, all_reduce_loops, slices

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
# NCCL_STEPS: how far a proxy posts receives ahead.
AHEAD = 8
Task = Generator[None, None, None]


def run(tasks: Sequence[Task]) -> None:
    """Run `tasks` in turns until all are done."""
    running = deque(tasks)
    while running:
        task = running.popleft()
        for _ in task:
            running.append(task)
            break


def link_up(nets: Sequence[Net]) -> list[tuple[SendLink, RecvLink]]:
    """Connect each of `nets` to the next; the links to the next and from the previous one."""
    listeners = [net.listen() for net in nets]
    sends: list[SendLink] = []
    receives: list[RecvLink] = []

    def connect(rank: int) -> Task:
        handle = listeners[(rank + 1) % len(nets)][0]
        while (link := nets[rank].connect(handle)) is None:
            yield
        sends.append(link)

    def accept(listener: ListenComm) -> Task:
        while (link := listener.accept()) is None:
            yield
        receives.append(link)

    for rank in range(len(nets)):
        run([connect(rank), accept(listeners[(rank + 1) % len(nets)][1])])
    for _, listener in listeners:
        listener.close()
    return [(sends[rank], receives[rank - 1]) for rank in range(len(nets))]


class Ring:
    """One rank of a ring, whose `all_reduce` leaves in `data`, float32 `(n,)`, the sum of all."""

    def __init__(
        self, rank: int, size: int, links: tuple[SendLink, RecvLink], data: F32, traffic: Traffic
    ) -> None:
        self.rank = rank
        self.size = size
        self.data = data
        self.traffic = traffic
        self._send_link, self._recv_link = links
        self._region = reg_mr(data.view(np.uint8), traffic.dtype)
        self._sends: deque[SendRequest] = deque()

    def all_reduce(self) -> Task:
        for chunks in all_reduce_loops(self.data.size, self.size, self.data.itemsize):
            yield from self._loop(chunks)
        while not self._all_sent():
            yield

    def _loop(self, chunks: list[Span]) -> Task:
        """Reduce-scatter and all-gather of one chunk per rank."""
        for span in self._spans(chunks, 1):
            yield from self._send(self.data[slice(*span)], self._region)
        expected = [
            (step, span) for step in range(2, 2 * self.size) for span in self._spans(chunks, step)
        ]
        posted: deque[tuple[int, Span, F32, MemoryRegion, RecvRequest]] = deque()
        while expected or posted:
            while expected and len(posted) < AHEAD:
                posted.append(self._post(*expected.pop(0)))
            step, (low, high), landing, region, request = posted[0]
            done, sizes = request.test()
            if not done:
                yield
                continue
            assert sizes == [landing.nbytes]
            self._recv_link.iflush(request)
            posted.popleft()
            if step <= self.size:
                with np.errstate(over="ignore", invalid="ignore"):
                    np.add(landing, self.data[low:high], out=landing)
            if step >= self.size:
                self.data[low:high] = landing
                landing, region = self.data[low:high], self._region
            if step < 2 * self.size - 1:
                # What is passed on unchanged goes on in the packets in which it came.
                yield from self._send(landing, region, request.received)

    def _spans(self, chunks: list[Span], step: int) -> list[Span]:
        return slices(chunks[(self.rank - step) % self.size], RING, self.data.itemsize)

    def _post(self, step: int, span: Span) -> tuple[int, Span, F32, MemoryRegion, RecvRequest]:
        landing = np.empty(span[1] - span[0], np.float32)
        memory = landing.view(np.uint8)
        region = reg_mr(memory, self.traffic.dtype)
        keep = self.size < step < 2 * self.size - 1
        request = self._recv_link.irecv([memory], [0], [region], self.traffic, keep=keep)
        assert request is not None
        return step, span, landing, region, request

    def _send(
        self, piece: F32, region: MemoryRegion, received: Received | None = None
    ) -> Iterator[None]:
        data = piece.view(np.uint8)
        while (
            request := self._send_link.isend(data, 0, region, self.traffic, received=received)
        ) is None:
            yield
        self._sends.append(request)

    def _all_sent(self) -> bool:
        while self._sends and self._sends[0].test()[0]:
            self._sends.popleft()
        return not self._sends
