# SPDX-License-Identifier: Apache-2.0
"""Read the tensors of checkpoints, memory-mapped and without the framework that wrote them.

Safetensors, torch's zip files of pickles, both sharded over files with an index, and folders of
them. Only the names, types and shapes are parsed; the bytes of a tensor are a view of the file. A
pickle is a program: the reader knows the few names that a file of tensors needs and refuses every
other, so nothing that a file brings is ever run.
"""

import json
import math
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.engine import U8
from codec.errors import InvalidInput

# Bits of an element and what the codec takes it for, by safetensors tag.
_TAGS = {
    "BF16": (16, ElementType.BF16),
    "F16": (16, ElementType.FP16),
    "F32": (32, ElementType.FP32),
    "F8_E4M3": (8, ElementType.E4M3),
    "F8_E5M2": (8, ElementType.E5M2),
} | {
    tag: (bits, ElementType.RAW)
    for bits, tags in (
        (4, "F4"),
        (6, "F6_E2M3 F6_E3M2"),
        (8, "BOOL U8 I8 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ"),
        (16, "U16 I16"),
        (32, "U32 I32"),
        (64, "U64 I64 F64 C64"),
        (128, "C128"),
    )
    for tag in tags.split()
}

_HEADER_BYTES_MAX = 100_000_000
_ZIP_MAGIC = b"PK\3\4"
_ZIP_LOCAL_HEADER_BYTES = 30
_CAST_VALUES = 1 << 20
_FP8_MAX = {ElementType.E4M3: 448, ElementType.E5M2: 57344}
_VALUES: dict[ElementType, np.dtype[Any]] = {
    ElementType.FP32: np.dtype("<f4"),
    ElementType.BF16: np.dtype(ml_dtypes.bfloat16),
    ElementType.FP16: np.dtype("<f2"),
}

# What may wrap one hashable object in another, and how often at most; torch needs a few.
_NESTING_CODES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET", "REDUCE"}
_NESTING_MAX = 100
# What adds to an object that is there.
_CHANGING_CODES = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
# What a pickle may put together, in leaves and characters, and how long names may be in all.
_WORK_MAX, _WORK_PER_BYTE = 10_000_000, 100
_NAMES_MAX = 1 << 28


class CheckpointError(InvalidInput):
    """The file is no checkpoint that can be read, is damaged, or wants to run code."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint.

    Attributes:
        file: where it is stored.
        name: its name; nested containers of a pickle are joined with dots.
        element: what the codec takes it for.
        dtype: safetensors tag, such as `BF16`.
        shape: as stored.
        elements: its elements in the file, read-only; uint8 `(n,)` if they lie in order, else of
            `shape`, with strides.
        span: the range of the file that holds it, from its first byte to behind its last.
        in_place: whether that range is the bytes in C order and nothing else.
    """

    file: Path
    name: str
    element: ElementType
    dtype: str
    shape: tuple[int, ...]
    elements: NDArray[Any]
    span: tuple[int, int] = (0, 0)
    in_place: bool = False

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.elements.nbytes

    @property
    def data(self) -> U8:
        """uint8 `(n,)`, its bytes in C order, little-endian, read-only; a new copy each time if the
        elements do not lie in order."""
        return self.read(0, self.nbytes)

    def read(self, begin: int, size: int) -> U8:
        """`size` bytes of `data` from byte `begin` on, of which alone a copy is made, if any."""
        if self.elements.flags.c_contiguous:
            return self.elements.reshape(-1).view(np.uint8)[begin : begin + size]
        width = self.elements.itemsize
        first, last = begin // width, -(-(begin + size) // width)
        part = np.ascontiguousarray(self.elements.flat[first:last]).view(np.uint8)
        return _read_only(part[begin - first * width :][:size])


