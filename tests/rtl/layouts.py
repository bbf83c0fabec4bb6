# SPDX-License-Identifier: Apache-2.0
"""Where the sections of a frame lie: `frame_layout_t` of `hw/rtl/wz_pack_pkg.sv`."""

from dataclasses import dataclass, field

from codec import format as f
from codec.format import Mode
from tests.rtl.structs import pack

SECTIONS = ("remainders", "low", "unary", "escapes")
_WIDTHS = {"any": 1, "first": 7, "start": 6, "last": 7, "stop": 6}


@dataclass(frozen=True)
class Layout:
    """Sections as ranges of the frame's bytes; one that is empty is left out."""

    bytes: int
    coded: int
    mode: Mode
    sections: dict[str, range] = field(default_factory=dict)

    @property
    def word(self) -> int:
        """The layout as a vector; what does not matter is zero."""
        word = 0
        for name in SECTIONS:
            word = word << sum(_WIDTHS.values()) | _section(self.sections.get(name, range(0)))
        last, stop = divmod(self.bytes - 1, f.BEAT_BYTES)
        rest = {"coded": 1, "mode": 2, "single": 1, "last": 7, "stop": 6}
        values = {"single": last == 0, "last": last, "stop": stop}
        return word << 17 | pack(rest, coded=self.coded, mode=self.mode, **values)


def without_places_of_nothing(word: int) -> int:
    """A layout in which empty sections have no place."""
    size = sum(_WIDTHS.values())
    for i in range(len(SECTIONS)):
        low = 17 + size * i
        if not word >> (low + size - 1) & 1:
            word &= ~(((1 << size) - 1) << low)
    return word


def _section(place: range) -> int:
    if not place:
        return 0
    first, start = divmod(place.start, f.BEAT_BYTES)
    last, stop = divmod(place.stop - 1, f.BEAT_BYTES)
    return pack(_WIDTHS, any=1, first=first, start=start, last=last, stop=stop)
