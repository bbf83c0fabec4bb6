# SPDX-License-Identifier: Apache-2.0
"""wz_slice: windows wherever records begin, parts in their places, ends of packets, the rate."""

from pathlib import Path
from random import Random

import numpy as np
import pytest

from codec.elements import ElementType
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.packets import Packet
from tests.rtl.structs import pack, unpack

BENCH = Path(__file__).with_name("slice_bench.sv")
BF16, FP16, FP32 = ElementType.BF16, ElementType.FP16, ElementType.FP32
E4M3, RAW = ElementType.E4M3, ElementType.RAW
# Bytes of full records that frames have.
STEPS = {
    BF16: (32, 28, 0),
    FP16: (44, 40, 12, 8),
    FP32: (48, 32, 16, 0, 46, 30, 14),
    E4M3: (32, 24),
    RAW: (64, 0),
}


@pytest.fixture(scope="module", params=["all types", "BF16"])
def types(request: pytest.FixtureRequest) -> list[ElementType]:
    return list(STEPS) if request.param == "all types" else [BF16]


@pytest.fixture(scope="module")
def dut(types: list[ElementType]) -> Dut:
    mask = 0b111111 if len(types) > 1 else 1 << BF16
    return Dut("slice_bench", parameters={"TYPES": mask}, extra=(BENCH,))


