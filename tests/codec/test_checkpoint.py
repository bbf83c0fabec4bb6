# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as their own libraries write them, and files that are none or want to run code."""

import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from codec.checkpoint import CheckpointError, Tensor, cast_bf16, read_checkpoint
from codec.elements import ElementType
from codec.resident import ResidentCheckpoint

TENSORS = {
    "weight": torch.randn(3, 5, generator=torch.Generator().manual_seed(1)),
    "half": torch.ones(4, dtype=torch.float16),
    "brain": torch.full((2, 2), 3.5, dtype=torch.bfloat16),
    "e4m3": torch.ones(7).to(torch.float8_e4m3fn),
    "e5m2": torch.ones(7).to(torch.float8_e5m2),
    "ids": torch.arange(6).reshape(2, 3),
    "flags": torch.tensor([True, False]),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 4),
}
DTYPES = {
    "weight": ("F32", ElementType.FP32),
    "half": ("F16", ElementType.FP16),
    "brain": ("BF16", ElementType.BF16),
    "e4m3": ("F8_E4M3", ElementType.E4M3),
    "e5m2": ("F8_E5M2", ElementType.E5M2),
    "ids": ("I64", ElementType.RAW),
    "flags": ("BOOL", ElementType.RAW),
    "scalar": ("F32", ElementType.FP32),
    "empty": ("F32", ElementType.FP32),
}


def read(path: Path) -> dict[str, Tensor]:
    found = list(read_checkpoint(path))
    assert len({tensor.name for tensor in found}) == len(found)
    return {tensor.name: tensor for tensor in found}


def raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_equal(found: dict[str, Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].data.tobytes() == raw(tensor), name
        assert found[name].shape == tuple(tensor.shape)
        assert not found[name].data.flags.writeable


@pytest.mark.parametrize("kind", ["safetensors", "torch"])
def test_every_type(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model"
    save_file(TENSORS, path) if kind == "safetensors" else torch.save(TENSORS, path)
    found = read(path)
    assert_equal(found, TENSORS)
    assert {name: (t.dtype, t.element) for name, t in found.items()} == DTYPES
    assert {t.file for t in found.values()} == {path}


def test_safetensors_metadata_is_passed_over(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "m", metadata={"format": "pt"})
    assert list(read(tmp_path / "m")) == ["a"]


# Shards and folders


def write_shards(folder: Path, kind: str) -> Path:
    first = {name: TENSORS[name] for name in ("weight", "ids")}
    second = {name: TENSORS[name] for name in ("brain", "scalar")}
    names = [f"model-0000{i}-of-00002.{kind}" for i in (1, 2)]
    for name, part in zip(names, (first, second), strict=True):
        save_file(part, folder / name) if kind == "safetensors" else torch.save(part, folder / name)
    places = dict.fromkeys(first, names[0]) | dict.fromkeys(second, names[1])
    index = folder / f"model.{kind}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_shards(tmp_path: Path, kind: str) -> None:
    index = write_shards(tmp_path, kind)
    expected = {name: TENSORS[name] for name in ("weight", "ids", "brain", "scalar")}
    assert_equal(read(index), expected)
    assert_equal(read(tmp_path), expected)


def test_an_index_must_agree_with_its_files(tmp_path: Path) -> None:
    index = write_shards(tmp_path, "safetensors")
    entries = json.loads(index.read_text())
    entries["weight_map"]["other"] = entries["weight_map"]["weight"]
    index.write_text(json.dumps(entries))
    with pytest.raises(CheckpointError, match=r"expected 'other' in model-00001"):
        read(index)
    del entries["weight_map"]["other"], entries["weight_map"]["ids"]
    index.write_text(json.dumps(entries))
    assert "ids" not in read(index)


@pytest.mark.parametrize(
    "place", ["../model", "/etc/hostname", "sub/model", 3, None, "", "..", "m\0", "\ud800"]
)
def test_an_index_names_only_files_beside_it(tmp_path: Path, place: object) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": place}}))
    with pytest.raises(CheckpointError, match=r"index\.json: expected (names of|a weight_map)"):
        read(index)


def test_an_index_may_not_name_a_folder(tmp_path: Path) -> None:
    # Through such a link a folder is in itself, which to read would never end.
    index = tmp_path / "model.safetensors.index.json"
    (tmp_path / "again").symlink_to(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "again"}}))
    with pytest.raises(IsADirectoryError):
        read(index)


