# SPDX-License-Identifier: Apache-2.0
"""Where the payload of an Ethernet frame begins, and to which flow the frame belongs.

Recognised are untagged Ethernet II frames with one whole TCP or UDP segment over IPv4 (options
allowed) or IPv6 (no extension header). Everything else has no payload here: VLAN tags, other
protocols, fragments, frames that are cut short or padded. Nothing of a header is interpreted
beyond that, and nothing is changed.
"""

import ipaddress
import struct
from dataclasses import dataclass

HEADER_BYTES = 14
TYPE_OFFSET = 12

_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_TCP, _UDP = 6, 17
_NAMES = {_TCP: "tcp", _UDP: "udp"}
_U16 = struct.Struct(">H")
_IPV6_HEADER_BYTES = 40
_FRAGMENT = 0x3FFF
# Longest headers of a segment that is recognised, from the EtherType on: two bytes, then IPv4 and
# TCP with all their options.
HEAD_BYTES_MAX = 2 + 60 + 60

FlowKey = tuple[int, bytes, bytes, bytes]
"""Protocol number, source address, target address, and both ports as they are on the wire."""


@dataclass(frozen=True)
class Segment:
    """A TCP or UDP segment in a frame: its flow, and the offset of its payload in the frame."""

    flow: FlowKey
    payload: int


def segment_of(frame: bytes) -> Segment | None:
    """The whole TCP or UDP segment that `frame` carries; None if it carries anything else."""
    kind = frame[TYPE_OFFSET:HEADER_BYTES]
    if kind == _IPV4:
        found = _ipv4(frame)
    elif kind == _IPV6:
        found = _ipv6(frame)
    else:
        return None
    if found is None:
        return None
    protocol, addresses, at = found
    if protocol == _TCP and len(frame) >= at + 20:
        payload = at + 4 * (frame[at + 12] >> 4)
        if payload < at + 20:
            return None
    elif protocol == _UDP and len(frame) >= at + 8:
        payload = at + 8
    else:
        return None
    if payload > len(frame):
        return None
    half = len(addresses) // 2
    key = (protocol, addresses[:half], addresses[half:], frame[at : at + 4])
    return Segment(key, payload)


def flow_label(flow: FlowKey) -> dict[str, str | int]:
    """A flow as people write it: `protocol`, `source`, `source_port`, `target`, `target_port`."""
    protocol, source, target, ports = flow
    return {
        "protocol": _NAMES[protocol],
        "source": str(ipaddress.ip_address(source)),
        "source_port": _U16.unpack_from(ports)[0],
        "target": str(ipaddress.ip_address(target)),
        "target_port": _U16.unpack_from(ports, 2)[0],
    }


def _ipv4(frame: bytes) -> tuple[int, bytes, int] | None:
    """Protocol, addresses and end of the IPv4 header; None unless the packet fills the frame."""
    if len(frame) < HEADER_BYTES + 20 or frame[14] >> 4 != 4:
        return None
    header = 4 * (frame[14] & 0xF)
    total = _U16.unpack_from(frame, 16)[0]
    fragment = _U16.unpack_from(frame, 20)[0] & _FRAGMENT
    if header < 20 or total != len(frame) - HEADER_BYTES or total < header or fragment:
        return None
    return frame[23], frame[26:34], HEADER_BYTES + header


def _ipv6(frame: bytes) -> tuple[int, bytes, int] | None:
    """Next header, addresses and end of the IPv6 header; None unless the packet fills the frame."""
    end = HEADER_BYTES + _IPV6_HEADER_BYTES
    if len(frame) < end or frame[14] >> 4 != 6:
        return None
    if _U16.unpack_from(frame, 18)[0] != len(frame) - end:
        return None
    return frame[20], frame[22:54], end
