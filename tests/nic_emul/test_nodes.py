# SPDX-License-Identifier: Apache-2.0
"""Ranks that share a node reach each other beside the NIC: same bits, other counters, no frames."""

import socket
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

import nic_emul
from nic_emul import CounterRow
from nic_emul.capture import read
from nic_emul.errors import CollectiveMismatch, ProtocolError
from nic_emul.links import RecvLink, SendLink
from nic_emul.message import HEADER_BYTES, Header, Kind
from nic_emul.topology import Topology
from tests.nic_emul import checks
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.nic_emul.test_collectives import check_conservation
from tests.nic_emul.test_message import (
    TRAFFIC,
    connection,
    message_bytes,
    pair,
    receive,
    receiver,
    some_data,
)
from tests.tools import require_module

__all__ = ["pair"]

RING = ("all_reduce", "reduce_scatter", "reduce", "all_gather", "broadcast", "barrier")
FLOATS = [i for i, (dtype, _) in enumerate(checks.OPERATIONS) if dtype.is_floating_point]
DTYPES = [torch.float32, torch.bfloat16, torch.int64]


def test_ranks_fill_the_nodes_in_order() -> None:
    topology = Topology(3)
    assert [topology.node_of(rank) for rank in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert topology.share_node(6, 7)
    assert not topology.share_node(2, 3)
    assert not Topology().share_node(0, 1)


def check_split(nodes: list[list[CounterRow]], flat: list[list[CounterRow]], per_node: int) -> None:
    """What each rank sends is what it sends without nodes, to the NIC or beside it."""
    check_conservation(nodes)
    for rank, (rows, before) in enumerate(zip(nodes, flat, strict=True)):
        expected = {row.key: row for row in before}
        assert {row.key for row in rows} == set(expected)
        following = (rank + 1) % len(nodes)
        inside = rank // per_node == following // per_node
        for row in rows:
            alone = expected[row.key]
            assert row.messages + row.intra_messages == alone.messages
            assert row.logical_bytes + row.intra_bytes == alone.logical_bytes
            if row.collective in RING:
                assert (row.messages if inside else row.intra_messages) == 0, (rank, row)


@pytest.mark.ranks
@pytest.mark.parametrize(("size", "per_node"), [(4, 2), (5, 2), (3, 3)])
def test_every_collective_is_split_by_nodes(size: int, per_node: int) -> None:
    counts = [1, size + 1, 1001]
    environment = {"WIREZIP_RANKS_PER_NODE": str(per_node)}
    for function, kinds in ((checks.reductions, FLOATS), (checks.movements, DTYPES)):
        flat = run_ranks(function, size, counts, kinds, True, 4096)
        assert all(row.intra_bytes == 0 for rows in flat for row in rows)
        nodes = run_ranks(function, size, counts, kinds, False, 4096, environment=environment)
        check_split(nodes, flat, per_node)
        if size == per_node:
            assert all(row.wire_bytes == row.packets == 0 for rows in nodes for row in rows)


@pytest.mark.ranks
def test_only_what_leaves_a_node_is_coded() -> None:
    environment = {"WIREZIP_RANKS_PER_NODE": "2", "WIREZIP_ENGINE": ENGINES[-1]}
    ranks = run_ranks(checks.reductions, 4, [5003], FLOATS, False, 4096, environment=environment)
    check_conservation(ranks)
    for rank in (0, 2):
        ring = [row for row in ranks[rank] if row.collective in RING]
        assert all(row.coded_frames == 0 and row.encode_s == 0 for row in ring)
        assert any(row.intra_bytes for row in ring)
    for rank in (1, 3):
        assert any(row.coded_frames for row in ranks[rank])


def send_and_reduce() -> list[CounterRow]:
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(3000) * rank)
    for sender, target in ((0, 1), (1, 2)):
        if rank == sender:
            dist.send(torch.full((5000,), 7.0), target)
        elif rank == target:
            out = torch.zeros(5000)
            dist.recv(out, sender)
            assert checks.same(out, torch.full((5000,), 7.0))
    dist.barrier()
    return nic_emul.local_nic().counters.rows()


@pytest.mark.ranks
def test_captures_have_no_frame_of_a_node(tmp_path: Path) -> None:
    require_module("scapy")
    environment = {"WIREZIP_RANKS_PER_NODE": "2", "WIREZIP_PCAP": str(tmp_path)}
    ranks = run_ranks(send_and_reduce, 4, environment=environment)
    check_conservation(ranks)
    sent = {
        rank: [row for row in rows if row.collective == "send"] for rank, rows in enumerate(ranks)
    }
    assert [(row.packets, row.intra_bytes) for row in sent[0]] == [(0, 20_000)]
    assert [(row.packets, row.intra_bytes) for row in sent[1]] == [(5, 0)]
    frames = [raw for rank in range(4) for _, raw in read(tmp_path / f"rank{rank}.pcap")]
    assert frames
    for raw in frames:
        source, target = raw[29] - 1, raw[33] - 1
        assert source // 2 != target // 2
    data = [raw for raw in frames if raw[42] != 0x11]
    assert len(data) == sum(row.packets for rows in ranks for row in rows)


def test_message_within_a_node_is_header_and_data(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The layout that the module's documentation gives, whatever the engine."""
    left, right = pair
    nic = nic_emul.Nic(nic_emul.NicConfig(engine=ENGINES[-1], ranks_per_node=2))
    data = some_data(2500)
    sender = SendLink(nic, connection(left), peer=1, fail=pytest.fail, intra=True)
    sender.wait(sender.post(TRAFFIC, index=9, data=data))
    message = bytearray(HEADER_BYTES + data.size)
    right.recv_into(message, 0, socket.MSG_WAITALL)
    header = Header.unpack(message)
    assert (header.kind, header.payload_bytes, header.body_crc) == (Kind.INTRA, data.size, 0)
    assert message[HEADER_BYTES:] == data.tobytes()
    (row,) = nic.counters.rows()
    assert (row.intra_messages, row.intra_bytes, row.messages) == (1, data.size, 0)
    sender.close(deadline=0)


def test_neither_end_takes_the_messages_of_the_other_way(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    left, right = pair
    data = some_data(100)
    left.sendall(message_bytes(data))
    nic = nic_emul.Nic(nic_emul.NicConfig(engine="null"))
    inside = RecvLink(nic, connection(right), peer=1, intra=True)
    with pytest.raises(CollectiveMismatch):
        receive(inside, np.empty_like(data))


def test_short_message_within_a_node(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    nic = nic_emul.Nic(nic_emul.NicConfig(engine="null"))
    inside = RecvLink(nic, connection(right), peer=1, intra=True)
    header = Header.describe(TRAFFIC, index=9, logical_bytes=400, block_bytes=4096, kind=Kind.INTRA)
    left.sendall(header.with_body(399, 0).pack())
    with pytest.raises(ProtocolError, match="expected 400 payload bytes"):
        receive(inside, np.empty(400, np.uint8))
    between = receiver(right)
    left.sendall(header.with_body(400, 0).pack())
    with pytest.raises(CollectiveMismatch):
        receive(between, np.empty(400, np.uint8))
