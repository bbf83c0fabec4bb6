# SPDX-License-Identifier: Apache-2.0
"""The process of the switch, `python -m nic_emul.switch`: all it needs to know is in the variables.

It listens at `WIREZIP_SWITCH`, or on the inherited socket `WIREZIP_SWITCH_FD`, for ranks with the
same `WIREZIP_SWITCH_SECRET`. Engine and MTU are those of the ranks. SIGTERM ends it in peace; then,
with `WIREZIP_COUNTERS`, what crossed its ports is in `counters-switch.json` in that folder.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

from codec.errors import WirezipError
from nic_emul.config import NicConfig
from nic_emul.errors import ConfigError
from nic_emul.lifetime import die_with_parent
from nic_emul.nic import Nic
from nic_emul.switch.server import Switch

COUNTERS = "counters-switch.json"
BACKLOG = 256


def main() -> int:
    """Exit status 0 after SIGTERM."""
    try:
        config = NicConfig.from_environment(os.environ)
        if config.switch is None:
            raise ConfigError("WIREZIP_SWITCH: expected HOST:PORT to listen at; found nothing")
        nic = Nic(config)
        nic.begin_capture("switch")
        switch = Switch(nic, _listener(config.switch), config.switch_secret)
    except (WirezipError, OSError) as error:
        sys.stderr.write(f"wirezip switch: {type(error).__name__}: {error}\n")
        return 1

    def stop(signum: int, frame: FrameType | None) -> None:
        switch.stop()

    signal.signal(signal.SIGTERM, stop)
    switch.serve()
    if config.counters_dir is not None:
        config.counters_dir.mkdir(parents=True, exist_ok=True)
        content = {"engine": config.engine, "mtu": config.mtu, "rows": switch.rows()}
        (config.counters_dir / COUNTERS).write_text(json.dumps(content, indent=1) + "\n")
    return 0


def _listener(address: tuple[str, int]) -> socket.socket:
    inherited = os.environ.get("WIREZIP_SWITCH_FD")
    if inherited is None:
        return socket.create_server(address, backlog=BACKLOG)
    die_with_parent()
    return socket.socket(fileno=int(inherited))


if __name__ == "__main__":
    sys.exit(main())
