# SPDX-License-Identifier: Apache-2.0
"""wz_width_up and wz_width_down: bytes, packets, latency, a narrow beat a clock, reset."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rtl.dut import Dut, Sink, Source

WIDTHS = (128, *(pytest.param(width, marks=pytest.mark.full) for width in (256, 512)))
STALLS = [(0, 0), (0.3, 0), (0, 0.3), (0.3, 0.3), (0.05, 0.8)]
FIELDS = ("tdata", "tkeep", "tlast", "tuser")
LATENCY_UP = 1
LATENCY_DOWN = {128: 1, 256: 1, 512: 0}
USER_W = 9


def beats(packets: list[bytes], size: int) -> dict[str, list[int]]:
    """The packets as AXI4-Stream beats of `size` bytes; tuser is the number of the packet."""
    columns: dict[str, list[int]] = {name: [] for name in FIELDS}
    for number, packet in enumerate(packets):
        for start in range(0, len(packet), size):
            part = packet[start : start + size]
            columns["tdata"].append(int.from_bytes(part, "little"))
            columns["tkeep"].append((1 << len(part)) - 1)
            columns["tlast"].append(int(start + size >= len(packet)))
            columns["tuser"].append(number)
    return columns


def some_packets() -> list[bytes]:
    random = np.random.default_rng(6)
    sizes = [1, 1, 64, 16, 17, 65, 4096, 63, 1, 32, 128, *random.integers(1, 700, 150)]
    return [random.bytes(int(size)) for size in sizes]


@pytest.fixture(scope="module", params=WIDTHS)
def up(request: pytest.FixtureRequest) -> tuple[int, Dut]:
    parameters = {"DATA_W": request.param, "USER_W": USER_W}
    return request.param, Dut("wz_width_up", parameters=parameters)


@pytest.fixture(scope="module", params=WIDTHS)
def down(request: pytest.FixtureRequest) -> tuple[int, Dut]:
    parameters = {"DATA_W": request.param, "USER_W": USER_W}
    return request.param, Dut("wz_width_down", parameters=parameters)


@pytest.mark.parametrize("stalls", STALLS)
def test_up(up: tuple[int, Dut], stalls: tuple[float, float]) -> None:
    width, dut = up
    packets = some_packets()
    narrow = beats(packets, width // 8)
    # Whatever stands in bytes without tkeep must not come out.
    noisy = [
        data | (((1 << width) - 1) & ~((1 << 8 * keep.bit_count()) - 1))
        for data, keep in zip(narrow["tdata"], narrow["tkeep"], strict=True)
    ]
    dut.reset()
    sent = Source("s_axis", **{**narrow, "tdata": noisy}, stall=stalls[0], burst=3)
    got = Sink("m_axis", fields=FIELDS, stall=stalls[1], burst=6)
    dut.stream(sent, got, seed=7)
    wide = beats(packets, 64)
    for field in FIELDS:
        assert got.integers(field) == wide[field], field
    ends = _ends(packets, width)
    if stalls[1] == 0:
        assert np.array_equal(got.clocks, sent.clocks[ends] + LATENCY_UP)
    if stalls == (0, 0):
        assert np.array_equal(np.diff(sent.clocks), np.ones(sent.taken - 1))


@pytest.mark.parametrize("stalls", STALLS)
def test_down(down: tuple[int, Dut], stalls: tuple[float, float]) -> None:
    width, dut = down
    packets = some_packets()
    dut.reset()
    sent = Source("s_axis", **beats(packets, 64), stall=stalls[0], burst=3)
    got = Sink("m_axis", fields=FIELDS, stall=stalls[1], burst=6)
    dut.stream(sent, got, seed=8)
    narrow = beats(packets, width // 8)
    for field in FIELDS:
        assert got.integers(field) == narrow[field], field
    if stalls == (0, 0):
        assert np.array_equal(np.diff(got.clocks), np.ones(len(got) - 1))
    if stalls[1] == 0:
        ends = _ends(packets, width)
        starts = np.array([0, *(ends[:-1] + 1)])
        assert np.array_equal(got.clocks[starts], sent.clocks + LATENCY_DOWN[width])


def test_reset_in_mid_packet(up: tuple[int, Dut], down: tuple[int, Dut]) -> None:
    for (width, dut), size_in, size_out in ((up, up[0] // 8, 64), (down, 64, down[0] // 8)):
        packet = bytes(range(200))
        columns = beats([packet], size_in)
        part = {field: values[:3] for field, values in columns.items()}
        dut.reset()
        dut.stream(Source("s_axis", **part), clocks=3)
        dut.reset()
        assert not dut["m_axis_tvalid"], width
        got = Sink("m_axis", fields=FIELDS)
        dut.stream(Source("s_axis", **columns), got)
        for field in FIELDS:
            assert got.integers(field) == beats([packet], size_out)[field], (width, field)


def _ends(packets: list[bytes], width: int) -> NDArray[np.int64]:
    """Of the narrow beats, the last one of every wide beat."""
    counts = itertools.chain.from_iterable(
        [-(-min(64, len(packet) - start) // (width // 8)) for start in range(0, len(packet), 64)]
        for packet in packets
    )
    return np.cumsum(list(counts)) - 1
