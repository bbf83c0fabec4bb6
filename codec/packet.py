# SPDX-License-Identifier: Apache-2.0
"""What network and trainer must know alike of packets (`docs/format.md`, section 11)."""

MTUS = (1024, 4096)
"""The path MTUs of RoCEv2 that a NIC can be set to, in bytes: the block of a full packet."""
