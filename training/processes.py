# SPDX-License-Identifier: Apache-2.0
"""What launchers do with the processes that they start."""

import signal
import subprocess
import time
from collections.abc import Sequence

# How long processes may take to stop when told to, and ranks to notice that another has failed.
GRACE_SECONDS = 3.0


def end_all(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """End every process that still runs, first politely."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def how_it_ended(status: int) -> str:
    """What to say of a process that ended with `status`, as `subprocess` gives it."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"exited with status {status}"
