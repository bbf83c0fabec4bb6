# SPDX-License-Identifier: Apache-2.0
"""Streams: what goes in comes out, and whatever is no stream is an error before it costs memory."""

import json
import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec import format as f
from codec.elements import ElementType
from codec.errors import (
    CorruptFrame,
    EngineUnavailable,
    FrameError,
    InvalidInput,
    ReferenceMismatch,
    TruncatedFrame,
    UnsupportedFrame,
)
from codec.reference import encode_frame

ENGINES = ["reference", "numba"]


def normal(count: int, dtype: object = ml_dtypes.bfloat16) -> np.ndarray:
    return (0.02 * np.random.default_rng(7).standard_normal(count)).astype(dtype)


def stream_header(
    *, element: int = 1, block_bytes: int = 4096, original_bytes: int, version: int = 1
) -> bytes:
    return struct.pack("<3sBBxHQ", b"WZS", version, element, block_bytes, original_bytes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("block_bytes", [1, 2, 7, 64, 1000, 1023, 4095, 4096])
def test_round_trip_at_every_kind_of_block_size(engine: str, block_bytes: int) -> None:
    values = normal(700 if block_bytes < 64 else 5000)
    values[100:300] = 0
    stream = codec.compress(values, block_bytes=block_bytes, engine=engine)
    assert codec.decompress(stream, engine=engine).tobytes() == values.tobytes()
    assert len(stream) <= codec.bound(values.nbytes, block_bytes)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        np.int8,
    ],
)
def test_engines_write_the_same_stream(dtype: object) -> None:
    values = normal(4001, dtype)
    streams = {codec.compress(values, engine=engine) for engine in ENGINES}
    assert len(streams) == 1
    stream = streams.pop()
    assert codec.decompress(stream).view(dtype).tobytes() == values.tobytes()


@given(
    data=st.binary(max_size=300),
    dtype=st.sampled_from(["raw", "bf16", "fp16", "fp32", "e4m3", "e5m2"]),
    block_bytes=st.integers(1, 4096),
)
def test_any_bytes_round_trip(data: bytes, dtype: str, block_bytes: int) -> None:
    stream = codec.compress(data, dtype, block_bytes=block_bytes)
    assert codec.decompress(stream).tobytes() == data
    assert codec.inspect(stream).original_bytes == len(data)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    values = np.full(shape, 1.5, np.float32)
    restored = codec.decompress(codec.compress(values)).view(np.float32).reshape(shape)
    assert restored.tobytes() == values.tobytes()


def test_torch_tensors_and_arrays_make_the_same_stream() -> None:
    values = normal(3000).reshape(30, 100)
    tensor = torch.from_numpy(values.view(np.uint16).copy()).view(torch.bfloat16)
    tensor.requires_grad_(True)
    assert codec.compress(tensor) == codec.compress(values)
    assert codec.compress(tensor.T) == codec.compress(values.T)


def test_the_callers_buffers_do_not_change() -> None:
    values = normal(9000)
    before = values.tobytes()
    stream = bytearray(codec.compress(values))
    kept = bytes(stream)
    codec.decompress(stream)
    assert (values.tobytes(), bytes(stream)) == (before, kept)


def test_an_empty_tensor_is_a_bare_header() -> None:
    stream = codec.compress(b"", "fp16", block_bytes=100)
    assert stream == stream_header(element=2, block_bytes=100, original_bytes=0)
    assert codec.decompress(stream).size == 0
    assert codec.inspect(stream).ratio == 0


def test_out_is_filled_and_returned() -> None:
    values = normal(3000)
    out = np.empty(values.nbytes, np.uint8)
    assert codec.decompress(codec.compress(values), out=out) is out
    assert out.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "out",
    [
        np.empty(99, np.uint8),
        np.empty(101, np.uint8),
        np.empty(200, np.uint8)[::2],
        np.empty(100, np.int8),
        np.empty((10, 10), np.uint8),
        bytearray(100),
        np.frombuffer(bytes(100), np.uint8),
    ],
    ids=["short", "long", "strided", "int8", "2-d", "bytearray", "read-only"],
)
def test_out_that_does_not_fit_is_refused(out: object) -> None:
    stream = codec.compress(bytes(range(100)), "raw")
    with pytest.raises(InvalidInput, match="out: expected"):
        codec.decompress(stream, out=out)  # type: ignore[arg-type]


