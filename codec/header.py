# SPDX-License-Identifier: Apache-2.0
"""Pack and parse the frame header (`docs/format.md`, section 4).

A header is handled as one little-endian integer, so a field is a shift and a mask.
"""

from dataclasses import dataclass

from codec import format as f
from codec.elements import ElementType
from codec.errors import CorruptFrame, TruncatedFrame, UnsupportedFrame

# The fields that a mode has beside version, mode, element, block length and CRC.
_CODED_FIELDS = (
    "bitmap plane_flags sign_flag sign_value phase zero_rank base path coder unary_bytes escapes "
    "bare_zeros"
).split()
_REFERENCE_FIELDS = (
    "bitmap gaps gap_shift phase shift reference_crc unary_bytes escapes entries"
).split()
_FIELDS: dict[f.Mode, list[str]] = {
    f.Mode.RAW: [],
    f.Mode.CONSTANT: [],
    f.Mode.CODED: _CODED_FIELDS,
    f.Mode.REFERENCE: _REFERENCE_FIELDS,
}


@dataclass(frozen=True)
class Header:
    """The fields of a header, named as in the format; those that its mode does not have are 0."""

    mode: f.Mode
    element: ElementType
    block_bytes: int
    crc: int = 0
    bitmap: int = 0
    phase: int = 0
    plane_flags: int = 0
    sign_flag: int = 0
    sign_value: int = 0
    zero_rank: int = 0
    base: int = 0
    path: int = 0
    coder: int = 0
    gaps: int = 0
    gap_shift: int = 0
    shift: int = 0
    reference_crc: int = 0
    unary_bytes: int = 0
    escapes: int = 0
    bare_zeros: int = 0
    entries: int = 0

    @property
    def size(self) -> int:
        """Length of the header in bytes: 8 or 16."""
        return header_bytes(self.mode)

    def pack(self) -> bytes:
        """The header's bytes."""
        word = _put("version", f.FORMAT_VERSION) | _put("mode", self.mode)
        word |= _put("element", self.element) | _put("length", self.block_bytes - 1)
        word |= _put("crc", self.crc)
        for name in _FIELDS[self.mode]:
            word |= _put(name, getattr(self, name))
        return word.to_bytes(self.size, "little")


def header_bytes(mode: f.Mode) -> int:
    """Length in bytes of a header of this mode."""
    return f.LONG_HEADER_BYTES if mode >= f.Mode.CODED else f.SHORT_HEADER_BYTES


def parse_header(frame: bytes) -> Header:
    """Read and check the header at the start of `frame`.

    Raises:
        TruncatedFrame: the bytes end within the header.
        UnsupportedFrame: another format version.
        CorruptFrame: a field has a value that it must not have.
    """
    if len(frame) < f.SHORT_HEADER_BYTES:
        raise TruncatedFrame(f"header: expected {f.SHORT_HEADER_BYTES} bytes; found {len(frame)}")
    word = int.from_bytes(frame[: f.LONG_HEADER_BYTES], "little")
    version = _get("version", word)
    if version != f.FORMAT_VERSION:
        raise UnsupportedFrame(f"header: expected version {f.FORMAT_VERSION}; found {version}")
    mode = f.Mode(_get("mode", word))
    size = header_bytes(mode)
    if len(frame) < size:
        raise TruncatedFrame(f"header: expected {size} bytes; found {len(frame)}")
    tag = _get("element", word)
    if tag > max(ElementType):
        raise CorruptFrame(f"header: expected an element type of 0 to 5; found {tag}")
    header = Header(
        mode,
        ElementType(tag),
        _get("length", word) + 1,
        _get("crc", word),
        **{name: _get(name, word) for name in _FIELDS[mode]},
    )
    if header.pack() != frame[:size]:
        raise CorruptFrame(f"header: expected 0 in every unused bit; found {frame[:size].hex(' ')}")
    _check(header)
    return header


def _check(h: Header) -> None:
    rules = (
        (h.phase < h.element.width_bytes, f"a phase below {h.element.width_bytes}", h.phase),
        (h.sign_flag or not h.sign_value, "sign value 0 without the sign flag", h.sign_value),
        (
            h.element != ElementType.RAW or not h.bare_zeros,
            "no bare zeros in bytes",
            h.bare_zeros,
        ),
        (h.gaps or not h.gap_shift, "gap shift 0 without gaps", h.gap_shift),
        (h.gaps or not h.entries, "0 entries without gaps", h.entries),
        (not (h.gaps and h.bitmap), "no bitmap with gaps", h.bitmap),
    )
    for holds, expected, found in rules:
        if not holds:
            raise CorruptFrame(f"header: expected {expected}; found {found}")


def _put(name: str, value: int) -> int:
    lsb, bits = _place(name)
    if not 0 <= value < 1 << bits:
        raise AssertionError(f"header: {name} = {value} does not fit {bits} bits")
    return value << lsb


def _get(name: str, word: int) -> int:
    lsb, bits = _place(name)
    return word >> lsb & (1 << bits) - 1


def _place(name: str) -> tuple[int, int]:
    return getattr(f, f"{name.upper()}_LSB"), getattr(f, f"{name.upper()}_BITS")
