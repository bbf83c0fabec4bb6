# SPDX-License-Identifier: Apache-2.0
"""Runs a switch beside the ranks of a test: a real process, forked as they are (`ranks.py`)."""

import json
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nic_emul.switch import __main__ as program
from nic_emul.switch.report import PortRow
from tests.nic_emul.ranks import _CONTEXT

_END_S = 20.0


@dataclass
class RunningSwitch:
    """A switch that listens.

    Attributes:
        variables: what ranks need to know of it.
        process: it.
        folder: where it leaves its counters.
    """

    variables: dict[str, str]
    process: Any
    folder: Path

    def stop(self) -> list[PortRow]:
        """End it as a launcher does; what crossed its ports."""
        self.process.terminate()
        self.process.join(_END_S)
        assert self.process.exitcode == 0
        rows: list[PortRow] = json.loads((self.folder / program.COUNTERS).read_text())["rows"]
        return rows

    def kill(self) -> None:
        """End it as a power cut does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(_END_S)


@contextmanager
def running_switch(**variables: str) -> Iterator[RunningSwitch]:
    """A switch with `variables` of its own, beside those that it shares with the ranks."""
    with tempfile.TemporaryDirectory() as folder:
        listener = socket.create_server(("127.0.0.1", 0), backlog=program.BACKLOG)
        shared = {
            "WIREZIP_SWITCH": f"127.0.0.1:{listener.getsockname()[1]}",
            "WIREZIP_SWITCH_SECRET": secrets.token_hex(32),
        }
        own = {"WIREZIP_ENGINE": "null", "WIREZIP_TIMEOUT_S": "30"} | shared | variables
        process = _CONTEXT.Process(target=_run, args=(own | {"WIREZIP_COUNTERS": folder}, listener))
        process.start()
        listener.close()
        try:
            yield RunningSwitch(shared, process, Path(folder))
        finally:
            process.kill()
            process.join(_END_S)


def _run(variables: dict[str, str], listener: socket.socket) -> None:
    os.environ.update(variables, WIREZIP_SWITCH_FD=str(listener.detach()))
    raise SystemExit(program.main())
