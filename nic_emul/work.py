# SPDX-License-Identifier: Apache-2.0
"""Handles of operations in progress, and the thread that runs a group's collectives in order."""

import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.futures import Future

from nic_emul.errors import GroupClosed, PeerTimeout
from nic_emul.failure import exit_now

Result = torch.Tensor | list[torch.Tensor]


class NicWork(dist.Work):
    """An operation in progress.

    `wait` raises what went wrong. The future of an operation that failed with the process never
    completes: C++ code that waits for it cannot take a Python exception, and the process is about
    to end anyway. When only the group has ended, the future raises `GroupClosed`.
    """

    def __init__(self, result: Result) -> None:
        super().__init__()
        self._outcome = result
        self._future: Future[Result] = Future()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._source = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return once the operation is done.

        C++ callers always pass a timeout, zero for none. They are not built for exceptions from
        Python, and so a failure ends the process there.

        Raises:
            TransportError: the operation failed.
            PeerTimeout: it takes longer than `timeout`.
        """
        seconds = timeout.total_seconds() if timeout else None
        if not self._done.wait(seconds):
            raise PeerTimeout(f"an operation is not done after {seconds:g} s")
        if self._error is not None:
            if timeout is not None and not timeout:
                exit_now()
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._done.is_set()

    def is_success(self) -> bool:
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._outcome if isinstance(self._outcome, list) else [self._outcome]

    def get_future(self) -> Future[Result]:
        return self._future

    def source_rank(self) -> int:
        """The rank in the group that a finished receive got its data from."""
        return self._source

    _source_rank = source_rank

    def complete(self, source: int = -1) -> None:
        """Mark the operation as done; a receive names its `source`."""
        self._source = source
        self._done.set()
        self._future.set_result(self._outcome)

    def fail(self, error: BaseException) -> None:
        """Mark the operation as failed; only the first call counts."""
        if not self._done.is_set():
            self._error = error
            self._done.set()
            if isinstance(error, GroupClosed):
                # The stubs of torch give this the type of a result.
                self._future.set_exception(error)  # type: ignore[arg-type]


class Worker:
    """Runs operations one after the other, in the order in which they were submitted.

    The first one that raises ends all: `fail` is told, and returns the error that callers see.
    """

    def __init__(self, name: str, *, fail: Callable[[BaseException], BaseException]) -> None:
        self._fail = fail
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], NicWork] | None] = (
            queue.SimpleQueue()
        )
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"wirezip-{name}", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[], None], result: Result) -> NicWork:
        """Queue `operation`; the work's future yields `result`, which it fills."""
        work = NicWork(result)
        self._queue.put((operation, work))
        return work

    def stop(self, deadline: float) -> bool:
        """Run what is queued, until `deadline` (`time.monotonic`); whether everything was run."""
        self._queue.put(None)
        self._thread.join(max(deadline - time.monotonic(), 0))
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the thread, which `stop` or an error has ended."""
        self._thread.join()

    def _run(self) -> None:
        with torch.no_grad():
            while self._run_next():
                pass

    def _run_next(self) -> bool:
        # A function of its own, so that nothing holds on to tensors while the thread is idle.
        item = self._queue.get()
        if item is None:
            return False
        operation, work = item
        if self._error is not None:
            work.fail(self._error)
            return True
        try:
            operation()
        except Exception as error:
            self._error = self._fail(error)
            work.fail(self._error)
        else:
            work.complete()
        return True
