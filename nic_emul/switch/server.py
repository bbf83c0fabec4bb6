# SPDX-License-Identifier: Apache-2.0
"""The switch itself: takes connections from ranks of its job and gives each to its purpose.

Every connection has a thread, as every link of a rank has: it asks who is there and then, by the
purpose (`request.py`), answers for the counters, hands a link on (`relay.py`), or brings the ranks
of a group together and sums for them (`reduction.py`). Strangers are sent away within seconds; at
most some hundred at once are listened to, each for some hundred bytes.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nic_emul.errors import PeerLost, TransportError
from nic_emul.nic import Nic
from nic_emul.sockets import close_abruptly, receive_into, send_all, set_blocking
from nic_emul.switch.port import Port
from nic_emul.switch.reduction import Ends, Reduction
from nic_emul.switch.relay import Relay
from nic_emul.switch.report import PortRow
from nic_emul.switch.request import REPORT, REPORT_SIZE, Asked, Purpose, Request

_STRANGERS_MAX = 256
_STRANGER_S = 5.0
_TICK_S = 0.25
# Of a rank that is being connected to, which listens already.
_CONNECT_S = 5.0


@dataclass
class _Gathering:
    """The ranks of a group that have connected so far."""

    size: int
    taken: set[tuple[Purpose, int]] = field(default_factory=set)
    up: dict[int, socket.socket] = field(default_factory=dict)
    down: dict[int, socket.socket] = field(default_factory=dict)
    requests: dict[int, Request] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.up) == len(self.down) == self.size


class Switch:
    """One switch, for one job.

    Attributes:
        address: host and port that it listens on.
    """

    def __init__(self, nic: Nic, listener: socket.socket, secret: bytes) -> None:
        """Serve on `listener`, which listens already, whoever knows `secret`."""
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._nic = nic
        self._secret = secret
        self._listener = listener
        self._lock = threading.Lock()
        self._ports: dict[int, Port] = {}
        self._strangers: dict[socket.socket, float] = {}
        self._gatherings: dict[bytes, _Gathering] = {}
        # Of each thread, what has it come to its end.
        self._shuts: dict[threading.Thread, Callable[[], None]] = {}
        self._error: BaseException | None = None
        self._stopping = False

    def serve(self) -> None:
        """Serve until `stop`, then close every connection and join every thread.

        Raises:
            Exception: a thread met what should not exist, and the switch stopped over it.
        """
        self._listener.settimeout(_TICK_S)
        try:
            while not self._stopping:
                with contextlib.suppress(TimeoutError, ConnectionError):
                    self._welcome(self._listener.accept()[0])
                self._expire_strangers()
        finally:
            self._listener.close()
            self._close()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Have `serve` return soon; signal handlers may call this."""
        self._stopping = True

    def rows(self) -> list[PortRow]:
        """What has crossed each port so far, by port, then by (collective, role, dtype)."""
        with self._lock:
            ports = sorted(self._ports.items())
        return [row for _, port in ports for row in port.rows()]

    def _welcome(self, sock: socket.socket) -> None:
        if len(self._strangers) >= _STRANGERS_MAX:
            sock.close()
            return
        with self._lock:
            self._strangers[sock] = time.monotonic() + _STRANGER_S
            thread = threading.Thread(
                target=self._attend, args=(sock,), name="wirezip-switch", daemon=True
            )
            self._shuts[thread] = lambda: close_abruptly(sock)
        thread.start()

    def _expire_strangers(self) -> None:
        now = time.monotonic()
        with self._lock:
            late = [sock for sock, deadline in self._strangers.items() if deadline < now]
        for sock in late:
            close_abruptly(sock)

    def _attend(self, sock: socket.socket) -> None:
        """The life of one connection's thread."""
        try:
            asked = self._recognise(sock)
            if asked is not None:
                self._serve_purpose(asked, sock)
        except (TransportError, OSError):
            # The rank is gone, and whoever needs it finds out on a link of theirs.
            sock.close()
        except Exception as error:
            self._error = error
            self.stop()
        finally:
            with self._lock:
                self._shuts.pop(threading.current_thread(), None)

    def _recognise(self, sock: socket.socket) -> Asked | None:
        """What a connection asks for; None if it is none of ours, which must not end the job."""
        try:
            set_blocking(sock, _STRANGER_S)
            return Asked(sock, self._secret)
        except (TransportError, OSError):
            sock.close()
            return None
        finally:
            with self._lock:
                self._strangers.pop(sock, None)

    def _serve_purpose(self, asked: Asked, sock: socket.socket) -> None:
        request = asked.request
        if request.mtu != self._nic.config.mtu:
            asked.refuse(
                f"the switch has WIREZIP_MTU {self._nic.config.mtu}; "
                f"rank {request.rank} has {request.mtu}"
            )
            sock.close()
        elif request.purpose is Purpose.CONTROL:
            self._control(asked, sock)
        elif request.purpose is Purpose.FORWARD:
            self._forward(asked, sock)
        else:
            self._gather(asked, sock)

    def _control(self, asked: Asked, sock: socket.socket) -> None:
        """Answer whatever a rank asks, until it leaves."""
        asked.accept()
        set_blocking(sock, None)
        with contextlib.suppress(PeerLost), sock:
            question = bytearray(len(REPORT))
            while True:
                receive_into(sock, memoryview(question), "a rank")
                answer = json.dumps(self.rows()).encode()
                send_all(sock, [REPORT_SIZE.pack(len(answer)), answer], "a rank")

    def _forward(self, asked: Asked, sock: socket.socket) -> None:
        request = asked.request
        address = (request.target_host, request.target_port)
        try:
            target = socket.create_connection(address, timeout=_CONNECT_S)
        except OSError as error:
            asked.refuse(f"{address[0]}:{address[1]} cannot be reached ({error})")
            sock.close()
            return
        try:
            asked.accept()
            set_blocking(sock, None)
            set_blocking(target, None)
        except BaseException:
            target.close()
            raise
        relay = Relay(
            sock, target, up=self._port(request.node), down=self._port(request.target_node)
        )
        self._run(relay.run, relay.shut)

    def _gather(self, asked: Asked, sock: socket.socket) -> None:
        """Keep a connection of a group until all its ranks have both, then sum for them."""
        request = asked.request
        with self._lock:
            gathering = self._gatherings.setdefault(request.group, _Gathering(request.group_size))
            ends = gathering.up if request.purpose is Purpose.SUM_UP else gathering.down
            place = (request.purpose, request.position)
            fits = request.group_size == gathering.size and request.position < gathering.size
            fits = fits and place not in gathering.taken
            if fits:
                # At once, so that of two equal requests one is refused.
                gathering.taken.add(place)
        if not fits:
            asked.refuse(f"rank {request.rank} is in a group of another size, or twice in one")
            sock.close()
            return
        asked.accept()
        with self._lock:
            ends[request.position] = sock
            gathering.requests[request.position] = request
            if not gathering.complete:
                return
            del self._gatherings[request.group]
        reduction = Reduction(
            self._nic,
            self._ends(gathering),
            group=request.group.hex(),
            timeout_s=min(one.timeout_s for one in gathering.requests.values()),
        )
        self._run(reduction.run, reduction.shut)

    def _ends(self, gathering: _Gathering) -> list[Ends]:
        return [
            Ends(
                rank=request.rank,
                position=position,
                port=self._port(request.node),
                up=gathering.up[position],
                down=gathering.down[position],
            )
            for position, request in gathering.requests.items()
        ]

    def _port(self, number: int) -> Port:
        with self._lock:
            if number not in self._ports:
                self._ports[number] = Port(number, self._nic)
            return self._ports[number]

    def _run(self, run: Callable[[], None], shut: Callable[[], None]) -> None:
        """Call `run` in this thread, so that `shut` ends it when the switch is stopped."""
        with self._lock:
            self._shuts[threading.current_thread()] = shut
        if self._stopping:
            shut()
        run()

    def _close(self) -> None:
        with self._lock:
            shuts = list(self._shuts.items())
            incomplete = list(self._gatherings.values())
        for _, shut in shuts:
            shut()
        for thread, _ in shuts:
            thread.join()
        for gathering in incomplete:
            for sock in (*gathering.up.values(), *gathering.down.values()):
                sock.close()
