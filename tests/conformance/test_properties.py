# SPDX-License-Identifier: Apache-2.0
"""Generated blocks and frames: every engine agrees with the reference, byte for byte."""

import re

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from codec import reference
from codec.elements import ElementType
from codec.engine import Engine
from codec.errors import CorruptFrame, FrameError
from codec.header import parse_header
from tests.conformance import strategies
from tests.conformance.builder import Draft
from tests.conformance.engines import (
    as_array,
    as_packets,
    decode_one,
    encode_one,
    outcome,
    reference_outcome,
)
from tests.conformance.strategies import Case, Edit, Update
from tests.conformance.vectors import load_good

FRAMES = [v for v in load_good() if len(v.frame) < 1200]


@given(case=strategies.cases())
def test_round_trip(engine: Engine, case: Case) -> None:
    frame = encode_one(engine, case.block, case.element, case.phase)
    event(parse_header(frame).mode.name)
    assert frame == reference.encode_frame(case.block, case.element, case.phase)
    assert len(frame) <= len(case.block) + 8
    assert decode_one(engine, frame, case.element, len(case.block), case.phase) == case.block


@given(
    case=strategies.cases(st.integers(1, 3000)),
    block_bytes=st.one_of(st.integers(1, 70), st.sampled_from([100, 255, 512, 1024, 4096])),
    bare=st.booleans(),
)
def test_buffer_round_trip(engine: Engine, case: Case, block_bytes: int, bare: bool) -> None:
    data, element, phase = as_array(case.block), case.element, case.phase
    packets = engine.encode(data, element, block_bytes, phase=phase, bare=bare)
    expected = reference.ENGINE.encode(data, element, block_bytes, phase=phase, bare=bare)
    assert packets.lengths.tolist() == expected.lengths.tolist()
    assert packets.modes.tolist() == expected.modes.tolist()
    assert packets.payload.tobytes() == expected.payload.tobytes()
    out = as_array(bytes(data.size)).copy()
    engine.decode(packets, element, block_bytes, out, phase=phase, bare=bare)
    assert out.tobytes() == case.block


@given(drawn=strategies.drafts())
def test_unusual_frames(engine: Engine, drawn: tuple[Draft, ElementType, int]) -> None:
    """Every valid frame is decoded; one that breaks a limit, and nothing else, is not."""
    draft, element, phase = drawn
    assume(draft.fits)
    found = outcome(engine, draft.frame(), element, len(draft.block), phase)
    event("within limits" if draft.within_limits else "over a limit")
    assert found == (draft.block if draft.within_limits else CorruptFrame)


@given(
    frame=st.one_of(
        st.sampled_from(FRAMES).map(lambda v: (v.frame, v.element, len(v.block), v.phase)),
        strategies.drafts()
        .filter(lambda d: d[0].fits)
        .map(lambda d: (d[0].frame(), d[1], len(d[0].block), d[2])),
    ),
    edits=strategies.EDITS,
    sealed=st.booleans(),
)
def test_damaged_frames(
    engine: Engine,
    frame: tuple[bytes, ElementType, int, int],
    edits: list[Edit],
    sealed: bool,
) -> None:
    """Decoders accept the same frames, also where the CRC has been made to fit the damage."""
    original, element, block_bytes, phase = frame
    data = strategies.damaged(original, edits)
    if sealed:
        data = _with_fitting_crc(data)
    expected = reference_outcome(engine, data, element, block_bytes, phase)
    event("accepted" if isinstance(expected, bytes) else expected.__name__)
    assert outcome(engine, data, element, block_bytes, phase) == expected


def _with_fitting_crc(frame: bytes, resident: bytes | None = None) -> bytes:
    """The frame with its CRC replaced, where that is all that is wrong with it."""
    try:
        reference.decode_frame(frame, resident)
    except FrameError as error:
        if crc := re.match(r"frame: expected CRC (\w+)", str(error)):
            return frame[:4] + int(crc[1], 16).to_bytes(4, "little") + frame[8:]
    return frame


@given(data=st.binary(max_size=80), element=st.sampled_from(ElementType), size=st.integers(1, 4096))
def test_arbitrary_bytes(engine: Engine, data: bytes, element: ElementType, size: int) -> None:
    expected = reference_outcome(engine, data, element, size)
    assert outcome(engine, data, element, size) == expected


@given(update=strategies.updates())
def test_resident_round_trip(resident_engine: Engine, update: Update) -> None:
    block, element, phase, resident = update.block, update.element, update.phase, update.resident
    frame = encode_one(resident_engine, block, element, phase, resident)
    event(parse_header(frame).mode.name)
    assert frame == reference.encode_frame(block, element, phase, resident)
    assert len(frame) <= len(block) + 8
    assert decode_one(resident_engine, frame, element, len(block), phase, resident) == block


@given(drawn=strategies.resident_drafts())
def test_unusual_resident_frames(resident_engine: Engine, drawn: tuple[Draft, Update]) -> None:
    draft, update = drawn
    assume(draft.fits)
    event("within limits" if draft.within_limits else "over a limit")
    size, phase, resident = len(update.block), update.phase, update.resident
    found = outcome(resident_engine, draft.frame(), update.element, size, phase, resident)
    assert found == (draft.block if draft.within_limits else CorruptFrame)


@given(
    drawn=strategies.resident_drafts().filter(lambda d: d[0].fits),
    edits=strategies.EDITS,
    sealed=st.booleans(),
)
def test_damaged_resident_frames(
    resident_engine: Engine, drawn: tuple[Draft, Update], edits: list[Edit], sealed: bool
) -> None:
    draft, update = drawn
    data = strategies.damaged(draft.frame(), edits)
    if sealed:
        data = _with_fitting_crc(data, update.resident)
    size, phase, resident = len(update.block), update.phase, update.resident
    expected = outcome(reference.ENGINE, data, update.element, size, phase, resident)
    event("accepted" if isinstance(expected, bytes) else expected.__name__)
    assert outcome(resident_engine, data, update.element, size, phase, resident) == expected


@given(place=st.integers(0, 20), case=strategies.cases(st.integers(100, 700)))
def test_error_names_the_block(engine: Engine, place: int, case: Case) -> None:
    data = as_array(case.block)
    packets = engine.encode(data, case.element, 64, phase=case.phase)
    blocks = packets.lengths.size
    bad = place % blocks
    ends = packets.lengths.cumsum().tolist()
    frames = [
        packets.payload[end - length : end].tobytes()
        for end, length in zip(ends, packets.lengths.tolist(), strict=True)
    ]
    frames[bad] = frames[bad][:-1]
    out = as_array(bytes(data.size)).copy()
    with pytest.raises(FrameError, match=rf"^block {bad}: "):
        engine.decode(as_packets(frames), case.element, 64, out, phase=case.phase)
