# SPDX-License-Identifier: Apache-2.0
"""What the hardware counts is what went through it."""

import re
from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from codec.errors import CorruptFrame
from codec.format import Mode
from hw.sim.engine import RtlEngine
from tests.conformance.engines import as_packets
from tests.tools import require_verilator

DOCUMENT = Path(__file__).parents[2] / "docs" / "csr.md"
STATISTICS = 0x030
SNAPSHOT, CLEAR, BUSY = 1 << 0, 1 << 1, 1 << 8


def counters(direction: str) -> dict[str, int]:
    """The address of each counter of a direction."""
    table = DOCUMENT.read_text().split(f"| address | {direction} | |")[1].split("\n\n")[0]
    return {name: int(address, 16) for address, name in re.findall(r"`(0x\w+)` \| (\w+)", table)}


def command(engine: RtlEngine, bits: int) -> None:
    engine.write(STATISTICS, bits)
    while engine.read(STATISTICS) & BUSY:
        pass


def snapshot(engine: RtlEngine, direction: str) -> dict[str, int]:
    command(engine, SNAPSHOT)
    return {
        name: engine.read(address + 4) << 32 | engine.read(address)
        for name, address in counters(direction).items()
    }


@pytest.mark.parametrize("stall", [0.0, pytest.param(0.4, marks=pytest.mark.full)])
def test_counters_agree(stall: float) -> None:
    require_verilator()
    engine = RtlEngine(stall=stall)
    rng = np.random.default_rng(1)
    weights = (rng.standard_normal(20_000) * 0.02).astype(np.float32).view(np.uint8)
    noise, zeros = rng.integers(0, 256, 9000, np.uint8), np.zeros(5000, np.uint8)
    data = np.concatenate((weights, noise, zeros))
    command(engine, CLEAR)
    frames = engine.encode(data, ElementType.FP32, 4096)
    packets = engine.encode(data, ElementType.FP32, 4096, bare=True)
    out = np.empty_like(data)
    engine.decode(frames, ElementType.FP32, 4096, out)
    engine.decode(packets, ElementType.FP32, 4096, out, bare=True)
    block = as_packets([frames.payload[: int(frames.lengths[0])].tobytes()])
    damaged = block.payload.copy()
    damaged[-1] ^= 1
    with pytest.raises(CorruptFrame):
        engine.decode(
            as_packets([damaged.tobytes()]), ElementType.FP32, 4096, np.empty(4096, np.uint8)
        )
    modes = frames.modes.tolist() + packets.modes[packets.modes != Mode.RAW].tolist()
    expected = {
        "not_coded": packets.modes.tolist().count(Mode.RAW),
        "raw": modes.count(Mode.RAW),
        "constant": modes.count(Mode.CONSTANT),
        "coded": modes.count(Mode.CODED),
        "bypassed": 0,
    }
    assert all(count for name, count in expected.items() if name != "bypassed")
    for direction, counted in (
        ("encoder", engine.counters().encode),
        ("decoder", engine.counters().decode),
    ):
        found = snapshot(engine, direction)
        assert {name: found[name] for name in expected} == expected
        assert found["beats_in"] == counted.input_beats
        assert found["beats_out"] == counted.output_beats
        assert found["bytes_in"] == counted.input_bytes
        assert found["bytes_out"] == counted.output_bytes
        assert found["input_stalls"] == counted.input_stalls
        assert found["output_stalls"] == counted.output_stalls
        assert 0 < found["busy_clocks"] <= counted.clocks
    assert found["corrupt"] == 1
    assert found["truncated"] == found["unsupported"] == 0
