# SPDX-License-Identifier: Apache-2.0
"""Packed structs of the RTL as integers. Fields are names with their bits, the highest first."""

from collections.abc import Iterable, Mapping

Fields = Mapping[str, int] | Iterable[tuple[str, int]]


def pack(fields: Fields, **values: int) -> int:
    """The struct with these values; fields that are not named are 0.

    Raises:
        ValueError: a value does not fit its field, or has none.
    """
    word = 0
    for name, width in dict(fields).items():
        value = int(values.pop(name, 0))
        if not 0 <= value < 1 << width:
            raise ValueError(f"{name}: expected {width} bits; found {value:#x}")
        word = word << width | value
    if values:
        raise ValueError(f"fields: expected {', '.join(dict(fields))}; found {', '.join(values)}")
    return word


def unpack(word: int, fields: Fields) -> dict[str, int]:
    """The value of each field."""
    out = {}
    for name, width in reversed(dict(fields).items()):
        out[name] = word & (1 << width) - 1
        word >>= width
    return out
