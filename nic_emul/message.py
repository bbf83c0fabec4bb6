# SPDX-License-Identifier: Apache-2.0
"""The bytes of one message between two ranks: header, packet table, payloads.

A message is one slice of one collective, or one slice of a send. On the socket:

| part    | bytes            | meaning                                                          |
|---------|------------------|------------------------------------------------------------------|
| header  | 52               | what the message is (`_HEADER`), closed by its own CRC-32C       |
| table   | 2 per packet     | payload length in bits 0-12; bit 15 is the packet's mark "coded" |
| payload | sum of lengths   | the packets' payloads, back to back                              |

A message between ranks of one node (`Kind.INTRA`) has neither table nor checksum of the body: its
bytes follow the header as they are. It stands for a copy from memory to memory, without packets.

Everything is little-endian. The header's body CRC covers table and payload; it stands for the
packets' ICRCs, whose bytes `packets.py` counts. A receiver knows what must come next, compares
every field with it, and only then touches the body, whose size it has bounded by its own buffer.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from codec.checksum import crc32c
from codec.engine import Packets, block_lengths, raw_blocks
from codec.format import Mode
from nic_emul.dtypes import Dtype, label_of
from nic_emul.errors import CollectiveMismatch, CorruptMessage, ProtocolError
from nic_emul.roles import Collective, Role

PROTOCOL_VERSION = 3
_MAGIC = b"WZNC"
_HEADER = struct.Struct("<4s6B2xHHIIiQIII")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
_MARK = 0x8000
_LENGTH_MASK = 0x1FFF

U8 = NDArray[np.uint8]


class Kind(IntEnum):
    """What a message does."""

    DATA = 0
    ANNOUNCE = 1
    INTRA = 2


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What the messages of one operation have in common, on every rank.

    Attributes:
        collective, role, dtype: what they are counted under.
        sequence: number of the operation in its group, or of the send on its link.
        operation: reduction (`ReduceCode`); 0 where nothing is reduced.
        root: root rank of a rooted collective, else 0.
        tag: tag of a send, else 0.
        total_bytes: size of the whole operation as every rank must see it.
    """

    collective: Collective
    role: Role
    dtype: Dtype
    sequence: int
    operation: int = 0
    root: int = 0
    tag: int = 0
    total_bytes: int = 0

    @cached_property
    def key(self) -> tuple[str, str, str]:
        """The counter row."""
        return (self.collective.label, self.role.label, self.dtype.label)


@dataclass(frozen=True)
class Received:
    """A message as it arrived, for who passes it on.

    Attributes:
        packets: what came; a payload that is a frame has `Mode.CODED`.
        crc: of its table and payload.
    """

    packets: Packets
    crc: int


@dataclass(frozen=True, kw_only=True)
class Header:
    """The fields of a message header, in wire order."""

    kind: int
    collective: int
    role: int
    dtype: int
    operation: int
    root: int
    block_bytes: int
    sequence: int
    index: int
    tag: int
    total_bytes: int
    logical_bytes: int
    payload_bytes: int = 0
    body_crc: int = 0

    def pack(self) -> bytes:
        """The header as it travels, `HEADER_BYTES` long."""
        fixed = _HEADER.pack(
            _MAGIC,
            PROTOCOL_VERSION,
            self.kind,
            self.collective,
            self.role,
            self.dtype,
            self.operation,
            self.root,
            self.block_bytes,
            self.sequence,
            self.index,
            self.tag,
            self.total_bytes,
            self.logical_bytes,
            self.payload_bytes,
            self.body_crc,
        )
        return fixed + _CRC.pack(crc32c(np.frombuffer(fixed, np.uint8)))

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> "Header":
        """Undo `pack`.

        Raises:
            ProtocolError: the bytes are not a header of this version, or are damaged.
        """
        fields = _HEADER.unpack_from(data)
        if fields[0] != _MAGIC:
            raise ProtocolError(f"message header: expected magic {_MAGIC!r}; found {fields[0]!r}")
        if fields[1] != PROTOCOL_VERSION:
            raise ProtocolError(
                f"message header: expected protocol version {PROTOCOL_VERSION}; found {fields[1]}"
            )
        (found,) = _CRC.unpack_from(data, _HEADER.size)
        expected = crc32c(np.frombuffer(data, np.uint8, _HEADER.size))
        if found != expected:
            raise CorruptMessage(f"message header: checksum is {expected:08x}; found {found:08x}")
        kind, collective, role, dtype, operation = fields[2:7]
        root, block, sequence, index, tag, total, logical, payload, crc = fields[7:]
        return cls(
            kind=kind,
            collective=collective,
            role=role,
            dtype=dtype,
            operation=operation,
            root=root,
            block_bytes=block,
            sequence=sequence,
            index=index,
            tag=tag,
            total_bytes=total,
            logical_bytes=logical,
            payload_bytes=payload,
            body_crc=crc,
        )

    @classmethod
    def describe(
        cls,
        traffic: Traffic,
        *,
        index: int,
        logical_bytes: int,
        block_bytes: int,
        kind: Kind = Kind.DATA,
    ) -> "Header":
        """The header that message `index` of `traffic` must have, body fields left at zero."""
        return cls(
            kind=kind,
            collective=traffic.collective,
            role=traffic.role,
            dtype=traffic.dtype.tag,
            operation=traffic.operation,
            root=traffic.root,
            block_bytes=block_bytes,
            sequence=traffic.sequence,
            index=index,
            tag=traffic.tag,
            total_bytes=traffic.total_bytes,
            logical_bytes=logical_bytes,
        )

    def with_body(self, payload_bytes: int, crc: int) -> "Header":
        """This header for a body of `payload_bytes` with CRC-32C `crc`."""
        # Not `replace`, which takes several times as long.
        return Header(**(vars(self) | {"payload_bytes": payload_bytes, "body_crc": crc}))

    def __str__(self) -> str:
        known = self.collective in Collective._value2member_map_
        name = Collective(self.collective).label if known else f"collective {self.collective}"
        role = Role(self.role).label if self.role in Role._value2member_map_ else str(self.role)
        return (
            f"{name} #{self.sequence} ({label_of(self.dtype)}, role {role}, "
            f"reduction {self.operation}, root {self.root}, tag {self.tag}, "
            f"{self.total_bytes} bytes in all), message {self.index} of {self.logical_bytes} bytes "
            f"in blocks of {self.block_bytes}"
        )


