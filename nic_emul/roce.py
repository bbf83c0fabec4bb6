# SPDX-License-Identifier: Apache-2.0
"""The frames of the emulated wire, byte by byte: RoCEv2 over IPv4, as captures have them.

A message is one RDMA WRITE WITH IMMEDIATE of a reliable connection:

| part                  | bytes | which packets | in it                                            |
|-----------------------|-------|---------------|--------------------------------------------------|
| Ethernet, IPv4, UDP   | 42    | all           | 10.0.0.(rank + 1), port 4791                     |
| BTH                   | 12    | all           | operation, pad count, mark, queue pair, PSN      |
| RETH                  | 16    | first         | bytes of the original: where, whose, how many    |
| ImmDt                 | 4     | last          | bytes of the original, as NCCL sends them        |
| payload and pad       | 4 n   | all           | a block or, where the mark is set, its frame     |
| ICRC                  | 4     | all           | over all of that but what changes on the way     |

The receiver acknowledges each message (BTH and AETH). The mark "coded" is the lowest of the seven
reserved bits beside AckReq, which the ICRC covers. The remote key holds collective, role and type
of the message, a byte each, so that a filter can tell them apart; the address counts the bytes of
the connection. Preamble, frame check sequence and gap (24 bytes a packet, `packets.py`) are never
part of a capture. Specification: InfiniBand Architecture 1.4, 9.2 to 9.4 and annex A17.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from codec.engine import Packets
from codec.format import Mode
from nic_emul.message import Traffic

PORT = 4791
BYTES_NEVER_CAPTURED = 8 + 4 + 12
_FIRST_ADDRESS = int(IPv4Address("10.0.0.1"))
_ICRC_BYTES = 4
_PAD_BYTES = 4
_NUMBERS = 1 << 24
# Where a field begins in a frame.
_IP = 14
_IP_LENGTH = _IP + 2
_IP_CHECKSUM = _IP + 10
_UDP = _IP + 20
_UDP_LENGTH = _UDP + 4
_BTH = _UDP + 8
_BTH_PAD = _BTH + 1
_BTH_MARK = _BTH + 8
HEADER_BYTES = _BTH + 12
_MARK = 0x01
_ACK_REQUEST = 0x80
# A positive acknowledgement that says nothing of credits.
_ACK_SYNDROME = 0x1F


class Opcode(IntEnum):
    """Operations of a reliable connection that the emulated NIC uses."""

    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST_WITH_IMMEDIATE = 0x09
    WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    ACKNOWLEDGE = 0x11


@dataclass(frozen=True)
class Flow:
    """One direction between two NICs: a reliable connection, whose two ends number its packets.

    Attributes:
        group: name of the process group.
        channel: what the connection is for.
        source, target: ranks in the job.
    """

    group: str
    channel: str
    source: int
    target: int

    def queue_pair(self, rank: int) -> int:
        """Number of the queue pair at the end of `rank`, 24 bits; 0 and 1 are taken."""
        name = f"{self.group}/{self.channel}/{self.source}/{self.target}/{rank}"
        return 2 + zlib.crc32(name.encode()) % (_NUMBERS - 2)

    @property
    def udp_source(self) -> int:
        """The port that tells the flow from others where paths are chosen by a hash."""
        return 0xC000 | self.queue_pair(self.target) & 0x3FFF


def icrc(frame: bytes | bytearray) -> int:
    """The invariant CRC of `frame`, which begins with Ethernet and has no ICRC yet."""
    fixed = bytearray(frame[_IP:HEADER_BYTES])
    # What routers may change counts as ones: class and hops and checksums, and a byte of the BTH.
    for at in (_IP + 1, _IP + 8, _IP_CHECKSUM, _IP_CHECKSUM + 1, _UDP + 6, _UDP + 7, _BTH + 4):
        fixed[at - _IP] = 0xFF
    return zlib.crc32(frame[HEADER_BYTES:], zlib.crc32(fixed, zlib.crc32(b"\xff" * 8)))


class Requester:
    """Makes the frames of a flow's messages."""

    def __init__(self, flow: Flow) -> None:
        self._headers: dict[Opcode, bytes] = {
            opcode: _headers(flow, flow.source, flow.target, opcode)
            for opcode in Opcode
            if opcode is not Opcode.ACKNOWLEDGE
        }
        self._psn = 0
        self._address = 0

    def message(self, traffic: Traffic, logical_bytes: int, packets: Packets) -> list[bytes]:
        """The frames of one message of `logical_bytes`, in order."""
        coded = packets.modes != Mode.RAW
        count = packets.lengths.size
        remote_key = traffic.collective << 24 | traffic.role << 16 | traffic.dtype.tag << 8
        reth = struct.pack(">QII", self._address, remote_key, logical_bytes)
        immediate = struct.pack(">I", logical_bytes)
        frames, start = [], 0
        for index, length in enumerate(packets.lengths.tolist()):
            first, last = index == 0, index == count - 1
            payload = packets.payload[start : start + length].tobytes()
            extended = (reth if first else b"") + (immediate if last else b"")
            mark = (_ACK_REQUEST if last else 0) | (_MARK if coded[index] else 0)
            header = self._headers[_opcode(first, last)]
            frames.append(_frame(header, self._psn, mark, extended + payload))
            self._psn = (self._psn + 1) % _NUMBERS
            start += length
        self._address += logical_bytes
        return frames


