# SPDX-License-Identifier: Apache-2.0
"""What a card in the wire did, by flow: one direction of a TCP or UDP connection."""

from dataclasses import asdict, dataclass, field
from typing import Any

from nic_emul.ethernet import FlowKey, flow_label

# A host that talks to ever new ports must not fill memory: further flows are counted as one.
FLOWS_MAX = 4096


@dataclass
class FlowCounters:
    """Totals of one flow.

    Attributes:
        frames: Ethernet frames.
        bytes: of them as the hosts see them, Ethernet header included.
        wire_bytes: of them as they are on the wire; no preamble, check sequence or gap in either.
        compressed: frames that travelled coded.
        bypassed: frames that travelled as they are, or wrapped.
    """

    frames: int = 0
    bytes: int = 0
    wire_bytes: int = 0
    compressed: int = 0
    bypassed: int = 0

    def add(self, host_bytes: int, wire_bytes: int, *, compressed: bool) -> None:
        self.frames += 1
        self.bytes += host_bytes
        self.wire_bytes += wire_bytes
        if compressed:
            self.compressed += 1
        else:
            self.bypassed += 1


@dataclass
class DirectionTable:
    """One direction of a card. One thread writes.

    Attributes:
        flows: by flow.
        others: frames that belong to no TCP or UDP flow, and to flows after the first `FLOWS_MAX`.
        damaged: frames from the wire that were dropped since they were marked and did not decode.
        refused: frames that were dropped since a kernel did not take them, or they did not fit.
    """

    flows: dict[FlowKey, FlowCounters] = field(default_factory=dict)
    others: FlowCounters = field(default_factory=FlowCounters)
    damaged: int = 0
    refused: int = 0

    def row(self, flow: FlowKey | None) -> FlowCounters:
        """The totals to add to."""
        if flow is None:
            return self.others
        found = self.flows.get(flow)
        if found is None:
            if len(self.flows) >= FLOWS_MAX:
                return self.others
            found = self.flows[flow] = FlowCounters()
        return found

    def report(self) -> dict[str, Any]:
        """The table as JSON types, flows by what they had on the wire, largest first."""
        # A copy first: the thread that counts goes on meanwhile.
        rows = list(self.flows.items())
        rows.sort(key=lambda item: -item[1].wire_bytes)
        total = FlowCounters()
        for counters in (*(row for _, row in rows), self.others):
            for name, amount in asdict(counters).items():
                setattr(total, name, getattr(total, name) + amount)
        return {
            "total": asdict(total),
            "flows": [flow_label(flow) | asdict(counters) for flow, counters in rows],
            "others": asdict(self.others),
            "damaged": self.damaged,
            "refused": self.refused,
        }
