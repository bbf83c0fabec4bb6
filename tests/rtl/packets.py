# SPDX-License-Identifier: Apache-2.0
"""Packets for the decoder's modules, and what its intake must make of them.

`expected` reads a frame by `docs/format.md` and the functions of the reference codec, but goes on
where the reference stops: bytes that a packet does not have count as zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from random import Random

import numpy as np
from numpy.typing import NDArray

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.errors import CorruptFrame, FrameError, TruncatedFrame
from codec.format import Coder, Mode
from codec.header import Header
from tests.conformance.builder import FIELDS

# Fields of the packed structs of wz_pkg, highest bits first.
PLAN = (
    ("header", 128),
    ("mode", 2),
    ("element", 3),
    ("coded", 1),
    ("block_bytes", 13),
    ("head_bytes", 2),
    ("tail_bytes", 2),
    ("head", 24),
    ("tail", 24),
    ("values", 13),
    ("bitmap", 1),
    ("stored_beats", 64),
    ("stored_values", 13),
    ("bare_zeros", 13),
    ("carriers", 13),
    ("sign_flag", 1),
    ("sign_value", 1),
    ("plane_flags", 3),
    ("plane_bytes", 24),
    ("pattern", 32),
    ("base", 8),
    ("path", 14),
    ("zero_rank", 4),
    ("coder", 2),
    ("unary_bytes", 11),
    ("escapes", 8),
    ("extras_bytes", 6),
    ("remainder_bytes", 13),
    ("low_bytes", 11),
    ("frame_bytes", 13),
)

# Those of wz_sections_pkg that tests drive or read.
PLACE = (("packet", 6), ("start", 9))
FIRST = (("bytes", 384), ("user", 19), ("has_short", 1), ("has_long", 1), *PLACE)
COUNTS = (
    ("coded", 1),
    ("block_bytes", 13),
    ("values", 13),
    ("stored_values", 13),
    ("carriers", 13),
)
EXTRAS = (
    ("head_bytes", 2),
    ("tail_bytes", 2),
    ("head", 24),
    ("tail", 24),
    ("plane_bytes", 24),
    ("stored_beats", 64),
)
RECORD_JOB = (
    *PLACE,
    ("ahead", 9),
    ("records", 7),
    ("offset", 6),
    ("step", 7),
    ("last", 7),
    ("split", 1),
    ("parts", 2),
    ("as_is", 1),
    ("element", 3),
    ("sign_flag", 1),
    ("sign_value", 1),
    ("plane_flags", 3),
    ("plane_bytes", 24),
)
UNARY_JOB = (*PLACE, ("word", 11), ("words", 8), ("last_bytes", 4))
UNPACK = (("two_bits", 1), ("group_log2", 2), ("groups", 10))
LOW_JOB = (
    *PLACE,
    ("word", 11),
    ("words", 8),
    ("remainder_used", 7),
    ("low_used", 7),
    ("emit", 1),
    *UNPACK,
)
ESCAPE_JOB = (*PLACE, ("word", 11), ("words", 5), ("shift", 4), ("flush", 1))
WINDOW = (
    ("bytes", 7),
    ("set", 4),
    ("last_part", 1),
    ("choice", 2),
    ("low", 1),
    ("element", 3),
    ("sign_flag", 1),
    ("sign_value", 1),
    ("plane_flags", 3),
    ("plane_bytes", 24),
)
CLAIM = (
    ("frame", 1),
    ("coded", 1),
    ("long_header", 1),
    ("bad_version", 1),
    ("bad_fields", 1),
    ("unsupported", 1),
    ("bad_early", 1),
    ("bad_extras", 1),
    ("bad_symbols", 1),
    ("bad_escapes", 1),
    ("too_long", 1),
    ("shorter", 1),
    ("block_bytes", 13),
    ("extras_words", 2),
    ("low_word", 10),
    ("unary_word", 10),
    ("escape_byte", 14),
    ("frame_bytes", 14),
)


class Error(IntEnum):
    """error_e"""

    NONE = 0
    TRUNCATED = 1
    CORRUPT = 2
    UNSUPPORTED = 3


@dataclass(frozen=True)
class Packet:
    """A payload and what travels beside it; without `expect`, any element, phase and length do."""

    payload: bytes
    coded: bool = True
    expect: bool = False
    element: ElementType = ElementType.RAW
    phase: int = 0
    block_bytes: int = 1

    @property
    def user(self) -> int:
        length = (self.block_bytes - 1) << 7
        return length | self.phase << 5 | int(self.element) << 2 | self.expect << 1 | self.coded


@dataclass
class Sections:
    """What the intake gives out for a packet; `plan` is None if it refuses the packet."""

    plan: dict[str, int] | None = None
    carriers: list[int] = field(default_factory=list)
    low: list[int] = field(default_factory=list)
    unary: list[int] = field(default_factory=list)
    escapes: bytes = b""


def beats(packets: Sequence[Packet], rng: Random | None = None) -> dict[str, NDArray[np.uint8]]:
    """The input stream; with `rng`, bytes without keep and users of later beats are random."""
    data, keep, last, user = [], [], [], []
    for packet in packets:
        payload = packet.payload
        count = max(1, -(-len(payload) // 64))
        for i in range(count):
            part = payload[64 * i : 64 * i + 64]
            filler = bytes(64 - len(part)) if rng is None else rng.randbytes(64 - len(part))
            data.append(part + filler)
            keep.append(((1 << len(part)) - 1).to_bytes(8, "little"))
            last.append(i == count - 1)
            user.append(packet.user if i == 0 or rng is None else rng.getrandbits(19))
    return {
        "tdata": np.frombuffer(b"".join(data), np.uint8).reshape(-1, 64),
        "tkeep": np.frombuffer(b"".join(keep), np.uint8).reshape(-1, 8),
        "tlast": np.array(last, np.uint8),
        "tuser": np.array(user, np.uint32),
    }


def outcome(packet: Packet, *, bare: bool) -> type[FrameError] | bytes:
    """What the reference codec makes of a packet: the block or the class of the error."""
    try:
        if not packet.coded:
            if not 1 <= len(packet.payload) <= f.BLOCK_BYTES_MAX:
                raise CorruptFrame("length")
            if packet.expect and len(packet.payload) != packet.block_bytes:
                raise CorruptFrame("length")
            return packet.payload
        if packet.expect:
            return reference.decode_payload(
                packet.payload,
                packet.element,
                packet.block_bytes,
                packet.phase,
                bare=bare,
                bare_block=False,
            )
        header = reference.parse_header(packet.payload)
        if bare and (header.mode == Mode.RAW or len(packet.payload) >= header.block_bytes):
            raise CorruptFrame("bare")
        return reference.decode_frame(packet.payload)
    except FrameError as error:
        return type(error)


def expected(packet: Packet, lanes: int) -> Sections:
    """The sections of a packet that is not refused."""
    payload = packet.payload
    if not packet.coded:
        length = packet.block_bytes if packet.expect else len(payload)
        plan = {"coded": 0, "mode": Mode.RAW, "block_bytes": length}
        return Sections(plan, carriers=_as_beats(payload.ljust(length, b"\0")[:length]))
    word = int.from_bytes(payload[:16].ljust(16, b"\0"), "little")
    header = _header(word)
    plan = {
        "coded": 1,
        "mode": header.mode,
        "element": header.element,
        "block_bytes": header.block_bytes,
        "header": word & (1 << 8 * header.size) - 1,
    }
    if header.mode == Mode.RAW:
        block = payload[8:].ljust(header.block_bytes, b"\0")[: header.block_bytes]
        return Sections(plan, carriers=_as_beats(block))
    if header.mode == Mode.CONSTANT:
        width = header.element.width_bytes
        pattern = payload[8 : 8 + width].ljust(width, b"\0")
        return Sections(plan | {"pattern": int.from_bytes(pattern, "little")})
    return _coded(header, payload[16:] + bytes(12000), plan, lanes)


def _header(word: int) -> Header:
    """A header that need not be valid."""

    def get(name: str) -> int:
        lsb, width = FIELDS[name]
        return word >> lsb & (1 << width) - 1

    mode, element = Mode(get("mode")), ElementType(get("element"))
    if mode != Mode.CODED:
        return Header(mode, element, get("length") + 1)
    names = "bitmap phase sign_flag sign_value zero_rank base path coder unary_bytes escapes"
    fields = {name: get(name) for name in (*names.split(), "bare_zeros")}
    return Header(mode, element, get("length") + 1, plane_flags=get("planes"), **fields)


def _coded(header: Header, body: bytes, plan: dict[str, int], lanes: int) -> Sections:
    element, layout, width = header.element, header.element.layout, header.element.width_bytes
    per_beat = 64 // width
    shape = reference._shape(header.block_bytes, element, header.phase)
    counts = [len(beat) for beat in reference._beats([0] * shape.values, element)]
    flagged = [plane for plane in range(3) if header.plane_flags >> plane & 1]
    reader = _Sections(body)
    extras = _Sections(reader.take16(8 * header.bitmap + shape.head + shape.tail + len(flagged)))
    bits = int.from_bytes(extras.take(8), "little") if header.bitmap else (1 << len(counts)) - 1
    head, tail = extras.take(shape.head), extras.take(shape.tail)
    planes = {plane: extras.take(1)[0] for plane in flagged}
    values = sum(count for b, count in enumerate(counts) if bits >> b & 1)
    carriers = values - header.bare_zeros

    # Remainders, by the reference's own reading of what was padded to its full length.
    remainder_bits = layout.remainder_bits - header.sign_flag
    records = [len(record) for record in reference._beats([0] * max(0, carriers), element)]
    byte_planes, top = divmod(remainder_bits, 8)
    sizes = [n * (byte_planes - len(flagged)) + -(-n * top // 8) for n in records]
    section = reader.take16(sum(sizes))[: sum(sizes)]
    if sizes and top and records[-1] * top % 8:
        # Bits of padding that are wrong are the verdict's matter.
        clear = (1 << records[-1] * top % 8) - 1
        section = section[:-1] + bytes([section[-1] & clear])
    remainders = reference._decode_remainders(
        reference._Reader(reference._padded(section)),
        records,
        remainder_bits,
        [planes.get(plane) for plane in range(byte_planes)],
    )
    sign = header.sign_value << layout.mantissa_bits
    merged = [reference._merge(0, remainder | sign, element) for remainder in remainders]
    data = b"".join(value.to_bytes(width, "little") for value in merged)

    low, unary, escapes = [], [], b""
    if layout.exponent_bits and values:
        k = f.CODER_LOW_BITS[Coder(header.coder)]
        low = _groups(reader.take16(-(-values * k // 8)), values, k, min(per_beat, lanes))
        section = reader.take(header.unary_bytes)
        unary = [int.from_bytes(section[i : i + 16], "little") for i in range(0, len(section), 16)]
        escapes = reader.take(header.escapes)
    plan = plan | {
        "head_bytes": shape.head,
        "tail_bytes": shape.tail,
        "head": int.from_bytes(head, "little"),
        "tail": int.from_bytes(tail, "little"),
        "values": shape.values,
        "bitmap": header.bitmap,
        "stored_beats": bits,
        "stored_values": values,
        "bare_zeros": header.bare_zeros,
        "carriers": carriers,
        "sign_flag": header.sign_flag,
        "sign_value": header.sign_value,
        "plane_flags": header.plane_flags,
        "plane_bytes": sum(byte << 8 * plane for plane, byte in planes.items()),
        "base": header.base,
        "path": header.path,
        "zero_rank": header.zero_rank,
        "coder": header.coder,
        "unary_bytes": header.unary_bytes,
        "escapes": header.escapes,
    }
    return Sections(plan, _as_beats(data), low, unary, escapes)


class _Sections:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def take(self, size: int) -> bytes:
        data, self._body = self._body[:size], self._body[size:]
        return data

    def take16(self, size: int) -> bytes:
        return self.take(reference._pad16(size))


def _as_beats(data: bytes) -> list[int]:
    return [int.from_bytes(data[i : i + 64], "little") for i in range(0, len(data), 64)]


def _groups(section: bytes, values: int, k: int, group: int) -> list[int]:
    """2 bits a lane; lanes beyond the last value hold the padding, whatever it is."""
    if k == 0:
        return []
    word = int.from_bytes(section, "little")
    fields = [word >> k * i & (1 << k) - 1 for i in range(-(-values // group) * group)]
    return [
        sum(bits << 2 * i for i, bits in enumerate(fields[at : at + group]))
        for at in range(0, values, group)
    ]


def damaged(rng: Random, frame: bytes) -> bytes:
    """The frame with bits flipped, cut short, longer, or with other bytes in its header."""
    data = bytearray(frame)
    kind = rng.randrange(5)
    if kind == 0:
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data += (
            bytes(rng.randint(1, 200))
            if rng.random() < 0.5
            else rng.randbytes(rng.randint(1, 9000))
        )
    elif kind == 3:
        at = rng.randrange(min(16, len(data)))
        data[at] = rng.randrange(256)
    else:
        at = rng.randrange(min(64, len(data)))
        data[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.5:
            del data[rng.randrange(len(data)) :]
    return bytes(data) or b"\1"


__all__ = [
    "CLAIM",
    "COUNTS",
    "ESCAPE_JOB",
    "EXTRAS",
    "FIRST",
    "LOW_JOB",
    "PLAN",
    "RECORD_JOB",
    "UNARY_JOB",
    "UNPACK",
    "WINDOW",
    "CorruptFrame",
    "Error",
    "Packet",
    "Sections",
    "TruncatedFrame",
    "beats",
    "damaged",
    "expected",
    "outcome",
]
