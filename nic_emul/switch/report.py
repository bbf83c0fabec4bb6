# SPDX-License-Identifier: Apache-2.0
"""What a switch says about itself: the bytes that crossed its ports, as JSON has them."""

from typing import TypedDict


class Crossed(TypedDict):
    """What crossed a port in one direction, counted as the NICs do."""

    messages: int
    logical_bytes: int
    payload_bytes: int
    wire_bytes: int
    packets: int


class PortRow(TypedDict):
    """Totals of one (collective, role, dtype) at one port; `up` is into the switch."""

    port: int
    collective: str
    role: str
    dtype: str
    up: Crossed
    down: Crossed
