# SPDX-License-Identifier: Apache-2.0
"""What crosses the ports of the switch while a run trains."""

import torch.distributed as dist

import nic_emul
from nic_emul.roles import Collective
from nic_emul.switch.report import Crossed, PortRow


def rows_between_barriers() -> list[PortRow] | None:
    """The counters of all ports, on rank 0; None without a switch. All ranks call this.

    Behind the first barrier every message of before has been received, and so counted; what comes
    after the second one has not been sent. Only the barriers themselves may be in or not.
    """
    uplink = nic_emul.local_nic().uplink
    if uplink is None or dist.get_world_size() == 1:
        return None
    dist.barrier()
    rows = uplink.rows() if dist.get_rank() == 0 else []
    dist.barrier()
    return rows


def crossed_between(start: list[PortRow], end: list[PortRow]) -> list[PortRow]:
    """What was counted from `start` to `end`, without barriers; rows of nothing are left out."""
    before = {_key(row): row for row in start}
    changes = []
    for row in end:
        if row["collective"] == Collective.BARRIER.label:
            continue
        earlier = before.get(_key(row))
        changed = row if earlier is None else _minus(row, earlier)
        if changed["up"]["messages"] or changed["down"]["messages"]:
            changes.append(changed)
    return changes


def _key(row: PortRow) -> tuple[int, str, str, str]:
    return (row["port"], row["collective"], row["role"], row["dtype"])


def _minus(row: PortRow, earlier: PortRow) -> PortRow:
    def less(a: Crossed, b: Crossed) -> Crossed:
        return Crossed(
            messages=a["messages"] - b["messages"],
            logical_bytes=a["logical_bytes"] - b["logical_bytes"],
            payload_bytes=a["payload_bytes"] - b["payload_bytes"],
            wire_bytes=a["wire_bytes"] - b["wire_bytes"],
            packets=a["packets"] - b["packets"],
        )

    return PortRow(
        port=row["port"],
        collective=row["collective"],
        role=row["role"],
        dtype=row["dtype"],
        up=less(row["up"], earlier["up"]),
        down=less(row["down"], earlier["down"]),
    )