def test_an_index_may_not_name_itself(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": index.name}}))
    with pytest.raises(CheckpointError, match="files beside it"):
        read(index)


def test_folders_prefer_safetensors_and_leave_settings_out(tmp_path: Path) -> None:
    (tmp_path / "training_args.bin").write_bytes(b"not a checkpoint")
    torch.save({"a": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    torch.save({"b": torch.ones(2)}, tmp_path / "more.pt")
    assert set(read(tmp_path)) == {"a", "b"}
    save_file({"c": torch.ones(2)}, tmp_path / "model.safetensors")
    assert set(read(tmp_path)) == {"c"}


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found none"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing")


# Damaged safetensors


def safetensors(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "empty file"),
        (b"\1\2\3", "found neither"),
        (b"plain text, and long enough to be read", "found neither"),
        (struct.pack("<Q", 2**40) + b"{}", "found neither"),
        (safetensors(b"{broken"), "expected JSON"),
        (safetensors(b"[1]"), "found neither"),
        (safetensors(b"{" + b'"a":{' * 100_000), "expected JSON"),
        pytest.param(
            safetensors(b'{"a": ' + b"1" * 5000 + b"}"), "expected JSON", id="a long number"
        ),
        (safetensors(b'{"a": 1, "a": 2}'), "every name once"),
        (safetensors({"a": 3}), "dtype, shape and data_offsets"),
        (safetensors({"a": entry(dtype="F31")}, bytes(8)), "known dtype"),
        (safetensors({"a": entry(dtype=3)}, bytes(8)), "known dtype"),
        (safetensors({"a": entry(shape=[-2, -1])}, bytes(8)), "a shape"),
        (safetensors({"a": entry(shape=[2.0])}, bytes(8)), "a shape"),
        (safetensors({"a": entry(shape=[True, 2])}, bytes(8)), "a shape"),
        (safetensors({"a": entry(offsets=[0])}, bytes(8)), "two offsets"),
        (
            safetensors({"a": entry(offsets=[0, 12])}, bytes(12)),
            "expected 8 bytes of 'a'; found 12",
        ),
        (safetensors({"a": entry(offsets=[8, 0])}, bytes(8)), "expected 8 bytes of 'a'; found -8"),
        (safetensors({"a": entry(shape=[2**62])}, bytes(8)), "bytes of 'a'; found 8"),
        (safetensors({"a": entry(offsets=[4, 12])}, bytes(12)), "'a' at byte 0"),
        (safetensors({"a": entry(), "b": entry(offsets=[4, 12])}, bytes(12)), "'b' at byte 8"),
        (safetensors({"a": entry()}, bytes(7)), "8 bytes of tensors; found 7"),
        (safetensors({"a": entry()}, bytes(9)), "8 bytes of tensors; found 9"),
    ],
)
def test_damaged_safetensors(tmp_path: Path, contents: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(contents)
    with pytest.raises(CheckpointError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_fractions_of_a_byte(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors({"a": entry("F4", [6], [0, 3])}, b"abc"))
    assert read(path)["a"].data.tobytes() == b"abc"


# Torch files


def test_nested_objects_and_views(tmp_path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    saved = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "views": [base[4:10], base.reshape(4, 6).T, base[::5], base],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "words": torch.ones(2, dtype=torch.uint16),
        "other": (torch.Size([1]), torch.float32, None, 3.5, "text", True),
    }
    path = tmp_path / "step.pt"
    torch.save(saved, path)
    state = optimizer.state_dict()["state"]
    expected = {
        "model.weight": model.weight,
        "model.bias": model.bias,
        **{f"optimizer.state.{i}.{name}": t for i in state for name, t in state[i].items()},
        **{f"views.{i}": view for i, view in enumerate(saved["views"])},
        "parameter": saved["parameter"],
        "words": saved["words"],
    }
    assert_equal(read(path), expected)


def test_a_single_tensor_and_a_cycle(tmp_path: Path) -> None:
    torch.save(torch.ones(3), tmp_path / "one.pt")
    assert list(read(tmp_path / "one.pt")) == ["tensor"]
    loop: dict[str, object] = {"a": torch.ones(1)}
    loop["again"] = [loop]
    torch.save(loop, tmp_path / "loop.pt")
    assert list(read(tmp_path / "loop.pt")) == ["a"]


def test_contiguous_tensors_are_not_copied(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1000)}, tmp_path / "m.pt")
    data = read(tmp_path / "m.pt")["a"].data
    while isinstance(data.base, np.ndarray) and not isinstance(data, np.memmap):
        data = data.base
    assert isinstance(data, np.memmap)


