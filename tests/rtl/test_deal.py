# SPDX-License-Identifier: Apache-2.0
"""wz_deal: each kept lane gets the next item; missing and left-over items; a mask a clock."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.rtl.dut import Dut, Sink, Source

W = 11


@pytest.fixture(scope="module", params=[8, 16, 32, 64])
def lanes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def dut(lanes: int) -> Dut:
    return Dut(
        "deal_masked",
        parameters={"LANES": lanes, "W": W, "USER_W": 9, "ITEM_USER_W": 5},
        extra=[Path(__file__).with_name("deal_masked.sv")],
    )


@dataclass
class Packet:
    """Masks, as many items as are there, and the number beside the last vector of items."""

    masks: np.ndarray
    items: np.ndarray | None  # None: no vectors at all
    user: int

    @property
    def asked(self) -> int:
        return int(self.masks.sum())


def _packet(rng: np.random.Generator, lanes: int, share: float, extra: int = 0) -> Packet:
    masks = rng.random((int(rng.integers(1, 9)), lanes)) < share
    count = max(0, int(masks.sum()) + extra)
    return Packet(masks, rng.integers(0, 1 << W, count), int(rng.integers(32)))


def _pack(items: np.ndarray) -> int:
    return sum(int(item) << W * i for i, item in enumerate(items))


def _sources(
    packets: list[Packet], lanes: int, stall: float, rng: np.random.Generator
) -> tuple[Source, Source]:
    masks = np.concatenate([p.masks for p in packets])
    lasts = np.concatenate([np.arange(len(p.masks)) == len(p.masks) - 1 for p in packets])
    none = np.concatenate([np.full(len(p.masks), p.items is None) for p in packets])
    numbers = np.arange(len(masks)) % 512
    vectors, counts, ends, users = [], [], [], []
    for packet in packets:
        if packet.items is None:
            continue
        for at in range(0, max(1, len(packet.items)), lanes):
            part = packet.items[at : at + lanes]
            last = at + lanes >= len(packet.items)
            garbage = rng.integers(0, 1 << W, lanes - len(part))
            vectors.append(_pack(np.concatenate([part, garbage])))
            counts.append(len(part))
            ends.append(last)
            users.append(packet.user if last else int(rng.integers(32)))
    words = [sum(1 << int(i) for i in np.flatnonzero(mask)) for mask in masks]
    return (
        Source("s_mask", tdata=words, none=none, tlast=lasts, tuser=numbers, stall=stall),
        Source(
            "s_item", tdata=vectors, tcount=counts, tlast=ends, tuser=users, stall=stall, burst=3
        ),
    )


def _check(packets: list[Packet], got: Sink, lanes: int) -> None:
    at = 0
    data, errors = got.integers("tdata"), got["terror"]
    for packet in packets:
        items = np.zeros(0, int) if packet.items is None else packet.items
        taken = 0
        rows = range(at, at + len(packet.masks))
        for row, mask in zip(rows, packet.masks, strict=True):
            assert got["tuser"][row] == row % 512
            assert got["tlast"][row] == (row == rows[-1])
            assert got.integers("tkeep")[row] == sum(1 << int(i) for i in np.flatnonzero(mask))
            for lane in np.flatnonzero(mask):
                if taken < len(items) and not errors[row]:
                    assert data[row] >> W * int(lane) & (1 << W) - 1 == items[taken], (row, lane)
                taken += 1
        assert errors[rows[0] : rows[-1] + 1].any() == (packet.asked != len(items))
        if packet.asked == len(items) and packet.items is not None:
            assert got["titem"][rows[-1]] == packet.user
        at = rows[-1] + 1
    assert len(got) == at


def _run(dut: Dut, packets: list[Packet], lanes: int, stall: float, out: float) -> Sink:
    rng = np.random.default_rng(5)
    dut.reset()
    masks, items = _sources(packets, lanes, stall, rng)
    got = Sink("m", fields=("tdata", "tkeep", "tuser", "titem", "terror", "tlast"), stall=out)
    dut.stream(masks, items, got)
    _check(packets, got, lanes)
    return got


@pytest.mark.parametrize("stalls", [(0, 0), (0.4, 0), (0, 0.4), (0.3, 0.3)])
def test_lanes_get_items_in_order(dut: Dut, lanes: int, stalls: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    packets = [_packet(rng, lanes, share) for share in [0, 1, 0.5, 0.9, 0.1, 0.02] * 12]
    for i in range(0, len(packets), 7):
        packets[i] = Packet(packets[i].masks & False, None, 0)
    _run(dut, packets, lanes, *stalls)


def test_missing_and_left_over(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(2)
    extras = [0, 1, -1, lanes, -lanes, lanes + 1, 0, 3 * lanes, -3 * lanes, -99999, 2, -2]
    packets = [_packet(rng, lanes, rng.choice([0, 1, 0.5, 0.1]), x) for x in extras * 12]
    for i in range(0, len(packets), 11):
        packets[i] = Packet(packets[i].masks, None, 0)
    _run(dut, packets, lanes, 0.1, 0.1)


def test_a_mask_a_clock(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(3)
    packets = [_packet(rng, lanes, share) for share in [1, 0.5, 0.9, 0.1] * 30]
    got = _run(dut, packets, lanes, 0, 0)
    assert np.array_equal(np.diff(got.clocks), np.ones(len(got) - 1))


def test_latency(dut: Dut, lanes: int) -> None:
    dut.reset()
    mask = Source("s_mask", tdata=[1], none=[0], tlast=[1], tuser=[0])
    item = Source("s_item", tdata=[5], tcount=[1], tlast=[1], tuser=[0], not_before=[9])
    got = Sink("m", fields=("tdata", "terror"))
    dut.stream(mask, item, got)
    assert got.clocks[0] == item.clocks[0]
    item = Source("s_item", tdata=[5], tcount=[1], tlast=[1], tuser=[0])
    dut.stream(mask, item, got)
    assert got.clocks[0] - mask.clocks[0] == 2


def test_reset_in_mid_packet(dut: Dut, lanes: int) -> None:
    rng = np.random.default_rng(4)
    dut.reset()
    packets = [_packet(rng, lanes, 0.4) for _ in range(20)]
    masks, items = _sources(packets, lanes, 0, rng)
    dut.stream(masks, items, Sink("m", fields=("tdata",)), clocks=9)
    _run(dut, packets, lanes, 0, 0)
