# SPDX-License-Identifier: Apache-2.0
"""The NIC as NCCL's network plugins show one: ncclNet, without a process group and without torch.

| ncclNet (v8 to v11)            | here                                                            |
|--------------------------------|-----------------------------------------------------------------|
| listen, connect, accept        | `Net.listen`, `Net.connect`, `ListenComm.accept`                |
| regMr, deregMr                 | `requests.reg_mr`, `requests.dereg_mr`                          |
| isend, irecv, iflush, test     | `SendLink.isend`, `RecvLink.irecv`, `.iflush`, `*Request.test`  |
| closeSend, closeRecv, -Listen  | `Net.close_send`, `Net.close_recv`, `ListenComm.close`          |

The collectives send and receive by the same calls on the same links (`ring.py`), which a group's
`Transport` connects. Here they are connected as NCCL does it: the receiver listens and hands its
handle to the sender by whatever means there are, and both sides call again until the connection is
there. A handle holds the secret that a sender must present, so it is for the job's eyes alone.
Nothing ends the process: what goes wrong is raised where it is noticed.
"""

import secrets
import socket
import struct
import threading
import time
from collections import deque
from concurrent.futures import Future

from nic_emul.errors import (
    CollectiveMismatch,
    PeerFailed,
    PeerLost,
    ProtocolError,
)
from nic_emul.hello import SECRET_BYTES, Channel, Hello, greet
from nic_emul.links import Note, RecvLink, SendLink
from nic_emul.monitor import Monitor
from nic_emul.nic import Nic
from nic_emul.roles import Role
from nic_emul.sockets import Connection, set_blocking

# NCCL_NET_HANDLE_MAXSIZE.
HANDLE_BYTES_MAX = 128
_MAGIC = b"WZHN"
_HANDLE = struct.Struct(f"<4s4sHI{SECRET_BYTES}s")
_CLOSE_S = 10.0
_NUMBERS = 1 << 32


class ListenComm:
    """A listener for one connection after the other."""

    def __init__(self, net: "Net", number: int) -> None:
        self._net = net
        self._number = number
        self._arrived: deque[tuple[Hello, socket.socket]] = deque()

    def accept(self) -> RecvLink | None:
        """The receiving end of the next connection; None while there is none.

        Raises:
            CollectiveMismatch: the sender has another MTU, or faults where this NIC has none.
        """
        self._net.check()
        if not self._arrived:
            return None
        hello, sock = self._arrived.popleft()
        return self._net.receive_from(hello, sock)

    def close(self) -> None:
        """Accept nothing more; what was accepted stays open."""
        self._net.forget(self._number)
        while self._arrived:
            self._arrived.popleft()[1].close()

    def add(self, hello: Hello, sock: socket.socket) -> None:
        """Keep a connection that has been made, for `accept`."""
        self._arrived.append((hello, sock))


