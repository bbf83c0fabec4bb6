# SPDX-License-Identifier: Apache-2.0
"""What happens after the first transport error: everything stops, on every rank.

A collective that failed on one rank cannot be finished on the others, and an exception cannot be
carried safely through the C++ callers of a Python process group. So, like NCCL's watchdog, a
process that fails prints one line, closes its connections (which fails its peers, and so on around
every ring), raises the error in Python callers that wait, and is gone after a short grace period.
"""

import os
import sys
import threading
from collections.abc import Callable

from nic_emul.errors import JobFailed, PeerFailed

EXIT_CODE = 70
GRACE_S = 2.0


class FailStop:
    """Ends this process after the first error reported to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._stops: dict[object, Callable[[str], None]] = {}
        self._timer: threading.Timer | None = None

    @property
    def error(self) -> BaseException | None:
        """The first error, None while all is well."""
        return self._error

    def check(self) -> None:
        """Raise `JobFailed` if an error was reported."""
        if self._error is not None:
            raise JobFailed(f"this process has already failed: {self._error}") from self._error

    def register(self, owner: object, stop: Callable[[str], None]) -> None:
        """Call `stop(reason)` when an error is reported; it must return at once and never raise."""
        with self._lock:
            self._stops[owner] = stop

    def unregister(self, owner: object) -> None:
        """Undo `register`; with no owner left, a process that is ending anyway is left alone."""
        with self._lock:
            self._stops.pop(owner, None)

    def report(self, where: str, error: BaseException) -> None:
        """Stop everything because of `error`; later reports are ignored."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            stops = list(self._stops.values())
            # A daemon: when the program ends by itself, as it should after an error, it is not
            # held up for the rest of the grace period.
            self._timer = threading.Timer(GRACE_S, exit_now)
            self._timer.daemon = True
            self._timer.start()
        line = f"{where}: {type(error).__name__}: {error}"
        sys.stderr.write(f"wirezip: {line}\n")
        sys.stderr.flush()
        # What started it travels on unchanged, so that every rank names the first error of the job.
        reason = error.reason if isinstance(error, PeerFailed) else line
        for stop in stops:
            stop(reason)


def exit_now() -> None:
    """End the process without unwinding anything: C++ callers may be in the middle of a wait."""
    sys.stderr.flush()
    os._exit(EXIT_CODE)
