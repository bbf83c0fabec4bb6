# SPDX-License-Identifier: Apache-2.0
"""The examples in section 13 of `docs/format.md` are what the codec does."""

import re
from pathlib import Path

import pytest

from codec import reference
from codec.elements import ElementType
from codec.format import Mode
from codec.header import parse_header

DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"
EXAMPLES = re.split(r"^### ", DOCUMENT.read_text().split("\n## 13. Examples")[1], flags=re.M)[1:]


def fenced(example: str, kind: str) -> bytes | None:
    found = re.search(rf"```{kind}\n(.*?)```", example, flags=re.S)
    return bytes.fromhex(found[1]) if found else None


def rows(example: str) -> list[tuple[str, bytes]]:
    """Byte range and bytes of each row of the example's table."""
    found = re.findall(r"^\| ([\d\u2013]+) \| (`.*?`) \| .* \|$", example, flags=re.M)
    return [(place, bytes.fromhex(re.sub(r"`|<br>", " ", data))) for place, data in found]


def test_every_mode_has_one() -> None:
    frames = [b"".join(data for _, data in rows(example)) for example in EXAMPLES]
    assert {parse_header(frame).mode for frame in frames} == set(Mode)


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.partition(":")[0] for e in EXAMPLES])
def test_example(example: str) -> None:
    title = re.match(r".*: (\w+), phase (\d)", example)
    assert title
    element, phase = ElementType[title[1]], int(title[2])
    block, resident = fenced(example, "block"), fenced(example, "resident")
    assert block
    frame = b"".join(data for _, data in rows(example))
    assert reference.encode_frame(block, element, phase, resident) == frame
    assert reference.decode_frame(frame, resident) == block


@pytest.mark.parametrize("example", EXAMPLES, ids=[e.partition(":")[0] for e in EXAMPLES])
def test_byte_numbers(example: str) -> None:
    at = 0
    for place, data in rows(example):
        last = at + len(data) - 1
        assert place == (f"{at}\u2013{last}" if last > at else f"{at}")
        at = last + 1
