# SPDX-License-Identifier: Apache-2.0
"""What must hold for any bytes that are offered as a frame.

The reference decides; the Numba engine must agree, on buffers between inaccessible pages. An input
is two control bytes and a frame. The frame's CRC is made to fit what it decodes to, since no search
would find it; so the other rules of the format are what is tested.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import FrameError
from codec.format import Mode
from tests.conformance.guarded import PAGE, Guarded
from tests.conformance.vectors import Good, load_good
from tests.fuzz.common import Disagreement, first_frame

MAX_BYTES = 4200
CONTROL_BYTES = 2
RESIDENT, BARE, AT_END = 1, 2, 4


@dataclass(frozen=True)
class Offer:
    """A frame and what its receiver expects; the copy is derived from `seed`."""

    frame: bytes
    element: ElementType
    block_bytes: int
    phase: int
    seed: int
    bare: bool
    at_end: bool

    @property
    def resident(self) -> bytes | None:
        if self.seed == 0:
            return None
        rng = np.random.default_rng(self.seed)
        return rng.integers(0, 256, self.block_bytes, np.uint8).tobytes()


def pack(vector: Good) -> bytes:
    """An input that offers a golden vector's frame, with a copy if it needs one."""
    control = [0, AT_END] if vector.resident is None else [1, AT_END | RESIDENT]
    return bytes(control) + vector.frame


def seeds() -> Iterator[bytes]:
    """What a search begins with: the golden frames, up to those of whole blocks of 4 KiB."""
    return (pack(vector) for vector in load_good())


def unpack(data: bytes) -> Offer | None:
    """The offer in an input; None if it is too short. What the header says is what is expected."""
    if len(data) < CONTROL_BYTES + f.SHORT_HEADER_BYTES:
        return None
    frame = data[CONTROL_BYTES:]
    word = int.from_bytes(frame[: f.SHORT_HEADER_BYTES], "little")
    element = ElementType((word >> f.ELEMENT_LSB & 7) % len(ElementType))
    return Offer(
        frame=frame,
        element=element,
        block_bytes=(word >> f.LENGTH_LSB & (1 << f.LENGTH_BITS) - 1) + 1,
        phase=(word >> f.PHASE_LSB & 3) % element.width_bytes,
        seed=data[0] if data[1] & RESIDENT else 0,
        bare=bool(data[1] & BARE),
        at_end=bool(data[1] & AT_END),
    )


class Checker:
    """Offers frames to both engines."""

    def __init__(self) -> None:
        self._numba = get_engine("numba")
        self._payload, self._out, self._resident = Guarded(2 * PAGE), Guarded(PAGE), Guarded(PAGE)

    def check(self, data: bytes) -> bool:
        """Whether the input is accepted; raises `Disagreement` where something is wrong."""
        offer = unpack(data)
        if offer is None or len(offer.frame) > 2 * PAGE:
            return False
        offer = _with_crc(offer)
        expected = _by_reference(offer)
        found = self._by_numba(offer)
        if expected != found:
            raise Disagreement(f"{offer}: reference {_name(expected)}, numba {_name(found)}")
        return expected is not None

    def _by_numba(self, offer: Offer) -> bytes | None:
        out = self._out.take(offer.block_bytes, at_end=offer.at_end)
        payload = self._payload.put(offer.frame, at_end=offer.at_end)
        resident: U8 | None = None
        if offer.resident is not None:
            resident = self._resident.put(offer.resident, at_end=offer.at_end)
        packets = Packets(
            payload, np.array([payload.size], np.int32), np.array([Mode.CODED], np.uint8)
        )
        try:
            self._numba.decode(
                packets,
                offer.element,
                out.size,
                out,
                phase=offer.phase,
                bare=offer.bare,
                resident=resident,
            )
        except FrameError as error:
            if "refused with status" in str(error):
                raise Disagreement(f"{offer}: {error}, but the reference accepts it") from None
            return None
        return out.tobytes()


def _with_crc(offer: Offer) -> Offer:
    """The offer with the CRC of the copy and of the block put right, if it decodes at all."""
    first = first_frame(offer.frame, offer.resident)
    if first is None:
        return offer
    return replace(offer, frame=first.frame + offer.frame[len(first.frame) :])


def _by_reference(offer: Offer) -> bytes | None:
    try:
        return reference.decode_payload(
            offer.frame,
            offer.element,
            offer.block_bytes,
            offer.phase,
            bare=offer.bare,
            bare_block=False,
            resident=offer.resident,
        )
    except FrameError:
        return None


def _name(block: bytes | None) -> str:
    return "refuses it" if block is None else f"gives {block[:16].hex(' ')} ..."