class Net:
    """The network interface of one NIC.

    Attributes:
        nic: the NIC behind every link.
        role: what its links carry; None leaves it to the type.
    """

    def __init__(self, nic: Nic, *, role: Role | None = None) -> None:
        """Open a port that all listeners share."""
        self.nic = nic
        self.role = role
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._listeners: dict[int, ListenComm] = {}
        self._next_number = 0
        self._connecting: dict[bytes, Future[SendLink]] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._opened = 0
        self._monitor = Monitor(self, host=nic.host, secret=self._secret)
        self._monitor.start()

    def listen(self) -> tuple[bytes, ListenComm]:
        """A handle for `connect`, at most `HANDLE_BYTES_MAX` bytes, and the listener behind it."""
        number = self._next_number
        self._next_number = (number + 1) % _NUMBERS
        listener = self._listeners[number] = ListenComm(self, number)
        host, port = self._monitor.address
        address = socket.inet_aton(host)
        return _HANDLE.pack(_MAGIC, address, port, number, self._secret), listener

    def connect(self, handle: bytes) -> SendLink | None:
        """The sending end of a connection to a listener; None while it is being made: call again.

        Raises:
            ProtocolError: that is no handle, or the listener speaks another version.
            PeerLost, PeerTimeout, AuthenticationError: it cannot be made.
        """
        self.check()
        pending = self._connecting.get(handle)
        if pending is None:
            if len(handle) != _HANDLE.size or not handle.startswith(_MAGIC):
                raise ProtocolError(
                    f"handle: expected {_HANDLE.size} bytes of `listen`; found {len(handle)} bytes"
                )
            pending = self._connecting[handle] = Future()
            threading.Thread(
                target=self._connect, args=(handle, pending), name="wirezip-connect", daemon=True
            ).start()
        if not pending.done():
            return None
        del self._connecting[handle]
        return pending.result()

    def close_send(self, link: SendLink) -> None:
        """Send what is unfinished, then close."""
        link.close(time.monotonic() + _CLOSE_S)

    def close_recv(self, link: RecvLink) -> None:
        """Tell the sender that nothing more is received, then close."""
        link.leave(Note.GOODBYE)
        link.close()

    def close(self) -> None:
        """Stop listening, once all links are closed; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._monitor.stop()
        for listener in list(self._listeners.values()):
            listener.close()

    def check(self) -> None:
        """Raise what ended the port, if something did: a peer of another version, for one."""
        if self._error is not None:
            raise self._error

    def receive_from(self, hello: Hello, sock: socket.socket) -> RecvLink:
        """The link of a connection that a sender has made with `hello`."""
        config = self.nic.config
        for name, ours, theirs in (
            ("WIREZIP_MTU", config.mtu, hello.mtu),
            ("WIREZIP_FAULTS", config.faults is not None, hello.faults),
        ):
            if ours != theirs:
                sock.close()
                raise CollectiveMismatch(f"this NIC has {name} {ours}; a sender has {theirs}")
        connection = self._connection(sock, f"sender {hello.source}")
        return RecvLink(self.nic, connection, peer=hello.source, role=self.role)

    def forget(self, number: int) -> None:
        """Accept nothing more for listener `number`."""
        self._listeners.pop(number, None)

    # Events of the monitor, in its thread.

    def accepted(self, hello: Hello, sock: socket.socket) -> None:
        listener = self._listeners.get(hello.target)
        if listener is None:
            sock.close()
        else:
            listener.add(hello, sock)

    def noted(self, link: SendLink, note: Note, value: int, text: str) -> None:
        name = link.connection.peer
        if note is Note.ABORT:
            link.abort(PeerFailed(name, text))
        elif note is Note.GOODBYE:
            link.abort(PeerLost(f"{name} has closed its end"))

    def disconnected(self, link: SendLink) -> None:
        lost = PeerLost(f"{link.connection.peer} died or was killed")
        link.abort(link.connection.error or lost)

    def ticked(self) -> None:
        """Nothing here goes by the clock."""

    def failed(self, error: BaseException) -> None:
        self._error = error

    def _connect(self, handle: bytes, pending: "Future[SendLink]") -> None:
        try:
            pending.set_result(self._connected(handle))
        except Exception as error:
            pending.set_exception(error)

    def _connected(self, handle: bytes) -> SendLink:
        _, address, port, number, secret = _HANDLE.unpack(handle)
        host, timeout_s = socket.inet_ntoa(address), self.nic.config.timeout_s
        name = f"listener {host}:{port}/{number}"
        try:
            sock = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise PeerLost(f"{name} cannot be reached: {error}") from error
        try:
            set_blocking(sock, timeout_s)
            own = self.nic.rank or 0
            hello = Hello(
                own,
                number,
                Channel.COLLECTIVE,
                self.nic.config.mtu,
                faults=self.nic.config.faults is not None,
            )
            greet(sock, hello, secret, name)
        except BaseException:
            sock.close()
            raise
        link = SendLink(
            self.nic, self._connection(sock, name), peer=number, fail=_leave_it, role=self.role
        )
        self._monitor.watch(link)
        return link

    def _connection(self, sock: socket.socket, peer: str) -> Connection:
        self._opened += 1
        return self.nic.connection(
            sock,
            peer=peer,
            timeout_s=self.nic.config.timeout_s,
            name=f"{self.nic.rank or 0}/{self._opened} {peer}",
        )


def _leave_it(_: BaseException) -> None:
    """A link that failed raises its error from its own calls."""
