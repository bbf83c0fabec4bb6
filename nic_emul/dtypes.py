# SPDX-License-Identifier: Apache-2.0
"""Element types as the NIC sees them: a wire tag per torch dtype, and the codec's view of it."""

from dataclasses import dataclass

import torch

from codec.elements import ElementType
from nic_emul.errors import ProtocolError, UnsupportedOperation


@dataclass(frozen=True)
class Dtype:
    """One torch dtype.

    Attributes:
        torch_dtype: the dtype.
        tag: number in message headers; ranks must agree on it, not only on the width.
        label: name in summaries, `bfloat16`.
        element: what the codec makes of it.
    """

    torch_dtype: torch.dtype
    tag: int
    label: str
    element: ElementType

    @property
    def floating(self) -> bool:
        return self.torch_dtype.is_floating_point or self.torch_dtype.is_complex


_ORDER = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.complex64,
    torch.complex128,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)


def _describe(tag: int, dtype: torch.dtype) -> Dtype:
    label = str(dtype).removeprefix("torch.")
    return Dtype(dtype, tag, label, ElementType.parse(label))


_BY_DTYPE = {dtype: _describe(tag, dtype) for tag, dtype in enumerate(_ORDER)}


def describe(dtype: torch.dtype) -> Dtype:
    """The entry for `dtype`.

    Raises:
        UnsupportedOperation: the dtype has no plain bytes to send (quantised, sub-byte).
    """
    if dtype not in _BY_DTYPE:
        raise UnsupportedOperation(f"dtype: expected a plain torch dtype; found {dtype}")
    return _BY_DTYPE[dtype]


def by_tag(tag: int) -> Dtype:
    """The entry with header number `tag`.

    Raises:
        ProtocolError: there is none.
    """
    if tag >= len(_ORDER):
        raise ProtocolError(f"dtype tag: expected 0 to {len(_ORDER) - 1}; found {tag}")
    return _BY_DTYPE[_ORDER[tag]]


def label_of(tag: int) -> str:
    """The name of the dtype with header number `tag`, for error messages."""
    return str(_ORDER[tag]).removeprefix("torch.") if tag < len(_ORDER) else f"dtype tag {tag}"