def test_compress_into_writes_what_compress_returns() -> None:
    values = normal(9001)
    out = np.full(codec.bound(values.nbytes) + 10, 0xA5, np.uint8)
    size = codec.compress_into(values, out)
    assert out[:size].tobytes() == codec.compress(values)
    assert (out[codec.bound(values.nbytes) :] == 0xA5).all()
    with pytest.raises(InvalidInput, match="out: expected"):
        codec.compress_into(values, out[: codec.bound(values.nbytes) - 1])


@pytest.mark.parametrize("block_bytes", [0, -1, 4097, 4096.0, "4096", None])
def test_block_sizes_that_the_format_lacks_are_refused(block_bytes: object) -> None:
    with pytest.raises(InvalidInput, match="block_bytes: expected"):
        codec.compress(b"1234", "bf16", block_bytes=block_bytes)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="block_bytes: expected"):
        codec.bound(4, block_bytes)  # type: ignore[arg-type]


def test_bound_is_met_by_noise_and_never_exceeded() -> None:
    noise = np.random.default_rng(1).integers(0, 256, 10_001, np.uint8)
    for block_bytes in (1, 100, 4096):
        stream = codec.compress(noise, block_bytes=block_bytes)
        assert len(stream) == codec.bound(noise.size, block_bytes)
    assert codec.bound(0) == f.STREAM_HEADER_BYTES
    for wrong in (-1, 2.5, None):
        with pytest.raises(InvalidInput, match="original_bytes"):
            codec.bound(wrong)  # type: ignore[arg-type]


def test_unknown_engine() -> None:
    with pytest.raises(EngineUnavailable, match="no-such"):
        codec.compress(b"", "raw", engine="no-such")
    with pytest.raises(InvalidInput, match="null"):
        codec.compress(b"12", "raw", engine="null")


# What is no stream


@pytest.fixture(scope="module")
def stream() -> bytes:
    values = normal(1600)
    values[:600] = 0
    return codec.compress(values, block_bytes=1000)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_truncation_is_an_error(stream: bytes, engine: str) -> None:
    for size in range(len(stream)):
        with pytest.raises(TruncatedFrame):
            codec.decompress(stream[:size], engine=engine)


def test_trailing_bytes_are_an_error(stream: bytes) -> None:
    end = len(stream)
    with pytest.raises(CorruptFrame, match=f"end at byte {end}; found 1 more"):
        codec.decompress(stream + b"\0")
    with pytest.raises(CorruptFrame, match=f"found {end} more"):
        codec.inspect(stream + stream)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_flipped_bit_is_an_error(stream: bytes, engine: str) -> None:
    # Every bit of the header, and of the frames one in 11; tests/conformance flips them all.
    for bit in [*range(8 * 32), *range(8 * 32, 8 * len(stream), 11)]:
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            codec.decompress(flipped, engine=engine)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ((0, b"X"), CorruptFrame, "begin with b'WZS'"),
        ((3, b"\2"), UnsupportedFrame, "version 1; found 2"),
        ((4, b"\6"), CorruptFrame, "element type of 0 to 5; found 6"),
        ((4, b"\2"), CorruptFrame, "block 0, byte 16: expected element type FP16; found BF16"),
        ((5, b"\1"), CorruptFrame, "0 at byte 5; found 1"),
        ((6, b"\0\0"), CorruptFrame, "blocks of 1 to 4096 bytes; found 0"),
        ((6, b"\1\x10"), CorruptFrame, "blocks of 1 to 4096 bytes; found 4097"),
        ((6, b"\xe9\3"), CorruptFrame, "block 0, byte 16: expected a block of 1001 bytes"),
        ((8, struct.pack("<Q", 3199)), CorruptFrame, "block 3, byte .*: .* 199 bytes; found 200"),
        ((8, struct.pack("<Q", 3000)), CorruptFrame, "expected its end at byte"),
        ((8, struct.pack("<Q", 4000)), CorruptFrame, "block 3, byte .*: .* of 1000 bytes"),
        ((16, b"\x0a"), UnsupportedFrame, "block 0, byte 16: header: expected version 1; found 2"),
    ],
)
def test_header_fields_are_checked(
    stream: bytes, change: tuple[int, bytes], error: type[FrameError], message: str
) -> None:
    at, new = change
    changed = stream[:at] + new + stream[at + len(new) :]
    with pytest.raises(error, match=message):
        codec.decompress(changed)
    with pytest.raises(error, match=message):
        codec.inspect(changed)