def run(
    dut: Dut, payloads: list[bytes], jobs: list[dict[str, int]], gap: int, stall: float = 0
) -> tuple[Sink, Source]:
    dut.reset()
    dut["room"] = 1
    beats = packets.beats([Packet(p) for p in payloads])
    beats.pop("tuser")
    words, times, start, first = [], [], 0, 0
    early: list[int] = []  # packets have 6-bit numbers: never so many are on their way
    for number, (payload, job) in enumerate(zip(payloads, jobs, strict=True)):
        place = {"packet": number % 64, "start": start % 512, "ahead": (start + 2) % 512}
        words.append(pack(packets.RECORD_JOB, **place, **job))
        times.append(dut.clocks + 20 + int(first * (1 + 2 * stall)) + gap * number)
        early += [dut.clocks + gap * (number - 30)] * -(-len(payload) // 64)
        start += -(-len(payload) // 64)
        first = start
    got = Sink("m", valid="valid", ready=None, fields=("data", "info"))
    source = Source("s_axis", **beats, stall=stall, not_before=early)
    taken = Source("s", job=words, valid="job_valid", ready="job_ready", not_before=times)
    dut.stream(source, taken, got, seed=1)
    return got, taken


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_records(dut: Dut, types: list[ElementType], stall: float) -> None:
    rng = Random(str(stall))
    payloads, jobs, wanted = [], [], []
    for _ in range(150):
        element = rng.choice(types)
        step = rng.choice(STEPS[element])
        records = rng.choice((0, 1, 2, rng.randint(0, 64)))
        offset = rng.choice((16, 32, 48))
        needs = offset + step * records
        # Some end before their last record.
        payload = rng.randbytes(max(1, min(4104, needs + rng.randint(-200, 200))))
        last = rng.randint(1, 64 // element.width_bytes)
        payloads.append(payload)
        # All planes are said to be there, so that every window begins at byte 0.
        jobs.append(
            {"records": records, "offset": offset, "step": step, "last": last, "element": element}
        )
        padded = payload.ljust(64 * -(-len(payload) // 64), b"\0") + bytes(9000)
        for i in range(records):
            at = offset + step * i
            size = 64 if i < records - 1 else last * element.width_bytes
            wanted.append((padded[at : at + step], size))
    got, _ = run(dut, payloads, jobs, gap=90, stall=stall)
    assert len(got) == len(wanted)
    infos = [unpack(word, packets.WINDOW) for word in got.integers("info")]
    for data, info, (window, size) in zip(got["data"], infos, wanted, strict=True):
        assert data.tobytes()[: len(window)] == window
        assert info["bytes"] == size
        assert info["last_part"]


def test_payloads_as_they_are(dut: Dut) -> None:
    rng = Random(3)
    payloads, jobs, wanted = [], [], []
    for _ in range(100):
        offset = rng.choice((0, 8))
        size = rng.choice((1, 64, 4096, rng.randint(1, 4096)))
        payloads.append(rng.randbytes(offset + size))
        records = -(-size // 64)
        jobs.append(
            {
                "records": records,
                "offset": offset,
                "step": 64,
                "last": size - 64 * (records - 1),
                "as_is": 1,
            }
        )
        block = payloads[-1][offset:]
        wanted += [block[i : i + 64] for i in range(0, size, 64)]
    got, _ = run(dut, payloads, jobs, gap=80)
    assert len(got) == len(wanted)
    for data, window in zip(got["data"], wanted, strict=True):
        assert data.tobytes()[: len(window)] == window


def test_parts_have_their_places() -> None:
    dut = Dut("slice_bench", parameters={"TYPES": 0b111111}, extra=(BENCH,))
    rng = Random(4)
    payloads, jobs, wanted = [], [], []
    for element, flags, planes in (
        (FP32, 0b000, [0, 1, 2]),
        (FP32, 0b001, [1, 2]),
        (FP32, 0b010, [0, 2]),
        (FP32, 0b100, [0, 1]),
        (FP16, 0b000, [0, 1]),
    ):
        for last in range(1, 64 // element.width_bytes):
            payload = rng.randbytes(400)
            payloads.append(payload)
            jobs.append(
                {
                    "records": 1,
                    "offset": 32,
                    "step": 48,
                    "last": last,
                    "split": 1,
                    "parts": len(planes) - 1,
                    "element": element,
                    "plane_flags": flags,
                }
            )
            for i, plane in enumerate(planes):
                place = plane * 64 // element.width_bytes
                at = 32 + last * i
                wanted.append((place, payload[at : at + min(last, 48 - place)], i))
    got, _ = run(dut, payloads, jobs, gap=20)
    infos = [unpack(word, packets.WINDOW) for word in got.integers("info")]
    assert len(got) == len(wanted)
    for data, info, (place, part, number) in zip(got["data"], infos, wanted, strict=True):
        assert data.tobytes()[place : place + len(part)] == part
        assert (info["set"] == 0b1111) == (number == 0)


def test_rate(dut: Dut) -> None:
    """A window a clock within packets and across them."""
    payloads = [bytes(64)] * 40 + [bytes(4096)] * 8 + [bytes(64)] * 40
    sizes = [len(p) for p in payloads]
    jobs = [{"records": -(-n // 64), "step": 64, "last": 64, "as_is": 1} for n in sizes]
    got, _ = run(dut, payloads, jobs, gap=0)
    windows = sum(sizes) // 64
    assert len(got) == windows
    # Waiting for the input aside, which is as fast.
    assert got.clocks[-1] - got.clocks[0] <= windows + 8


def test_room(dut: Dut) -> None:
    """Without room no window leaves, but for those on their way."""
    dut.reset()
    beats = packets.beats([Packet(bytes(4096))])
    beats.pop("tuser")
    job = pack(packets.RECORD_JOB, records=64, step=64, last=64, as_is=1, ahead=2)
    dut["room"] = 0
    got = Sink("m", valid="valid", ready=None, fields=("data",))
    source = Source(
        "s", job=[job], valid="job_valid", ready="job_ready", not_before=[dut.clocks + 20]
    )
    dut.stream(Source("s_axis", **beats), source, got)
    assert len(got) == 0
    dut["room"] = 1
    dut.stream(got, clocks=10)
    before = len(got)
    dut["room"] = 0
    dut.stream(got, clocks=40)
    assert len(got) <= 6
    dut["room"] = 1
    last = Sink("m", valid="valid", ready=None, fields=("data",))
    left = 64 - before - len(got)
    dut.stream(last, clocks=100)
    assert len(last) == left
    assert np.all(last["data"] == 0)
