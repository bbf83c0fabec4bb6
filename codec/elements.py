# SPDX-License-Identifier: Apache-2.0
"""Element types: what a tensor is made of (`docs/format.md`, section 3)."""

import enum
from dataclasses import dataclass

from codec.errors import InvalidInput


class ElementType(enum.IntEnum):
    """Tag of an element type; the value is what the frame header carries."""

    RAW = 0
    BF16 = 1
    FP16 = 2
    FP32 = 3
    E4M3 = 4
    E5M2 = 5

    @property
    def layout(self) -> "Layout":
        return LAYOUTS[self]

    @property
    def width_bytes(self) -> int:
        """Size of one element in bytes."""
        return LAYOUTS[self].width_bytes

    @classmethod
    def parse(cls, name: object) -> "ElementType":
        """The element type that `name` stands for.

        Takes a NumPy, ml_dtypes or torch dtype or its name (`float32`, `torch.bfloat16`), a
        safetensors tag (`F8_E4M3`), or the codec's own name (`bf16`). Types without an exponent
        (integers, bool, float64, complex) are `RAW`.

        Raises:
            InvalidInput: nothing is known by that name.
        """
        if isinstance(name, cls):
            return name
        text = str(getattr(name, "name", None) or name).removeprefix("torch.").lower()
        if text in _NAMES:
            return _NAMES[text]
        raise InvalidInput(f"element type: expected one of {', '.join(_NAMES)}; found {name!r}")


@dataclass(frozen=True)
class Layout:
    """How an element splits into symbol (exponent) and remainder (sign and mantissa)."""

    width_bytes: int
    exponent_bits: int
    mantissa_bits: int
    signed: bool

    @property
    def remainder_bits(self) -> int:
        return self.mantissa_bits + self.signed


LAYOUTS = {
    ElementType.RAW: Layout(1, 0, 8, signed=False),
    ElementType.BF16: Layout(2, 8, 7, signed=True),
    ElementType.FP16: Layout(2, 5, 10, signed=True),
    ElementType.FP32: Layout(4, 8, 23, signed=True),
    ElementType.E4M3: Layout(1, 4, 3, signed=True),
    ElementType.E5M2: Layout(1, 5, 2, signed=True),
}

_NAMES = {
    "raw": ElementType.RAW,
    "bf16": ElementType.BF16,
    "bfloat16": ElementType.BF16,
    "fp16": ElementType.FP16,
    "f16": ElementType.FP16,
    "float16": ElementType.FP16,
    "half": ElementType.FP16,
    "fp32": ElementType.FP32,
    "f32": ElementType.FP32,
    "float32": ElementType.FP32,
    "float": ElementType.FP32,
    "e4m3": ElementType.E4M3,
    "f8_e4m3": ElementType.E4M3,
    "float8_e4m3fn": ElementType.E4M3,
    "float8_e4m3": ElementType.E4M3,
    "e5m2": ElementType.E5M2,
    "f8_e5m2": ElementType.E5M2,
    "float8_e5m2": ElementType.E5M2,
} | dict.fromkeys(
    (
        "u8 uint8 byte i8 int8 u16 uint16 i16 int16 short u32 uint32 i32 int32 int u64 uint64 i64 "
        "int64 long bool f64 float64 double c64 complex64 c128 complex128 float8_e4m3fnuz "
        "float8_e5m2fnuz float8_e8m0fnu"
    ).split(),
    ElementType.RAW,
)
