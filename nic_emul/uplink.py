# SPDX-License-Identifier: Apache-2.0
"""This process' way to the switch: one connection to it alone, and one for every link through it.

The first shows whether the switch is there at all. When it dies, every link through it ends as if
the rank behind it had died; only this connection tells the two apart.
"""

import json
import select
import socket
import threading
from typing import cast

from nic_emul.errors import CollectiveMismatch, PeerLost, ProtocolError, SwitchLost
from nic_emul.sockets import receive_into, send_all, set_blocking
from nic_emul.switch.report import PortRow
from nic_emul.switch.request import REPORT, REPORT_SIZE, Purpose, Request, ask

_REPORT_BYTES_MAX = 1 << 24
# How long after a link the connection to the switch itself may end when the switch dies: the kernel
# closes what a process leaves behind one after the other.
_ENDS_S = 0.5


class Uplink:
    """The way of one process to its switch; nothing is connected before it is needed.

    Attributes:
        name: what to call the switch in messages.
    """

    def __init__(self, address: tuple[str, int], secret: bytes, *, timeout_s: float) -> None:
        """The switch is at `address`, and its job has `secret`."""
        self.name = f"the switch at {address[0]}:{address[1]}"
        self._address = address
        self._secret = secret
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def attach(self, request: Request) -> None:
        """Connect to the switch itself, unless that was done, with a request of `CONTROL`.

        Raises:
            SwitchLost: it is not there.
            CollectiveMismatch: it has other settings.
            AuthenticationError, ProtocolError: it is no switch of this job.
        """
        with self._lock:
            if self._control is not None:
                return
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                self.dial(sock, request)
            except BaseException:
                sock.close()
                raise
            self._control = sock

    def dial(self, sock: socket.socket, request: Request) -> None:
        """Connect `sock` to what `request` asks of the switch.

        Raises:
            SwitchLost: the switch cannot be reached.
            PeerLost: the rank that a link is to lead to cannot be reached.
            CollectiveMismatch: the switch has other settings.
            AuthenticationError, ProtocolError: it is no switch of this job.
        """
        sock.settimeout(self._timeout_s)
        try:
            sock.connect(self._address)
        except OSError as error:
            raise SwitchLost(f"{self.name} cannot be reached: {error}") from error
        set_blocking(sock, self._timeout_s)
        try:
            refused = ask(sock, request, self._secret, self.name)
        except PeerLost as error:
            raise SwitchLost(str(error)) from error
        if refused and request.purpose is Purpose.FORWARD:
            raise PeerLost(f"{self.name}: {refused}")
        if refused:
            raise CollectiveMismatch(f"{self.name}: {refused}")

    def rows(self) -> list[PortRow]:
        """What has crossed the ports of the switch so far, all ranks together.

        Raises:
            SwitchLost: it is gone, or was never attached.
            PeerTimeout: it does not answer.
        """
        with self._lock:
            if self._control is None:
                raise SwitchLost(f"{self.name}: expected a connection; found none")
            try:
                send_all(self._control, [REPORT], self.name)
                size = bytearray(REPORT_SIZE.size)
                receive_into(self._control, memoryview(size), self.name)
                (count,) = REPORT_SIZE.unpack(size)
                if count > _REPORT_BYTES_MAX:
                    raise ProtocolError(f"{self.name}: expected a short report; found {count}")
                answer = bytearray(count)
                receive_into(self._control, memoryview(answer), self.name)
            except PeerLost as error:
                raise SwitchLost(str(error)) from error
        return cast(list[PortRow], json.loads(answer))

    def explain(self, error: BaseException) -> BaseException:
        """What is behind `error` on a link: itself, or the end of the switch."""
        if isinstance(error, PeerLost) and self._has_ended():
            return SwitchLost(f"{self.name} died or was killed ({error})")
        return error

    def close(self) -> None:
        """Leave the switch; also for a forked child, which has no part in the connection."""
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def _has_ended(self) -> bool:
        control = self._control
        if control is None:
            return False
        poll = select.poll()
        try:
            poll.register(control, select.POLLIN)
            return bool(poll.poll(_ENDS_S * 1000)) and not control.recv(1, socket.MSG_PEEK)
        except OSError:
            return True
