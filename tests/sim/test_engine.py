# SPDX-License-Identifier: Apache-2.0
"""Engine `rtl` around the hardware: buffers, stalls, counters, errors, and a model that is broken.

A stand-in for the hardware (`wz_engine.sv` here) passes packets on and misbehaves on demand; what
the real one does is tested in `tests/conformance` and `tests/rtl`.
"""

from pathlib import Path

import numpy as np
import pytest

from codec.elements import ElementType
from codec.engine import Packets, SimulatedEngine
from codec.errors import CorruptFrame, EngineFault, FrameError, TruncatedFrame, UnsupportedFrame
from codec.format import Mode
from hw.sim.engine import RtlEngine
from tests.tools import require_verilator

BF16, FP32 = ElementType.BF16, ElementType.FP32
STAND_IN = Path(__file__).with_name("wz_engine.sv")


def stand_in(bits: int = 512, **options: float) -> RtlEngine:
    require_verilator()
    return RtlEngine({"DATA_W": bits}, extra=(STAND_IN,), **options)


def noise(size: int) -> np.ndarray:
    # No block begins with a byte that makes the stand-in misbehave.
    return np.random.default_rng(size).integers(0, 128, size, np.uint8)


def frames(*payloads: bytes) -> Packets:
    lengths = np.array([len(payload) for payload in payloads], np.int32)
    coded = np.full(len(payloads), Mode.CODED, np.uint8)
    return Packets(np.frombuffer(b"".join(payloads), np.uint8), lengths, coded)


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("block_bytes", [1, 15, 64, 100, 4096])
def test_buffers_pass(bits: int, stall: float, block_bytes: int) -> None:
    engine = stand_in(bits, stall=stall)
    data = noise(min(100_003, 300 * block_bytes + 1))
    packets = engine.encode(data, BF16, block_bytes, bare=True)
    assert np.array_equal(packets.payload, data)
    assert not packets.modes.any()
    out = np.zeros_like(data)
    engine.decode(packets, BF16, block_bytes, out, bare=True)
    assert np.array_equal(out, data)


def test_counters() -> None:
    engine = stand_in()
    assert isinstance(engine, SimulatedEngine)
    engine.build()
    assert engine.is_built()
    assert engine.counters().encode.clocks == 0
    data = noise(10 * 4096 + 65)
    packets = engine.encode(data, BF16, 4096, bare=True)
    engine.decode(packets, BF16, 4096, np.empty_like(data), bare=True)
    for found in (engine.counters().encode, engine.counters().decode):
        assert (found.packets, found.input_bytes, found.output_bytes) == (11, data.size, data.size)
        # The stand-in is a wire.
        assert found.clocks == found.input_beats == found.output_beats == 642
        assert found.input_stalls == found.output_stalls == 0


def test_stalls_are_counted_and_follow_the_seed() -> None:
    data = noise(100 * 4096)
    clocks = []
    for seed in (1, 1, 2):
        engine = stand_in(seed=seed, stall=0.2)
        engine.encode(data, BF16, 4096, bare=True)
        found = engine.counters().encode
        assert found.clocks > found.input_beats + found.input_stalls > 1.3 * found.input_beats
        clocks.append(found.clocks)
    assert clocks[0] == clocks[1] != clocks[2]


@pytest.mark.parametrize(
    ("code", "error"), [(1, TruncatedFrame), (2, CorruptFrame), (3, UnsupportedFrame)]
)
def test_the_hardware_says_what_is_wrong(code: int, error: type[FrameError]) -> None:
    payloads = [bytes(64), bytes(64), bytes([code]) + bytes(63), b"\1" + bytes(63)]
    with pytest.raises(error, match=r"^block 2: "):
        stand_in().decode(frames(*payloads), BF16, 64, np.empty(256, np.uint8))


def test_an_empty_payload_is_no_packet() -> None:
    engine, out = stand_in(), np.empty(192, np.uint8)
    with pytest.raises(TruncatedFrame, match=r"^block 1: "):
        engine.decode(frames(bytes(64), b"", bytes(64)), BF16, 64, out)
    with pytest.raises(CorruptFrame, match=r"^block 0: "):
        engine.decode(frames(b"\2" + bytes(63), b"", bytes(64)), BF16, 64, out)
    assert engine.counters().decode.packets == 2


def test_a_model_that_stops_is_given_up() -> None:
    engine = stand_in()
    data = noise(10 * 4096)
    data[4 * 4096] = 0xEE
    with pytest.raises(EngineFault, match=r"nothing moved .* 4 packets are in, 4 out, of 10"):
        engine.encode(data, BF16, 4096, bare=True)
    data[4 * 4096] = 0
    assert np.array_equal(engine.encode(data, BF16, 4096, bare=True).payload, data)
    assert engine.counters().encode.packets == 10


def test_a_packet_without_an_end_is_no_overflow() -> None:
    data = noise(300)
    data[100] = 0xDD
    with pytest.raises(EngineFault, match="packet 1 is longer than 108"):
        stand_in().encode(data, BF16, 100, bare=True)


def test_a_block_of_another_length_without_an_error_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="block 0 has 63 bytes"):
        stand_in().decode(frames(bytes(63)), BF16, 64, np.empty(64, np.uint8))


def test_registers() -> None:
    engine = stand_in()
    engine.write(0x0C, 7)
    assert engine.read(0x0C) == 1
    with pytest.raises(EngineFault, match="refused"):
        engine.read(0x800)
