# SPDX-License-Identifier: Apache-2.0
"""What must hold for any bytes that are offered as a frame.

The reference decides; the Numba engine must agree, on buffers between inaccessible pages. An input
is two control bytes and a frame. The frame's CRC is made to fit what it decodes to, since no search
would find it; so the other rules of the format are what is tested.
"""

from dataclasses import dataclass
from unittest import mock

import numpy as np

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import FrameError
from codec.format import Mode
from codec.header import parse_header
from tests.conformance.guarded import PAGE, Guarded
from tests.conformance.vectors import Good

CONTROL_BYTES = 2
RESIDENT, BARE, AT_END = 1, 2, 4


class Disagreement(AssertionError):
    """The engines differ, or a frame decodes to what it was not made from."""


class _Decoded(Exception):
    """Carries the block out of the reference decoder before it looks at the CRC."""


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
    """An input that offers a golden vector's frame, for a corpus to start from."""
    return bytes([0, AT_END]) + vector.frame


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
    frame = bytearray(offer.frame)
    resident = offer.resident
    is_reference = frame[0] >> f.MODE_LSB & 3 == Mode.REFERENCE
    if resident is not None and is_reference and len(frame) >= f.LONG_HEADER_BYTES:
        padded = resident + bytes(-len(resident) % f.BEAT_BYTES)
        frame[8:12] = reference.crc32c(padded).to_bytes(4, "little")

    def catch(block: bytes, header: bytes) -> int:
        raise _Decoded(block, header)

    try:
        with mock.patch.object(reference, "checksum", catch):
            reference.decode_frame(bytes(frame), resident)
    except FrameError:
        pass
    except _Decoded as decoded:
        block, header = decoded.args
        frame[4:8] = reference.checksum(block, header).to_bytes(4, "little")
        parse_header(bytes(frame))
    return Offer(**(offer.__dict__ | {"frame": bytes(frame)}))


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