def read_checkpoint(path: Path) -> Iterator[Tensor]:
    """Every tensor of a checkpoint, file by file, in the order that they are stored in.

    Args:
        path: a safetensors file, a torch zip file, an index (`*.index.json`) of either, or a
            folder. A folder stands for its index if it has one, else for its safetensors, else for
            its torch files (`.bin`, `.pt`, `.pth`, `.ckpt`).

    Raises:
        CheckpointError: a file is not what it should be; the message names it.
        OSError: it cannot be opened.
    """
    if path.is_dir():
        for part in _files_of(path):
            yield from read_checkpoint(part)
    elif path.name.endswith(".index.json"):
        yield from _read_index(path)
    else:
        yield from _read_file(path)


@dataclass(frozen=True)
class Parts:
    """The files of a checkpoint that is spread over several.

    Attributes:
        name: what it is called: the folder, or the index without `.index.json`.
        files: those that hold tensors.
        index: the file that says where each tensor is, if there is one.
    """

    name: str
    files: tuple[Path, ...]
    index: Path | None


def checkpoint_parts(path: Path) -> Parts | None:
    """The files of a checkpoint that `read_checkpoint` would read; None if `path` is the only one.

    Raises:
        CheckpointError: a folder without a checkpoint, or an index that is none.
        OSError: it cannot be opened.
    """
    if path.is_dir():
        files = _files_of(path)
        indices = [file for file in files if file.name.endswith(".index.json")]
        if len(indices) > 1:
            raise CheckpointError(f"{path}: expected one index; found {len(indices)}: name one")
        name = path.resolve().name
        if not indices:
            return Parts(name, tuple(files), None)
        return replace(_parts_of(indices[0]), name=name)
    return _parts_of(path) if path.name.endswith(".index.json") else None


def _parts_of(index: Path) -> Parts:
    files = tuple(index.parent / name for name in _read_places(index))
    return Parts(index.name.removesuffix(".index.json"), files, index)


def cast_bf16(tensor: Tensor) -> Tensor:
    """`tensor` rounded to BF16, to nearest and ties to even, if it is FP32; else as it is.

    A NaN stays one, with its sign and the high bits of its payload.
    """
    if tensor.element != ElementType.FP32:
        return tensor
    bits = tensor.data.view("<u4")
    rounded = np.empty(bits.size, "<u2")
    for start in range(0, bits.size, _CAST_VALUES):
        part = bits[start : start + _CAST_VALUES]
        high = part >> 16
        nearest = (part + (0x7FFF + (high & 1))) >> 16
        is_nan = (part & 0x7FFFFFFF) > 0x7F800000
        rounded[start : start + _CAST_VALUES] = np.where(is_nan, high | 0x40, nearest)
    data = _read_only(rounded.view(np.uint8))
    return replace(tensor, element=ElementType.BF16, dtype="BF16", elements=data, in_place=False)


def cast_fp16(tensor: Tensor) -> Tensor:
    """`tensor` rounded to FP16 if it is FP32 or BF16; else as it is. What is too large becomes
    infinite, as in any such cast."""
    if tensor.element not in (ElementType.FP32, ElementType.BF16):
        return tensor
    return _rounded(tensor, np.dtype(np.float16), "F16", scaled=False)


def cast_fp8(tensor: Tensor, element: ElementType) -> Tensor:
    """`tensor` scaled so that its largest finite magnitude is the type's largest number, and
    rounded; only if it is FP32, BF16 or FP16, else as it is.

    Args:
        tensor: what to cast.
        element: `E4M3` or `E5M2`.
    """
    if tensor.element not in (ElementType.FP32, ElementType.BF16, ElementType.FP16):
        return tensor
    dtype = ml_dtypes.float8_e4m3fn if element is ElementType.E4M3 else ml_dtypes.float8_e5m2
    return _rounded(tensor, np.dtype(dtype), f"F8_{element.name}", scaled=True)


