# SPDX-License-Identifier: Apache-2.0
"""One port of the switch: where the ranks of one node come in, and what crossed it."""

import numpy as np
from numpy.typing import NDArray

from nic_emul.counters import CounterRow
from nic_emul.message import Traffic
from nic_emul.nic import Nic
from nic_emul.packets import wire_bytes
from nic_emul.switch.report import Crossed, PortRow


class Port:
    """One port.

    Attributes:
        number: of the port, which is that of its node.
        nic: codes what the switch itself sends and receives here. Its counters are the port's: what
            they call received came up, what they call sent went down.
    """

    def __init__(self, number: int, nic: Nic) -> None:
        """`nic` is the switch's, whose engine all ports share."""
        self.number = number
        self.nic = nic.with_own_counters()

    def count_up(self, traffic: Traffic, logical_bytes: int, lengths: NDArray[np.int32]) -> None:
        """Count a message that comes into the switch, in packets of `lengths`, int32 `(n,)`."""
        self.nic.counters.add(traffic.key, _amounts("received_", logical_bytes, lengths))

    def count_down(self, traffic: Traffic, logical_bytes: int, lengths: NDArray[np.int32]) -> None:
        """Count a message that goes to the node, in packets of `lengths`, int32 `(n,)`."""
        self.nic.counters.add(traffic.key, _amounts("", logical_bytes, lengths))

    def rows(self) -> list[PortRow]:
        """The totals so far, ordered by (collective, role, dtype)."""
        return [
            PortRow(
                port=self.number,
                collective=row.collective,
                role=row.role,
                dtype=row.dtype,
                up=_crossed(row, "received_"),
                down=_crossed(row, ""),
            )
            for row in self.nic.counters.rows()
        ]


def _crossed(row: CounterRow, prefix: str) -> Crossed:
    return Crossed(
        messages=getattr(row, f"{prefix}messages"),
        logical_bytes=getattr(row, f"{prefix}logical_bytes"),
        payload_bytes=getattr(row, f"{prefix}payload_bytes"),
        wire_bytes=getattr(row, f"{prefix}wire_bytes"),
        packets=getattr(row, f"{prefix}packets"),
    )


def _amounts(prefix: str, logical_bytes: int, lengths: NDArray[np.int32]) -> dict[str, float]:
    return {
        f"{prefix}messages": 1,
        f"{prefix}logical_bytes": logical_bytes,
        f"{prefix}payload_bytes": int(lengths.sum(dtype=np.int64)),
        f"{prefix}wire_bytes": wire_bytes(lengths),
        f"{prefix}packets": lengths.size,
    }
