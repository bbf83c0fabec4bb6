# SPDX-License-Identifier: Apache-2.0
"""What is passed on goes on in the packets in which it came: same bytes, less work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import nic_emul
from codec.elements import ElementType
from codec.engine import Packets, get_engine
from codec.format import Mode
from codec.packet import frame_modes
from nic_emul import CounterRow, links
from nic_emul.capture import read
from tests.nic_emul import checks, model
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.nic_emul.test_collectives import check_conservation
from tests.tools import require_module

ACKNOWLEDGE = 0x11
COUNT = 3001
DTYPES = [torch.bfloat16, torch.float32, torch.int64]


def exchange() -> None:
    """Every collective that passes something on, with constant, coded and raw packets in it."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        data = checks.make_input(rank, COUNT, dtype)
        data[1000:] = rank + 1
        parts = [checks.make_input(r, COUNT, dtype) for r in range(size)]
        for r, part in enumerate(parts):
            part[1000:] = r + 1
        out = torch.empty(size * COUNT, dtype=dtype)
        dist.all_gather_single(out, data)
        assert checks.same(out, torch.cat(parts))
        tensor = data.clone()
        dist.broadcast(tensor, 1)
        assert checks.same(tensor, parts[1])
        tensor = data.clone()
        dist.all_reduce(tensor)
        assert checks.same(tensor, model.all_reduce(parts, torch.add))


def counted_exchange(forward: bool) -> tuple[list[CounterRow], int]:
    """The counters of `exchange`, and how often the engine was asked to encode."""
    nic = nic_emul.local_nic()
    calls = 0
    encode = nic.encode

    def counting(*arguments: Any) -> Packets:
        nonlocal calls
        calls += 1
        return encode(*arguments)

    nic.encode = counting  # type: ignore[method-assign]
    if not forward:
        post = links.SendLink.post

        def coded_again(link: links.SendLink, *arguments: Any, **options: Any) -> int:
            return post(link, *arguments, **(options | {"received": None}))

        links.SendLink.post = coded_again  # type: ignore[method-assign]
    exchange()
    return nic.counters.rows(), calls


def frames_sent(folder: Path) -> dict[tuple[int, bytes], list[bytes]]:
    """The data frames of each flow, in order, by rank and what tells flows apart."""
    flows: dict[tuple[int, bytes], list[bytes]] = {}
    for path in sorted(folder.glob("rank*.pcap")):
        for _, raw in read(path):
            if raw[42] != ACKNOWLEDGE:
                flows.setdefault((int(path.stem[4:]), raw[46:50]), []).append(raw)
    return flows


@pytest.mark.ranks
@pytest.mark.parametrize(("size", "engine"), [(4, "null"), (3, ENGINES[-1])])
def test_forwarded_frames_are_those_of_coding_again(size: int, engine: str, tmp_path: Path) -> None:
    require_module("scapy")
    found = {}
    for forward in (True, False):
        folder = tmp_path / str(forward)
        environment = {"WIREZIP_ENGINE": engine, "WIREZIP_PCAP": str(folder)}
        found[forward] = run_ranks(counted_exchange, size, forward, environment=environment)
    flows = frames_sent(tmp_path / "True")
    assert flows == frames_sent(tmp_path / "False")
    assert len(flows) == size
    for (rows, calls), (rows_again, calls_again) in zip(found[True], found[False], strict=True):
        assert [without_work(row) for row in rows] == [without_work(row) for row in rows_again]
        forwarded = sum(row.forwarded_messages for row in rows)
        assert calls == calls_again - forwarded
        assert all(row.forwarded_messages == 0 for row in rows_again)
        if engine != "null":
            assert all(row.coded_frames for row in rows if row.messages and row.role != "other")
            assert any(row.constant_frames for row in rows)
    check_conservation([rows for rows, _ in found[True]])


def without_work(row: CounterRow) -> CounterRow:
    """All that the row says of bytes on the wire."""
    return replace(row, encode_s=0.0, decode_s=0.0, forwarded_messages=0, forwarded_packets=0)


@pytest.mark.ranks
def test_how_much_is_forwarded() -> None:
    size = 4
    for rank, (rows, _) in enumerate(run_ranks(counted_exchange, size, True)):
        for row in rows:
            if row.collective == "all_gather":
                # All but its own part.
                assert row.forwarded_messages * (size - 1) == row.messages * (size - 2)
                assert row.forwarded_packets * (size - 1) == row.packets * (size - 2)
            elif row.collective == "broadcast":
                assert row.forwarded_messages == (0 if rank == 1 else row.messages)
            elif row.collective == "all_reduce":
                itemsize = getattr(torch, row.dtype).itemsize
                owner = model.all_reduce_owner(COUNT, size, itemsize)
                # It sums up chunk r, and the rank after it has what it would pass on of r + 1.
                passed_on = [r for r in range(size) if r not in (rank, (rank + 1) % size)]
                sizes = [
                    message
                    for r in passed_on
                    for message in model.ring_messages(int((owner == r).sum()), itemsize)
                ]
                assert row.forwarded_messages == len(sizes)
                assert row.forwarded_packets == sum(-(-s // 4096) for s in sizes)


@pytest.mark.ranks
def test_what_leaves_a_node_is_coded_there() -> None:
    environment = {"WIREZIP_ENGINE": ENGINES[-1], "WIREZIP_RANKS_PER_NODE": "2"}
    ranks = run_ranks(counted_exchange, 4, True, environment=environment)
    check_conservation([rows for rows, _ in ranks])
    for rank, (rows, calls) in enumerate(ranks):
        # Every link between nodes follows one inside, and the other way about.
        assert all(row.forwarded_messages == 0 for row in rows)
        assert calls == sum(row.messages for row in rows)
        assert bool(calls) == (rank % 2 == 1)


def test_modes_are_read_from_frames() -> None:
    generator = np.random.default_rng(1)
    coded = generator.normal(size=1024).astype(np.float32).view(np.uint8)
    constant = np.zeros(4096, np.uint8)
    raw = generator.integers(0, 256, 100, dtype=np.uint8)
    data = np.concatenate([coded, constant, raw])
    packets = get_engine("reference").encode(data, ElementType.FP32, 4096, bare=True)
    assert packets.modes.tolist() == [Mode.CODED, Mode.CONSTANT, Mode.RAW]
    marks = np.where(packets.modes == Mode.RAW, np.uint8(Mode.RAW), np.uint8(Mode.CODED))
    told = frame_modes(Packets(packets.payload, packets.lengths, marks))
    assert told.tolist() == packets.modes.tolist()
