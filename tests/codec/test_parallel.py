# SPDX-License-Identifier: Apache-2.0
"""Threads change nothing: neither the bytes, nor what is refused, nor what is said about it."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import codec
from codec.elements import ElementType
from codec.engine import Packets, get_engine
from codec.errors import CorruptFrame, InvalidInput, ReferenceMismatch
from codec.parallel import (
    RANGE_BYTES_MIN,
    _share_out,
    decode_ranges,
    encode_ranges,
    in_order,
    range_bytes,
)
from codec.stream import compress_pieces, decompress_pieces

THREADS = [1, 2, 3, 7]
SIZE = 5 * RANGE_BYTES_MIN + 4321


def mixed(size: int) -> np.ndarray:
    """Weights, zeros, a constant and noise, in pieces that no range agrees with."""
    generator = np.random.default_rng(3)
    data = (0.02 * generator.standard_normal(size // 2 + 1)).astype(ml_dtypes.bfloat16)
    data = data.view(np.uint8)[:size]
    third = size // 3
    data[third : third + 700_001] = 0
    data[-900_000:-300_000] = generator.integers(0, 256, 600_000)
    return data


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return mixed(SIZE)


@pytest.fixture(scope="module")
def resident(data: np.ndarray) -> np.ndarray:
    moved = data.copy()
    moved[::97] ^= 1
    return moved


@pytest.mark.parametrize("block_bytes", [4096, 1000, 4095])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("with_copy", [False, True])
def test_any_number_of_threads_writes_the_same(
    data: np.ndarray, resident: np.ndarray, block_bytes: int, dtype: str, with_copy: bool
) -> None:
    reference = resident if with_copy else None
    alone = codec.compress(data, dtype, reference=reference, block_bytes=block_bytes)
    assert bool(codec.inspect(alone).frames_by_mode["reference"]) is with_copy
    out = np.empty(codec.bound(data.size, block_bytes), np.uint8)
    for threads in THREADS:
        options = {"reference": reference, "block_bytes": block_bytes, "threads": threads}
        assert codec.compress(data, dtype, **options) == alone
        size = codec.compress_into(data, out, dtype, **options)
        assert out[:size].tobytes() == alone
        back = codec.decompress(alone, reference=reference, threads=threads)
        assert np.array_equal(back, data)
        pieces = decompress_pieces(alone, reference=reference, threads=threads)
        assert b"".join(piece.data for piece in pieces) == data.tobytes()


def test_noise_fills_every_part_to_its_end() -> None:
    noise = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)
    alone = codec.compress(noise, "raw")
    assert len(alone) == codec.bound(noise.size)
    out = np.empty(len(alone) + 64, np.uint8)
    for threads in THREADS:
        out[:] = 0xA5
        assert codec.compress_into(noise, out, "raw", threads=threads) == len(alone)
        assert out.tobytes() == alone + b"\xa5" * 64


def test_an_odd_phase_and_bare_packets(data: np.ndarray) -> None:
    engine = get_engine("numba")
    options = {"phase": 3, "bare": True}
    alone = engine.encode(data, ElementType.FP32, 1001, **options)
    for threads in THREADS:
        ranges = list(
            encode_ranges(engine, data, ElementType.FP32, 1001, threads=threads, **options)
        )
        assert len(ranges) > 1
        packets = Packets(
            np.concatenate([part.payload for part in ranges]),
            np.concatenate([part.lengths for part in ranges]),
            np.concatenate([part.modes for part in ranges]),
        )
        assert packets.payload.tobytes() == alone.payload.tobytes()
        assert np.array_equal(packets.lengths, alone.lengths)
        assert np.array_equal(packets.modes, alone.modes)
        out = np.empty_like(data)
        decode_ranges(engine, packets, ElementType.FP32, 1001, out, threads=threads, **options)
        assert np.array_equal(out, data)


def test_the_reference_engine_takes_threads_too() -> None:
    data = np.zeros(RANGE_BYTES_MIN + 5000, np.uint8)
    stream = codec.compress(data, "bf16", engine="reference", threads=2)
    assert stream == codec.compress(data, "bf16")
    assert np.array_equal(codec.decompress(stream, engine="reference", threads=2), data)


def test_a_damaged_block_is_named_as_with_one_thread(data: np.ndarray) -> None:
    stream = bytearray(codec.compress(data, "bf16"))
    stream[-1] ^= 1
    stream[-300_000] ^= 1
    messages = set()
    for threads in THREADS:
        with pytest.raises(CorruptFrame, match=r"^block \d+: ") as caught:
            codec.decompress(stream, threads=threads)
        messages.add(str(caught.value))
    assert len(messages) == 1
    pieces = decompress_pieces(stream, threads=2)
    with pytest.raises(CorruptFrame, match=r"^bytes \d+ to \d+: block \d+: "):
        list(pieces)


def test_a_stale_copy_is_named_as_with_one_thread(data: np.ndarray, resident: np.ndarray) -> None:
    stream = codec.compress(data, "bf16", reference=resident)
    stale = resident.copy()
    stale[4096 * 1200] ^= 1
    for threads in THREADS:
        with pytest.raises(ReferenceMismatch, match=r"^block 1200: "):
            codec.decompress(stream, reference=stale, threads=threads)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", None])
def test_numbers_of_threads_that_make_no_sense(threads: object) -> None:
    for call in (
        lambda: codec.compress(b"12", "raw", threads=threads),
        lambda: codec.compress_into(b"12", np.empty(99, np.uint8), "raw", threads=threads),
        lambda: codec.decompress(codec.compress(b"12", "raw"), threads=threads),
    ):
        with pytest.raises(InvalidInput, match="threads: expected 1 or more"):
            call()


def test_ranges_are_whole_blocks_and_large() -> None:
    for total in (1, 10**6, 10**8, 10**12):
        for block_bytes in (1, 1000, 4096):
            size = range_bytes(total, block_bytes, 2)
            assert size % block_bytes == 0
            assert RANGE_BYTES_MIN <= size < (1 << 24) + 4096


# The pool


def test_results_come_in_order_and_few_wait() -> None:
    begun: list[int] = []
    taken: list[int] = []
    most = 0

    def items() -> Iterator[int]:
        nonlocal most
        for item in range(50):
            begun.append(item)
            most = max(most, len(begun) - len(taken))
            yield item

    for result in in_order(lambda item: item * item, items(), 3):
        taken.append(result)
    assert taken == [item * item for item in range(50)]
    assert most <= 3 + 2


def test_an_error_comes_in_its_place_and_stops_the_rest() -> None:
    begun = set()

    def half(item: int) -> int:
        begun.add(item)
        if item == 5:
            raise ValueError("five")
        return item

    results = in_order(half, range(1000), 2)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="five"):
        next(results)
    before = len(begun)
    assert list(in_order(abs, range(20), 2)) == list(range(20))
    assert len(begun) == before < 20


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_ranges_are_shared_out_once_each(threads: int) -> None:
    front: list[int] = []
    back: list[int] = []
    _share_out(range(100), front.append, back.append, threads)
    assert front == list(range(len(front)))
    assert sorted(front + back) == list(range(100))


@pytest.mark.parametrize("where", ["front", "back"])
def test_an_error_in_a_share_stops_all(where: str) -> None:
    met = threading.Event()
    done: list[int] = []

    def fail(item: int) -> None:
        met.wait(10)
        raise ValueError("mine")

    def work(item: int) -> None:
        met.set()
        time.sleep(0.001)
        done.append(item)

    front, back = (fail, work) if where == "front" else (work, fail)
    with pytest.raises(ValueError, match="mine"):
        _share_out(range(100_000), front, back, 2)
    before = len(done)
    time.sleep(0.01)
    assert len(done) == before < 100_000


def test_few_threads_are_kept() -> None:
    running = [in_order(abs, range(100), threads) for threads in range(2, 12)]
    assert [next(results) for results in running] == [0] * 10
    assert [list(results) for results in running] == [list(range(1, 100))] * 10
    del running
    gc.collect()
    names = [t for t in threading.enumerate() if t.name.startswith("wirezip_")]
    deadline = time.monotonic() + 20
    while len(names) > 8 + 9 + 10 + 11 and time.monotonic() < deadline:
        time.sleep(0.01)
        names = [t for t in threading.enumerate() if t.name.startswith("wirezip_")]
    assert len(names) <= 8 + 9 + 10 + 11


def test_a_forked_child_has_threads_of_its_own() -> None:
    program = (
        "import os, numpy as np, codec\n"
        "data = np.zeros(3 << 20, np.uint8)\n"
        "codec.compress(data, 'raw', threads=2)\n"
        "if child := os.fork():\n"
        "    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "os._exit(len(codec.compress(data, 'raw', threads=2)) == 0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.parametrize("threads", [1, 2])
def test_pieces_join_to_the_stream(data: np.ndarray, threads: int) -> None:
    pieces = list(compress_pieces(data, "bf16", threads=threads))
    assert len(pieces) > 3
    assert max(map(len, pieces)) < codec.bound(range_bytes(data.size, 4096, threads))
    assert b"".join(pieces) == codec.compress(data, "bf16")
