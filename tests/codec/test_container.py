# SPDX-License-Identifier: Apache-2.0
"""Containers give files back byte for byte, and whatever is no container is an error."""

import io
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import codec
from codec import table as t
from codec.checkpoint import CheckpointError, read_checkpoint
from codec.checksum import padded_crc32c
from codec.container_writer import CHUNK_BYTES
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
from codec.resident import ResidentCheckpoint


def weights(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 1) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return (0.02 * values).to(dtype)


TENSORS = {
    "embed.weight": weights(300, 64),
    "half": weights(64, 33, dtype=torch.float16),
    "layer.0.weight": weights(70, 61, dtype=torch.float32),
    "e4m3": weights(999).to(torch.float8_e4m3fn),
    "e5m2": weights(5, 5).to(torch.float8_e5m2),
    "ids": torch.arange(77),
    "flags": torch.tensor([True, False, True]),
    "double": weights(3, dtype=torch.float64),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 4),
    "zeros": torch.zeros(5000, dtype=torch.bfloat16),
    "größe/[bold]": torch.ones(3, dtype=torch.int8),
}


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def pack(path: Path, reference: Path | None = None, **options: object) -> bytes:
    """The container of a file."""
    target = io.BytesIO()
    if reference is None:
        written = codec.write_container(path, target, **options)
    else:
        with ResidentCheckpoint(reference) as resident:
            written = codec.write_container(path, target, reference=resident, **options)
    assert written.original_bytes == path.stat().st_size
    assert written.compressed_bytes == len(target.getvalue())
    return target.getvalue()


def unpack(path: Path, reference: Path | None = None, **options: object) -> bytes:
    target = io.BytesIO()
    with codec.open_container(path, reference=reference, **options) as container:
        assert container.restore(target) == len(target.getvalue())
    return target.getvalue()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save_file(TENSORS, path, metadata={"format": "pt", "note": "x" * 500})
    return path


@pytest.fixture(scope="module")
def packed(model: Path) -> Path:
    path = model.with_name("model.safetensors.wz")
    path.write_bytes(pack(model))
    return path


# Round trips


def test_the_file_and_every_tensor_come_back(model: Path, packed: Path) -> None:
    assert unpack(packed) == model.read_bytes()
    known = {tensor.name: tensor for tensor in read_checkpoint(model)}
    with codec.open_container(packed) as container:
        assert container.names == tuple(known)
        assert set(container.names) == set(TENSORS)
        assert container.needs_reference == ()
        for name, tensor in TENSORS.items():
            data, dtype, shape = container.read(name)
            assert data.tobytes() == raw(tensor)
            assert (dtype, shape) == (known[name].dtype, tuple(tensor.shape))
    assert packed.stat().st_size < 0.75 * model.stat().st_size


@pytest.mark.parametrize("block_bytes", [1, 1000, 1023, 4096])
def test_blocks_of_any_size(tmp_path: Path, block_bytes: int) -> None:
    small = {name: tensor.reshape(-1)[:100] for name, tensor in TENSORS.items()}
    save_file({name: tensor.clone() for name, tensor in small.items()}, tmp_path / "m")
    (tmp_path / "m.wz").write_bytes(pack(tmp_path / "m", block_bytes=block_bytes))
    assert unpack(tmp_path / "m.wz") == (tmp_path / "m").read_bytes()


def test_engines_and_threads_write_the_same(model: Path, packed: Path) -> None:
    for options in ({"threads": 2}, {"threads": 7}, {"engine": "reference"}):
        assert pack(model, **options) == packed.read_bytes()
        assert unpack(packed, **options) == model.read_bytes()


