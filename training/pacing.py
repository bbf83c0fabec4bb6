# SPDX-License-Identifier: Apache-2.0
"""Steps that alternate between compression off and on, each on links that somebody sets first.

Whoever started the ranks changes the links between two steps: rank 0 asks over a socket that it
inherits, and all ranks wait for the answer.
"""

import os
import socket
from collections.abc import Mapping

import torch.distributed as dist

import nic_emul

VARIABLE = "WIREZIP_PACE_FD"
NOBODY = "-1"


def compresses(step: int) -> bool:
    """Whether the NICs compress in `step`: off first, then on, and so on."""
    return bool(step % 2)


class Pace:
    """What one rank does before each step."""

    def __init__(self, conductor: socket.socket | None) -> None:
        """`conductor` is at the other end of rank 0's socket; other ranks have none."""
        self._conductor = conductor

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Pace | None":
        """The pace that the launcher set, if it did."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        return cls(None if text == NOBODY else socket.socket(fileno=int(text)))

    def await_step(self, step: int) -> None:
        """Return on all ranks once the links are set for `step`, and no rank is in another."""
        self._consult()
        dist.barrier()
        nic = nic_emul.local_nic()
        nic.compressing = compresses(step)
        if nic.trace is not None:
            nic.trace.mark("begin")

    def end_step(self) -> None:
        """Note the end of a step."""
        trace = nic_emul.local_nic().trace
        if trace is not None:
            trace.mark("end")

    def finish(self) -> None:
        """Say that the last step is over, before anything else is sent."""
        self._consult()

    def _consult(self) -> None:
        dist.barrier()
        if self._conductor is not None:
            self._conductor.sendall(b"?")
            if not self._conductor.recv(1):
                raise ConnectionError("whoever sets the links is gone")


def local_pace() -> Pace | None:
    """The pace of this process."""
    return Pace.from_environment(os.environ)
