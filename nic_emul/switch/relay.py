# SPDX-License-Identifier: Apache-2.0
"""A link between two ranks that passes the switch unchanged, message by message.

The switch reads header and packet table of each message to count it at both ports, and hands the
payload on as it comes, in pieces (cut-through). What flows back, notes, it hands on unread; so it
does with the two ranks' hello, and with all that follows something it cannot read: that is for the
receiver to refuse, who knows what should have come.

A message is counted when its table has come. What a rank has received has been counted.
"""

import contextlib
import socket
import threading

from codec.packet import MTUS
from nic_emul.errors import CorruptMessage, PeerLost, ProtocolError
from nic_emul.hello import HELLO_BYTES
from nic_emul.message import HEADER_BYTES, Header, Kind, unpack_table
from nic_emul.sockets import close_abruptly, receive_into
from nic_emul.switch.port import Port
from nic_emul.switch.traffic import traffic_of

PIECE_BYTES = 64 * 1024
# Far above any message of this package, and a table of 64 KiB at most.
_MESSAGE_BYTES_MAX = 32 * 1024 * 1024


class Relay:
    """One link through the switch, from the rank at `source` to the rank at `target`."""

    def __init__(
        self, source: socket.socket, target: socket.socket, *, up: Port, down: Port
    ) -> None:
        """Messages come in at port `up` and go out at port `down`."""
        self._source = source
        self._target = target
        self._up = up
        self._down = down
        self._piece = memoryview(bytearray(PIECE_BYTES))
        self._back = threading.Thread(
            target=self._hand_back, name="wirezip-switch-back", daemon=True
        )

    def run(self) -> None:
        """Hand everything on until either end closes, then close both."""
        self._back.start()
        with contextlib.suppress(PeerLost, OSError):
            self._hand_on()
        self.shut()
        self._back.join()
        self._source.close()
        self._target.close()

    def shut(self) -> None:
        """Have `run` come to its end; what has been handed on still arrives."""
        close_abruptly(self._source)
        close_abruptly(self._target)

    def _hand_back(self) -> None:
        piece = memoryview(bytearray(PIECE_BYTES))
        with contextlib.suppress(PeerLost, OSError):
            _pump(self._target, self._source, piece)
        self.shut()

    def _hand_on(self) -> None:
        self._pass_on(HELLO_BYTES)
        try:
            while True:
                self._pass_on(self._take_header())
        except (ProtocolError, CorruptMessage):
            _pump(self._source, self._target, self._piece)

    def _take_header(self) -> int:
        """Read, count and hand on what precedes the payload; its size."""
        head = self._take(HEADER_BYTES)
        header = Header.unpack(head)
        if header.kind != Kind.DATA or not header.logical_bytes:
            return 0
        if header.logical_bytes > _MESSAGE_BYTES_MAX or header.block_bytes not in MTUS:
            raise ProtocolError(f"{header}: expected at most {_MESSAGE_BYTES_MAX} bytes")
        table = self._take(2 * -(-header.logical_bytes // header.block_bytes))
        lengths, _ = unpack_table(table, header)
        traffic = traffic_of(header)
        self._up.count_up(traffic, header.logical_bytes, lengths)
        self._down.count_down(traffic, header.logical_bytes, lengths)
        return header.payload_bytes

    def _take(self, size: int) -> bytearray:
        data = bytearray(size)
        receive_into(self._source, memoryview(data), "the source")
        self._target.sendall(data)
        return data

    def _pass_on(self, size: int) -> None:
        while size:
            count = self._source.recv_into(self._piece[:size])
            if not count:
                raise PeerLost("the source closed the connection")
            self._target.sendall(self._piece[:count])
            size -= count


def _pump(source: socket.socket, target: socket.socket, piece: memoryview) -> None:
    """Hand on whatever comes, until `source` ends."""
    while count := source.recv_into(piece):
        target.sendall(piece[:count])