def check_header(found: Header, expected: Header, peer: str) -> None:
    """Raise unless `found`, from `peer`, announces exactly the message that must come next.

    Raises:
        CollectiveMismatch: the ranks are not in the same operation, or disagree about it.
        ProtocolError: the payload is longer than the message, or missing.
    """
    if _identity(found) != _identity(expected):
        raise CollectiveMismatch(f"this rank expected {expected}; {peer} sent {found}")
    low, high = min(1, expected.logical_bytes), expected.logical_bytes
    if not low <= found.payload_bytes <= high:
        raise ProtocolError(
            f"{peer}: {found}: expected {low} to {high} payload bytes; found {found.payload_bytes}"
        )


def same_message(header: Header, other: Header) -> bool:
    """Whether two headers announce the same message; what its packets hold may differ."""
    return _identity(header) == _identity(other)


@lru_cache(maxsize=256)
def _raw_table(logical_bytes: int, block_bytes: int) -> bytes:
    """The packet table of a message of which no packet is coded."""
    lengths, _ = raw_blocks(logical_bytes, block_bytes)
    return bytes(lengths.astype("<u2").data)


@lru_cache(maxsize=256)
def _table_crc(table: bytes) -> int:
    # Most tables of a job are those of raw messages of a few sizes.
    return crc32c(np.frombuffer(table, np.uint8))


def pack_table(packets: Packets) -> bytes:
    """The packet table of a message."""
    if packets.lengths.size and not np.count_nonzero(packets.modes):
        # Raw packets are the blocks of the message, of which all but the last are full.
        return _raw_table(packets.payload.size, int(packets.lengths[0]))
    marks = (packets.modes != Mode.RAW).astype("<u2") * np.uint16(_MARK)
    return bytes((packets.lengths.astype("<u2") | marks).data)


def body_crc(table: bytes | bytearray, payload: U8) -> int:
    """CRC-32C of table and payload."""
    return crc32c(payload, _table_crc(bytes(table)))


def unpack_table(table: bytes | bytearray, header: Header) -> tuple[NDArray[np.int32], U8]:
    """Payload lengths, int32 `(n,)`, and modes, uint8 `(n,)`, of a message.

    A marked packet is given `Mode.CODED`; only its frame says more.

    Raises:
        ProtocolError: a length is impossible for its block, or they do not add up.
    """
    whole = header.payload_bytes == header.logical_bytes
    if whole and table == _raw_table(header.logical_bytes, header.block_bytes):
        return raw_blocks(header.logical_bytes, header.block_bytes)
    words = np.frombuffer(table, "<u2")
    lengths = (words & _LENGTH_MASK).astype(np.int32)
    coded = (words & _MARK) != 0
    blocks = block_lengths(header.logical_bytes, header.block_bytes)
    # A raw packet carries its block; a coded one is shorter, or it would travel raw.
    valid = np.where(coded, (lengths >= 1) & (lengths < blocks), lengths == blocks)
    if np.any(words & ~np.uint16(_MARK | _LENGTH_MASK)) or not valid.all():
        packet = int(np.argmin(valid))
        raise ProtocolError(
            f"{header}: packet {packet}: a payload of {lengths[packet]} bytes cannot hold "
            f"a block of {blocks[packet]} bytes"
        )
    if int(lengths.sum(dtype=np.int64)) != header.payload_bytes:
        raise ProtocolError(
            f"{header}: expected {header.payload_bytes} payload bytes; "
            f"the packets hold {int(lengths.sum(dtype=np.int64))}"
        )
    return lengths, np.where(coded, np.uint8(Mode.CODED), np.uint8(Mode.RAW))


def _identity(header: Header) -> tuple[int, ...]:
    return (
        header.kind,
        header.collective,
        header.role,
        header.dtype,
        header.operation,
        header.root,
        header.block_bytes,
        header.sequence,
        header.index,
        header.tag,
        header.total_bytes,
        header.logical_bytes,
    )