def _rounded(tensor: Tensor, dtype: np.dtype[Any], tag: str, *, scaled: bool) -> Tensor:
    """`tensor` in another type, to nearest and ties to even."""
    values = tensor.data.view(_VALUES[tensor.element])
    scale = np.float32(1)
    if scaled and values.size:
        magnitudes = np.abs(values.astype(np.float32))
        largest = magnitudes.max(initial=0, where=np.isfinite(magnitudes))
        with np.errstate(over="ignore", divide="ignore"):
            scale = np.float32(_FP8_MAX[_TAGS[tag][1]]) / largest
        # Of numbers next to nothing it would be infinite, and make NaNs of zeros.
        scale = min(scale, np.finfo(np.float32).max)
    rounded = np.empty(values.size, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, values.size, _CAST_VALUES):
            part = values[start : start + _CAST_VALUES].astype(np.float32)
            rounded[start : start + _CAST_VALUES] = (part * scale).astype(dtype)
    data = _read_only(rounded.view(np.uint8))
    return replace(tensor, element=_TAGS[tag][1], dtype=tag, elements=data, in_place=False)


def _files_of(folder: Path) -> list[Path]:
    for pattern in ("*.safetensors.index.json", "*.safetensors", "*.index.json"):
        if found := sorted(folder.glob(pattern)):
            return found
    suffixes = {".bin", ".pt", ".pth", ".ckpt"}
    # The trainer's settings, which many folders hold beside the weights, are no tensors.
    found = [p for p in sorted(folder.iterdir()) if p.suffix in suffixes]
    found = [p for p in found if p.name != "training_args.bin" and p.is_file()]
    if not found:
        raise CheckpointError(f"{folder}: expected safetensors or torch files; found none")
    return found


def _read_file(path: Path) -> Iterator[Tensor]:
    file = _map_file(path)
    is_zip = file[: len(_ZIP_MAGIC)].tobytes() == _ZIP_MAGIC
    yield from _TorchFile(path, file).tensors() if is_zip else _read_safetensors(path, file)


def _read_index(path: Path) -> Iterator[Tensor]:
    for name, tensors in _read_places(path).items():
        wanted = set(tensors)
        # Never a folder: one that is a link to its own would be read without end.
        for tensor in _read_file(path.parent / name):
            if tensor.name in wanted:
                wanted.remove(tensor.name)
                yield tensor
        if wanted:
            raise CheckpointError(f"{path}: expected {min(wanted)!r} in {name}; found no such one")


def _read_places(path: Path) -> dict[str, list[str]]:
    """The names of tensors by the name of the file, beside the index, that holds them."""
    index = _parse_json(path.read_bytes(), path)
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(p, str) for p in places.values()):
        raise CheckpointError(f"{path}: expected a weight_map of file names; found {places!r:.80}")
    by_file: dict[str, list[str]] = {}
    for tensor, name in places.items():
        # An index names files beside it, never files elsewhere.
        if not _is_file_name(name) or name.endswith(".index.json"):
            raise CheckpointError(f"{path}: expected names of files beside it; found {name!a}")
        by_file.setdefault(name, []).append(tensor)
    return by_file


def _is_file_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name not in ("", "..") and "\0" not in name and Path(name).name == name


# Safetensors: length of the header, the header in JSON, the bytes of all tensors.


def _read_safetensors(path: Path, file: U8) -> Iterator[Tensor]:
    if file.size < 8:
        raise CheckpointError(f"{path}: expected safetensors or a torch zip file; found neither")
    (size,) = struct.unpack("<Q", file[:8].tobytes())
    if size > min(file.size - 8, _HEADER_BYTES_MAX) or file[8:9].tobytes() != b"{":
        raise CheckpointError(f"{path}: expected safetensors or a torch zip file; found neither")
    header = _parse_json(file[8 : 8 + size].tobytes(), path)
    header.pop("__metadata__", None)
    entries = [_Entry.parse(name, fields, path) for name, fields in header.items()]
    body = file[8 + size :]
    at = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            raise CheckpointError(
                f"{path}: expected {entry.name!r} at byte {at}, behind the one before; "
                f"found {entry.begin}"
            )
        at = entry.end
    if at != body.size:
        raise CheckpointError(f"{path}: expected {at} bytes of tensors; found {body.size}")
    for entry in entries:
        data = body[entry.begin : entry.end]
        element = _TAGS[entry.dtype][1]
        span = (8 + size + entry.begin, 8 + size + entry.end)
        yield Tensor(path, entry.name, element, entry.dtype, entry.shape, data, span, True)


