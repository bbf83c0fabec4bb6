# SPDX-License-Identifier: Apache-2.0
"""A card in the wire: frames from a host's interface to the wire and back, coded in between.

One thread a direction. Each reads until nothing is left and then sleeps; the kernel's queues of the
two interfaces are the only ones.
"""

import os
import queue
import select
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nic_emul.errors import CorruptWireFrame, NicError
from nic_emul.ethernet import HEADER_BYTES, segment_of
from nic_emul.flows import DirectionTable
from nic_emul.interfaces import PLAIN, VIRTIO_BYTES, Port, RawPort, Tap, is_finished
from nic_emul.wire_frame import WireFormat

_STOPS = (signal.SIGINT, signal.SIGTERM)
_CHECK_S = 0.5


class WireStopped(NicError, RuntimeError):
    """An interface of a card in the wire is gone."""


@dataclass(frozen=True, kw_only=True)
class WireConfig:
    """A card in the wire.

    Attributes:
        host: TAP device to make or take.
        wire: interface of the wire.
        host_namespace, wire_namespace: where they are; a name or a path, None for this one.
        address: IPv4 address with prefix length for the TAP device.
        engine: codec engine; `null` lets everything pass as it is.
        ethertype: of marked frames, alike on both ends.
    """

    host: str
    wire: str
    host_namespace: str | None
    wire_namespace: str | None
    address: str | None
    engine: str
    ethertype: int


class Card:
    """Two ports, and what goes on between them.

    Attributes:
        sent: what went from host to wire.
        received: what came from wire to host.
    """

    def __init__(self, host: Port, wire: Port, form: WireFormat, *, compress: bool = True) -> None:
        self.sent = DirectionTable()
        self.received = DirectionTable()
        self._host = host
        self._wire = wire
        self._form = form
        self._compress = compress

    def send(self, packet: bytes) -> None:
        """Pass a frame, with its `virtio_net_hdr`, from the host on to the wire."""
        virtio, frame = packet[:VIRTIO_BYTES], packet[VIRTIO_BYTES:]
        if len(frame) < HEADER_BYTES:
            self.sent.refused += 1
            return
        segment = segment_of(frame)
        plain = is_finished(virtio)
        codes = self._compress and plain
        marked = self._form.to_wire(frame, segment if codes else None)
        if marked is None or not self._wire.write((PLAIN if plain else virtio) + marked):
            self.sent.refused += 1
            return
        row = self.sent.row(segment.flow if segment else None)
        row.add(len(frame), len(marked), compressed=len(marked) < len(frame))

    def receive(self, packet: bytes) -> None:
        """Pass a frame, with its `virtio_net_hdr`, from the wire on to the host."""
        virtio, marked = packet[:VIRTIO_BYTES], packet[VIRTIO_BYTES:]
        if len(marked) < HEADER_BYTES:
            self.received.refused += 1
            return
        try:
            frame = self._form.from_wire(marked)
        except CorruptWireFrame:
            self.received.damaged += 1
            return
        segment = segment_of(frame)
        if not self._host.write((virtio if frame is marked else PLAIN) + frame):
            self.received.refused += 1
            return
        row = self.received.row(segment.flow if segment else None)
        row.add(len(frame), len(marked), compressed=len(marked) < len(frame))

    def report(self) -> dict[str, Any]:
        """Both tables as JSON types."""
        return {"sent": self.sent.report(), "received": self.received.report()}


def run_wire(
    config: WireConfig,
    *,
    on_ready: Callable[[int], None],
    on_report: Callable[[dict[str, Any]], None],
) -> None:
    """Be a card in the wire until SIGTERM or SIGINT.

    Args:
        on_ready: called with the MTU once frames pass.
        on_report: called with the counters on each SIGUSR1, and at the end.

    Raises:
        ConfigError, NamespaceError: an interface cannot be had.
        EngineUnavailable: nor can the engine.
        WireStopped: an interface went away.
    """
    from codec.engine import get_engine

    caught: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in (*_STOPS, signal.SIGUSR1):
        signal.signal(number, lambda found, _: caught.put(found))
    wire = RawPort(config.wire, namespace=config.wire_namespace)
    host = Tap(config.host, mtu=wire.mtu, namespace=config.host_namespace, address=config.address)
    coder = get_engine("numba" if config.engine == "null" else config.engine)
    form = WireFormat(coder, wire.mtu + HEADER_BYTES, config.ethertype)
    warm_up(form)
    card = Card(host, wire, form, compress=config.engine != "null")
    pumps = [Pump(host, card.send, "host"), Pump(wire, card.receive, "wire")]
    try:
        on_ready(wire.mtu)
        _serve(pumps, caught, lambda: on_report(card.report()))
    finally:
        for pump in pumps:
            pump.stop()
        host.close()
        wire.close()
    on_report(card.report())
    for pump in pumps:
        if pump.error is not None:
            raise WireStopped(f"{pump.name}: {pump.error}")


def warm_up(form: WireFormat) -> None:
    """Let everything compile itself before the first frame comes."""
    import numpy as np

    from nic_emul.ethernet import Segment

    payload = np.linspace(-1, 1, 350, dtype=np.float32).tobytes()
    segment = Segment((6, b"", b"", b""), HEADER_BYTES)
    marked = form.to_wire(bytes(HEADER_BYTES) + payload, segment)
    if marked is not None:
        form.from_wire(marked)


def _serve(
    pumps: "list[Pump]", caught: "queue.SimpleQueue[int]", report: Callable[[], None]
) -> None:
    """Return once a signal says to stop, or once a pump has failed."""
    while all(pump.error is None for pump in pumps):
        try:
            number = caught.get(timeout=_CHECK_S)
        except queue.Empty:
            continue
        if number in _STOPS:
            return
        report()


class Pump:
    """A thread that passes what one port has to a function, from now on.

    Attributes:
        name: of the port, for messages.
        error: what ended it, if it was not told to stop.
    """

    def __init__(self, port: Port, handle: Callable[[bytes], None], name: str) -> None:
        self.name = name
        self.error: OSError | None = None
        self._port = port
        self._handle = handle
        self._wake, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"wirezip-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns once it has."""
        os.close(self._stop)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._port.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        try:
            while all(descriptor != self._wake for descriptor, _ in poll.poll()):
                self._drain()
        except OSError as error:
            self.error = error

    def _drain(self) -> None:
        # Not for ever: whoever wants to stop the thread would wait under steady traffic.
        for _ in range(256):
            packet = self._port.read()
            if packet is None:
                return
            self._handle(packet)
