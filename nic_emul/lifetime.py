# SPDX-License-Identifier: Apache-2.0
"""A process that ends with the one that started it."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have Linux kill this process when its parent ends; also for `preexec_fn`. What changes its
    credentials, as a user namespace does, undoes it. Elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
