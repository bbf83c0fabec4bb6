# SPDX-License-Identifier: Apache-2.0
"""What the packers of the encoder's second pass write into a `wz_rows`."""

import numpy as np
from numpy.typing import NDArray

from tests.rtl.dut import Sink
from tests.rtl.structs import pack

# codes_t and record_t of hw/rtl/wz_pack_pkg.sv, highest bits first.
CODES = {
    "element": 3,
    "coder": 2,
    "bank": 2,
    "order_lo": 8,
    "order_hi": 8,
    "zero_rank": 4,
    "low_start": 2,
    "unary_start": 2,
    "unary_any": 1,
    "escape_start": 6,
    "escapes": 8,
}
RECORD = {"raw": 1, "kind": 6, "sign_flag": 1, "plane_flags": 3, "start": 6}


def codes(**fields: int) -> int:
    return pack(CODES, **fields)


def record(**fields: int) -> int:
    return pack(RECORD, **fields)


def write_port(*, lanes: bool = True, next_row: bool = True) -> Sink:
    """Notes every write; without `lanes`, of all lanes, without `next_row`, of one row."""
    fields = ["row", "data", "done"]
    fields += ["lanes"] if lanes else []
    fields += ["next"] if next_row else []
    return Sink("w", fields=fields, valid="valid", ready=None)


def read(
    writes: Sink, *, lanes: int, lane_bytes: int, rows: int, broadcast: bool = False
) -> list[NDArray[np.uint8]]:
    """The rows in the order in which they are complete, each taken at once.

    Bytes that were not written are 0xEE. With `broadcast`, the data are one lane for all.
    """
    memory = np.full((rows, lanes, lane_bytes), 0xEE, np.uint8)
    count = len(writes)
    everything = np.ones((count, lanes), bool)
    enabled = _bits(writes, "lanes", lanes) if "lanes" in writes.fields else everything
    wrapped = _bits(writes, "next", lanes) if "next" in writes.fields else ~everything
    out: list[NDArray[np.uint8]] = []
    for i in range(count):
        row = int(writes["row"][i])
        data = np.frombuffer(_bytes(writes, "data", i), np.uint8)
        data = np.tile(data[:lane_bytes], lanes) if broadcast else data
        data = data[: lanes * lane_bytes].reshape(lanes, lane_bytes)
        here, there = enabled[i] & ~wrapped[i], enabled[i] & wrapped[i]
        memory[row, here] = data[here]
        memory[(row + 1) % rows, there] = data[there]
        for k in range(int(writes["done"][i])):
            assert row == (len(out) - k) % rows
            out.append(memory[len(out) % rows].reshape(-1).copy())
            memory[(len(out) - 1) % rows] = 0xEE
    return out


def section(taken: list[NDArray[np.uint8]], start: int, size: int) -> bytes:
    """The next section in the rows, which begins at byte `start` of a row."""
    width = taken[0].size
    count = -(-(start + size) // width)
    data = np.concatenate([taken.pop(0) for _ in range(count)])
    return data[start : start + size].tobytes()


def _bytes(writes: Sink, field: str, i: int) -> bytes:
    values = writes[field]
    return values[i].tobytes() if values.ndim == 2 else int(values[i]).to_bytes(8, "little")


def _bits(writes: Sink, field: str, lanes: int) -> NDArray[np.bool_]:
    packed = np.frombuffer(
        b"".join(_bytes(writes, field, i) for i in range(len(writes))), np.uint8
    ).reshape(len(writes), -1)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :lanes].astype(bool)
