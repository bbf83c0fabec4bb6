# SPDX-License-Identifier: Apache-2.0
"""The golden vectors, on every engine."""

import pytest

from codec import reference
from codec.elements import ElementType
from codec.engine import Engine
from codec.errors import FrameError, InvalidInput, ReferenceMismatch
from codec.format import Coder, Mode
from codec.header import Header, parse_header
from tests import make_vectors
from tests.conformance import builder
from tests.conformance.engines import as_seen_by, decode_one, encode_one, outcome
from tests.conformance.vectors import Bad, Good, load_bad, load_good

GOOD, BAD = load_good(), load_bad()
PLAIN = [vector for vector in GOOD if vector.resident is None]
RESIDENT = [vector for vector in GOOD if vector.resident is not None]


def by_name(vectors: list) -> dict:
    return {"argvalues": vectors, "ids": [vector.name for vector in vectors]}


def test_files_are_what_the_reference_writes() -> None:
    assert make_vectors.main(["--check"]) == 0


def test_every_type_mode_and_coder_is_there() -> None:
    headers = [parse_header(vector.frame) for vector in GOOD if vector.canonical]
    assert {(h.element, h.mode) for h in headers} == {(e, m) for e in ElementType for m in Mode}
    coded = {(h.element, Coder(h.coder)) for h in headers if h.mode == Mode.CODED}
    floats = set(ElementType) - {ElementType.RAW}
    assert coded == {(e, c) for e in floats for c in Coder} | {(ElementType.RAW, Coder.R0)}


def test_names_are_unique() -> None:
    names = [vector.name for vector in [*GOOD, *BAD]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("vector", **by_name(PLAIN))
def test_frame_decodes(engine: Engine, vector: Good) -> None:
    block = decode_one(engine, vector.frame, vector.element, len(vector.block), vector.phase)
    assert block == vector.block


@pytest.mark.parametrize("vector", **by_name([v for v in PLAIN if v.canonical]))
def test_block_encodes(engine: Engine, vector: Good) -> None:
    assert encode_one(engine, vector.block, vector.element, vector.phase) == vector.frame


@pytest.mark.parametrize("vector", **by_name(RESIDENT))
def test_resident_frame_decodes(resident_engine: Engine, vector: Good) -> None:
    size, phase, resident = len(vector.block), vector.phase, vector.resident
    block = decode_one(resident_engine, vector.frame, vector.element, size, phase, resident)
    assert block == vector.block


@pytest.mark.parametrize("vector", **by_name([v for v in RESIDENT if v.canonical]))
def test_resident_block_encodes(resident_engine: Engine, vector: Good) -> None:
    frame = encode_one(resident_engine, vector.block, vector.element, vector.phase, vector.resident)
    assert frame == vector.frame


@pytest.mark.parametrize("vector", **by_name(RESIDENT))
def test_resident_frame_without_copy(resident_engine: Engine, vector: Good) -> None:
    found = outcome(resident_engine, vector.frame, vector.element, len(vector.block), vector.phase)
    needs_copy = parse_header(vector.frame).mode == Mode.REFERENCE
    assert found == (ReferenceMismatch if needs_copy else vector.block)


@pytest.mark.parametrize("vector", **by_name([v for v in GOOD if not v.canonical]))
def test_unusual_frame_is_not_what_the_encoder_writes(vector: Good) -> None:
    frame = reference.encode_frame(vector.block, vector.element, vector.phase, vector.resident)
    assert frame != vector.frame


@pytest.mark.parametrize("vector", **by_name([v for v in BAD if v.resident is None]))
def test_bad_frame_is_refused(engine: Engine, vector: Bad) -> None:
    found = outcome(engine, vector.frame, vector.element, vector.block_bytes, vector.phase)
    assert found is as_seen_by(engine, vector.error)


@pytest.mark.parametrize("vector", **by_name([v for v in BAD if v.resident is not None]))
def test_bad_resident_frame_is_refused(resident_engine: Engine, vector: Bad) -> None:
    size, phase, resident = vector.block_bytes, vector.phase, vector.resident
    assert resident is not None
    if len(resident) != size:
        # One buffer as long as the other is what the interface asks for.
        with pytest.raises(InvalidInput):
            decode_one(resident_engine, vector.frame, vector.element, size, phase, resident)
        return
    found = outcome(resident_engine, vector.frame, vector.element, size, phase, resident)
    assert found is vector.error


@pytest.mark.parametrize("vector", **by_name(BAD))
def test_bad_frame_alone_is_refused(vector: Bad) -> None:
    """Where nothing else is known of the frame, as to the reference codec's `decode_frame`."""
    with pytest.raises(FrameError) as caught:
        reference.decode_frame(vector.frame, vector.resident)
    assert caught.type is vector.error


@pytest.mark.parametrize("vector", **by_name([v for v in GOOD if v.canonical]))
def test_second_reading_agrees(vector: Good) -> None:
    """The builder, given the choices in the header, assembles the same bytes."""
    header = parse_header(vector.frame)
    assert _assemble(vector, header).frame() == vector.frame


def _assemble(vector: Good, header: Header) -> builder.Draft:
    block, element = vector.block, vector.element
    body = vector.frame[header.size :]
    bitmap = int.from_bytes(body[:8], "little") if header.bitmap else None
    if header.mode == Mode.RAW:
        return builder.raw(block, element)
    if header.mode == Mode.CONSTANT:
        return builder.constant(block[: element.width_bytes], len(block), element)
    if header.mode == Mode.REFERENCE:
        assert vector.resident is not None
        return builder.reference(
            block,
            vector.resident,
            element,
            phase=vector.phase,
            shift=header.shift,
            gap_shift=header.gap_shift if header.gaps else None,
            bitmap=bitmap,
        )
    return builder.coded(
        block,
        element,
        phase=vector.phase,
        base=header.base,
        path=header.path,
        zero_rank=header.zero_rank,
        coder=Coder(header.coder),
        bitmap=bitmap,
        sign=bool(header.sign_flag),
        planes=header.plane_flags,
        bare=header.bare_zeros > 0,
    )