class Responder:
    """Makes the acknowledgements of a flow, which go the other way."""

    def __init__(self, flow: Flow) -> None:
        self._header = _headers(flow, flow.target, flow.source, Opcode.ACKNOWLEDGE)
        self._psn = -1
        self._messages = 0

    def acknowledge(self, packets: int) -> bytes:
        """The frame that acknowledges a message of `packets` packets and all before."""
        self._psn = (self._psn + packets) % _NUMBERS
        self._messages = (self._messages + 1) % _NUMBERS
        aeth = bytes(AETH(syndrome=_ACK_SYNDROME, msn=self._messages))
        return _frame(self._header, self._psn, 0, aeth)


def _opcode(first: bool, last: bool) -> Opcode:
    if first:
        return Opcode.WRITE_ONLY_WITH_IMMEDIATE if last else Opcode.WRITE_FIRST
    return Opcode.WRITE_LAST_WITH_IMMEDIATE if last else Opcode.WRITE_MIDDLE


def _headers(flow: Flow, source: int, target: int, opcode: Opcode) -> bytes:
    """Everything up to the BTH, with lengths, checksum, pad count, mark and PSN left at zero."""
    layers = (
        Ether(src=_mac(source), dst=_mac(target), type=0x0800)
        / IP(src=_address(source), dst=_address(target), flags="DF", id=0, len=0, chksum=0)
        / UDP(sport=flow.udp_source, dport=PORT, len=0, chksum=0)
        / BTH(opcode=opcode, migreq=1, dqpn=flow.queue_pair(target), icrc=0)
    )
    return bytes(layers)[:HEADER_BYTES]


def _frame(header: bytes, psn: int, mark: int, content: bytes) -> bytes:
    """`header` completed for `content`, which is padded, and the ICRC."""
    pad = -len(content) % _PAD_BYTES
    frame = bytearray(header + content + bytes(pad))
    end = len(frame) + _ICRC_BYTES
    struct.pack_into(">H", frame, _IP_LENGTH, end - _IP)
    struct.pack_into(">H", frame, _IP_CHECKSUM, _internet_checksum(frame[_IP:_UDP]))
    struct.pack_into(">H", frame, _UDP_LENGTH, end - _UDP)
    frame[_BTH_PAD] |= pad << 4
    struct.pack_into(">I", frame, _BTH_MARK, mark << 24 | psn)
    return bytes(frame) + struct.pack("<I", icrc(frame))


def _internet_checksum(header: bytes | bytearray) -> int:
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def _address(rank: int) -> str:
    return str(IPv4Address(_FIRST_ADDRESS + rank))


def _mac(rank: int) -> str:
    # Locally administered, and the IPv4 address below.
    return (b"\x02\x00" + (_FIRST_ADDRESS + rank).to_bytes(4, "big")).hex(":")
