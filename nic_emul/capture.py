# SPDX-License-Identifier: Apache-2.0
"""Captures of the emulated wire: one pcap file a NIC, and one of all of them.

Each NIC writes the frames that it sends, acknowledgements included, so that every frame is in one
file. The time of a frame is when this software handed its message to the link, in ns; all packets
of a message have the same. Nothing in it is the time of a NIC.
"""

import heapq
import itertools
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from codec.engine import Packets
from codec.files import writing
from nic_emul.errors import CaptureError, ConfigError
from nic_emul.message import Traffic

# Nanoseconds, version 2.4, no time zone, frames of any length, Ethernet.
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 0x40000, 1)
_RECORD = struct.Struct("<IIII")
_SECOND_NS = 1_000_000_000


class Capture:
    """The frames that one NIC sends, in a file; any thread may add some."""

    def __init__(self, path: Path) -> None:
        """Begin the file `path` anew."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._last_ns = 0
        # Unbuffered: a process that fails leaves at once, and its last frames matter most.
        self._file = path.open("wb", buffering=0)
        self._file.write(_FILE_HEADER)

    def add(self, frames: Sequence[bytes]) -> None:
        """Add `frames`, which are sent now."""
        with self._lock:
            self._last_ns = max(self._last_ns, time.time_ns())
            seconds, rest_ns = divmod(self._last_ns, _SECOND_NS)
            records = [
                part
                for frame in frames
                for part in (_RECORD.pack(seconds, rest_ns, len(frame), len(frame)), frame)
            ]
            self._file.write(b"".join(records))


class Tap:
    """What a link tells the capture of its NIC: the frames of one flow, seen from one end."""

    def __init__(
        self, capture: Capture, *, group: str, channel: str, source: int, target: int
    ) -> None:
        """`source` and `target` are ranks in the job."""
        from nic_emul.roce import Flow, Requester, Responder

        flow = Flow(group, channel, source, target)
        self._capture = capture
        self._requester = Requester(flow)
        self._responder = Responder(flow)

    def sent(self, traffic: Traffic, logical_bytes: int, packets: Packets) -> None:
        """A message of `logical_bytes` leaves as `packets`."""
        self._capture.add(self._requester.message(traffic, logical_bytes, packets))

    def received(self, packets: int) -> None:
        """A message of `packets` packets has come, whole."""
        self._capture.add([self._responder.acknowledge(packets)])


def load_headers() -> None:
    """Load what makes frames, which takes a second, before a link needs it.

    Raises:
        ConfigError: scapy, which knows the headers, is missing.
    """
    try:
        import nic_emul.roce  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "capture: expected the package scapy (pip install 'wirezip[pcap]'); "
            f"found none ({error})"
        ) from error


def read(path: Path) -> Iterator[tuple[int, bytes]]:
    """Times in ns and frames of a capture that `Capture` or `merge` wrote.

    Raises:
        CaptureError: the file is none of those, or ends in the middle of a frame.
    """
    with path.open("rb") as file:
        if file.read(len(_FILE_HEADER)) != _FILE_HEADER:
            raise CaptureError(f"{path}: expected a pcap file of wirezip; found another header")
        for number in itertools.count():
            header = file.read(_RECORD.size)
            if not header:
                return
            if len(header) == _RECORD.size:
                seconds, rest_ns, length, _ = _RECORD.unpack(header)
                frame = file.read(length)
                if len(frame) == length:
                    yield seconds * _SECOND_NS + rest_ns, frame
                    continue
            raise CaptureError(f"{path}: expected the whole of frame {number}; found its beginning")


def merge(paths: Sequence[Path], target: Path) -> None:
    """Write the frames of all `paths` to `target`, in the order of their times.

    Raises:
        CaptureError: one of them is damaged.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with writing(target) as file:
        file.write(_FILE_HEADER)
        for time_ns, frame in heapq.merge(*map(read, paths), key=lambda record: record[0]):
            length = len(frame)
            file.write(_RECORD.pack(*divmod(time_ns, _SECOND_NS), length, length) + frame)
