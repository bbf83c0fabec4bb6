# SPDX-License-Identifier: Apache-2.0
"""Element types by tag, by inference, and not at all: same tensors, other bytes."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

import nic_emul
from codec.elements import ElementType
from codec.engine import Packets, get_engine
from codec.errors import CorruptFrame, FrameError
from codec.format import Mode
from codec.packet import frame_types
from nic_emul import CounterRow, NicConfig, Role
from nic_emul.config import ELEMENT_SOURCES, ElementSource
from nic_emul.dtypes import describe
from nic_emul.element_source import source_of
from nic_emul.message import Traffic
from nic_emul.policy import compresses
from nic_emul.roles import Collective
from tests.nic_emul import checks
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.nic_emul.test_collectives import check_conservation

NUMBA = get_engine(ENGINES[-1])
BLOCK = 1024
U8 = np.ndarray


def normal(dtype: torch.dtype, count: int) -> U8:
    """Bytes of normal numbers, as gradients have."""
    generator = torch.Generator().manual_seed(count)
    data = (0.02 * torch.randn(count, generator=generator)).to(dtype)
    return data.view(torch.uint8).numpy()


def marked(packets: Packets) -> Packets:
    """The packets as a receiver has them: it knows which are frames, and no more."""
    modes = np.where(packets.modes == Mode.RAW, np.uint8(Mode.RAW), np.uint8(Mode.CODED))
    return Packets(packets.payload, packets.lengths, modes)


def mixed() -> U8:
    """Blocks of different types, constant and incompressible ones among them."""
    noise = np.random.default_rng(1).integers(0, 256, 2 * BLOCK, dtype=np.uint8)
    return np.concatenate(
        [
            normal(torch.bfloat16, 3 * BLOCK // 2),
            noise,
            np.zeros(BLOCK, np.uint8),
            normal(torch.float32, BLOCK // 2),
            noise[:BLOCK],
            normal(torch.float16, 700),
        ]
    )


def test_packets_say_what_they_are() -> None:
    data = mixed()
    packets = source_of("inferred").encode(NUMBA, data, ElementType.RAW, BLOCK)
    elements, phases = frame_types(marked(packets))
    coded = packets.modes == Mode.CODED
    assert {ElementType(tag) for tag in elements[coded].tolist()} == {
        ElementType.BF16,
        ElementType.FP16,
        ElementType.FP32,
    }
    assert not phases[coded].any()
    assert {Mode(mode) for mode in packets.modes.tolist()} == {Mode.RAW, Mode.CONSTANT, Mode.CODED}
    out = np.empty_like(data)
    source_of("inferred").decode(NUMBA, marked(packets), ElementType.RAW, BLOCK, out)
    assert np.array_equal(out, data)


def test_inference_of_one_type_makes_the_packets_of_its_tag() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        data = normal(dtype, 5003)
        element = describe(dtype).element
        tagged, inferred = (
            source_of(name).encode(NUMBA, data, element, 4096) for name in ("tagged", "inferred")
        )
        assert np.array_equal(inferred.payload, tagged.payload)
        assert np.array_equal(inferred.lengths, tagged.lengths)
        off = source_of("off").encode(NUMBA, data, element, 4096)
        assert off.payload.size > tagged.payload.size


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_phase_travels_in_the_frame(cut: int) -> None:
    data = np.ascontiguousarray(normal(torch.float32, 4 * BLOCK)[cut:])
    packets = source_of("inferred").encode(NUMBA, data, ElementType.BF16, BLOCK)
    assert set(frame_types(packets)[1][packets.modes == Mode.CODED].tolist()) == {-cut % 4}
    out = np.empty_like(data)
    source_of("inferred").decode(NUMBA, marked(packets), ElementType.BF16, BLOCK, out)
    assert np.array_equal(out, data)


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(["noise", "zeros", "bf16", "fp32"]), st.integers(1, 3000)),
        min_size=1,
        max_size=4,
    ),
    name=st.sampled_from(ELEMENT_SOURCES),
    tag=st.sampled_from(ElementType),
)
def test_any_bytes_come_back(
    pieces: list[tuple[str, int]], name: ElementSource, tag: ElementType
) -> None:
    made = {
        "noise": lambda n: np.random.default_rng(n).integers(0, 256, n, dtype=np.uint8),
        "zeros": lambda n: np.zeros(n, np.uint8),
        "bf16": lambda n: normal(torch.bfloat16, n)[:n],
        "fp32": lambda n: normal(torch.float32, n)[:n],
    }
    data = np.concatenate([made[kind](size) for kind, size in pieces])
    packets = source_of(name).encode(NUMBA, data, tag, BLOCK)
    out = np.empty_like(data)
    source_of(name).decode(NUMBA, marked(packets), tag, BLOCK, out)
    assert np.array_equal(out, data)


def test_damaged_heads_are_refused() -> None:
    """Whatever the first two bytes of a frame say, nothing but a typed error comes of it."""
    data = np.concatenate([normal(torch.bfloat16, BLOCK), normal(torch.float32, BLOCK // 2)])
    packets = marked(source_of("inferred").encode(NUMBA, data, ElementType.RAW, BLOCK))
    starts = np.cumsum(packets.lengths) - packets.lengths
    out = np.empty_like(data)
    for place in (starts[1], starts[1] + 1, starts[3], starts[3] + 1):
        for bit in range(8):
            payload = packets.payload.copy()
            payload[place] ^= 1 << bit
            damaged = Packets(payload, packets.lengths, packets.modes)
            with pytest.raises(FrameError):
                source_of("inferred").decode(NUMBA, damaged, ElementType.RAW, BLOCK, out)
    one = Packets(
        np.array([0xFF], np.uint8), np.ones(1, np.int32), np.full(1, Mode.CODED, np.uint8)
    )
    with pytest.raises(CorruptFrame, match="element type"):
        source_of("inferred").decode(NUMBA, one, ElementType.RAW, BLOCK, out[:100])


def test_policy_without_tags_goes_by_size_alone() -> None:
    for source in ("inferred", "off"):
        assert compresses(Role.OTHER, ElementType.RAW, 256, source)
        assert not compresses(Role.GRADIENT, ElementType.BF16, 255, source)
    assert not compresses(Role.OTHER, ElementType.BF16, 256, "tagged")


def test_a_nic_without_tags_codes_what_is_tagged_wrongly() -> None:
    """BF16 sent as bytes, as NCCL's plugins see it."""
    data = normal(torch.bfloat16, 50_000)
    traffic = Traffic(
        collective=Collective.SEND, role=Role.OTHER, dtype=describe(torch.uint8), sequence=0
    )
    payload = {}
    for source in ELEMENT_SOURCES:
        nic = nic_emul.Nic(NicConfig(engine=ENGINES[-1], element=source))
        packets = nic.encode(traffic, data)
        # A message without frames is received where it belongs.
        out = np.empty_like(data) if packets.modes.any() else packets.payload
        nic.decode(traffic, marked(packets), out)
        assert np.array_equal(out, data)
        payload[source] = packets.payload.size
    assert payload["tagged"] == payload["off"] == data.size
    assert payload["inferred"] < 0.75 * data.size


