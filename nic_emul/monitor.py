# SPDX-License-Identifier: Apache-2.0
"""The thread that listens for new connections and for what peers say back on existing ones."""

import contextlib
import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from nic_emul.errors import AuthenticationError, ProtocolError
from nic_emul.hello import HELLO_BYTES, Hello, answer_to
from nic_emul.links import NOTE, NOTE_TEXT_BYTES_MAX, Note, SendLink

_TICK_S = 0.25
_HELLO_S = 5.0
_HELLOS_MAX = 256
_NOTES_BYTES = 65536


class MonitorEvents(Protocol):
    """What the monitor reports, each from its own thread. None of these may block."""

    def accepted(self, hello: Hello, sock: socket.socket) -> None:
        """A peer that knows the secret has connected."""

    def noted(self, link: SendLink, note: Note, value: int, text: str) -> None:
        """The receiver of `link` said something."""

    def disconnected(self, link: SendLink) -> None:
        """The receiver of `link` is gone and said no goodbye."""

    def ticked(self) -> None:
        """A fraction of a second has passed."""

    def failed(self, error: BaseException) -> None:
        """The monitor cannot go on."""


@dataclass
class _Stranger:
    """A connection that has not said its hello yet."""

    sock: socket.socket
    deadline: float
    data: bytearray = field(default_factory=bytearray)


@dataclass
class _Watched:
    """A link, and the beginning of a note that has not arrived completely."""

    link: SendLink
    data: bytearray = field(default_factory=bytearray)


class Monitor:
    """One selector loop per process group."""

    def __init__(self, events: MonitorEvents, *, host: str, secret: bytes) -> None:
        """Listen on a free port of `host`, for peers that know `secret`."""
        self._events = events
        self._secret = secret
        self._selector = selectors.DefaultSelector()
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._run_commands)
        self._listener = socket.create_server((host, 0), backlog=_HELLOS_MAX)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._running = True
        self._thread = threading.Thread(target=self._run, name="wirezip-monitor", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the listener."""
        host, port = self._listener.getsockname()
        return host, port

    def start(self) -> None:
        """Begin to accept and to watch."""
        self._thread.start()

    def watch(self, link: SendLink) -> None:
        """Report what the receiver of `link` says, and its end."""
        watched = _Watched(link)
        self._command(
            lambda: self._register(link.connection.sock, lambda: self._read_notes(watched)),
        )

    def stop(self) -> None:
        """End the thread and close the listener; links stay open."""

        def end() -> None:
            self._running = False

        if self._thread.ident is not None:
            self._command(end)
            self._thread.join()
        for stranger in list(self._strangers.values()):
            self._dismiss(stranger)
        self._selector.close()
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def abandon(self) -> None:
        """Close this process' copies of the sockets and nothing else; for a forked child."""
        self._listener.close()
        for stranger in self._strangers.values():
            stranger.sock.close()

    def _command(self, command: Callable[[], None]) -> None:
        self._commands.put(command)
        os.write(self._wake_write, b"\0")

    def _run_commands(self) -> None:
        os.read(self._wake_read, 4096)
        while not self._commands.empty():
            self._commands.get()()

    def _run(self) -> None:
        try:
            while self._running:
                for key, _ in self._selector.select(_TICK_S):
                    key.data()
                self._expire_strangers()
                self._events.ticked()
        except Exception as error:
            self._events.failed(error)

    def _register(self, sock: socket.socket, handler: Callable[[], None]) -> None:
        # A link that was closed before the monitor came to it has no descriptor any more.
        if sock.fileno() >= 0:
            self._selector.register(sock, selectors.EVENT_READ, handler)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            sock, _ = self._listener.accept()
            sock.setblocking(False)
            if len(self._strangers) >= _HELLOS_MAX:
                sock.close()
                return
            stranger = _Stranger(sock, time.monotonic() + _HELLO_S)
            self._strangers[sock] = stranger
            self._register(sock, lambda: self._read_hello(stranger))

    def _read_hello(self, stranger: _Stranger) -> None:
        try:
            data = stranger.sock.recv(HELLO_BYTES - len(stranger.data))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._dismiss(stranger)
            return
        stranger.data += data
        if len(stranger.data) == HELLO_BYTES:
            self._welcome(stranger)

    def _welcome(self, stranger: _Stranger) -> None:
        packed = bytes(stranger.data)
        try:
            hello = Hello.unpack(packed, self._secret)
        except AuthenticationError:
            # Not one of ours: anybody may knock, and that must not end the job.
            self._dismiss(stranger)
            return
        self._selector.unregister(stranger.sock)
        del self._strangers[stranger.sock]
        try:
            stranger.sock.setblocking(True)
            stranger.sock.sendall(answer_to(packed, self._secret))
        except OSError:
            stranger.sock.close()
            return
        self._events.accepted(hello, stranger.sock)

    def _dismiss(self, stranger: _Stranger) -> None:
        self._selector.unregister(stranger.sock)
        del self._strangers[stranger.sock]
        stranger.sock.close()

    def _expire_strangers(self) -> None:
        now = time.monotonic()
        for stranger in [s for s in self._strangers.values() if s.deadline < now]:
            self._dismiss(stranger)

    def _read_notes(self, watched: _Watched) -> None:
        link = watched.link
        try:
            data = link.connection.sock.recv(_NOTES_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(link.connection.sock)
            self._events.disconnected(link)
            return
        watched.data += data
        while (note := _take_note(watched.data)) is not None:
            self._events.noted(link, *note)


def _take_note(data: bytearray) -> tuple[Note, int, str] | None:
    """Cut the first note off `data`; None when it is not complete yet."""
    if len(data) < NOTE.size:
        return None
    kind, length, value = NOTE.unpack_from(data)
    if kind not in Note._value2member_map_ or length > NOTE_TEXT_BYTES_MAX:
        raise ProtocolError(
            f"note: expected kind 1 to {max(Note)} and a short text; found {kind}, {length}"
        )
    end = NOTE.size + length
    if len(data) < end:
        return None
    text = bytes(data[NOTE.size : end]).decode(errors="replace")
    del data[:end]
    return Note(kind), value, text