@pytest.mark.parametrize("claimed", [2**30, 2**40, 2**63, 2**64 - 1])
@pytest.mark.parametrize("block_bytes", [1, 4096])
def test_a_size_that_the_frames_do_not_earn_is_not_allocated(
    claimed: int, block_bytes: int
) -> None:
    constant = encode_frame(b"\1\2" * 50, ElementType.BF16)
    header = stream_header(block_bytes=block_bytes, original_bytes=claimed)
    lying = header + constant * 100
    with pytest.raises(TruncatedFrame):
        codec.inspect(lying)
    tracemalloc.start()
    try:
        with pytest.raises(TruncatedFrame, match=f"for {claimed} bytes"):
            codec.decompress(lying)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_nothing_is_allocated_when_the_last_frame_is_bad() -> None:
    frame = encode_frame(bytes(4096), ElementType.BF16)
    blocks = 2000
    lying = stream_header(original_bytes=4096 * blocks) + frame * (blocks - 1) + bytes(len(frame))
    codec.inspect(stream_header(original_bytes=4096) + frame)
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedFrame, match=f"block {blocks - 1}, byte"):
            codec.decompress(lying)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_frame_of_another_phase_is_refused() -> None:
    block = b"\1" + normal(500).tobytes()
    shifted = stream_header(original_bytes=1001) + encode_frame(block, ElementType.BF16, 1)
    with pytest.raises(CorruptFrame, match="block 0, byte 16: expected phase 0; found 1"):
        codec.decompress(shifted)


@pytest.mark.parametrize("engine", ENGINES)
def test_frames_in_reference_mode_need_their_copy(engine: str) -> None:
    block = normal(500).tobytes()
    frame = encode_frame(block, ElementType.BF16, 0, block[:-1] + b"\0")
    made = stream_header(original_bytes=1000) + frame
    assert codec.inspect(made).frames_by_mode["reference"] == 1
    with pytest.raises((ReferenceMismatch, UnsupportedFrame), match="block 0"):
        codec.decompress(made, engine=engine)


# A reference


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
def test_a_tensor_against_a_resident_copy(engine: str, dtype: object) -> None:
    before = (100 * normal(1500, np.float32)).astype(dtype).reshape(30, 50)
    after = before.copy()
    after[::3, 1] += np.ones(10, dtype)
    stream = codec.compress(after, reference=before, engine=engine)
    assert codec.inspect(stream).frames_by_mode["reference"] > 0
    assert len(stream) < len(codec.compress(after, engine=engine))
    assert codec.decompress(stream, reference=before, engine=engine).tobytes() == after.tobytes()


