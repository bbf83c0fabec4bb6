# SPDX-License-Identifier: Apache-2.0
"""The emulated NIC of this process: policy, engine and counters, shared by all process groups."""

import copy
import functools
import json
import os
import socket
import threading
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codec.checksum import crc32c
from codec.elements import ElementType
from codec.engine import (
    Engine,
    EngineCounters,
    Packets,
    SimulatedEngine,
    get_engine,
    raw_blocks,
)
from codec.packet import frame_modes
from nic_emul import policy
from nic_emul.capture import Capture, Tap, load_headers
from nic_emul.config import NicConfig, listen_host
from nic_emul.counters import Counters, split_modes
from nic_emul.element_source import Source, source_of
from nic_emul.failure import FailStop
from nic_emul.link_counters import LinkRegister
from nic_emul.message import Traffic
from nic_emul.packets import wire_bytes
from nic_emul.queue_pair import QueuePair
from nic_emul.sockets import Connection
from nic_emul.topology import Topology
from nic_emul.trace import Trace
from nic_emul.uplink import Uplink

U8 = NDArray[np.uint8]


class Nic:
    """Turns the bytes of messages into packets and back, and counts both directions.

    Attributes:
        config: how it works.
        counters: what it did.
        links: what happened to the packets of links with faults.
        failure: ends the process after the first transport error.
        host: the address that groups listen on.
        topology: which ranks share a node.
        compressing: whether what is sent passes the engine, as the policy says, or all of it goes
            around; what is received is decoded in any case.
        trace: when messages were sent and received, if that is to be written.
        uplink: the way to the switch, None if there is none.
    """

    def __init__(self, config: NicConfig) -> None:
        """Make a NIC.

        Raises:
            EngineUnavailable: the configured engine cannot be had.
            ConfigError: frames are to be captured, and what that needs is missing.
        """
        if config.pcap_dir is not None:
            load_headers()
        self.config = config
        self.counters = Counters()
        self.links = LinkRegister()
        self.failure = FailStop()
        self.host = listen_host(config, os.environ)
        self.topology = Topology(config.ranks_per_node)
        self.compressing = True
        self.trace = Trace() if config.trace_dir is not None else None
        self.uplink: Uplink | None = None
        if config.switch is not None:
            self.uplink = Uplink(config.switch, config.switch_secret, timeout_s=config.timeout_s)
        self.rank: int | None = None
        self._capture: Capture | None = None
        self._source = source_of(config.element)
        self._engine = get_engine(config.engine)
        self._around = get_engine("null")
        self._simulated = False
        if isinstance(self._engine, SimulatedEngine):
            # There every packet passes through the hardware, coded or not.
            self._around = self._engine.around
            self._simulated = True
        _warm_up(self._source, self._engine, config.mtu)

    def set_rank(self, rank: int) -> None:
        """Tell the NIC its rank in the job, for the names of its files; the first call counts."""
        if self.rank is not None:
            return
        self.rank = rank
        self.begin_capture(f"rank{rank}")

    def begin_capture(self, name: str) -> None:
        """Capture what is sent from now on in `<name>.pcap`, if that is asked for."""
        if self.config.pcap_dir is not None:
            self._capture = Capture(self.config.pcap_dir / f"{name}.pcap")

    def with_own_counters(self) -> "Nic":
        """A NIC that counts by itself and shares everything else with this one."""
        other = copy.copy(self)
        other.counters = Counters()
        return other

    def leave_switch(self) -> None:
        """Close the connection to the switch, if there is one; another group opens it again."""
        if self.uplink is not None:
            self.uplink.close()

    def tap(self, *, group: str, channel: str, source: int, target: int) -> Tap | None:
        """What the link between two ranks of the job tells the capture; None if there is none."""
        if self._capture is None or self.topology.share_node(source, target):
            return None
        return Tap(self._capture, group=group, channel=channel, source=source, target=target)

    def connection(
        self, sock: socket.socket, *, peer: str, timeout_s: float, name: str, intra: bool = False
    ) -> Connection:
        """The connection of `sock`, with faults if there are any and it leaves the node.

        `name` tells this end of it from all others of the job.
        """
        if self.config.faults is None or intra:
            return Connection(sock, peer=peer, timeout_s=timeout_s)
        return QueuePair(
            sock,
            peer=peer,
            timeout_s=timeout_s,
            faults=self.config.faults,
            name=name,
            mtu=self.config.mtu,
            register=self.links,
        )

    def encode(self, traffic: Traffic, data: U8) -> Packets:
        """Cut `data`, uint8 `(n,)`, into packets; sent totals count them."""
        element = traffic.dtype.element
        amounts: dict[str, float] = {}
        if self.compressing and policy.compresses(
            traffic.role, element, data.size, self.config.element
        ):
            start = time.perf_counter()
            packets = self._source.encode(self._engine, data, element, self.config.mtu)
            amounts["encode_s"] = time.perf_counter() - start
        else:
            packets = self._around.encode(data, element, self.config.mtu, bare=True)
        amounts |= _sent(data.size, packets)
        self.counters.add(traffic.key, amounts)
        return packets

    def forward(self, traffic: Traffic, logical_bytes: int, packets: Packets) -> None:
        """Count a message that is sent on as it came, past the engine; sent totals have it."""
        amounts = {"forwarded_messages": 1, "forwarded_packets": packets.lengths.size}
        self.counters.add(traffic.key, amounts | _sent(logical_bytes, packets))

    def decode(self, traffic: Traffic, packets: Packets, out: U8) -> None:
        """Undo `encode` into `out`, uint8 `(n,)`; received totals count the packets.

        `out` may be the payload itself when no packet is marked: then there is nothing to decode.

        Raises:
            FrameError: a frame is damaged.
        """
        amounts: dict[str, float] = {}
        marked = int(np.count_nonzero(packets.modes))
        if marked or self._simulated:
            start = time.perf_counter()
            element = traffic.dtype.element
            self._source.decode(self._engine, packets, element, self.config.mtu, out)
            amounts["decode_s"] = time.perf_counter() - start
        totals = _totals(out.size, packets, marked)
        amounts |= {f"received_{name}": amount for name, amount in totals.items()}
        amounts["received_marked_packets"] = marked
        self.counters.add(traffic.key, amounts)

    def pass_by(self, traffic: Traffic, size: int, *, received: bool = False) -> None:
        """Count a message of `size` bytes that stays in the node, and so beside the NIC."""
        prefix = "received_intra" if received else "intra"
        self.counters.add(traffic.key, {f"{prefix}_messages": 1, f"{prefix}_bytes": size})

    def engine_counters(self) -> EngineCounters | None:
        """Clocks and beats of the engine so far, if it is simulated hardware."""
        engine = self._engine
        return engine.counters() if isinstance(engine, SimulatedEngine) else None

    @property
    def engine_data_bits(self) -> int:
        """Width of the streams of simulated hardware, 0 for other engines."""
        return self._engine.data_bits if isinstance(self._engine, SimulatedEngine) else 0

    def write_counters(self) -> Path | None:
        """Write the totals so far to `counters_dir`, if it is set; returns the file.

        The file is `counters-rank<rank>.json`: `{"rank", "engine", "mtu", "rows": [CounterRow]}`,
        and with faults `"links"`: `LinkCounters`.
        """
        folder = self.config.counters_dir
        if folder is None or self.rank is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"counters-rank{self.rank}.json"
        content: dict[str, object] = {
            "rank": self.rank,
            "engine": self.config.engine,
            "mtu": self.config.mtu,
            "rows": [asdict(row) for row in self.counters.rows()],
        }
        if self.config.faults is not None:
            content["links"] = self.links.total().as_dict()
        path.write_text(json.dumps(content, indent=1) + "\n")
        return path

    def write_trace(self) -> None:
        """Write the trace to `trace_dir`, if there is one."""
        if self.trace is None or self.config.trace_dir is None or self.rank is None:
            return
        self.config.trace_dir.mkdir(parents=True, exist_ok=True)
        self.trace.write(self.config.trace_dir / f"trace-rank{self.rank}.jsonl")


