# SPDX-License-Identifier: Apache-2.0
"""What must hold for any bytes that are offered as a checkpoint.

The first byte of an input says what the rest is: a whole file, the pickle of a torch zip file, the
JSON of a safetensors file (the second byte says how long its body is) or of an index beside two
files. What is read must agree with itself, with the file, and with the safetensors library where
that accepts the file; and it must come back out of a container, coded against itself too.
"""

import enum
import io
import math
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import safetensors

import codec
from codec.checkpoint import (
    CheckpointError,
    Tensor,
    cast_bf16,
    cast_fp8,
    cast_fp16,
    read_checkpoint,
)
from codec.elements import ElementType
from codec.resident import ResidentCheckpoint
from tests.fuzz.common import Disagreement, expect
from tests.fuzz.containers import checkpoints

MAX_BYTES = 4000
STORAGES, STORAGE_BYTES = 4, 96
_BODY_UNIT = 4
_TENSORS_MAX = 20
_ZIP_MAGIC = b"PK\3\4"


class Kind(enum.IntEnum):
    """What an input holds."""

    FILE = 0
    PICKLE = 1
    HEADER = 2
    INDEX = 3


def seeds() -> Iterator[bytes]:
    """Small checkpoints of both kinds, their pickles and headers, and indices."""
    import torch

    for name, content in checkpoints().items():
        yield bytes([Kind.FILE]) + content
        if name.endswith(".safetensors"):
            end = 8 + int.from_bytes(content[:8], "little")
            yield bytes([Kind.HEADER, (len(content) - end) // _BODY_UNIT]) + content[8:end]
    values = torch.arange(24, dtype=torch.float32)
    objects = [
        {"a": values, "b": values[3:].reshape(3, 7).T, "c": values[:0]},
        [torch.nn.Parameter(values), (values.to(torch.float64)[:12].clone(), 1.5, None, True)],
        {"x": {"y": [values.to(torch.bfloat16).repeat(2), "text", b"bytes"]}, 5: torch.Size([1])},
        torch.nn.Linear(4, 6, bias=False).state_dict(),
    ]
    for item in objects:
        for protocol in (2, 4):
            file = io.BytesIO()
            torch.save(item, file, pickle_protocol=protocol)
            with zipfile.ZipFile(file) as archive:
                yield bytes([Kind.PICKLE]) + archive.read("archive/data.pkl")
    for places in ('{"w": "a.safetensors"}', '{"w": "a.safetensors", "x": "b.pt"}', '{"y": ""}'):
        yield bytes([Kind.INDEX]) + f'{{"metadata": {{}}, "weight_map": {places}}}'.encode()


class Checker:
    """Offers checkpoints to the readers."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._root = Path(self._folder.name)
        _write_beside(self._root)

    def check(self, data: bytes) -> bool:
        """Whether the input is accepted; raises `Disagreement` where something is wrong."""
        if len(data) < 2:
            return False
        kind = Kind(data[0] % len(Kind))
        path = self._root / ("m.safetensors.index.json" if kind == Kind.INDEX else "file")
        content = _content(kind, data[1:])
        path.write_bytes(content)
        tensors = _read(path)
        if kind != Kind.INDEX and not content.startswith(_ZIP_MAGIC):
            _check_by_library(content, tensors)
        if tensors is None:
            return False
        for tensor in tensors[:_TENSORS_MAX]:
            _check_tensor(tensor)
        if kind != Kind.INDEX:
            first = self._container(path, content, None)
            _check_stored(first, tensors)
            self._container(path, content, path)
        return True

    def _container(self, path: Path, content: bytes, reference: Path | None) -> Path:
        """A container of the file, which has been seen to come back."""
        target = path.with_suffix(".wz")
        resident = None if reference is None else ResidentCheckpoint(reference)
        try:
            with target.open("wb") as file:
                codec.write_container(path, file, reference=resident, block_bytes=100, threads=2)
        finally:
            if resident:
                resident.close()
        restored = io.BytesIO()
        with codec.open_container(target, reference=reference) as container:
            container.restore(restored)
        expect(restored.getvalue() == content, "a checkpoint does not come back")
        return target


def _content(kind: Kind, data: bytes) -> bytes:
    """The bytes of the file."""
    if kind == Kind.PICKLE:
        return _torch_file(data)
    if kind == Kind.HEADER:
        header = data[1:]
        body = bytes(i % 251 for i in range(data[0] * _BODY_UNIT))
        return len(header).to_bytes(8, "little") + header + body
    return data


def _torch_file(program: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", program)
        for key in range(STORAGES):
            storage = np.arange(key, key + STORAGE_BYTES, dtype=np.uint8)
            archive.writestr(f"a/data/{key}", storage.tobytes())
    return file.getvalue()


def _write_beside(folder: Path) -> None:
    """The files that an index can name."""
    header = b'{"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}'
    content = len(header).to_bytes(8, "little") + header + b"\x01\x02\x03\x04"
    (folder / "a.safetensors").write_bytes(content)
    (folder / "b.pt").write_bytes(_torch_file(b"\x80\x02}."))


def _read(path: Path) -> list[Tensor] | None:
    """The tensors of a checkpoint; None if it is refused."""
    try:
        return list(read_checkpoint(path))
    except CheckpointError:
        return None
    except OSError:
        # An index may name a file that is not there, and a name that is too long.
        if not path.name.endswith(".index.json"):
            raise
        return None


def _check_tensor(tensor: Tensor) -> None:
    """A tensor agrees with itself and the file, and can be cast to any type."""
    data, size = tensor.data, tensor.nbytes
    expect(data.size == size and data.dtype == np.uint8, f"{tensor.name!r}: {data.size} bytes")
    expect(not data.flags.writeable, f"{tensor.name!r} can be written to")
    tensor.name.encode()
    expect((math.prod(tensor.shape) == 0) == (size == 0), f"{tensor.name!r}: {tensor.shape}")
    for begin in {0, size // 3, max(size - 5, 0)}:
        for length in {0, min(7, size - begin), size - begin}:
            part = tensor.read(begin, length)
            whole = data[begin : begin + length]
            expect(np.array_equal(part, whole), f"{tensor.name!r}: {length} at {begin}")
    begin, end = tensor.span
    file = tensor.file.read_bytes()
    expect(0 <= begin <= end <= len(file), f"{tensor.name!r}: {tensor.span} of {len(file)}")
    if tensor.in_place:
        expect(file[begin:end] == data.tobytes(), f"{tensor.name!r} lies elsewhere")
    casts = [cast_bf16(tensor), cast_fp16(tensor)]
    casts += [cast_fp8(tensor, element) for element in (ElementType.E4M3, ElementType.E5M2)]
    for cast in casts:
        expect(cast.nbytes <= size, f"{tensor.name!r} grows when it is cast")


def _check_stored(path: Path, tensors: list[Tensor]) -> None:
    """Every tensor that lies in place can be read from the container by its name."""
    names: dict[str, Tensor] = {}
    for tensor in tensors:
        if tensor.in_place:
            names.setdefault(tensor.name, tensor)
    with codec.open_container(path) as container:
        expect(set(names) == set(container.names), f"{set(names) ^ set(container.names)!r:.200}")
        for name, tensor in list(names.items())[:_TENSORS_MAX]:
            found = container.read(name)
            expect(found.data.tobytes() == tensor.data.tobytes(), f"{name!r} has other bytes")
            expect((found.dtype, found.shape) == (tensor.dtype, tensor.shape), f"{name!r}")


def _check_by_library(content: bytes, tensors: list[Tensor] | None) -> None:
    """What the safetensors library takes is read here too, and alike."""
    try:
        rows = dict(safetensors.deserialize(content))
    except safetensors.SafetensorError:
        return
    if tensors is None:
        raise Disagreement(f"{content[:200]!r} is refused, and not by the safetensors library")
    expect({t.name for t in tensors} == set(rows), "others than by the safetensors library")
    for tensor in tensors:
        row = rows[tensor.name]
        expect(tuple(row["shape"]) == tensor.shape, f"{tensor.name!r}: {row['shape']}")
        expect(bytes(row["data"]) == tensor.data.tobytes(), f"{tensor.name!r}: other bytes")