@dataclass(frozen=True)
class _Entry:
    """A tensor as a safetensors header describes it; offsets count from the header's end."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @classmethod
    def parse(cls, name: str, fields: object, path: Path) -> "_Entry":
        _check_name(name, path)
        if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
            raise CheckpointError(
                f"{path}: expected dtype, shape and data_offsets of {name!r}; found {fields!r:.80}"
            )
        dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _TAGS:
            raise CheckpointError(
                f"{path}: expected a known dtype of {name!r}; found {dtype!r:.80}"
            )
        if not _are_sizes(shape):
            raise CheckpointError(f"{path}: expected a shape of {name!r}; found {shape!r:.80}")
        if not _are_sizes(offsets) or len(offsets) != 2:
            raise CheckpointError(
                f"{path}: expected two offsets of {name!r}; found {offsets!r:.80}"
            )
        begin, end = offsets
        bits = math.prod(shape) * _TAGS[dtype][0]
        if bits != 8 * (end - begin):
            raise CheckpointError(
                f"{path}: expected {bits / 8:g} bytes of {name!r}; found {end - begin}"
            )
        return cls(name, dtype, tuple(shape), begin, end)


def _check_name(name: str, path: Path) -> None:
    """Refuse a name with half of a surrogate pair, which JSON and pickles can hold and no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise CheckpointError(f"{path}: expected names of Unicode text; found {name!a}") from None


def _are_sizes(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(n) is int and n >= 0 for n in value)


def _parse_json(text: bytes, path: Path) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        items = dict(pairs)
        if len(items) != len(pairs):
            raise CheckpointError(f"{path}: expected every name once; found one twice")
        return items

    try:
        parsed = json.loads(text, object_pairs_hook=unique)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        # Also of bytes that are no text, and of a number with more digits than Python takes.
        raise CheckpointError(f"{path}: expected JSON; found {error}") from error
    if not isinstance(parsed, dict):
        raise CheckpointError(f"{path}: expected a JSON object; found {type(parsed).__name__}")
    return parsed


def _map_file(path: Path) -> U8:
    if not path.stat().st_size:
        raise CheckpointError(f"{path}: expected a checkpoint; found an empty file")
    return _read_only(np.asarray(np.memmap(path, np.uint8, mode="r")))


def _read_only(array: U8) -> U8:
    array.flags.writeable = False
    return array


# Torch: a zip file, never compressed, with a pickle that describes the objects and one entry for
# the bytes of each storage.

_TORCH_TAGS = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
    "complex64": "C64",
    "complex128": "C128",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
_STORAGE_TAGS = {
    "FloatStorage": "F32",
    "DoubleStorage": "F64",
    "HalfStorage": "F16",
    "BFloat16Storage": "BF16",
    "ByteStorage": "U8",
    "CharStorage": "I8",
    "ShortStorage": "I16",
    "IntStorage": "I32",
    "LongStorage": "I64",
    "BoolStorage": "BOOL",
    "ComplexFloatStorage": "C64",
    "ComplexDoubleStorage": "C128",
    "UntypedStorage": "U8",
}


class _Sealed:
    """What a pickle is given, which could otherwise set any attribute of it."""

    def __setstate__(self, state: object) -> NoReturn:
        raise CheckpointError(f"expected tensors; found a pickle that changes a {type(self)}")


