# SPDX-License-Identifier: Apache-2.0
"""Configuration of a process' NIC (`WIREZIP_*` variables) and of a process group."""

import ipaddress
import math
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args

from codec.engine import ENGINE_NAMES
from codec.packet import MTUS
from nic_emul.errors import ConfigError
from nic_emul.faults import Faults
from nic_emul.roles import Role

Algorithm = Literal["ring", "hierarchical", "switch"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
ElementSource = Literal["tagged", "inferred", "off"]
ELEMENT_SOURCES: tuple[ElementSource, ...] = get_args(ElementSource)
LOOPBACK = "127.0.0.1"
# What fits the field of a hello.
RANKS_PER_NODE_MAX = 0xFFFF
SWITCH_SECRET_BYTES_MIN = 16


@dataclass(frozen=True, kw_only=True)
class NicConfig:
    """How the NIC of this process works.

    Attributes:
        engine: codec engine, one of `codec.engine.ENGINE_NAMES` (`WIREZIP_ENGINE`).
        mtu: RoCEv2 path MTU in bytes, one of `MTUS`: the payload of a full packet (`WIREZIP_MTU`).
        timeout_s: seconds without progress after which a peer counts as hung and the job ends
            (`WIREZIP_TIMEOUT_S`, 60 if not set). A shorter timeout of the process group counts
            instead; torch's own is half an hour. It includes the time for which a rank computes
            while others wait for it, but not the time in which an engine compiles itself.
        counters_dir: folder where each rank writes its counters at shutdown (`WIREZIP_COUNTERS`).
        pcap_dir: folder where each rank writes the frames that it sends, `rank<rank>.pcap`
            (`WIREZIP_PCAP`).
        trace_dir: folder where each rank writes when its messages were sent and received,
            `trace-rank<rank>.jsonl` (`WIREZIP_TRACE`).
        host: address that this rank listens on; None derives it from the master's address
            (`WIREZIP_HOST`).
        ranks_per_node: ranks of the job that share a node, and so reach each other without the NIC
            (`WIREZIP_RANKS_PER_NODE`); every rank is a node of its own if not set. torchrun's
            `LOCAL_WORLD_SIZE` is not asked: here it is the number of ranks on one machine, which is
            all of them where a machine plays a cluster, and then nothing would cross a NIC.
        algorithm: how all-reduce, reduce-scatter and all-gather go (`WIREZIP_ALGORITHM`): in one
            ring; `hierarchical`, within nodes and between nodes, where the ranks of the group fill
            two or more nodes with two or more each, as many on every node; or by the `switch`,
            which sums what it can (`in_network.py`).
        element: how the NIC learns element types (`WIREZIP_ELEMENT`, `element_source.py`).
        switch: host and port of the switch that connects the nodes (`WIREZIP_SWITCH=HOST:PORT`);
            None for links from NIC to NIC.
        switch_secret: what the switch and all ranks of its job share, at least 16 bytes
            (`WIREZIP_SWITCH_SECRET`, in hexadecimal).
        faults: what happens to packets between NICs (`WIREZIP_FAULTS`, as `faults.py` reads it);
            without it links are TCP's, which nothing happens to. Not with a switch.
    """

    engine: str = "numba"
    mtu: int = 4096
    timeout_s: float = 60.0
    counters_dir: Path | None = None
    pcap_dir: Path | None = None
    trace_dir: Path | None = None
    host: str | None = None
    ranks_per_node: int = 1
    algorithm: Algorithm = "ring"
    element: ElementSource = "tagged"
    switch: tuple[str, int] | None = None
    switch_secret: bytes = field(default=b"", repr=False)
    faults: Faults | None = None

    def __post_init__(self) -> None:
        _check_choice("WIREZIP_ENGINE", self.engine, ENGINE_NAMES)
        if self.mtu not in MTUS:
            raise ConfigError(f"WIREZIP_MTU: expected one of {MTUS}; found {self.mtu}")
        if not 0 < self.timeout_s < math.inf:
            raise ConfigError(f"WIREZIP_TIMEOUT_S: expected seconds > 0; found {self.timeout_s}")
        if self.host is not None:
            _check_host(self.host)
        if not 1 <= self.ranks_per_node <= RANKS_PER_NODE_MAX:
            raise ConfigError(
                f"WIREZIP_RANKS_PER_NODE: expected 1 to {RANKS_PER_NODE_MAX}; "
                f"found {self.ranks_per_node}"
            )
        _check_choice("WIREZIP_ALGORITHM", self.algorithm, ALGORITHMS)
        _check_choice("WIREZIP_ELEMENT", self.element, ELEMENT_SOURCES)
        if self.algorithm == "switch" and self.switch is None:
            raise ConfigError(
                "WIREZIP_SWITCH: expected HOST:PORT for the algorithm switch; found none"
            )
        if self.switch is not None and len(self.switch_secret) < SWITCH_SECRET_BYTES_MIN:
            raise ConfigError(
                f"WIREZIP_SWITCH_SECRET: expected at least {SWITCH_SECRET_BYTES_MIN} bytes in "
                f"hexadecimal; found {len(self.switch_secret)}"
            )
        if self.switch is not None and self.faults is not None:
            raise ConfigError(
                "WIREZIP_FAULTS: expected links from NIC to NIC; found WIREZIP_SWITCH as well"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "NicConfig":
        """Read the `WIREZIP_*` variables; an empty value counts as not set.

        Raises:
            ConfigError: a value means nothing; the message names the variable.
        """
        found = {name: text for name, text in environment.items() if text.strip()}
        default = cls()
        counters, pcap = found.get("WIREZIP_COUNTERS"), found.get("WIREZIP_PCAP")
        trace = found.get("WIREZIP_TRACE")
        return cls(
            engine=_text("WIREZIP_ENGINE", found, default.engine),
            mtu=_integer("WIREZIP_MTU", found, default.mtu),
            timeout_s=_number(
                "WIREZIP_TIMEOUT_S", found.get("WIREZIP_TIMEOUT_S", str(default.timeout_s)), float
            ),
            counters_dir=None if counters is None else Path(counters),
            pcap_dir=None if pcap is None else Path(pcap),
            trace_dir=None if trace is None else Path(trace),
            host=found.get("WIREZIP_HOST"),
            ranks_per_node=_integer("WIREZIP_RANKS_PER_NODE", found, default.ranks_per_node),
            algorithm=cast(Algorithm, _text("WIREZIP_ALGORITHM", found, default.algorithm)),
            element=cast(ElementSource, _text("WIREZIP_ELEMENT", found, default.element)),
            switch=_address("WIREZIP_SWITCH", found),
            switch_secret=_secret("WIREZIP_SWITCH_SECRET", found),
            faults=Faults.parse(found["WIREZIP_FAULTS"]) if "WIREZIP_FAULTS" in found else None,
        )


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Options of one process group: `dist.new_group(..., pg_options=GroupOptions(role=...))`.

    Attributes:
        role: what the group's floating-point tensors are; None leaves it to the group's mesh
            dimension, if it has one, and to each collective (`nic_emul.roles.resolve_role`).
    """

    role: Role | None = None

    def __post_init__(self) -> None:
        if self.role is not None and not isinstance(self.role, Role):
            raise ConfigError(f"GroupOptions.role: expected a Role or None; found {self.role!r}")


def listen_host(config: NicConfig, environment: Mapping[str, str]) -> str:
    """The one local address to listen on.

    The configured host, else loopback when the master is on loopback or not named, else the
    address of the interface that leads to the master. A host whose own name resolves to loopback
    and that others must reach sets `WIREZIP_HOST`.
    """
    if config.host is not None:
        return config.host
    master = environment.get("MASTER_ADDR", "").strip()
    if not master:
        return LOOPBACK
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only picks the route.
            probe.connect((master, 9))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"MASTER_ADDR: expected an address that this host can reach; found {master!r} ({error})"
        ) from error


def _text(name: str, found: Mapping[str, str], default: str) -> str:
    return found.get(name, default).strip()


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}: expected one of {', '.join(choices)}; found {value!r}")


def _integer(name: str, found: Mapping[str, str], default: int) -> int:
    return int(_number(name, found.get(name, str(default)), int))


def _number(name: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError as error:
        raise ConfigError(f"{name}: expected a number; found {text!r}") from error


def _check_host(host: str) -> None:
    try:
        ipaddress.IPv4Address(host)
    except ValueError as error:
        raise ConfigError(f"WIREZIP_HOST: expected an IPv4 address; found {host!r}") from error


def _address(name: str, found: Mapping[str, str]) -> tuple[str, int] | None:
    if name not in found:
        return None
    host, _, port = found[name].strip().rpartition(":")
    try:
        if 0 < int(port) < 1 << 16:
            return str(ipaddress.IPv4Address(host)), int(port)
    except ValueError:
        pass
    raise ConfigError(f"{name}: expected an IPv4 address and a port; found {found[name]!r}")


def _secret(name: str, found: Mapping[str, str]) -> bytes:
    try:
        return bytes.fromhex(found.get(name, ""))
    except ValueError as error:
        # Not the value, which is a secret.
        raise ConfigError(f"{name}: expected hexadecimal digits; found others") from error
