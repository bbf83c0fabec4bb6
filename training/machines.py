# SPDX-License-Identifier: Apache-2.0
"""Where a launcher starts its ranks."""

import socket
from collections.abc import Mapping, Sequence

LOOPBACK = "127.0.0.1"


class ThisMachine:
    """All ranks are processes of this machine that meet on loopback."""

    def listen(self) -> socket.socket:
        """The socket on which ranks meet, on a port of its own; rank 0 inherits it."""
        return socket.create_server((LOOPBACK, 0))

    def command(self, rank: int, command: Sequence[str]) -> list[str]:
        """`command` so that it runs where `rank` is."""
        return list(command)

    def variables(self, rank: int) -> Mapping[str, str]:
        """What the environment of `rank` has besides."""
        return {}

    def descriptors(self, rank: int) -> tuple[int, ...]:
        """What `rank` inherits besides."""
        return ()