@dataclass(frozen=True)
class _Type(_Sealed):
    """A dtype or the class of a storage."""

    tag: str


@dataclass(frozen=True)
class _Storage(_Sealed):
    """An entry of the zip file: `count` elements of type `tag`."""

    tag: str
    key: str
    count: int


@dataclass(frozen=True)
class _View(_Sealed):
    """A tensor as a pickle describes it: offset and strides in elements of a storage."""

    storage: _Storage
    tag: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Name(_Sealed):
    """A function by its name: it can be called, and nothing else can be done to it."""

    function: Callable[..., object]

    def __call__(self, *arguments: object) -> object:
        return self.function(*arguments)


def _rebuild_tensor(storage: object, offset: object, size: object, stride: object) -> _View:
    if not isinstance(storage, _Storage):
        raise CheckpointError(f"expected the storage of a tensor; found {type(storage).__name__}")
    if not _are_sizes([offset]) or not _are_sizes(size) or not _are_sizes(stride):
        raise CheckpointError(f"expected sizes of a tensor; found {offset!r:.40} {size!r:.40}")
    return _View(storage, storage.tag, offset, tuple(size), tuple(stride))  # type: ignore[arg-type]


def _rebuild_tensor_v2(
    storage: object, offset: object, size: object, stride: object, *_: object
) -> _View:
    return _rebuild_tensor(storage, offset, size, stride)


def _rebuild_tensor_v3(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    requires_grad: object,
    hooks: object,
    dtype: object,
    *_: object,
) -> _View:
    view = _rebuild_tensor(storage, offset, size, stride)
    if not isinstance(dtype, _Type):
        raise CheckpointError(f"expected the dtype of a tensor; found {type(dtype).__name__}")
    return replace(view, tag=dtype.tag)


def _rebuild_parameter(data: object, *_: object) -> object:
    return data


def _ordered_dict(*arguments: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(*arguments)


def _size(*arguments: Any) -> tuple[Any, ...]:
    return tuple(*arguments)


_FUNCTIONS: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch", "Size"): _size,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
}


class _Unpickler(pickle.Unpickler):
    """Builds containers, numbers and `_View`s."""

    def find_class(self, module: str, name: str) -> object:
        if function := _FUNCTIONS.get((module, name)):
            return _Name(function)
        if module == "torch" and name in _TORCH_TAGS:
            return _Type(_TORCH_TAGS[name])
        if module in ("torch", "torch.storage") and name in _STORAGE_TAGS:
            return _Type(_STORAGE_TAGS[name])
        raise CheckpointError(f"expected tensors; found a pickle that asks for {module}.{name}")

    def persistent_load(self, pid: object) -> _Storage:
        match pid:
            case ("storage", _Type(tag=tag), str(key), str(), int(count)) if count >= 0:
                return _Storage(tag, key, count)
        raise CheckpointError(f"expected the storage of a tensor; found {pid!r:.80}")


@dataclass(eq=False)
class _Shadow:
    """What is known of an object before a pickle makes it: how deep tuples lie in it, and its size
    as a tree, in which what is met again counts again."""

    depth: int = 0
    size: int = 1


_MARK = _Shadow()


