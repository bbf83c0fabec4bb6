# SPDX-License-Identifier: Apache-2.0
"""What the encoder's first pass hands to the second, made from a frame of the reference codec.

A `Plan` is `plan_t` of `hw/rtl/wz_pkg.sv` and what stands beside it: the value beats, the interval
of ranked symbols and the table of steps.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder, Mode
from codec.header import Header, parse_header
from tests.rtl.dut import Integers
from tests.rtl.packets import PLAN
from tests.rtl.structs import pack

_FIELDS = dict(PLAN)


@dataclass(frozen=True)
class Plan:
    """One block, its packet and the plan that leads from one to the other."""

    block: bytes
    payload: bytes
    fields: dict[str, int]
    beats: NDArray[np.uint8]  # (beats, 64)
    steps: dict[int, int]  # symbol: step
    order: tuple[int, int]  # lowest and highest ranked symbol but 0

    @property
    def word(self) -> int:
        """The plan as a vector."""
        return pack(PLAN, **self.fields)

    @property
    def output_beats(self) -> int:
        return -(-len(self.payload) // f.BEAT_BYTES)


def plan(block: bytes, element: ElementType, phase: int = 0, *, bare: bool = True) -> Plan:
    """The plan of a block, as the encoder makes it.

    Args:
        bare: a block whose frame is not shorter than itself leaves as it is.
    """
    frame = reference.encode_frame(block, element, phase)
    if bare and len(frame) >= len(block):
        return bare_plan(block, element, phase)
    return frame_plan(block, frame, element, phase)


def bare_plan(block: bytes, element: ElementType, phase: int = 0) -> Plan:
    """The plan of a block that leaves as it is."""
    fields = _block_fields(block, element, phase)
    fields |= {"mode": Mode.RAW, "frame_bytes": len(block)}
    return Plan(block, block, fields, _value_beats(block, element, phase), {}, (0, 0))


def frame_plan(block: bytes, frame: bytes, element: ElementType, phase: int) -> Plan:
    """The plan that leads from a block to one of its valid frames."""
    header = parse_header(frame)
    fields = _block_fields(block, element, phase)
    fields |= {
        "header": int.from_bytes(frame[: header.size], "little"),
        "mode": header.mode,
        "coded": 1,
        "frame_bytes": len(frame),
    }
    steps: dict[int, int] = {}
    order = (0, 0)
    if header.mode == Mode.CONSTANT:
        fields["pattern"] = int.from_bytes(frame[header.size :], "little")
    if header.mode == Mode.CODED:
        fields |= _coded_fields(header, frame, fields)
        if fields["stored_values"] and element.layout.exponent_bits:
            steps, order = _order(header, element)
    return Plan(block, frame, fields, _value_beats(block, element, phase), steps, order)


def _block_fields(block: bytes, element: ElementType, phase: int) -> dict[str, int]:
    shape = reference._shape(len(block), element, phase)
    head, tail = block[: shape.head], block[len(block) - shape.tail :]
    beats = -(-shape.values * element.width_bytes // f.BEAT_BYTES)
    return dict.fromkeys(_FIELDS, 0) | {
        "element": element,
        "block_bytes": len(block),
        "head_bytes": shape.head,
        "tail_bytes": shape.tail,
        "head": int.from_bytes(head, "little"),
        "tail": int.from_bytes(tail, "little"),
        "values": shape.values,
        "stored_beats": (1 << beats) - 1,
    }


def _coded_fields(header: Header, frame: bytes, block: dict[str, int]) -> dict[str, int]:
    element = header.element
    at = header.size
    beats = -(-block["values"] * element.width_bytes // f.BEAT_BYTES)
    per_beat = f.BEAT_BYTES // element.width_bytes
    stored = (1 << beats) - 1
    if header.bitmap:
        stored = int.from_bytes(frame[at : at + f.BITMAP_BYTES], "little")
    values = sum(
        min(per_beat, block["values"] - i * per_beat) for i in range(beats) if stored >> i & 1
    )
    planes = at + f.BITMAP_BYTES * header.bitmap + block["head_bytes"] + block["tail_bytes"]
    plane_bytes = flagged = 0
    for plane in range(3):
        if header.plane_flags >> plane & 1:
            plane_bytes |= frame[planes + flagged] << 8 * plane
            flagged += 1
    carriers = values - header.bare_zeros
    stored_planes, top_bits = divmod(element.layout.remainder_bits - header.sign_flag, 8)
    full, rest = divmod(carriers, per_beat)
    record_bits = 8 * (stored_planes - flagged) + top_bits
    low_bits = f.CODER_LOW_BITS[header.coder] * values if element.layout.exponent_bits else 0
    return {
        "bitmap": header.bitmap,
        "stored_beats": stored,
        "stored_values": values,
        "bare_zeros": header.bare_zeros,
        "carriers": carriers,
        "sign_flag": header.sign_flag,
        "sign_value": header.sign_value,
        "plane_flags": header.plane_flags,
        "plane_bytes": plane_bytes,
        "base": header.base,
        "path": header.path,
        "zero_rank": header.zero_rank,
        "coder": header.coder,
        "unary_bytes": header.unary_bytes,
        "escapes": header.escapes,
        "extras_bytes": planes - at + flagged,
        "remainder_bytes": full * per_beat * record_bits // 8 + -(-rest * record_bits // 8),
        "low_bytes": -(-low_bits // 8),
    }


def _order(header: Header, element: ElementType) -> tuple[dict[int, int], tuple[int, int]]:
    ranks = f.CODER_RANKS[Coder(header.coder)]
    symbol_max = reference._symbol_max(element)
    ranked = reference._order(header.base, header.path, header.zero_rank, ranks, symbol_max)
    nonzero = [symbol for symbol in ranked if symbol]
    return {symbol: step for step, symbol in enumerate(nonzero)}, (min(nonzero), max(nonzero))


def _value_beats(block: bytes, element: ElementType, phase: int) -> NDArray[np.uint8]:
    shape = reference._shape(len(block), element, phase)
    size = shape.values * element.width_bytes
    data = np.zeros(-(-size // f.BEAT_BYTES) * f.BEAT_BYTES, np.uint8)
    data[:size] = np.frombuffer(block[shape.head : shape.head + size], np.uint8)
    return data.reshape(-1, f.BEAT_BYTES)


def payloads(
    data: NDArray[np.uint8], keep: Integers, last: NDArray[np.unsignedinteger]
) -> list[bytes]:
    """Packets of a stream: bytes `(beats, 64)`, which of them are there, and where packets end."""
    out, packet = [], b""
    for row, mask, end in zip(data, keep, last, strict=True):
        size = int(mask).bit_length()
        if int(mask) != (1 << size) - 1 or size == 0 or (size < row.size and not end):
            raise AssertionError(f"tkeep: expected bytes from the first on; found {mask:#x}")
        packet += row[:size].tobytes()
        if end:
            out.append(packet)
            packet = b""
    if packet:
        raise AssertionError("stream: the last packet has no end")
    return out
