# SPDX-License-Identifier: Apache-2.0
"""How the NIC learns what the bytes of a message are made of (`WIREZIP_ELEMENT`).

| source   | a packet is coded as                          | its receiver takes it for          |
|----------|-----------------------------------------------|------------------------------------|
| tagged   | the type that the message's header names      | that type                          |
| inferred | what its own bytes look like (`inference.py`) | what the header of its frame says  |
| off      | bytes of no type                              | that                               |

An inferred type may differ from packet to packet, and may be wrong, which costs bytes alone.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.engine import Engine, Packets
from codec.errors import CorruptFrame, FrameError
from codec.format import Mode
from codec.packet import frame_types
from nic_emul.config import ElementSource
from nic_emul.inference import infer

U8 = NDArray[np.uint8]
Kind = tuple[ElementType, int]


class Source(Protocol):
    """Codes and restores the packets of a message, tagged as `element`."""

    def encode(self, engine: Engine, data: U8, element: ElementType, block_bytes: int) -> Packets:
        """Cut `data`, uint8 `(n,)`, into packets."""
        ...

    def decode(
        self, engine: Engine, packets: Packets, element: ElementType, block_bytes: int, out: U8
    ) -> None:
        """Undo `encode` into `out`, uint8 `(n,)`.

        Raises:
            FrameError: a frame is damaged.
        """
        ...


def source_of(name: ElementSource) -> Source:
    """The source that `WIREZIP_ELEMENT` calls `name`."""
    return _SOURCES[name]


class _Tagged:
    def encode(self, engine: Engine, data: U8, element: ElementType, block_bytes: int) -> Packets:
        return engine.encode(data, element, block_bytes, bare=True)

    def decode(
        self, engine: Engine, packets: Packets, element: ElementType, block_bytes: int, out: U8
    ) -> None:
        engine.decode(packets, element, block_bytes, out, bare=True)


class _Off(_Tagged):
    def encode(self, engine: Engine, data: U8, element: ElementType, block_bytes: int) -> Packets:
        return super().encode(engine, data, ElementType.RAW, block_bytes)

    def decode(
        self, engine: Engine, packets: Packets, element: ElementType, block_bytes: int, out: U8
    ) -> None:
        super().decode(engine, packets, ElementType.RAW, block_bytes, out)


class _Inferred:
    """Neighbouring blocks of one type and phase, which most are, go through the engine at once.

    A block is a multiple of every element's width, and so its successors have its phase.
    """

    def encode(self, engine: Engine, data: U8, element: ElementType, block_bytes: int) -> Packets:
        kinds = [infer(data[at : at + block_bytes]) for at in range(0, data.size, block_bytes)]
        coded = [
            engine.encode(
                data[first * block_bytes : last * block_bytes],
                kind,
                block_bytes,
                phase=phase,
                bare=True,
            )
            for first, last, (kind, phase) in _runs(kinds)
        ]
        if len(coded) == 1:
            return coded[0]
        return Packets(
            np.concatenate([packets.payload for packets in coded]),
            np.concatenate([packets.lengths for packets in coded]),
            np.concatenate([packets.modes for packets in coded]),
        )

    def decode(
        self, engine: Engine, packets: Packets, element: ElementType, block_bytes: int, out: U8
    ) -> None:
        ends = np.cumsum(packets.lengths, dtype=np.int64)
        starts = ends - packets.lengths
        for first, last, (kind, phase) in _runs(_told(packets)):
            part = Packets(
                packets.payload[starts[first] : ends[last - 1]],
                packets.lengths[first:last],
                packets.modes[first:last],
            )
            target = out[first * block_bytes : last * block_bytes]
            try:
                engine.decode(part, kind, block_bytes, target, phase=phase, bare=True)
            except FrameError as error:
                raise type(error)(f"from packet {first} on: {error}") from error


def _told(packets: Packets) -> list[Kind]:
    """What each packet's frame says that it is; a raw packet is what the one before it is."""
    elements, phases = frame_types(packets)
    kinds: list[Kind] = []
    before: Kind = (ElementType.RAW, 0)
    for number, (tag, phase) in enumerate(zip(elements.tolist(), phases.tolist(), strict=True)):
        if packets.modes[number] != Mode.RAW:
            if tag > max(ElementType) or phase >= ElementType(tag).width_bytes:
                raise CorruptFrame(
                    f"block {number}: expected an element type and a phase in it; "
                    f"found {tag} and {phase}"
                )
            before = (ElementType(tag), phase)
        kinds.append(before)
    return kinds


def _runs(kinds: list[Kind]) -> Iterator[tuple[int, int, Kind]]:
    """First, behind last, and kind of each run of equal ones."""
    first = 0
    for position in range(1, len(kinds) + 1):
        if position == len(kinds) or kinds[position] != kinds[first]:
            yield first, position, kinds[first]
            first = position


_SOURCES: dict[ElementSource, Source] = {
    "tagged": _Tagged(),
    "inferred": _Inferred(),
    "off": _Off(),
}
