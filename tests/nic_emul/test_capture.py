# SPDX-License-Identifier: Apache-2.0
"""Captures of the emulated wire: every frame is RoCEv2 as others read it, nothing is missing."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

import nic_emul
from codec.elements import ElementType
from codec.engine import Packets, get_engine
from codec.format import Mode
from nic_emul.capture import Capture, Tap, merge, read
from nic_emul.dtypes import describe
from nic_emul.errors import CaptureError, ConfigError
from nic_emul.message import Traffic
from nic_emul.packets import wire_bytes
from nic_emul.roles import Collective, Role
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.tools import require_module, require_tool

ACKNOWLEDGE = 0x11
# Preamble, frame check sequence and gap: on the wire, and in no capture.
UNSEEN = 24
# Packets that fit a block of 4,096 bytes, or fill none of several.
SIZES = [1, 3, 4096, 4097, 3 * 4096, 50_001]


@dataclass(frozen=True)
class Frame:
    """What the specification says of a frame's bytes, read without the code under test."""

    raw: bytes

    @property
    def opcode(self) -> int:
        return self.raw[42]

    @property
    def pad(self) -> int:
        return self.raw[43] >> 4 & 3

    @property
    def queue_pair(self) -> int:
        return int.from_bytes(self.raw[47:50], "big")

    @property
    def asks_for_acknowledgement(self) -> bool:
        return bool(self.raw[50] & 0x80)

    @property
    def coded(self) -> bool:
        return bool(self.raw[50] & 0x01)

    @property
    def psn(self) -> int:
        return int.from_bytes(self.raw[51:54], "big")

    @property
    def first(self) -> bool:
        return self.opcode in (0x06, 0x0B)

    @property
    def last(self) -> bool:
        return self.opcode in (0x09, 0x0B)

    @property
    def reth(self) -> tuple[int, int, int]:
        """Address, remote key, length."""
        assert self.first
        return struct.unpack(">QII", self.raw[54:70])

    @property
    def immediate(self) -> int:
        assert self.last
        at = 70 if self.first else 54
        return int.from_bytes(self.raw[at : at + 4], "big")

    @property
    def payload(self) -> bytes:
        start = 54 + (16 if self.first else 0) + (4 if self.last else 0)
        return self.raw[start : len(self.raw) - 4 - self.pad]

    @property
    def ends(self) -> tuple[str, str]:
        return str(IPv4Address(self.raw[26:30])), str(IPv4Address(self.raw[30:34]))


def icrc_by_the_book(raw: bytes) -> bytes:
    """CRC-32, bit by bit, over eight bytes of ones and all from IPv4 to the pad, with ones for what
    may change on the way."""
    covered = list(b"\xff" * 8 + raw[14:-4])
    # Type of service, time to live and checksum of IPv4; checksum of UDP; byte 4 of the BTH.
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 28 + 6, 28 + 7, 36 + 4):
        covered[at] = 0xFF
    crc = 0xFFFFFFFF
    for byte in covered:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def check_frame(raw: bytes) -> Frame:
    """Lengths, checksum and ICRC of a frame, the last by three implementations."""
    roce = require_module("scapy.contrib.roce")
    ether = require_module("scapy.layers.l2").Ether
    assert struct.unpack(">H", raw[16:18])[0] == len(raw) - 14
    assert struct.unpack(">H", raw[38:40])[0] == len(raw) - 34
    assert sum(struct.unpack(">10H", raw[14:34])) % 0xFFFF == 0
    assert raw[-4:] == icrc_by_the_book(raw)
    dissected = ether(raw)
    found = Frame(raw)
    assert dissected[roce.BTH].psn == found.psn
    assert dissected[roce.BTH].dqpn == found.queue_pair
    assert dissected[roce.BTH].padcount == found.pad
    if found.opcode == ACKNOWLEDGE:
        assert dissected[roce.AETH].syndrome == 0x1F
    dissected[roce.BTH].icrc = None
    assert bytes(dissected) == raw
    return found


def messages_of(frames: list[Frame]) -> Iterator[list[Frame]]:
    """Cut what one queue pair received into messages."""
    message: list[Frame] = []
    for frame in frames:
        assert frame.first == (not message)
        message.append(frame)
        if frame.last:
            yield message
            message = []
    assert not message


def reassemble(message: list[Frame], element: ElementType) -> bytes:
    """The bytes that the receiver of `message` has after decoding."""
    payload = np.frombuffer(b"".join(frame.payload for frame in message), np.uint8)
    lengths = np.array([len(frame.payload) for frame in message], np.int32)
    modes = np.where([f.coded for f in message], np.uint8(Mode.CODED), np.uint8(Mode.RAW))
    out = np.empty(message[0].reth[2], np.uint8)
    engine = get_engine("numba" if "numba" in ENGINES else "reference")
    engine.decode(Packets(payload, lengths, modes), element, 4096, out, bare=True)
    return out.tobytes()


