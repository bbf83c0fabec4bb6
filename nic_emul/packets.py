# SPDX-License-Identifier: Apache-2.0
"""What a message costs on the wire: the only place where header bytes are added.

A message is one RDMA WRITE WITH IMMEDIATE over RoCEv2, cut into packets of at most MTU payload
bytes. Every packet costs, beside its payload padded to 4 bytes:

| part                                | bytes | source                                          |
|-------------------------------------|-------|-------------------------------------------------|
| preamble and start delimiter        | 8     | IEEE 802.3, 3.1.1                               |
| Ethernet header                     | 14    | IEEE 802.3, 3.1.1                               |
| IPv4 header without options         | 20    | RFC 791                                         |
| UDP header                          | 8     | RFC 768; port 4791, InfiniBand annex A17        |
| base transport header (BTH)         | 12    | InfiniBand Architecture Specification, 9.2      |
| invariant CRC (ICRC)                | 4     | InfiniBand Architecture Specification, 7.8.1    |
| frame check sequence                | 4     | IEEE 802.3, 3.2.9                               |
| interpacket gap                     | 12    | IEEE 802.3, 4.4.2 (96 bit times)                |

together 82 bytes; and once per message an RDMA extended transport header (RETH, 16 bytes) on the
first packet and an immediate (ImmDt, 4 bytes) on the last. Acknowledgements travel the other way
and are not counted. A packet's pad count and its mark "coded" are bits of the BTH that exist
anyway, so a coded packet has no header of its own, and a raw packet costs what it costs with the
null engine.
"""

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES_PER_PACKET = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
RETH_BYTES = 16
IMMEDIATE_BYTES = 4
HEADER_BYTES_PER_MESSAGE = RETH_BYTES + IMMEDIATE_BYTES
PAD_BYTES = 4


def wire_bytes(lengths: NDArray[np.int32]) -> int:
    """Bytes on the wire of one message whose packets carry `lengths` payload bytes, int32 `(n,)`.

    A message without packets is never sent and costs nothing.
    """
    if lengths.size == 0:
        return 0
    padded = int(((lengths + (PAD_BYTES - 1)) & -PAD_BYTES).sum(dtype=np.int64))
    return padded + HEADER_BYTES_PER_PACKET * lengths.size + HEADER_BYTES_PER_MESSAGE


def packet_wire_bytes(length: int, *, first: bool, last: bool) -> int:
    """Bytes on the wire of one packet of `length` payload bytes, by its place in the message."""
    padded = (length + (PAD_BYTES - 1)) & -PAD_BYTES
    extended = RETH_BYTES * first + IMMEDIATE_BYTES * last
    return padded + HEADER_BYTES_PER_PACKET + extended