def test_tensors_out_of_order_are_copied_only_as_they_are_read(tmp_path: Path) -> None:
    base = torch.arange(1 << 16, dtype=torch.float32).reshape(256, 256)
    path = tmp_path / "m.pt"
    torch.save({f"{n}": base.T[:, n:] for n in range(64)}, path)
    tracemalloc.start()
    with ResidentCheckpoint(path) as resident:
        part = resident.read("3", 4097, 1003)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert part.tobytes() == raw(base.T[:, 3:])[4097 : 4097 + 1003]
    assert not part.flags.writeable
    assert peak < 1 << 20, "64 tensors of 200,000 bytes and more"


class RunsCode:
    """Unpickling this calls a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> object:
        return self.call


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (RunsCode(os.system, "touch hacked"), f"{os.system.__module__}.system"),
        (RunsCode(eval, "open('hacked', 'w')"), "__builtin__.eval"),
        (RunsCode(getattr, OrderedDict(), "clear"), "__builtin__.getattr"),
        (Path("a"), "pathlib.PosixPath"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
    ],
    ids=["system", "eval", "getattr", "object", "module"],
)
def test_pickles_that_ask_for_anything_else_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thing: object, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.pt"
    torch.save({"a": torch.ones(1), "b": thing}, path)
    with pytest.raises(CheckpointError, match=f"asks for {name}"):
        read(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.pt"]


def write_torch(path: Path, program: bytes, storage: bytes = bytes(8), **changes: object) -> Path:
    with zipfile.ZipFile(path, "w", changes.get("compression", zipfile.ZIP_STORED)) as archive:
        archive.writestr("m/data.pkl", program)
        archive.writestr("m/byteorder", changes.get("byteorder", "little"))
        archive.writestr("m/data/0", storage)
    return path


def tensor_program(
    *,
    dtype: str = "FloatStorage",
    key: bytes = b"\x8c\x010",
    count: bytes = b"K\2",
    offset: bytes = b"K\0",
    size: bytes = b"K\2\x85",
    stride: bytes = b"K\1\x85",
    change: bytes = b"",
) -> bytes:
    """A pickle of one tensor over storage 0, of which any part can be replaced."""
    storage = b"(\x8c\7storage" + f"ctorch\n{dtype}\n".encode() + key + b"\x8c\3cpu" + count + b"tQ"
    arguments = b"(" + storage + offset + size + stride + b"\x89}t"
    return b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R" + change + b"."


def test_a_pickle_written_by_hand(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "m.pt", tensor_program(), struct.pack("<2f", 1, 2))
    assert read(path)["tensor"].data.view(np.float32).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"count": b"K\3"}, "3 x F32; found 8 bytes"),
        ({"count": b"J\xff\xff\xff\xff"}, "expected the storage"),
        ({"key": b"\x8c\0011"}, "expected an entry 'm/data/1'"),
        ({"key": b"K\0"}, "expected the storage"),
        ({"size": b"K\3\x85"}, "the 2 elements of its storage"),
        ({"offset": b"K\1"}, "the 2 elements of its storage"),
        ({"offset": b"J\xff\xff\xff\xff"}, "expected sizes"),
        ({"stride": b"J\xff\xff\xff\xff\x85"}, "expected sizes"),
        ({"stride": b"K\2\x85"}, "the 2 elements of its storage"),
        ({"stride": b")"}, "a stride a dimension"),
        ({"size": b"J\0\0\0\x7f\x85", "stride": b"K\0\x85"}, "the 2 elements of its storage"),
        ({"size": b"K\2", "stride": b"K\1"}, "expected sizes"),
        ({"dtype": "NoStorage"}, "asks for torch.NoStorage"),
        ({"change": b"}\x8c\6offsetJ\xff\xff\xff\xffsb"}, "changes a"),
        ({"change": b"N}\x8c\6offsetK\1s\x86b"}, "changes a"),
    ],
)
def test_pickles_that_lie_about_a_tensor(
    tmp_path: Path, parts: dict[str, bytes], message: str
) -> None:
    path = write_torch(tmp_path / "m.pt", tensor_program(**parts))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"", "expected a pickle"),
        (b"\x80\2", "expected a pickle"),
        (b"garbage", "expected a pickle"),
        (b"\x80\2ccollections\nOrderedDict\n}b.", "changes a"),
        (b"\x80\2ccollections\nOrderedDict\nN}\x8c\1aK\1s\x86b.", "changes a"),
        (b"\x80\2ccollections\nOrderedDict\n)\x81.", "expected a pickle"),
        (b"\x80\2\x82\1.", "expected a pickle"),
        (pickle.dumps({"a": 1}) + b"", None),
    ],
)
def test_programs(tmp_path: Path, program: bytes, message: str | None) -> None:
    path = write_torch(tmp_path / "m.pt", program)
    if message is None:
        assert read(path) == {}
        return
    with pytest.raises(CheckpointError, match=message):
        read(path)


@pytest.mark.parametrize(
    "wrap", [b"\x85", b"\x85q\0000h\0", b"(K\1K\2l0\x85"], ids=["plain", "memo", "mark"]
)
def test_tuples_in_tuples_without_end_are_refused(tmp_path: Path, wrap: bytes) -> None:
    # As the key of a dictionary such a tuple is hashed, which would end the process.
    program = b"\x80\2})" + wrap * 1_000_000 + b"K\1s."
    path = write_torch(tmp_path / "m.pt", program)
    with pytest.raises(CheckpointError, match="tuples in tuples"):
        read(path)


PAIR = b"h\0h\0\x86q\x000"
TEXT = b"X" + struct.pack("<I", 100_000) + b"k" * 100_000 + b"q\1"


@pytest.mark.parametrize(
    "program",
    [
        b"})q\x000" + PAIR * 60 + b"h\0K\1s.",
        b"](K\1K\2eq\x000" + b"ctorch\nSize\nh\0\x85Rq\x000" + PAIR * 60 + b"h\0.",
        # Lists that change after they are remembered.
        b"(K\1K\2tq\x020" + (b"]q\x00(h\2h\2e0" + b"ctorch\nSize\nh\0\x85Rq\x020") * 40 + b"N.",
        b"]" * 10_000 + b"a" * 9_999 + b".",
        b"](" + (b"}" + TEXT + b"]s") + b"}h\1]s" * 10_000 + b"e.",
    ],
    ids=["tuples", "sizes", "lists", "deep", "names"],
)
def test_pickles_that_multiply_what_they_hold_are_refused(tmp_path: Path, program: bytes) -> None:
    path = write_torch(tmp_path / "m.pt", b"\x80\2" + program)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=r"multiplies what it holds|bytes in all"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 27


def test_pickles_with_many_marks_take_little_time(tmp_path: Path) -> None:
    # Each mark was looked for from the other end of the stack, which took minutes.
    program = b"\x80\2](" + b"K\1" * 30_000 + b"(t" * 30_000 + b"e."
    assert read(write_torch(tmp_path / "m.pt", program)) == {}


def test_names_of_numbers_without_end(tmp_path: Path) -> None:
    number = b"\x8b" + struct.pack("<I", 10_000) + b"\1" * 10_000
    path = write_torch(tmp_path / "m.pt", b"\x80\2}" + number + b"]s.")
    with pytest.raises(CheckpointError, match="expected names; found"):
        read(path)


def test_an_entry_that_is_there_twice(tmp_path: Path) -> None:
    path = write_torch(tmp_path / "m.pt", tensor_program(), struct.pack("<2f", 1, 2))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("m/data/0", bytes(8))
    with pytest.raises(CheckpointError, match="every name once"):
        read(path)


@pytest.mark.parametrize(
    "remember",
    [b"r" + struct.pack("<I", 1 << 24), b"p16777216\n", b"r" + struct.pack("<I", 100)],
)
def test_a_large_memo_is_refused(tmp_path: Path, remember: bytes) -> None:
    path = write_torch(tmp_path / "m", b"\x80\2}" + remember + b".")
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="remembers an object as number"):
        read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(safetensors({"\ud800": entry()}, bytes(8)))
    with pytest.raises(CheckpointError, match=r"names of Unicode text; found '\\ud800'"):
        read(path)
    torch.save({"a": {"\ud800": torch.ones(2)}}, path)
    with pytest.raises(CheckpointError, match=r"names of Unicode text; found 'a.\\ud800'"):
        read(path)


def test_archives_that_torch_does_not_write(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    write_torch(path, tensor_program(), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="found it compressed"):
        read(path)
    write_torch(path, tensor_program(), byteorder="big")
    with pytest.raises(CheckpointError, match="little-endian"):
        read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/other", b"")
    with pytest.raises(CheckpointError, match=r"one data\.pkl; found 0"):
        read(path)
    path.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(CheckpointError, match="expected a torch zip file"):
        read(path)


def test_cut_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save({"a": torch.ones(3)}, path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 29):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            read(path)


# The cast


def test_cast_rounds_to_nearest_even() -> None:
    edges = [0, 1, 0x7FFF, 0x8000, 0x8001, 0x17FFF, 0x18000, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000]
    random = np.random.default_rng(6).integers(0, 2**32, 100_000, np.uint32)
    positive = np.concatenate([np.array(edges, np.uint32), random])
    values = np.concatenate([positive, positive ^ 0x80000000]).astype("<u4")
    tensor = Tensor(Path("f"), "t", ElementType.FP32, "F32", (values.size,), values.view(np.uint8))
    found = cast_bf16(tensor)
    assert (found.dtype, found.element, found.shape) == ("BF16", ElementType.BF16, tensor.shape)
    numbers = ~np.isnan(values.view(np.float32))
    words = found.data.view(np.uint16)
    expected = values[numbers].view(np.float32).astype(ml_dtypes.bfloat16)
    assert words[numbers].tobytes() == expected.tobytes()
    assert np.isnan(words[~numbers].view(ml_dtypes.bfloat16)).all()
    assert np.array_equal(words[~numbers] >> 15, values[~numbers] >> 31)


def test_a_nan_in_the_low_bits_stays_one() -> None:
    values = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], "<u4")
    tensor = Tensor(Path("f"), "t", ElementType.FP32, "F32", (4,), values.view(np.uint8))
    words = cast_bf16(tensor).data.view(np.uint16).tolist()
    assert words == [0x7FC0, 0xFFC0, 0x7FFF, 0xFFFF]


def test_only_fp32_is_cast() -> None:
    for dtype, element in (("F16", ElementType.FP16), ("I32", ElementType.RAW)):
        tensor = Tensor(Path("f"), "t", element, dtype, (2,), np.ones(4, np.uint8))
        assert cast_bf16(tensor) is tensor
