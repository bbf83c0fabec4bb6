# SPDX-License-Identifier: Apache-2.0
"""The switch of a run on this machine: a process that is started before the ranks, ended after."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from training.machines import LOOPBACK
from training.processes import end_all

_SECRET_BYTES = 32
_BACKLOG = 256


@dataclass(frozen=True)
class RunningSwitch:
    """A switch that listens.

    Attributes:
        process: it.
        variables: what tells its ranks where it is, and lets them in.
    """

    process: "subprocess.Popen[bytes]"
    variables: dict[str, str]


@contextmanager
def switching(
    wanted: bool, settings: Mapping[str, str], *, log: Path | None = None
) -> Iterator[RunningSwitch | None]:
    """A switch, if one is `wanted`; it does not outlive the block.

    Args:
        settings: variables that its NIC has in common with the ranks'.
        log: where it writes what it has to say; standard error if not set.
    """
    if not wanted:
        yield None
        return
    # Opened here and inherited, so that no port has to be free twice, and ranks need not wait.
    with socket.create_server((LOOPBACK, 0), backlog=_BACKLOG) as listener:
        host, port = listener.getsockname()
        variables = {
            "WIREZIP_SWITCH": f"{host}:{port}",
            "WIREZIP_SWITCH_SECRET": secrets.token_hex(_SECRET_BYTES),
        }
        process = _start(dict(settings) | variables, listener, log)
    try:
        yield RunningSwitch(process, variables)
    finally:
        end_all([process])


def _start(
    variables: Mapping[str, str], listener: socket.socket, log: Path | None
) -> "subprocess.Popen[bytes]":
    inherited = {"WIREZIP_SWITCH_FD": str(listener.fileno())}
    file = None if log is None else log.open("wb")
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "nic_emul.switch"],
            env=os.environ | variables | inherited,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno() if file is None else file,
            stderr=None if file is None else file,
            pass_fds=(listener.fileno(),),
        )
    finally:
        if file is not None:
            file.close()
