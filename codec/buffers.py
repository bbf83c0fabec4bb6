# SPDX-License-Identifier: Apache-2.0
"""Take the bytes and the element type of whatever holds a tensor.

NumPy and ml_dtypes arrays, torch tensors and plain buffers come in; contiguous bytes come out, a
view of the caller's memory where it is contiguous and a copy where it is not. Nothing is ever
written to. Torch is not imported: an object can only be a tensor if its owner has done so.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.engine import U8
from codec.errors import InvalidInput


def tensor_bytes(data: object, dtype: object = None) -> tuple[U8, ElementType]:
    """The bytes of `data`, uint8 `(n,)`, contiguous and read-only, and what they are made of.

    Args:
        data: a NumPy or ml_dtypes array or a torch tensor in CPU memory, of any shape and strides,
            or an object with the buffer protocol (`bytes`, `memoryview`, `mmap`).
        dtype: what the elements are, as `ElementType.parse` takes it. A plain buffer needs it. An
            array may be of integers whose bits are the named type; `raw` goes with anything.

    Raises:
        InvalidInput: something else, memory of another device, or a type that contradicts `dtype`.
    """
    if _is_tensor(data):
        return _from_tensor(data, dtype)
    if isinstance(data, np.ndarray | np.generic):
        return _from_array(data, dtype)
    if dtype is None:
        kind = type(data).__name__
        raise InvalidInput(f"data: expected an array or tensor, or a dtype with it; found {kind}")
    return buffer_bytes(data, "data"), ElementType.parse(dtype)


def resident_bytes(reference: object, data: object, element: ElementType) -> U8:
    """The bytes of `reference`, an earlier copy of the tensor `data`, as `tensor_bytes` gives them.

    Args:
        reference: of the element type, size and, where both have one, shape of `data`.
        data: the tensor.
        element: what `data` is made of.

    Raises:
        InvalidInput: it is no such copy.
    """
    resident, _ = tensor_bytes(reference, element)
    expected, found = (getattr(item, "shape", None) for item in (data, reference))
    if expected is not None and found is not None and tuple(expected) != tuple(found):
        raise InvalidInput(f"reference: expected shape {tuple(expected)}; found {tuple(found)}")
    return resident


def buffer_bytes(data: object, what: str) -> U8:
    """The bytes of an object with the buffer protocol, uint8 `(n,)`, contiguous and read-only.

    Raises:
        InvalidInput: the object has none; the message calls it `what`.
    """
    try:
        view = memoryview(data)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        kind = type(data).__name__
        raise InvalidInput(f"{what}: expected a buffer; found {kind}") from error
    if view.format == "O":
        raise InvalidInput(f"{what}: expected bytes; found Python objects")
    # A view with an empty dimension cannot be cast, one with gaps has to be copied anyway.
    flat = view.cast("B") if view.nbytes and view.c_contiguous else view.tobytes()
    return _read_only(np.frombuffer(flat, np.uint8))


def _is_tensor(data: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.Tensor)


def _from_tensor(tensor: Any, dtype: object) -> tuple[U8, ElementType]:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        raise InvalidInput(f"tensor: expected CPU memory; found {tensor.device}: call .cpu() first")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise InvalidInput(f"tensor: expected a dense one; found {tensor.layout} {tensor.dtype}")
    element = _element(str(tensor.dtype), dtype, castable=_holds_integers(tensor, torch))
    # Conjugation and negation may be pending; what is stored is the result.
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    try:
        return _read_only(flat.view(torch.uint8).numpy()), element
    except (RuntimeError, TypeError) as error:
        kind = type(tensor).__name__
        raise InvalidInput(f"tensor: expected one with memory of its own; found {kind}") from error


def _holds_integers(tensor: Any, torch: Any) -> bool:
    is_number = not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
    return bool(is_number and tensor.dtype != torch.bool)


def _from_array(data: NDArray[Any] | np.generic, dtype: object) -> tuple[U8, ElementType]:
    if isinstance(data, np.ma.MaskedArray):
        raise InvalidInput("array: expected one without a mask; found a masked array")
    array = np.asarray(data)
    if array.dtype.hasobject:
        raise InvalidInput(f"array: expected numbers; found {array.dtype}")
    swapped = array.dtype.newbyteorder("<") != array.dtype
    if swapped and (dtype is None or ElementType.parse(dtype) != ElementType.RAW):
        raise InvalidInput(
            f"array: expected little-endian numbers, or dtype raw; found {array.dtype.str}"
        )
    castable = array.dtype.kind in "iu" or array.dtype.type is np.void
    element = _element(array.dtype.name, dtype, castable=castable)
    return _read_only(np.ascontiguousarray(array).reshape(-1).view(np.uint8)), element


def _element(own: str, dtype: object, *, castable: bool) -> ElementType:
    """The element type of an array of type `own` for which the caller stated `dtype`."""
    if dtype is None:
        return ElementType.parse(own)
    stated = ElementType.parse(dtype)
    if stated == ElementType.RAW:
        return stated
    try:
        known = ElementType.parse(own)
    except InvalidInput:
        known = ElementType.RAW
    if stated != known and not (castable and known == ElementType.RAW):
        raise InvalidInput(f"dtype: expected {own}, which the data is, or raw; found {dtype!r}")
    return stated


def _read_only(array: U8) -> U8:
    # A view, so that the caller's array keeps its flag.
    view = array.view()
    view.flags.writeable = False
    return view