def test_references_of_every_kind() -> None:
    before = normal(3000).reshape(30, 100)
    after = before.copy()
    after[0, 0] = 1
    bits = before.view(np.uint16)
    tensor = torch.from_numpy(bits.copy()).view(torch.bfloat16)
    stream = codec.compress(after, reference=before)
    turned = np.asfortranarray(before)
    for reference in (before.tobytes(), bits, tensor, turned, bytearray(before.tobytes())):
        assert codec.compress(after, reference=reference) == stream
        assert codec.decompress(stream, reference=reference).tobytes() == after.tobytes()
    plain = codec.compress(after.tobytes(), "bf16", reference=before)
    assert plain == stream


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (np.ones(9, np.float32), "expected shape"),
        (np.ones((5, 2), np.float32), "expected shape"),
        (np.ones(10, np.float16), "float16"),
        (bytes(39), "expected 40 bytes; found 39"),
        ("text", "expected a buffer"),
    ],
)
def test_a_reference_that_does_not_go_with_the_data(reference: object, message: str) -> None:
    data = np.ones(10, np.float32)
    with pytest.raises(InvalidInput, match=message):
        codec.compress(data, reference=reference)
    with pytest.raises(InvalidInput):
        codec.compress_into(data, np.empty(99, np.uint8), reference=reference)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_stale_or_wrong_reference(engine: str) -> None:
    before = normal(6000)
    after = before.copy()
    after[2500] = 1
    stream = codec.compress(after, reference=before)
    stale = before.copy()
    stale[2047] = 1
    for reference, block in ((None, 0), (stale, 0), (after, 1), (before[:-1], 0), (b"", 0)):
        with pytest.raises(ReferenceMismatch, match=f"^block {block}: "):
            codec.decompress(stream, reference=reference, engine=engine)
    plain = codec.compress(after)
    assert codec.decompress(plain, reference=stale, engine=engine).tobytes() == after.tobytes()
    with pytest.raises(ReferenceMismatch, match="12000 bytes; found 2"):
        codec.decompress(plain, reference=b"12", engine=engine)


@pytest.mark.parametrize("thing", [3, None, "text", [1, 2]])
def test_a_stream_is_a_buffer(thing: object) -> None:
    with pytest.raises(InvalidInput, match="stream: expected a buffer"):
        codec.decompress(thing)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda s: np.frombuffer(s, "u1")])
def test_streams_of_every_buffer_kind(stream: bytes, kind: object) -> None:
    assert codec.decompress(kind(stream)).size == 3200  # type: ignore[operator]


# What a stream holds


def test_inspection_counts_everything() -> None:
    zeros, ones = np.zeros(4096, np.uint8), np.tile(np.array([1, 2], np.uint8), 2048)
    noise = np.random.default_rng(1).integers(0, 256, 4096, np.uint8)
    weights = normal(2048).view(np.uint8)
    stream = codec.compress(np.concatenate([zeros, ones, noise, weights]), "bf16")
    found = codec.inspect(stream)
    assert found.frames == 4
    assert found.frames_by_mode == {"raw": 1, "constant": 2, "coded": 1, "reference": 0}
    assert sum(found.frames_by_coder.values()) == 1
    assert sum(found.bytes_by_section.values()) == len(stream) == found.compressed_bytes
    assert found.bytes_by_section["raw"] == 4096
    assert found.bytes_by_section["constant"] == 4
    assert found.bytes_by_section["frame_headers"] == 3 * 8 + 16
    assert found.bytes_by_section["remainders"] == 2048
    assert found.ratio == 4 * 4096 / len(stream)
    assert json.loads(json.dumps(found.as_dict())) == found.as_dict()


def test_output_over_input_is_refused() -> None:
    memory = np.zeros(3 * codec.bound(1000), np.uint8)
    data, out = memory[:1000], memory[999:]
    with pytest.raises(InvalidInput, match="apart from what is read"):
        codec.compress_into(data, out, "raw")
    with pytest.raises(InvalidInput, match="apart from what is read"):
        codec.compress_into(data.copy(), out, "raw", reference=memory[1000:2000])
    size = codec.compress_into(data, memory[1000:], "raw")
    stream = memory[1000 : 1000 + size]
    with pytest.raises(InvalidInput, match="apart from what is read"):
        codec.decompress(stream, out=memory[1:1001])
    with pytest.raises(InvalidInput, match="apart from what is read"):
        codec.decompress(stream, reference=data, out=data)
    assert not codec.decompress(stream, out=data).any()