def traffic(dtype: torch.dtype) -> Traffic:
    return Traffic(
        collective=Collective.SEND, role=Role.ACTIVATION, dtype=describe(dtype), sequence=0
    )


@pytest.mark.parametrize("engine", ["null", "numba"])
def test_messages_come_back_from_frames(engine: str, tmp_path: Path) -> None:
    require_module("scapy")
    capture = Capture(tmp_path / "rank0.pcap")
    tap = Tap(capture, group="0", channel="collective", source=0, target=300)
    generator = np.random.default_rng(1)
    inputs, costs = [], []
    for size in SIZES:
        values = generator.normal(size=-(-size // 2)).astype(np.float32)
        data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)[:size]
        packets = get_engine(engine).encode(data, ElementType.BF16, 4096, bare=True)
        tap.sent(traffic(torch.bfloat16), size, packets)
        tap.received(packets.lengths.size)
        inputs.append(data.tobytes())
        costs.append(wire_bytes(packets.lengths))
    frames = [check_frame(raw) for _, raw in read(tmp_path / "rank0.pcap")]
    sent = [frame for frame in frames if frame.opcode != ACKNOWLEDGE]
    assert [frame.psn for frame in sent] == list(range(len(sent)))
    assert {frame.ends for frame in sent} == {("10.0.0.1", "10.0.1.45")}
    messages = list(messages_of(sent))
    assert [reassemble(message, ElementType.BF16) for message in messages] == inputs
    assert [m[0].reth[2] for m in messages] == [m[-1].immediate for m in messages] == SIZES
    assert [m[0].reth[0] for m in messages] == [sum(SIZES[:n]) for n in range(len(SIZES))]
    assert {m[0].reth[1] for m in messages} == {
        Collective.SEND << 24 | Role.ACTIVATION << 16 | describe(torch.bfloat16).tag << 8
    }
    assert [sum(len(f.raw) + UNSEEN for f in m) for m in messages] == costs
    assert any(frame.coded for frame in sent) == (engine != "null")
    assert [f.asks_for_acknowledgement for f in sent] == [f.last for f in sent]

    answers = [frame for frame in frames if frame.opcode == ACKNOWLEDGE]
    assert {frame.ends for frame in answers} == {("10.0.1.45", "10.0.0.1")}
    assert [frame.psn for frame in answers] == [m[-1].psn for m in messages]
    assert [int.from_bytes(f.raw[55:58], "big") for f in answers] == list(range(1, 1 + len(SIZES)))


def test_numbers_wrap_around() -> None:
    require_module("scapy")
    from nic_emul.roce import Flow, Requester, Responder

    flow = Flow("0", "collective", 0, 1)
    requester, responder = Requester(flow), Responder(flow)
    requester._psn, responder._psn, responder._messages = 0xFFFFFF, 0xFFFFFE, 0xFFFFFF
    packets = get_engine("null").encode(np.zeros(5000, np.uint8), ElementType.RAW, 4096, bare=True)
    sent = [check_frame(raw) for raw in requester.message(traffic(torch.uint8), 5000, packets)]
    assert [frame.psn for frame in sent] == [0xFFFFFF, 0]
    answer = check_frame(responder.acknowledge(2))
    assert (answer.psn, answer.raw[55:58]) == (0, bytes(3))


def exchange() -> list[nic_emul.CounterRow]:
    """An all-reduce in both directions, a send, and a barrier that nothing compresses."""
    rank = dist.get_rank()
    torch.manual_seed(rank)
    dist.all_reduce(torch.randn(20_001).bfloat16())
    torch.manual_seed(9)
    tensor = torch.randn(10_000)
    dist.send(tensor, 1) if rank == 0 else dist.recv(torch.empty(10_000), 0)
    dist.barrier()
    return nic_emul.local_nic().counters.rows()


def capture_exchange(folder: Path) -> tuple[Path, list[nic_emul.CounterRow]]:
    environment = {"WIREZIP_ENGINE": ENGINES[-1], "WIREZIP_PCAP": str(folder / "ranks")}
    ranks = run_ranks(exchange, 2, environment=environment)
    paths = [folder / "ranks" / f"rank{rank}.pcap" for rank in range(2)]
    merge(paths, folder / "all.pcap")
    return folder / "all.pcap", [row for rows in ranks for row in rows]


@pytest.mark.ranks
def test_capture_of_real_ranks_is_what_counters_say(tmp_path: Path) -> None:
    require_module("scapy")
    path, rows = capture_exchange(tmp_path)
    records = list(read(path))
    times = [time_ns for time_ns, _ in records]
    assert times == sorted(times)
    frames = [check_frame(raw) for _, raw in records]
    flows: dict[int, list[Frame]] = {}
    for frame in frames:
        flows.setdefault(frame.queue_pair, []).append(frame)
    messages = [
        message
        for flow in flows.values()
        if flow[0].opcode != ACKNOWLEDGE
        for message in messages_of(flow)
    ]
    packets = [frame for message in messages for frame in message]
    assert len(packets) == sum(row.packets for row in rows)
    assert len(messages) == sum(row.messages for row in rows)
    assert len(frames) == len(packets) + len(messages)
    assert sum(f.coded for f in packets) == sum(r.coded_frames + r.constant_frames for r in rows)
    assert sum(m[0].reth[2] for m in messages) == sum(row.logical_bytes for row in rows)
    assert sum(len(f.raw) + UNSEEN for f in packets) == sum(row.wire_bytes for row in rows)
    for flow in flows.values():
        numbers = [frame.psn for frame in flow]
        if flow[0].opcode != ACKNOWLEDGE:
            assert numbers == list(range(len(numbers)))

    # What was sent comes back from the capture alone.
    torch.manual_seed(9)
    expected = torch.randn(10_000).numpy().tobytes()
    sends = [m for m in messages if m[0].reth[1] >> 24 == Collective.SEND]
    assert b"".join(reassemble(m, ElementType.FP32) for m in sends) == expected


@pytest.mark.ranks
def test_tshark_dissects_every_frame(tmp_path: Path) -> None:
    require_module("scapy")
    tshark = require_tool("tshark")
    path, _ = capture_exchange(tmp_path)

    def ask(*arguments: str) -> list[str]:
        command = [tshark, "-n", "-r", path, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    assert ask("-o", "ip.check_checksum:TRUE", "-Y", "_ws.malformed or _ws.expert") == []
    fields = ("bth.opcode", "bth.psn", "reth.dmalen", "invariant.crc", "aeth.syndrome")
    rows = ask("-T", "fields", *(part for f in fields for part in ("-e", f"infiniband.{f}")))
    frames = [Frame(raw) for _, raw in read(path)]
    assert len(rows) == len(frames)
    for row, frame in zip(rows, frames, strict=True):
        opcode, psn, length, crc, syndrome = row.split("\t")
        assert (int(opcode), int(psn)) == (frame.opcode, frame.psn)
        assert length == (str(frame.reth[2]) if frame.first else "")
        assert int(crc, 0) == int.from_bytes(frame.raw[-4:], "big")
        assert bool(syndrome) == (frame.opcode == ACKNOWLEDGE)


def test_merging_keeps_time_and_refuses_damage(tmp_path: Path) -> None:
    frames = [bytes([n]) * 60 for n in range(4)]
    captures = [Capture(tmp_path / f"rank{rank}.pcap") for rank in range(2)]
    for number, frame in enumerate(frames):
        captures[number % 2].add([frame])
    paths = [tmp_path / f"rank{rank}.pcap" for rank in range(2)]
    merge(paths, tmp_path / "new" / "all.pcap")
    assert [frame for _, frame in read(tmp_path / "new" / "all.pcap")] == frames
    merge([], tmp_path / "none.pcap")
    assert list(read(tmp_path / "none.pcap")) == []

    whole = paths[0].read_bytes()
    for size in range(25, len(whole)):
        paths[0].write_bytes(whole[:size])
        if size != len(whole) - 76:
            with pytest.raises(CaptureError, match=r"expected the whole of frame [01]; found its"):
                list(read(paths[0]))
    paths[0].write_bytes(b"\xff" + whole[1:])
    with pytest.raises(CaptureError, match="expected a pcap file of wirezip"):
        merge(paths, tmp_path / "all.pcap")
    assert not (tmp_path / "all.pcap").exists()


def test_without_scapy_nothing_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "nic_emul.roce", raising=False)
    monkeypatch.delattr(nic_emul, "roce", raising=False)
    for name in [name for name in sys.modules if name.startswith("scapy")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "scapy", None)
    config = nic_emul.NicConfig(engine="null", pcap_dir=tmp_path / "new")
    with pytest.raises(ConfigError, match=r"expected the package scapy \(pip install 'wirezip\[pc"):
        nic_emul.Nic(config)
    assert not (tmp_path / "new").exists()
