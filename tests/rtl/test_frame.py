# SPDX-License-Identifier: Apache-2.0
"""wz_frame: sections in rows, with rubbish beside them, against the bytes of the frame."""

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest

from codec.format import Mode
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.layouts import SECTIONS, Layout
from tests.rtl.plans import payloads

HEAD_BYTES = 48
LATENCY = 4
ROW_LATENCY = 2


@dataclass(frozen=True)
class Frame:
    layout: Layout
    content: bytes
    head: int
    rows: dict[str, list[bytes]]


def frame(rng: Random, row_bytes: dict[str, int], longest: int) -> Frame:
    """Sections of any lengths, each at its place; coded as often as not."""
    coded = rng.random() < 0.7
    head = rng.randint(1, HEAD_BYTES)
    at = -(-head // 16) * 16 if coded else head
    places = {}
    for name in SECTIONS if coded else SECTIONS[:1]:
        size = rng.choice([0, rng.randint(1, 15), rng.randint(1, 100), rng.randint(1, longest)])
        if size:
            places[name] = range(at, at + size)
        # The next begins at a multiple of 16, the escapes behind the last code.
        at += size if name == "unary" else -(-size // 16) * 16
    end = max([head, *(place.stop for place in places.values())])
    content = bytearray(end)
    content[:head] = rng.randbytes(head)
    rows = {}
    for name, place in places.items():
        width = row_bytes[name]
        start = place.start // 64 * 64
        section = bytearray(rng.randbytes(-(-(place.stop - start) // width) * width))
        content[place.start : place.stop] = section[place.start - start : place.stop - start]
        rows[name] = [bytes(section[i : i + width]) for i in range(0, len(section), width)]
    layout = Layout(end, int(coded), rng.choice(list(Mode)), places)
    return Frame(layout, bytes(content), int.from_bytes(content[:head], "little"), rows)


def sources(frames: list[Frame], row_bytes: dict[str, int], stall: float) -> list[Source]:
    options = {"valid": "valid", "ready": "ready", "stall": stall}
    layouts = [one.layout.word for one in frames]
    made = [
        Source("s_layout", s_layout=layouts, **options),
        Source("s_head", s_head=[one.head for one in frames], **options),
    ]
    for name, width in row_bytes.items():
        rows = b"".join(row for one in frames for row in one.rows.get(name, []))
        data = np.frombuffer(rows, np.uint8).reshape(-1, width)
        if len(data):
            made.append(Source(name, data=data, burst=4, **options))
    return made


@pytest.fixture(scope="module", params=[32, pytest.param(64, marks=pytest.mark.full)])
def dut(request: pytest.FixtureRequest) -> Dut:
    return Dut("wz_frame", parameters={"UNARY_LANES": request.param})


@pytest.fixture
def row_bytes(dut: Dut) -> dict[str, int]:
    return dict.fromkeys(SECTIONS, 64) | {"unary": dut.ports["unary_data"] // 8}


def sink(stall: float = 0.0) -> Sink:
    fields = ("tdata", "tkeep", "tlast", "tuser", "m_mode")
    return Sink("m_axis", fields=fields, stall=stall, burst=6)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.2, 0.0), (0.0, 0.4), (0.1, 0.2)])
def test_frames(dut: Dut, row_bytes: dict[str, int], stalls: tuple[float, float]) -> None:
    rng = Random(4)
    frames = [frame(rng, row_bytes, 900) for _ in range(200)]
    dut.reset()
    got = sink(stalls[1])
    dut.stream(*sources(frames, row_bytes, stalls[0]), got, seed=5)
    assert payloads(got["tdata"], got["tkeep"], got["tlast"]) == [one.content for one in frames]
    ends = np.flatnonzero(got["tlast"])
    words = np.diff(np.array([-1, *ends]))
    for field, wanted in (
        ("tuser", [one.layout.coded for one in frames]),
        ("m_mode", [one.layout.mode for one in frames]),
    ):
        assert np.array_equal(got[field], np.repeat(wanted, words)), field
    # Nothing beside the sections, whether or not tkeep says so.
    whole = b"".join(one.content + bytes(-len(one.content) % 64) for one in frames)
    assert got["tdata"].tobytes() == whole
    if stalls == (0.0, 0.0):
        assert np.array_equal(np.diff(got.clocks), np.ones(len(got) - 1))


def test_latency(dut: Dut, row_bytes: dict[str, int]) -> None:
    content = bytes(range(64))
    layout = Layout(64, 1, Mode.CODED, {"remainders": range(16, 64)})
    one = Frame(layout, content, int.from_bytes(content[:16], "little"), {})
    for late in (0, 30):
        dut.reset()
        start = dut.clocks + 2
        layouts, head = sources([one], row_bytes, 0.0)
        rows = Source(
            "remainders",
            data=np.frombuffer(content, np.uint8)[None],
            valid="valid",
            ready="ready",
            not_before=[start + late],
        )
        got = sink()
        dut.stream(layouts, head, rows, got)
        assert payloads(got["tdata"], got["tkeep"], got["tlast"]) == [content]
        if late:
            assert got.clocks[0] == rows.clocks[0] + ROW_LATENCY
        else:
            assert got.clocks[0] == layouts.clocks[0] + LATENCY


def test_reset_in_mid_frame(dut: Dut, row_bytes: dict[str, int]) -> None:
    rng = Random(6)
    frames = [frame(rng, row_bytes, 300) for _ in range(8)]
    for clocks in (3, 9, 17):
        dut.reset()
        dut.stream(*sources(frames, row_bytes, 0.0), sink(), clocks=clocks)
        dut.reset()
        got = sink()
        dut.stream(*sources(frames, row_bytes, 0.0), got)
        assert payloads(got["tdata"], got["tkeep"], got["tlast"]) == [one.content for one in frames]
