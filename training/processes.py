# SPDX-License-Identifier: Apache-2.0
"""What launchers do with the processes that they start."""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

# How long processes may take to stop when told to, and ranks to notice that another has failed.
GRACE_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have Linux kill this process when its parent ends; also for `preexec_fn`. Elsewhere nothing
    happens.

    That of `nic_emul/lifetime.py` comes with torch, which launchers and their forks do not load.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
