# SPDX-License-Identifier: Apache-2.0
"""The engine interface: buffers of many blocks, what it takes, what it leaves alone."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest

from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Engine, Packets
from codec.errors import CorruptFrame, FrameError, InvalidInput, ReferenceMismatch
from codec.format import Coder, Mode
from tests.conformance import blocks, builder
from tests.conformance.engines import as_array, as_packets

BF16, FP32, RAW = ElementType.BF16, ElementType.FP32, ElementType.RAW


def mixed(element: ElementType, size: int, phase: int = 0) -> bytes:
    """A buffer whose blocks are coded, constant, raw and full of zero beats in turn."""
    rng = Random(f"mixed {element.name} {size}")
    out = bytearray(blocks.weights(rng, element, size, phase=phase))
    for start in range(0, size, 1024):
        stretch = slice(start, min(start + 300, size))
        length = stretch.stop - stretch.start
        kind = start // 1024 % 4
        if kind == 1:
            out[stretch] = bytes(length)
        elif kind == 2:
            out[stretch] = blocks.noise(rng, length)
        elif kind == 3:
            out[stretch] = (b"\x11\x22\x33\x44" * length)[:length]
    return bytes(out)


def round_trip(
    engine: Engine,
    data: U8,
    element: ElementType,
    block_bytes: int,
    *,
    phase: int = 0,
    bare: bool = False,
    resident: U8 | None = None,
) -> Packets:
    """Encode and decode; everything must be as the reference does it."""
    options = {"phase": phase, "bare": bare, "resident": resident}
    packets = engine.encode(data, element, block_bytes, **options)
    expected = reference.ENGINE.encode(data, element, block_bytes, **options)
    assert packets.payload.tobytes() == expected.payload.tobytes()
    assert packets.lengths.tolist() == expected.lengths.tolist()
    assert packets.modes.tolist() == expected.modes.tolist()
    assert packets.payload.dtype == packets.modes.dtype == np.uint8
    assert packets.lengths.dtype == np.int32
    out = np.full(data.size, 0xA5, np.uint8)
    engine.decode(packets, element, block_bytes, out, **options)
    assert out.tobytes() == data.tobytes()
    return packets


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 3, 64, 100, 255, 1024, 4096])
@pytest.mark.parametrize("element", ElementType)
def test_many_blocks(engine: Engine, element: ElementType, block_bytes: int, bare: bool) -> None:
    """Blocks that cut elements, and a last block that is shorter."""
    size = 12 * min(block_bytes, 400) + 7
    for phase in {0, element.width_bytes - 1}:
        data = as_array(mixed(element, size, phase))
        packets = round_trip(engine, data, element, block_bytes, phase=phase, bare=bare)
        limit = 0 if bare else 8
        sizes = np.minimum(block_bytes, size - block_bytes * np.arange(packets.lengths.size))
        assert np.all(packets.lengths <= sizes + limit)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("block_bytes", [64, 255, 1024])
@pytest.mark.parametrize("element", ElementType)
def test_many_blocks_against_a_copy(
    resident_engine: Engine, element: ElementType, block_bytes: int, bare: bool
) -> None:
    """Each block's copy is the same range of the resident buffer, wherever it lies in memory."""
    size = 6 * block_bytes + 7
    copy = mixed(element, size)
    sparse = blocks.moved(Random(7), copy, element, 0.03, 2)
    data = blocks.moved(Random(8), copy[: size // 2], element, 1, 3) + sparse[size // 2 :]
    memory = as_array(b"\0" + copy)
    before = memory.copy()
    for phase in {0, element.width_bytes - 1}:
        packets = round_trip(
            resident_engine,
            as_array(data),
            element,
            block_bytes,
            phase=phase,
            bare=bare,
            resident=memory[1:],
        )
        if block_bytes > 64:
            assert Mode.REFERENCE in packets.modes.tolist()
    assert np.array_equal(memory, before)


@pytest.mark.parametrize(
    "resident",
    [
        np.zeros(99, np.uint8),
        np.zeros(101, np.uint8),
        np.zeros(100, np.int8),
        np.zeros(0, np.uint8),
    ],
    ids=["short", "long", "int8", "empty"],
)
def test_wrong_copy(resident_engine: Engine, resident: np.ndarray) -> None:
    data = np.zeros(100, np.uint8)
    with pytest.raises(InvalidInput):
        resident_engine.encode(data, BF16, 64, resident=resident)
    packets = resident_engine.encode(data, BF16, 64)
    with pytest.raises(InvalidInput):
        resident_engine.decode(packets, BF16, 64, data.copy(), resident=resident)


def test_stale_copy(resident_engine: Engine) -> None:
    """A copy that is wrong in one byte is noticed in the block of that byte."""
    copy = as_array(blocks.noise(Random("stale"), 1000)).copy()
    data = as_array(blocks.moved(Random("fresh"), copy.tobytes(), BF16, 0.1, 2))
    packets = resident_engine.encode(data, BF16, 256, resident=copy)
    assert packets.modes.tolist() == [Mode.REFERENCE] * 4
    copy[600] ^= 1
    with pytest.raises(ReferenceMismatch, match=r"^block 2: "):
        resident_engine.decode(packets, BF16, 256, np.empty_like(data), resident=copy)


@pytest.mark.parametrize("element", ElementType)
def test_every_short_length(engine: Engine, element: ElementType) -> None:
    data = as_array(mixed(element, 140))
    for size in range(131):
        round_trip(engine, data[:size], element, 64)
        round_trip(engine, data[:size], element, 4096)


@pytest.mark.full
@pytest.mark.parametrize("element", ElementType)
def test_every_length(engine: Engine, element: ElementType) -> None:
    data = as_array(mixed(element, 2 * 4096 + 70))
    for size in range(1, 4096 + 66, 7):
        round_trip(engine, data[size % 61 : size % 61 + size], element, 4096)


@pytest.mark.full
def test_every_bf16_pattern_shuffled(engine: Engine) -> None:
    values = list(range(65536))
    Random("patterns").shuffle(values)
    data = as_array(blocks.join(values, BF16))
    round_trip(engine, data, BF16, 4096)
    round_trip(engine, data, BF16, 1024, bare=True)


@pytest.mark.parametrize("bare", [False, True])
def test_empty_buffer(engine: Engine, bare: bool) -> None:
    packets = round_trip(engine, np.empty(0, np.uint8), BF16, 4096, bare=bare)
    assert packets.payload.size == packets.lengths.size == packets.modes.size == 0


@pytest.mark.parametrize("kind", [RAW, BF16, FP32, ElementType.E5M2])
def test_wrong_element_type_is_only_slower(engine: Engine, kind: ElementType) -> None:
    """Integers handed over as floats, and floats as bytes, come back all the same."""
    data = np.arange(1500, dtype=np.int32).view(np.uint8)
    round_trip(engine, data, kind, 1024)


def test_buffers_do_not_change(engine: Engine) -> None:
    data = as_array(mixed(BF16, 3001)).copy()
    before = data.copy()
    packets = engine.encode(data, BF16, 1024)
    assert np.array_equal(data, before)
    copies = packets.payload.copy(), packets.lengths.copy(), packets.modes.copy()
    out = np.empty_like(data)
    engine.decode(packets, BF16, 1024, out)
    for found, expected in zip(
        (packets.payload, packets.lengths, packets.modes), copies, strict=True
    ):
        assert np.array_equal(found, expected)
    out[:] = 0
    assert np.array_equal(packets.payload, copies[0]), "the payload shares memory with out"
    data[:] = 0
    assert np.array_equal(packets.payload, copies[0]), "the payload shares memory with data"


@pytest.mark.parametrize("offset", [1, 2, 3, 5, 7])
def test_misaligned_and_read_only(engine: Engine, offset: int) -> None:
    size = 2500
    memory = np.empty(size + 16, np.uint8)
    data = memory[offset : offset + size]
    data[:] = as_array(mixed(FP32, size))
    data.flags.writeable = False
    packets = round_trip(engine, data, FP32, 512)
    room = np.empty(packets.payload.size + 16, np.uint8)
    payload = room[offset : offset + packets.payload.size]
    payload[:] = packets.payload
    payload.flags.writeable = False
    out = np.zeros(size + 16, np.uint8)
    engine.decode(
        Packets(payload, packets.lengths, packets.modes), FP32, 512, out[offset : offset + size]
    )
    assert np.array_equal(out[offset : offset + size], data)
    assert not out[:offset].any()
    assert not out[offset + size :].any()


@pytest.mark.parametrize(
    "data",
    [
        np.zeros(64, np.uint16),
        np.zeros((8, 8), np.uint8),
        np.zeros(64, np.uint8)[::2],
        np.zeros((), np.uint8),
    ],
    ids=["uint16", "matrix", "strided", "scalar"],
)
def test_wrong_arrays(engine: Engine, data: np.ndarray) -> None:
    with pytest.raises(InvalidInput):
        engine.encode(data, BF16, 64)
    with pytest.raises(InvalidInput):
        engine.decode(as_packets([]), BF16, 64, data)


def test_read_only_output(engine: Engine) -> None:
    packets = engine.encode(as_array(mixed(BF16, 200)), BF16, 128)
    out = np.zeros(200, np.uint8)
    out.flags.writeable = False
    with pytest.raises(InvalidInput):
        engine.decode(packets, BF16, 128, out)
    assert not out.any()


@pytest.mark.parametrize("block_bytes", [0, -1, 4097])
def test_wrong_block_size(engine: Engine, block_bytes: int) -> None:
    data = np.zeros(64, np.uint8)
    with pytest.raises(InvalidInput):
        engine.encode(data, BF16, block_bytes)
    with pytest.raises(InvalidInput):
        engine.decode(as_packets([]), BF16, block_bytes, data)


@pytest.mark.parametrize(("element", "phase"), [(BF16, 2), (BF16, -1), (RAW, 1), (FP32, 4)])
def test_wrong_phase(engine: Engine, element: ElementType, phase: int) -> None:
    data = np.zeros(64, np.uint8)
    with pytest.raises(InvalidInput):
        engine.encode(data, element, 64, phase=phase)
    with pytest.raises(InvalidInput):
        engine.decode(as_packets([]), element, 64, data, phase=phase)


def changed(packets: Packets, **parts: object) -> Packets:
    fields = {name: getattr(packets, name) for name in ("payload", "lengths", "modes")}
    return Packets(**fields | parts)


def test_packets_that_do_not_add_up(engine: Engine) -> None:
    data = as_array(mixed(BF16, 3000))
    packets = engine.encode(data, BF16, 1024)
    out = np.empty_like(data)
    lengths = packets.lengths
    for lie in ([2**31 - 1, 0, 0], [-1, 0, 0], [0, -8, 8], [1, -1, 0], [2**30, -(2**30), 0]):
        with pytest.raises(FrameError):
            engine.decode(
                changed(packets, lengths=lengths + np.array(lie, np.int32)), BF16, 1024, out
            )
    for wrong in (
        changed(packets, lengths=lengths[:-1]),
        changed(packets, modes=packets.modes[:-1]),
        changed(packets, payload=packets.payload[:-1]),
        as_packets([]),
    ):
        with pytest.raises(FrameError):
            engine.decode(wrong, BF16, 1024, out)
    with pytest.raises(FrameError):
        engine.decode(packets, BF16, 1024, np.empty(3001, np.uint8))
    with pytest.raises(FrameError):
        engine.decode(packets, BF16, 1024, np.empty(1, np.uint8))


@pytest.mark.parametrize("mode", [Mode.CODED, Mode.CONSTANT])
def test_frame_of_another_block(engine: Engine, mode: Mode) -> None:
    """Section 11: length, type and phase are checked against what the receiver expects."""
    rng = Random("another block")
    block = blocks.weights(rng, BF16, 1001, phase=1) if mode == Mode.CODED else bytes(1001)
    packets = engine.encode(as_array(block), BF16, 1001, phase=1)
    assert packets.modes.tolist() == [mode]
    for element, size, phase in (
        (ElementType.FP16, 1001, 1),
        (RAW, 1001, 0),
        (BF16, 1000, 1),
        (BF16, 1002, 1),
        *([(BF16, 1001, 0)] if mode == Mode.CODED else []),
    ):
        with pytest.raises(CorruptFrame):
            engine.decode(packets, element, size, np.empty(size, np.uint8), phase=phase)


def test_packet_rules(engine: Engine) -> None:
    """Section 11: a coded packet is no raw frame, and shorter than its block."""
    noise = blocks.noise(Random("packet"), 100)
    out = np.empty(100, np.uint8)
    raw_frame = as_packets([builder.raw(noise, BF16).frame()])
    engine.decode(raw_frame, BF16, 100, out)
    with pytest.raises(CorruptFrame):
        engine.decode(raw_frame, BF16, 100, out, bare=True)

    block = blocks.with_symbols(Random("long"), BF16, [127, 120, 120, 120] * 8)
    draft = builder.coded(block, BF16, base=120, zero_rank=15, coder=Coder.R1)
    assert len(block) <= len(draft.frame()) <= len(block) + 8
    long_frame = as_packets([draft.frame()])
    engine.decode(long_frame, BF16, 64, out[:64])
    assert out[:64].tobytes() == block
    with pytest.raises(CorruptFrame):
        engine.decode(long_frame, BF16, 64, out[:64], bare=True)


@pytest.mark.parametrize("size", [0, 1, 99, 101])
def test_bare_block_of_wrong_length(engine: Engine, size: int) -> None:
    packets = Packets(np.zeros(size, np.uint8), np.array([size], np.int32), np.zeros(1, np.uint8))
    with pytest.raises(CorruptFrame):
        engine.decode(packets, BF16, 100, np.empty(100, np.uint8), bare=True)


def test_several_threads(engine: Engine) -> None:
    buffers = [as_array(mixed(element, 3000 + i)) for i, element in enumerate(ElementType)]
    alone = [
        reference.ENGINE.encode(data, element, 512)
        for data, element in zip(buffers, ElementType, strict=True)
    ]

    def work(i: int) -> None:
        which = i % len(buffers)
        data, element = buffers[which], ElementType(which)
        packets = engine.encode(data, element, 512)
        assert packets.payload.tobytes() == alone[which].payload.tobytes()
        out = np.empty_like(data)
        engine.decode(packets, element, 512, out)
        assert np.array_equal(out, data)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(36)))


@pytest.mark.parametrize(
    "arguments", [("bf16", 64, 0), (BF16, 64.0, 0), (BF16, 64, 0.5), (BF16, 0, 0), (BF16, 64, 2)]
)
def test_wrong_arguments(engine: Engine, arguments: tuple) -> None:
    element, block_bytes, phase = arguments
    with pytest.raises(InvalidInput):
        engine.encode(np.zeros(64, np.uint8), element, block_bytes, phase=phase, bare=True)
