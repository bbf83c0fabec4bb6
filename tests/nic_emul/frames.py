# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames as hosts make them, for tests of cards in the wire."""

import struct

import numpy as np

from codec.checksum import crc32c

ADDRESSES = bytes.fromhex("020000000002 020000000001")


def ipv4(
    payload: bytes, *, protocol: int = 6, options: int = 0, fragment: int = 0, head: bytes = b""
) -> bytes:
    """An untagged frame with an IPv4 packet; `options` in words, `head` before `payload`."""
    header = struct.pack(
        ">BBHHHBBH4s4s",
        0x45 + options,
        0,
        20 + 4 * options + len(head) + len(payload),
        7,
        fragment,
        64,
        protocol,
        0xBEEF,
        bytes([10, 0, 0, 1]),
        bytes([10, 0, 0, 2]),
    )
    return ADDRESSES + b"\x08\x00" + header + bytes(4 * options) + head + payload


def tcp(payload: bytes, *, words: int = 8, options: int = 0, fragment: int = 0) -> bytes:
    """A frame with a TCP segment whose header has `words` words."""
    head = struct.pack(">HHIIBBHHH", 5000, 6000, 1, 2, words << 4, 0x18, 100, 0xCAFE, 0)
    head += bytes(range(4 * (words - 5)))
    return ipv4(payload, options=options, fragment=fragment, head=head)


def udp(payload: bytes) -> bytes:
    """A frame with a UDP datagram."""
    head = struct.pack(">HHHH", 5000, 6000, 8 + len(payload), 0)
    return ipv4(payload, protocol=17, head=head)


def udp6(payload: bytes) -> bytes:
    """The same over IPv6."""
    head = struct.pack(">HHHH", 5000, 6000, 8 + len(payload), 0x1234)
    packet = struct.pack(">IHBB", 0x6 << 28, len(head) + len(payload), 17, 64)
    return ADDRESSES + b"\x86\xdd" + packet + bytes(range(32)) + head + payload


def bf16(count: int, *, cut: int = 0) -> bytes:
    """`count` bytes of normal BF16 numbers, of which the first `cut` bytes are missing."""
    values = np.random.default_rng(count).normal(0, 0.02, count).astype(np.float32)
    upper = (values.view(np.uint32) >> 16).astype(np.uint16)
    return upper.tobytes()[cut : cut + count]


def resum(frame: bytes) -> bytes:
    """A marked frame whose checksum was made to fit again."""
    changed = bytearray(frame)
    changed[20:24] = bytes(4)
    changed[20:24] = crc32c(np.frombuffer(changed, np.uint8)).to_bytes(4, "big")
    return bytes(changed)
