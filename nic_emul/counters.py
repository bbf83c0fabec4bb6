# SPDX-License-Identifier: Apache-2.0
"""The only place where bytes, packets and codec seconds are added up.

Sums over ranks use the sent side only, so that every transfer counts once; the received totals are
there to check that what one rank sent is what the others received. Codec seconds are software time
of this process, measured; they never mix with modelled NIC time.
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.format import Mode

TOTALS = (
    "logical_bytes",
    "payload_bytes",
    "wire_bytes",
    "packets",
    "forwarded_packets",
    "intra_bytes",
)


@dataclass(frozen=True, kw_only=True)
class CounterRow:
    """Totals of one (collective, role, dtype).

    Attributes:
        collective, role, dtype: labels.
        messages: messages sent.
        logical_bytes: bytes of tensor sent, before the codec.
        payload_bytes: bytes of packet payload sent, after the codec, without padding.
        wire_bytes: bytes on the wire sent, padding and headers included (`packets.py`).
        packets: packets sent; the next three split them.
        raw_packets: packets whose payload is the block itself.
        constant_frames, coded_frames: packets that carry a frame, by the frame's mode (`coded`
            includes every mode but constant).
        forwarded_messages, forwarded_packets: of those, sent on as they were received, without
            the engine.
        encode_s: seconds spent in the engine's `encode`.
        received_*: the same totals of what arrived.
        received_marked_packets: packets that arrived with the mark "coded".
        decode_s: seconds spent in the engine's `decode`.
        intra_messages, intra_bytes: sent to ranks of the same node, beside the NIC; in none of the
            totals above.
        received_intra_*: the same of what arrived.
    """

    collective: str
    role: str
    dtype: str
    messages: int = 0
    logical_bytes: int = 0
    payload_bytes: int = 0
    wire_bytes: int = 0
    packets: int = 0
    raw_packets: int = 0
    constant_frames: int = 0
    coded_frames: int = 0
    forwarded_messages: int = 0
    forwarded_packets: int = 0
    encode_s: float = 0.0
    received_messages: int = 0
    received_logical_bytes: int = 0
    received_payload_bytes: int = 0
    received_wire_bytes: int = 0
    received_packets: int = 0
    received_marked_packets: int = 0
    decode_s: float = 0.0
    intra_messages: int = 0
    intra_bytes: int = 0
    received_intra_messages: int = 0
    received_intra_bytes: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.collective, self.role, self.dtype)

    @property
    def sent(self) -> bool:
        """Whether anything was sent, by the NIC or beside it."""
        return bool(self.messages or self.intra_messages)

    def as_dict(self) -> dict[str, str | int | float]:
        """The row as JSON types."""
        return asdict(self)

    def minus(self, earlier: "CounterRow") -> "CounterRow":
        """This row less `earlier`, field by field."""
        return CounterRow(
            collective=self.collective,
            role=self.role,
            dtype=self.dtype,
            **{name: getattr(self, name) - getattr(earlier, name) for name in _NUMBERS},
        )


_NUMBERS = tuple(field.name for field in fields(CounterRow) if field.type not in (str, "str"))

Snapshot = tuple[CounterRow, ...]


class Counters:
    """Thread-safe totals of one NIC."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str, str], dict[str, float]] = {}

    def add(self, key: tuple[str, str, str], amounts: dict[str, float]) -> None:
        """Add `amounts`, by field name of `CounterRow`, to the row of (collective, role, dtype)."""
        with self._lock:
            row = self._sums.get(key)
            if row is None:
                row = self._sums[key] = dict.fromkeys(_NUMBERS, 0)
            for name, amount in amounts.items():
                row[name] += amount

    def rows(self) -> list[CounterRow]:
        """The totals so far, ordered by (collective, role, dtype)."""
        with self._lock:
            items = sorted((key, dict(row)) for key, row in self._sums.items())
        return [
            CounterRow(collective=key[0], role=key[1], dtype=key[2], **_typed(row))
            for key, row in items
        ]

    def snapshot(self) -> Snapshot:
        """The totals so far, to give to `delta` later."""
        return tuple(self.rows())

    def delta(self, since: Snapshot) -> list[CounterRow]:
        """What was added after `since`; rows in which nothing was added are left out."""
        before = {row.key: row for row in since}
        changes = [row.minus(before[row.key]) if row.key in before else row for row in self.rows()]
        return [row for row in changes if any(getattr(row, name) for name in _NUMBERS)]


def split_modes(modes: NDArray[np.uint8]) -> dict[str, float]:
    """Count the packets of a message, uint8 `(n,)` of `Mode`, by what they carry."""
    raw = int(np.count_nonzero(modes == Mode.RAW))
    constant = int(np.count_nonzero(modes == Mode.CONSTANT))
    return {
        "raw_packets": raw,
        "constant_frames": constant,
        "coded_frames": modes.size - raw - constant,
    }


@dataclass(frozen=True)
class Summary:
    """The totals in `TOTALS` of what was sent: altogether, by role, by collective."""

    total: dict[str, int]
    by_role: dict[str, dict[str, int]]
    by_collective: dict[str, dict[str, int]]

    def as_dict(self) -> dict[str, int | dict[str, dict[str, int]]]:
        """The totals at the top level, beside `by_role` and `by_collective`."""
        return {**self.total, "by_role": self.by_role, "by_collective": self.by_collective}


def aggregate(rows: Iterable[CounterRow]) -> Summary:
    """Sum what was sent over the rows of any number of ranks."""
    summary = Summary(dict.fromkeys(TOTALS, 0), {}, {})
    for row in rows:
        if not row.sent:
            continue
        by_role = summary.by_role.setdefault(row.role, dict.fromkeys(TOTALS, 0))
        by_collective = summary.by_collective.setdefault(row.collective, dict.fromkeys(TOTALS, 0))
        for totals in (summary.total, by_role, by_collective):
            for name in TOTALS:
                totals[name] += getattr(row, name)
    return summary


def _typed(row: dict[str, float]) -> dict[str, Any]:
    return {name: amount if name.endswith("_s") else int(amount) for name, amount in row.items()}