def _sent(logical_bytes: int, packets: Packets) -> dict[str, float]:
    """What a message of `logical_bytes` adds to the sent totals."""
    marked = int(np.count_nonzero(packets.modes))
    split = split_modes(frame_modes(packets)) if marked else {"raw_packets": packets.lengths.size}
    return _totals(logical_bytes, packets, marked) | split


def _totals(logical_bytes: int, packets: Packets, marked: int) -> dict[str, float]:
    """What a message of `logical_bytes` adds to totals at either end."""
    if marked or not packets.lengths.size:
        wire = wire_bytes(packets.lengths)
    else:
        wire = _raw_wire_bytes(packets.payload.size, int(packets.lengths[0]))
    return {
        "messages": 1,
        "logical_bytes": logical_bytes,
        "payload_bytes": packets.payload.size,
        "wire_bytes": wire,
        "packets": packets.lengths.size,
    }


@functools.lru_cache(maxsize=256)
def _raw_wire_bytes(size: int, block_bytes: int) -> int:
    return wire_bytes(raw_blocks(size, block_bytes)[0])


def _warm_up(source: Source, engine: Engine, block_bytes: int) -> None:
    """Let `engine` do once what it may do slowly the first time, such as compiling itself.

    Peers must not time out over that, and codec seconds must not contain it.
    """
    data = np.linspace(-1, 1, 2 * block_bytes // 4, dtype=np.float32).view(np.uint8)
    crc32c(data)
    out = np.empty_like(data)
    for element in (ElementType.BF16, ElementType.FP16, ElementType.FP32):
        packets = source.encode(engine, data, element, block_bytes)
        source.decode(engine, packets, element, block_bytes, out)


class _Local:
    """Holds the NIC of this process. There is one, as there is one card in a machine."""

    lock = threading.Lock()
    nic: Nic | None = None


def local_nic() -> Nic:
    """The NIC of this process, made from the environment on first use.

    Raises:
        ConfigError: a `WIREZIP_*` variable means nothing.
        EngineUnavailable: the configured engine cannot be had.
    """
    with _Local.lock:
        if _Local.nic is None:
            _Local.nic = Nic(NicConfig.from_environment(os.environ))
        return _Local.nic
