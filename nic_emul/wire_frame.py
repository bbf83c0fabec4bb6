# SPDX-License-Identifier: Apache-2.0
"""The frames that two cards in the wire exchange: Ethernet frames, most of them shorter.

A frame whose payload shrinks by more than it costs to say so travels *coded*; any other travels
exactly as the host made it. So no frame ever grows, and whatever the host's MTU lets through fits
the wire's. Only a host's own frame with our EtherType must be marked: it travels *wrapped* and
grows by 12 bytes, which a wire of the same MTU has no room for if the frame is full-size.

| offset | bytes    | of a coded or wrapped frame                                                |
|--------|----------|----------------------------------------------------------------------------|
| 0      | 12       | target and source address of the original                                  |
| 12     | 2        | EtherType, by default `ETHERTYPE` (IEEE 802, for local experiments)        |
| 14     | 1        | version in the upper half, `Kind` in the lower                             |
| 15     | 1        | element type in bits 0 to 2, phase in bits 3 and 4 (`Engine.encode`)       |
| 16     | 2        | h: bytes of the original from its EtherType to its payload                 |
| 18     | 2        | p: bytes of its payload; 0 if wrapped                                      |
| 20     | 4        | CRC-32C of this frame with zeros here                                      |
| 24     | h        | the original's bytes from its EtherType on, checksums and all              |
| 24+h   | 2 per 4K | per block of payload: bytes that follow for it; bit 15: they are a frame   |
| ...    |          | of the codec, else the block itself                                        |

Numbers in the header are big-endian, as in the headers around it. A receiver drops what fails its
checksum or does not decode: to the hosts it is a lost frame.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from codec.checksum import crc32c
from codec.elements import ElementType
from codec.engine import Engine, Packets, block_lengths
from codec.errors import FrameError
from codec.format import BLOCK_BYTES_MAX, Mode
from nic_emul.errors import CorruptWireFrame
from nic_emul.ethernet import HEAD_BYTES_MAX, TYPE_OFFSET, Segment
from nic_emul.inference import infer
from nic_emul.policy import MIN_COMPRESSED_BYTES

U8 = NDArray[np.uint8]

ETHERTYPE = 0x88B5
VERSION = 1
_HEADER = struct.Struct(">BBHHI")
_START = TYPE_OFFSET + 2
MARK_BYTES = _START + _HEADER.size - TYPE_OFFSET
_HEAD_AT = TYPE_OFFSET + MARK_BYTES
_CRC_OFFSET = _HEAD_AT - 4
_MARK, _LENGTH_MASK = 0x8000, 0x1FFF
# Shorter frames are padded on a real wire.
_FRAME_BYTES_MIN = 60


class Kind(IntEnum):
    """What a marked frame is."""

    WRAPPED = 0
    CODED = 1


@dataclass(frozen=True)
class WireFormat:
    """How both ends of a wire mark and restore frames.

    Attributes:
        engine: codes and restores payloads.
        frame_bytes_max: of a frame of either side, Ethernet header included.
        ethertype: of marked frames.
    """

    engine: Engine
    frame_bytes_max: int
    ethertype: int = ETHERTYPE

    def to_wire(self, frame: bytes, segment: Segment | None) -> bytes | None:
        """What travels instead of the host's `frame`, 14 bytes or more; `frame` itself if nothing
        does.

        None: it would have to be wrapped and does not fit.
        """
        if self.is_marked(frame):
            if len(frame) + MARK_BYTES > self.frame_bytes_max:
                return None
            return self._mark(frame, Kind.WRAPPED, 0, len(frame), 0, b"")
        if segment is None or len(frame) - segment.payload < MIN_COMPRESSED_BYTES:
            return frame
        payload = np.frombuffer(frame, np.uint8, offset=segment.payload)
        element, phase = infer(payload)
        if element is ElementType.RAW:
            return frame
        packets = self.engine.encode(payload, element, BLOCK_BYTES_MAX, phase=phase, bare=True)
        coded = _pack(packets)
        if MARK_BYTES + len(coded) >= payload.size:
            return frame
        kind = element | phase << 3
        return self._mark(frame, Kind.CODED, kind, segment.payload, payload.size, coded)

    def from_wire(self, frame: bytes) -> bytes:
        """The host's frame that `frame` stands for.

        Raises:
            CorruptWireFrame: it is marked, and not what `to_wire` makes.
        """
        if not self.is_marked(frame):
            return frame
        if len(frame) < _HEAD_AT + 2:
            raise CorruptWireFrame(f"expected at least {_HEAD_AT + 2} bytes; found {len(frame)}")
        first, what, head, size, crc = _HEADER.unpack_from(frame, _START)
        if crc != _checksum(frame):
            raise CorruptWireFrame(f"checksum is {_checksum(frame):08x}; found {crc:08x}")
        if first >> 4 != VERSION:
            raise CorruptWireFrame(f"expected version {VERSION}; found {first >> 4}")
        if TYPE_OFFSET + head + size > self.frame_bytes_max:
            raise CorruptWireFrame(
                f"expected at most {self.frame_bytes_max} bytes; found {TYPE_OFFSET + head + size}"
            )
        if first & 0xF == Kind.WRAPPED:
            return _unwrap(frame, head, size)
        if first & 0xF != Kind.CODED:
            raise CorruptWireFrame(f"expected a coded or wrapped frame; found kind {first & 0xF}")
        if not 2 <= head <= HEAD_BYTES_MAX or _HEAD_AT + head > len(frame):
            raise CorruptWireFrame(f"expected 2 to {HEAD_BYTES_MAX} bytes of headers; found {head}")
        payload = self._restore(frame, _HEAD_AT + head, what, size)
        return frame[:TYPE_OFFSET] + frame[_HEAD_AT : _HEAD_AT + head] + payload

    def is_marked(self, frame: bytes) -> bool:
        """Whether `frame` has the EtherType of marked frames."""
        return frame[TYPE_OFFSET] == self.ethertype >> 8 and (
            frame[TYPE_OFFSET + 1] == self.ethertype & 0xFF
        )

    def _mark(self, frame: bytes, kind: Kind, what: int, end: int, size: int, body: bytes) -> bytes:
        """Mark `frame`, of which all up to `end` travels as it is and `body` follows."""
        fields = _HEADER.pack(VERSION << 4 | kind, what, end - TYPE_OFFSET, size, 0)
        mark = self.ethertype.to_bytes(2, "big") + fields
        marked = bytearray(b"".join((frame[:TYPE_OFFSET], mark, frame[TYPE_OFFSET:end], body)))
        marked[_CRC_OFFSET:_HEAD_AT] = crc32c(np.frombuffer(marked, np.uint8)).to_bytes(4, "big")
        return bytes(marked)

    def _restore(self, frame: bytes, at: int, what: int, size: int) -> bytes:
        """The payload of `size` bytes whose table begins at `at`."""
        element, phase = what & 0x7, what >> 3
        if element not in ElementType._value2member_map_:
            raise CorruptWireFrame(f"expected an element type; found {element}")
        if phase >= ElementType(element).width_bytes:
            raise CorruptWireFrame(f"expected a phase of the element type; found {phase}")
        packets = _unpack(frame, at, size)
        out = np.empty(size, np.uint8)
        try:
            self.engine.decode(
                packets, ElementType(element), BLOCK_BYTES_MAX, out, phase=phase, bare=True
            )
        except FrameError as error:
            raise CorruptWireFrame(str(error)) from error
        return out.tobytes()


def _checksum(frame: bytes) -> int:
    data = np.frombuffer(frame, np.uint8)
    return crc32c(data[_HEAD_AT:], crc32c(_NO_CRC, crc32c(data[:_CRC_OFFSET])))


_NO_CRC = np.zeros(4, np.uint8)


def _unwrap(frame: bytes, head: int, size: int) -> bytes:
    end = _HEAD_AT + head
    if size or head < 2 or len(frame) not in (end, max(end, _FRAME_BYTES_MIN)):
        raise CorruptWireFrame(f"expected {head} bytes and no payload; found other lengths")
    return frame[:TYPE_OFFSET] + frame[_HEAD_AT:end]


def _pack(packets: Packets) -> bytes:
    """Table and payloads."""
    marks = (packets.modes != Mode.RAW).astype(np.uint16) * np.uint16(_MARK)
    table = (packets.lengths.astype(np.uint16) | marks).astype(">u2")
    return bytes(table.data) + bytes(packets.payload.data)


def _unpack(frame: bytes, at: int, size: int) -> Packets:
    """Undo `_pack` for a payload of `size` bytes."""
    blocks = block_lengths(size, BLOCK_BYTES_MAX)
    start = at + 2 * blocks.size
    if not size or start > len(frame):
        raise CorruptWireFrame(f"expected a table of {blocks.size} blocks; found an end")
    words = np.frombuffer(frame, ">u2", blocks.size, at)
    lengths = (words & _LENGTH_MASK).astype(np.int32)
    coded = (words & _MARK) != 0
    whole = np.where(coded, (lengths >= 1) & (lengths < blocks), lengths == blocks)
    if not whole.all() or start + int(lengths.sum()) != len(frame):
        raise CorruptWireFrame("expected payloads of the blocks; found other lengths")
    modes = np.where(coded, np.uint8(Mode.CODED), np.uint8(Mode.RAW))
    return Packets(np.frombuffer(frame, np.uint8, offset=start), lengths, modes)