def test_chunks_and_ranges(tmp_path: Path) -> None:
    big = weights(CHUNK_BYTES + 12345)
    path = tmp_path / "m"
    save_file({"a": torch.ones(3, dtype=torch.uint8), "big": big, "c": weights(9)}, path)
    (tmp_path / "m.wz").write_bytes(pack(path, threads=3))
    file = path.read_bytes()
    assert unpack(tmp_path / "m.wz", threads=2) == file
    with codec.open_container(tmp_path / "m.wz", threads=2) as container:
        assert container.read("big").data.tobytes() == raw(big)
        begin = container.tensors["big"].begin
        generator = np.random.default_rng(1)
        for at, size in [
            (0, 0),
            (0, 1),
            (len(file) - 1, 1),
            (0, len(file)),
            (begin + CHUNK_BYTES - 1, 2),
            (begin + CHUNK_BYTES, 1),
            *generator.integers(0, len(file) // 2, (20, 2)).tolist(),
        ]:
            assert container.read_range(at, size).tobytes() == file[at : at + size]
        for at, size in [(-1, 2), (0, -1), (len(file), 1), (1, len(file))]:
            with pytest.raises(InvalidInput, match="range: expected one within"):
                container.read_range(at, size)


def test_a_single_tensor_needs_nothing_else(packed: Path, tmp_path: Path) -> None:
    with codec.open_container(packed) as container:
        segments = container.table.segments
        entry = container.tensors["half"]
    kept = bytearray(packed.read_bytes())
    for segment in segments:
        for chunk in segment.chunks:
            if chunk.begin != entry.begin:
                end = chunk.offset + chunk.compressed_bytes
                kept[chunk.offset : end] = bytes(chunk.compressed_bytes)
    (tmp_path / "holes.wz").write_bytes(kept)
    with codec.open_container(tmp_path / "holes.wz") as container:
        assert container.read("half").data.tobytes() == raw(TENSORS["half"])
        with pytest.raises(FrameError, match=r"holes\.wz: 'ids', bytes \d+ to \d+: "):
            container.read("ids")
        with pytest.raises(InvalidInput, match=r"expected one of .*; found 'nothing'"):
            container.read("nothing")


def test_a_misaligned_body(tmp_path: Path) -> None:
    # Our own file, whose header has an odd length: the library would pad it.
    body = raw(TENSORS["half"])
    header = {"half": {"dtype": "F16", "shape": [64, 33], "data_offsets": [0, len(body)]}}
    text = json.dumps(header).encode()
    text += b" " * (1 - len(text) % 2)
    path = tmp_path / "odd"
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    (tmp_path / "odd.wz").write_bytes(pack(path))
    assert len(text) % 2 == 1
    assert unpack(tmp_path / "odd.wz") == path.read_bytes()


# Torch files


@pytest.mark.parametrize("kind", ["plain", "nested", "tied", "strided"])
def test_torch_files(tmp_path: Path, kind: str) -> None:
    base = weights(200, 50)
    objects = {
        "plain": dict(TENSORS),
        "nested": {"model": {"w": base}, "step": 3, "list": [weights(9, seed=2), "text"]},
        "tied": {"a": base, "b": base, "row": base[7], "tail": base.reshape(-1)[500:]},
        "strided": {"turned": base.T, "flat": weights(30)},
    }[kind]
    path = tmp_path / "model.pt"
    torch.save(objects, path)
    (tmp_path / "model.pt.wz").write_bytes(pack(path))
    assert unpack(tmp_path / "model.pt.wz") == path.read_bytes()
    with codec.open_container(tmp_path / "model.pt.wz") as container:
        for tensor in read_checkpoint(path):
            if tensor.name == "turned":
                # Its elements do not lie in order, so no range of the file is it.
                assert tensor.name not in container.tensors
                continue
            found = container.read(tensor.name)
            assert found.data.tobytes() == tensor.data.tobytes()
            assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    # Storages are coded by their type, strided or not.
    if kind != "plain":
        assert (tmp_path / "model.pt.wz").stat().st_size < 0.9 * path.stat().st_size


def test_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for content in (b"", b"text", bytes(100), b"PK\3\4" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="f: expected"):
            pack(path)
    with pytest.raises(InvalidInput, match="expected one file"):
        pack(tmp_path)


def test_options_are_checked(model: Path, packed: Path) -> None:
    for wrong in (4097, 0, 64.0, "64"):
        with pytest.raises(InvalidInput, match="block_bytes"):
            pack(model, block_bytes=wrong)
    with pytest.raises(InvalidInput, match="threads"):
        pack(model, threads=0)
    with pytest.raises(EngineUnavailable):
        codec.open_container(packed, engine="none")


# References


@pytest.fixture(scope="module")
def later(model: Path) -> Path:
    """The model a step later: some weights moved, a new tensor, and one of another shape."""
    tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
    for name in ("embed.weight", "layer.0.weight"):
        tensors[name] += 1e-5 * torch.sign(weights(*tensors[name].shape, seed=3))
    tensors["new"] = weights(30)
    tensors["half"] = tensors["half"].reshape(33, 64).contiguous()
    path = model.with_name("later.safetensors")
    save_file(tensors, path)
    return path


def test_a_checkpoint_against_an_earlier_one(model: Path, later: Path, tmp_path: Path) -> None:
    path = tmp_path / "later.wz"
    path.write_bytes(pack(later, model, threads=2))
    assert path.read_bytes() == pack(later, model)
    assert len(path.read_bytes()) < 0.6 * len(pack(later))
    assert unpack(path, model, threads=2) == later.read_bytes()
    with codec.open_container(path) as container:
        assert {"embed.weight", "layer.0.weight"} <= set(container.needs_reference)
        assert not {"new", "half", "empty", "zeros"} & set(container.needs_reference)
        assert container.read("new").data.tobytes() == raw(weights(30))
        with pytest.raises(ReferenceMismatch, match=r"later\.wz: .* found none"):
            container.read("embed.weight")
    with codec.open_container(path, reference=model) as container:
        found = container.read("embed.weight")
        assert found.data.size == 2 * 300 * 64


def test_the_reference_may_be_another_kind_of_file(
    model: Path, later: Path, tmp_path: Path
) -> None:
    path, copy = tmp_path / "later.wz", tmp_path / "model.pt"
    turned = TENSORS["layer.0.weight"].T.contiguous().T
    torch.save({**TENSORS, "layer.0.weight": turned}, copy)
    path.write_bytes(pack(later, copy))
    assert path.read_bytes() == pack(later, model)
    assert unpack(path, copy) == unpack(path, model) == later.read_bytes()


class Untouched(io.RawIOBase):
    """A file that must not be written to."""

    def write(self, data: object) -> int:
        raise AssertionError("something was written")


@pytest.mark.parametrize("case", ["missing", "stale", "other shape", "other dtype", "without it"])
def test_a_wrong_reference_is_an_error_before_any_output(
    model: Path, later: Path, tmp_path: Path, case: str
) -> None:
    path = tmp_path / "later.wz"
    path.write_bytes(pack(later, model))
    tensors = {name: tensor.clone() for name, tensor in TENSORS.items()}
    name = "layer.0.weight"
    if case == "stale":
        tensors[name][-1, -1] += 1
    elif case == "other shape":
        tensors[name] = tensors[name].reshape(61, 70)
    elif case == "other dtype":
        tensors[name] = tensors[name].to(torch.bfloat16)
    elif case == "without it":
        del tensors[name]
    reference = None if case == "missing" else tmp_path / "reference"
    if reference:
        save_file(tensors, reference)
    with (
        codec.open_container(path, reference=reference) as container,
        pytest.raises(ReferenceMismatch, match="found none" if case == "missing" else name),
    ):
        container.restore(Untouched())  # type: ignore[arg-type]


def test_a_forged_size_reads_nothing_else_of_the_reference(
    model: Path, later: Path, tmp_path: Path
) -> None:
    path = tmp_path / "later.wz"
    path.write_bytes(pack(later, model))
    with ResidentCheckpoint(model) as resident, codec.open_container(path) as container:
        entry = container.tensors["embed.weight"]
        assert resident.mismatch(entry) is None
        forged = replace(entry, original_bytes=entry.original_bytes + 2)
        assert resident.mismatch(forged) == f"{entry.original_bytes} bytes"


def test_a_reference_that_changed_after_the_check(
    model: Path, later: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "later.wz"
    path.write_bytes(pack(later, model))
    read = ResidentCheckpoint.read
    with codec.open_container(path, reference=model) as container:
        container.read("embed.weight")
        monkeypatch.setattr(container, "_check_copies", lambda places: None)
        monkeypatch.setattr(ResidentCheckpoint, "read", lambda *a: read(*a) ^ np.uint8(1))
        with pytest.raises(ReferenceMismatch, match=r"'embed.weight', bytes .*: block 0: "):
            container.read("embed.weight")


# What is no container


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A small checkpoint and its container, with every mode of frames but reference."""
    path = tmp_path_factory.mktemp("small") / "m"
    noise = torch.randint(0, 256, (40,), dtype=torch.uint8, generator=torch.Generator())
    save_file(
        {"w": weights(8, 16), "zero": torch.zeros(70), "noise": noise, "none": torch.empty(0)}, path
    )
    return path.read_bytes(), pack(path, block_bytes=128)


def attempt(path: Path, content: bytes) -> bytes | None:
    """What a container restores to, or None if it is refused as it should be."""
    path.write_bytes(content)
    try:
        return unpack(path)
    except FrameError:
        return None


def test_no_damaged_byte_goes_unnoticed(small: tuple[bytes, bytes], tmp_path: Path) -> None:
    original, container = small
    assert attempt(tmp_path / "f", container) == original
    generator = np.random.default_rng(1)
    for at in range(len(container)):
        for change in {0xFF, 1 << generator.integers(8)}:
            damaged = bytearray(container)
            damaged[at] ^= change
            assert attempt(tmp_path / "f", bytes(damaged)) in (None, original), at


def test_every_truncation_is_an_error(small: tuple[bytes, bytes], tmp_path: Path) -> None:
    _, container = small
    for size in range(len(container)):
        assert attempt(tmp_path / "f", container[:size]) is None
        assert attempt(tmp_path / "f", container[:8] + container[8 + size :]) is None or size == 0
    assert attempt(tmp_path / "f", container + b"\0") is None
    assert attempt(tmp_path / "f", container + container) is None


def test_chunks_in_each_others_place(tmp_path: Path) -> None:
    noise = torch.randint(0, 256, (2, 4096), dtype=torch.uint8, generator=torch.Generator())
    save_file({"a": noise[0].clone(), "b": noise[1].clone()}, tmp_path / "m")
    path = tmp_path / "m.wz"
    path.write_bytes(pack(tmp_path / "m"))
    with codec.open_container(path) as container:
        first, second = (s.chunks[0] for s in container.table.segments[1:])
    content = bytearray(path.read_bytes())
    a = slice(first.offset, first.offset + first.compressed_bytes)
    b = slice(second.offset, second.offset + second.compressed_bytes)
    content[a], content[b] = content[b], content[a]
    path.write_bytes(content)
    with pytest.raises(CorruptFrame, match=r"'a', bytes .*: expected check"):
        unpack(path)


def split(container: bytes) -> tuple[bytes, bytes]:
    """Header with chunks, and table."""
    (size,) = struct.unpack("<Q", container[-16:-8])
    return container[: -16 - size], container[-16 - size : -16]


def sealed(payload: bytes, table: bytes) -> bytes:
    """A container whose checksums are right, whatever its table says."""
    body = np.frombuffer(table, np.uint8)
    trailer = struct.pack("<QI", len(table), padded_crc32c(body))
    check = padded_crc32c(np.frombuffer(trailer, np.uint8))
    return payload + table + trailer + check.to_bytes(4, "little")


def test_a_forged_table_is_refused_or_harmless(small: tuple[bytes, bytes], tmp_path: Path) -> None:
    payload, table = split(small[1])
    assert sealed(payload, table) == small[1]
    for at in range(len(table)):
        for value in (0, 1, 0x7F, 0xFF):
            forged = bytearray(table)
            forged[at] = value
            path = tmp_path / "f"
            path.write_bytes(sealed(payload, bytes(forged)))
            try:
                with codec.open_container(path) as container:
                    container.inspect()
                    for name in container.names:
                        container.read(name)
            except FrameError:
                pass


Change = Callable[[t.Table], t.Table]


def first_segment(**changes: object) -> Change:
    return lambda table: replace(
        table, segments=(replace(table.segments[0], **changes), *table.segments[1:])
    )


def first_chunk(**changes: object) -> Change:
    def change(table: t.Table) -> t.Table:
        chunks = table.segments[0].chunks
        chunks = (replace(chunks[0], **changes), *chunks[1:])
        return first_segment(chunks=chunks)(table)

    return change


def first_tensor(**changes: object) -> Change:
    return lambda table: replace(
        table, tensors=(replace(table.tensors[0], **changes), *table.tensors[1:])
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: replace(table, original_bytes=2**63), f"expected {2**63} bytes"),
        (lambda table: replace(table, original_bytes=0), "expected 0 bytes"),
        (lambda table: replace(table, block_bytes=0), "blocks of 1 to 4096"),
        (lambda table: replace(table, block_bytes=4097), "blocks of 1 to 4096"),
        (lambda table: replace(table, blocks_per_chunk=0), "chunks of 4 to"),
        (lambda table: replace(table, blocks_per_chunk=2**31), "chunks of 4 to"),
        (lambda table: replace(table, block_bytes=1, blocks_per_chunk=3), "a multiple of 4"),
        (lambda table: replace(table, segments=table.segments[1:]), "bytes"),
        (lambda table: replace(table, segments=()), "expected .* bytes; found"),
        (lambda table: replace(table, tensors=table.tensors * 2), "every name once"),
        (first_segment(original_bytes=2**62), "chunks"),
        (first_segment(original_bytes=2**64 - 1), "chunks"),
        (first_segment(original_bytes=0), "at least a byte"),
        (first_segment(tensor=0), "expected a tensor"),
        (first_segment(chunks=()), "chunks"),
        (first_chunk(compressed_bytes=0), "1032 to 1"),
        (first_chunk(compressed_bytes=2**32 - 1), "chunks of .* in all"),
        (first_chunk(resident_check=1), "no check of a copy"),
        (first_tensor(begin=2**64 - 1), "within the file"),
        (first_tensor(original_bytes=2**40), "within the file"),
        (first_tensor(shape=(5,)), "a shape of"),
        (first_tensor(name="w" * 70000), None),
    ],
)
def test_lying_numbers(
    small: tuple[bytes, bytes], tmp_path: Path, change: Change, message: str | None
) -> None:
    path = tmp_path / "f"
    path.write_bytes(small[1])
    with codec.open_container(path) as container:
        table = container.table
    payload, _ = split(small[1])
    path.write_bytes(payload + t.pack(change(table)))
    if message is None:
        assert unpack(path) == small[0]
        return
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFrame, match=f"table: .*{message}"):
            codec.open_container(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("counts", [(2**32 - 1, 0, 0), (0, 2**32 - 1, 0), (0, 0, 2**64 - 1)])
def test_lying_counts(small: tuple[bytes, bytes], tmp_path: Path, counts: object) -> None:
    payload, table = split(small[1])
    forged = table[:16] + struct.pack("<IIQ", *counts) + table[32:]
    (tmp_path / "f").write_bytes(sealed(payload, forged))
    with pytest.raises(CorruptFrame, match=r"table: expected \d+ segments, \d+ chunks"):
        codec.open_container(tmp_path / "f")


def test_tensors_that_all_span_all_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many, size = 2000, 4
    chunks = [t.Chunk(size * n, size, 8 + n, 1, 0, 0) for n in range(many)]
    raw_bytes, zlib_method = ElementType.RAW, t.Method.ZLIB
    segments = tuple(t.Segment(size, raw_bytes, zlib_method, None, (c,)) for c in chunks)
    total = many * size
    tensors = tuple(t.TensorEntry(f"{n}", "U8", (total,), 0, total) for n in range(many))
    table = t.pack(t.Table(total, size, 1, segments, tensors))
    path = tmp_path / "f"
    path.write_bytes(t.HEADER + bytes(many) + table)
    looked_at = 0

    def count(self: object, name: str) -> object:
        nonlocal looked_at
        looked_at += 1
        return object.__getattribute__(self, name)

    for kind in (t.Chunk, t.Segment):
        monkeypatch.setattr(kind, "__getattribute__", count, raising=False)
    with codec.open_container(path) as container:
        found = container.inspect()
        sizes = {container.compressed_bytes(name) for name in container.names}
    assert sizes == {many} == {tensor.compressed_bytes for tensor in found.tensors}
    assert looked_at < 50 * many


def test_a_zlib_chunk_that_holds_more_than_it_says(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for size, stored in [(100, 100_000), (1000, 999), (4000, 4001)]:
        stream = zlib.compress(bytes(stored))
        chunk = t.Chunk(0, size, 8, len(stream), padded_crc32c(np.zeros(size, np.uint8)), 0)
        segment = t.Segment(size, codec.ElementType.RAW, t.Method.ZLIB, None, (chunk,))
        path.write_bytes(t.HEADER + stream + t.pack(t.Table(size, 4096, 4, (segment,), ())))
        with pytest.raises(
            FrameError, match=f"no tensor, bytes 0 to {size}: expected {size} bytes"
        ):
            unpack(path)
    good = zlib.compress(bytes(100))
    for stream in (good + b"\0", good[:-1], good[:-1] + b"\0", b"text" * 5):
        chunk = t.Chunk(0, 100, 8, len(stream), padded_crc32c(np.zeros(100, np.uint8)), 0)
        segment = t.Segment(100, codec.ElementType.RAW, t.Method.ZLIB, None, (chunk,))
        path.write_bytes(t.HEADER + stream + t.pack(t.Table(100, 4096, 4, (segment,), ())))
        with pytest.raises(FrameError):
            unpack(path)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", CorruptFrame, "begin with b'WZC'"),
        (b"WZS\1" + bytes(50), CorruptFrame, "begin with b'WZC'"),
        (b"WZC", TruncatedFrame, "8 bytes; found 3"),
        (b"WZC\2" + bytes(50), UnsupportedFrame, "version 1; found 2"),
        (b"WZC\1\0\0\0\1" + bytes(50), CorruptFrame, "expected b'WZC"),
        (t.HEADER, TruncatedFrame, "a trailer at its end"),
        (t.HEADER + bytes(50), TruncatedFrame, "a trailer at its end"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, error: type[FrameError], message: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(error, match=message):
        codec.open_container(tmp_path / "f")


def test_a_file_that_becomes_shorter(packed: Path, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(packed.read_bytes())
    with codec.open_container(path) as container:
        path.write_bytes(packed.read_bytes()[:100])
        with pytest.raises(InvalidInput, match="it has become shorter"):
            container.restore(io.BytesIO())


# What it holds


def test_inspection_counts_everything(model: Path, packed: Path, later: Path) -> None:
    with codec.open_container(packed, threads=2) as container:
        found = container.inspect()
    assert found.original_bytes == model.stat().st_size
    assert found.compressed_bytes == packed.stat().st_size
    assert sum(found.bytes_by_section.values()) == found.compressed_bytes
    assert found.ratio == found.original_bytes / found.compressed_bytes
    tensors = {tensor.name: tensor for tensor in found.tensors}
    assert set(tensors) == set(TENSORS)
    assert tensors["zeros"].frames_by_mode == {"raw": 0, "constant": 3, "coded": 0, "reference": 0}
    assert tensors["empty"].compressed_bytes == 0
    assert tensors["embed.weight"].compressed_bytes < 0.7 * 2 * 300 * 64
    assert json.loads(json.dumps(found.as_dict()))["tensors"][0]["name"] == found.tensors[0].name
    path = packed.with_name("later.wz")
    path.write_bytes(pack(later, model))
    with codec.open_container(path) as container:
        found = container.inspect()
        needed = [tensor.name for tensor in found.tensors if tensor.needs_reference]
        assert tuple(needed) == container.needs_reference
    assert all(
        tensor.frames_by_mode["reference"] for tensor in found.tensors if tensor.name in needed
    )