def _check_program(program: bytes) -> None:
    """Refuse a pickle that would take the unpickler down.

    Tuples in tuples without end overflow the C stack when one is hashed, and a tuple of two of a
    tuple of two and so on takes any time: the program is run on shadows in place of objects. And a
    memo is an array, so that one large index takes any memory.
    """
    stack: list[_Shadow] = []
    marks: list[int] = []
    memo: dict[object, _Shadow] = {}
    work = 0
    for code, argument, _ in pickletools.genops(program):
        before = code.stack_before
        if pickletools.markobject in before:
            at = marks[-1] - before.index(pickletools.markobject)
        else:
            at = len(stack) - len(before)
        taken = [shadow for shadow in stack[at:] if shadow is not _MARK]
        if code.name in _CHANGING_CODES and taken:
            made, *added = taken
        else:
            made, added = _Shadow(size=1 + _text_size(argument)), taken
        size = sum(shadow.size for shadow in added)
        made.size += size
        made.depth = max([made.depth, *(shadow.depth for shadow in added)])
        made.depth += code.name in _NESTING_CODES
        work += size
        if made.depth > _NESTING_MAX:
            raise CheckpointError("expected tensors; found a pickle of tuples in tuples")
        if work > _WORK_MAX + _WORK_PER_BYTE * len(program):
            raise CheckpointError("expected tensors; found a pickle that multiplies what it holds")
        if code.name in ("GET", "BINGET", "LONG_BINGET"):
            made = memo.get(argument, made)
        elif code.name == "MEMOIZE":
            made = memo[len(memo)] = taken[0]
        elif code.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            # Picklers number what they remember from 0 on, and each takes a byte and more.
            if not isinstance(argument, int) or argument > len(program):
                raise CheckpointError(
                    f"expected tensors; found a pickle of {len(program)} bytes that remembers "
                    f"an object as number {argument}"
                )
            memo[argument] = stack[-1]
        elif code.name == "DUP":
            made = taken[0]
        del stack[at:]
        while marks and marks[-1] >= at:
            marks.pop()
        for item in code.stack_after:
            if item is pickletools.markobject:
                marks.append(len(stack))
            stack.append(_MARK if item is pickletools.markobject else made)


def _text_size(argument: object) -> int:
    """About how many characters it takes to write the argument of an instruction."""
    if isinstance(argument, int):
        return argument.bit_length() // 3
    return len(argument) if isinstance(argument, str | bytes | bytearray) else 0