@pytest.mark.ranks
@pytest.mark.parametrize("source", ["inferred", "off"])
def test_collectives(source: str) -> None:
    environment = {"WIREZIP_ELEMENT": source, "WIREZIP_ENGINE": ENGINES[-1]}
    operations = [0, 3, 5, 8]
    for function, kinds in (
        (checks.reductions, operations),
        (checks.movements, [torch.float32, torch.bfloat16, torch.int64]),
    ):
        ranks = run_ranks(function, 3, [1, 5003], kinds, False, 4096, environment=environment)
        check_conservation(ranks)


def all_reduce_normal() -> list[CounterRow]:
    torch.manual_seed(dist.get_rank())
    for dtype in (torch.bfloat16, torch.float32):
        dist.all_reduce((0.02 * torch.randn(50_000)).to(dtype))
    return nic_emul.local_nic().counters.rows()


@pytest.mark.ranks
def test_inference_finds_the_types_of_a_job() -> None:
    environment = {"WIREZIP_ENGINE": ENGINES[-1]}
    tagged = run_ranks(all_reduce_normal, 2, environment=environment)
    inferred = run_ranks(
        all_reduce_normal, 2, environment=environment | {"WIREZIP_ELEMENT": "inferred"}
    )
    for rows, same in zip(tagged, inferred, strict=True):
        assert [row.payload_bytes for row in rows] == [row.payload_bytes for row in same]
        assert all(row.payload_bytes < row.logical_bytes for row in rows)