class _TorchFile:
    """A torch zip file: its pickle and where its storages lie."""

    def __init__(self, path: Path, file: U8) -> None:
        self._path = path
        self._file = file
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path}: expected a torch zip file; found {error}") from error
        self._entries = {entry.filename: entry for entry in entries}
        if len(self._entries) != len(entries):
            raise CheckpointError(f"{path}: expected every name once; found one twice")
        pickles = [name for name in self._entries if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise CheckpointError(f"{path}: expected one data.pkl; found {len(pickles)}")
        self._folder = pickles[0].removesuffix("data.pkl")
        order = self._folder + "byteorder"
        if order in self._entries and (found := self._read(order).tobytes()) != b"little":
            raise CheckpointError(f"{path}: expected little-endian numbers; found {found!r:.20}")

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor in the objects of the pickle, wherever it is."""
        for name, view in _views(self._unpickle(), self._path):
            _check_name(name, self._path)
            yield self._tensor(name, view)

    def _unpickle(self) -> object:
        program = self._read(self._folder + "data.pkl").tobytes()
        try:
            _check_program(program)
            return _Unpickler(BytesIO(program)).load()
        except CheckpointError as error:
            raise CheckpointError(f"{self._path}: {error}") from None
        except Exception as error:
            # The unpickler raises nearly anything on a damaged program.
            raise CheckpointError(f"{self._path}: expected a pickle; found {error!r}") from error

    def _tensor(self, name: str, view: _View) -> Tensor:
        where = f"{self._path}: {name!r}"
        width = _TAGS[view.tag][0] // 8
        place = self._place(f"{self._folder}data/{view.storage.key}")
        stored = self._file[place]
        if stored.size != view.storage.count * _TAGS[view.storage.tag][0] // 8:
            raise CheckpointError(
                f"{where}: expected {view.storage.count} x {view.storage.tag}; "
                f"found {stored.size} bytes"
            )
        count = stored.size // width
        if len(view.shape) != len(view.strides) or len(view.shape) > 64:
            raise CheckpointError(f"{where}: expected a stride a dimension; found {view.strides}")
        end = view.offset
        if math.prod(view.shape):
            reach = zip(view.shape, view.strides, strict=True)
            end += 1 + sum((size - 1) * stride for size, stride in reach)
        # An expanded tensor may claim any size, whatever the file holds.
        if end > count or math.prod(view.shape) > count:
            raise CheckpointError(
                f"{where}: expected at most the {count} elements of its storage; "
                f"found {view.shape} at {view.offset}"
            )
        elements = _strided(stored[: count * width], view, width)
        begin = place.start + view.offset * width
        span = (begin, max(place.start + end * width, begin))
        in_place = elements.flags.c_contiguous and elements.nbytes == span[1] - begin
        element = _TAGS[view.tag][1]
        return Tensor(self._path, name, element, view.tag, view.shape, elements, span, in_place)

    def _read(self, name: str) -> U8:
        """The bytes of an entry, in place."""
        return self._file[self._place(name)]

    def _place(self, name: str) -> slice:
        """Where the bytes of an entry are."""
        entry = self._entries.get(name)
        if entry is None:
            raise CheckpointError(f"{self._path}: expected an entry {name!r}; found none")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise CheckpointError(f"{self._path}: expected {name!r} as it is; found it compressed")
        at = entry.header_offset
        head = self._file[at : at + _ZIP_LOCAL_HEADER_BYTES].tobytes()
        if len(head) < _ZIP_LOCAL_HEADER_BYTES or not head.startswith(_ZIP_MAGIC):
            raise CheckpointError(f"{self._path}: expected {name!r} at byte {at}; found no entry")
        name_bytes, extra_bytes = struct.unpack("<HH", head[26:])
        begin = at + _ZIP_LOCAL_HEADER_BYTES + name_bytes + extra_bytes
        if begin + entry.file_size > self._file.size:
            raise CheckpointError(
                f"{self._path}: expected {entry.file_size} bytes of {name!r}; "
                f"found {max(self._file.size - begin, 0)}"
            )
        return slice(begin, begin + entry.file_size)


def _strided(stored: U8, view: _View, width: int) -> NDArray[Any]:
    """The elements of a view, in place: their bytes if it is contiguous."""
    size = math.prod(view.shape) * width
    begin = view.offset * width
    if size == 0:
        return stored[:0]
    elements: NDArray[Any] = stored[begin:].view(f"V{width}")
    # A stride that is never taken may be of any size.
    pairs = zip(view.shape, view.strides, strict=True)
    strides = [stride * width if size > 1 else 0 for size, stride in pairs]
    array = np.lib.stride_tricks.as_strided(elements, view.shape, strides, writeable=False)
    if array.flags.c_contiguous:
        return stored[begin : begin + size]
    return array


def _views(root: object, path: Path) -> Iterator[tuple[str, _View]]:
    """Every tensor below `root` with its name; a container that is met again is passed over."""
    seen: set[int] = set()
    stack = [iter([("", root)])]
    named = 0
    while stack:
        name, item = next(stack[-1], (None, None))
        if name is None:
            stack.pop()
            continue
        named += len(name)
        if named > _NAMES_MAX:
            raise CheckpointError(f"{path}: expected names of at most {_NAMES_MAX} bytes in all")
        if isinstance(item, _View):
            yield name or "tensor", item
        elif isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            stack.append(_children(name, item, path))


def _children(
    name: str, item: dict[Any, Any] | list[Any] | tuple[Any, ...], path: Path
) -> Iterator[tuple[str, object]]:
    """What is directly in a container called `name` and may be or hold a tensor, with its name."""
    pairs = dict.items(item) if isinstance(item, dict) else enumerate(item)
    for key, child in pairs:
        if isinstance(child, _View | dict | list | tuple):
            try:
                yield (f"{name}.{key}" if name else f"{key}"), child
            except ValueError as error:
                # Of a number with more digits than Python prints.
                raise CheckpointError(f"{path}: expected names; found {error}") from None
