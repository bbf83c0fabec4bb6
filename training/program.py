# SPDX-License-Identifier: Apache-2.0
"""Run a program of the user's own over emulated NICs, unedited, and count what they carry.

The ranks get the variables that torchrun sets. `WIREZIP_REPLACES` puts what they ask of gloo or
nccl on the NIC (`nic_emul/replace.py`), and each NIC leaves its counters in a folder when its
process ends. Rank 0 of the program opens the store on a port that is held free for it here.
"""

import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codec.engine import EngineName
from training.capture import capturing
from training.config import INTRA_GB_PER_S, Algorithm, ElementSource
from training.errors import ConfigError, RunError
from training.launch import POLL_SECONDS, stop_on_sigterm
from training.processes import GRACE_SECONDS, die_with_parent, end_all, how_it_ended
from training.records import (
    FaultTotals,
    IntraNode,
    SwitchTraffic,
    Totals,
    TrafficRow,
    add_up,
    fault_totals,
    intra_node,
    switch_traffic,
)
from training.switch import RunningSwitch, switching

BACKENDS = "gloo,nccl"
NPROC = 2
# What torch gives gloo: a program may have one rank evaluate while the others wait.
TIMEOUT_SECONDS = 1800
# The status of a rank that only lost the others (`nic_emul/failure.py`).
LOST_OTHERS = 70


@dataclass(frozen=True, kw_only=True)
class ProgramConfig:
    """What to run, and on which NICs.

    Attributes:
        program: a Python script or `-m` and a module, and the program's own arguments.
        nproc: ranks to start here; 0 starts the program once, without a rank, for a program that
            starts its ranks itself; None is `NPROC`, or the one rank that the environment names.
        engine: of the NICs.
        mtu: bytes of a block and of the payload of a full packet.
        pcap: where to write the frames of the emulated wire, None for nowhere.
        ranks_per_node: ranks that share a node, and so reach each other without a NIC.
        algorithm: how collectives go, in one ring, within nodes and then between them, or summed by
            a switch.
        switch: whether the nodes are connected by a switch, besides where it sums.
        element: how the NICs learn element types.
        faults: what happens to packets between nodes, as `nic_emul/faults.py` reads it.
        intra_gb_per_s: speed of their way to each other, each direction, for modelled time.
    """

    program: tuple[str, ...]
    nproc: int | None
    engine: EngineName
    mtu: int
    pcap: Path | None = None
    ranks_per_node: int = 1
    algorithm: Algorithm = "ring"
    switch: bool = False
    element: ElementSource = "tagged"
    faults: str = ""
    intra_gb_per_s: float = INTRA_GB_PER_S

    def __post_init__(self) -> None:
        if not self.program or self.program == ("-m",):
            raise ConfigError("program: expected SCRIPT or -m MODULE; found nothing")
        script = self.program[0]
        if script != "-m" and not Path(script).is_file():
            raise ConfigError(f"program: expected a Python script; found no file {script!r}")
        if self.faults:
            # Here, so that only runs with faults load anything of the NIC's.
            from nic_emul.faults import Faults

            Faults.parse(self.faults)
        if self.nproc is not None and self.nproc < 0:
            raise ConfigError(f"nproc: expected at least 0; found {self.nproc}")
        if self.ranks_per_node < 1:
            raise ConfigError(f"ranks-per-node: expected at least 1; found {self.ranks_per_node}")
        if not 0 < self.intra_gb_per_s < math.inf:
            raise ConfigError(f"intra-gb-per-s: expected above 0; found {self.intra_gb_per_s}")
        if (rank := os.environ.get("RANK")) is None:
            return
        where = f"where another launcher has started rank {rank}"
        if self.nproc is not None:
            raise ConfigError(f"nproc: expected none {where}; found {self.nproc}")
        if self.pcap is not None:
            raise ConfigError(
                f"pcap: expected a folder for all ranks in WIREZIP_PCAP {where}; found {self.pcap}"
            )
        if self.switched and not os.environ.get("WIREZIP_SWITCH", "").strip():
            raise ConfigError(f"switch: expected one in WIREZIP_SWITCH {where}; found none")

    @property
    def switched(self) -> bool:
        """Whether there is a switch."""
        return self.switch or self.algorithm == "switch"


@dataclass(frozen=True, kw_only=True)
class ProgramSummary:
    """What the NICs of a program's ranks sent, every hop of every collective.

    Attributes:
        program, engine, mtu: as in `ProgramConfig`.
        world_size: ranks of the program.
        ranks: those whose bytes are counted: all, or the one that another launcher started.
        seconds: wall-clock time from the start of the ranks to their end.
        totals, by_role, by_collective: sums of the rows.
        rows: by role, collective and dtype.
        intra: what stayed inside nodes, if ranks share one.
        faults: what happened to packets, if there are faults.
        switch: what crossed its ports, if one was started here.
    """

    program: list[str]
    engine: str
    mtu: int
    world_size: int
    ranks: list[int]
    seconds: float
    totals: Totals
    by_role: dict[str, Totals]
    by_collective: dict[str, Totals]
    rows: list[TrafficRow]
    intra: IntraNode | None
    faults: FaultTotals | None
    switch: SwitchTraffic | None

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON types."""
        return asdict(self)


def run_program(config: ProgramConfig, *, quiet_stdout: bool = False) -> ProgramSummary | None:
    """Run the program to its end; None on ranks of another launcher that leave the word to rank 0.

    Args:
        quiet_stdout: have the ranks write to standard error what they write to standard output.

    Raises:
        RunError: a rank failed, or none of them made a process group on the NIC.
        ConfigError: frames are to be captured, and scapy is missing.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wirezip-") as folder:
        counters = Path(folder, "counters")
        with stop_on_sigterm(), capturing(config.pcap) as variables:
            variables |= _nic_variables(config, counters)
            with switching(config.switched and "RANK" not in os.environ, variables) as switch:
                found = {} if switch is None else switch.variables
                with _ranks(config, variables | found, quiet_stdout) as ranks:
                    _wait(ranks, switch)
            seconds = time.monotonic() - started
        if os.environ.get("RANK", "0") != "0":
            return None
        return _summarise(config, _read_counters(counters), _read_ports(config, counters), seconds)


def _nic_variables(config: ProgramConfig, counters: Path) -> dict[str, str]:
    return {
        "WIREZIP_REPLACES": BACKENDS,
        "WIREZIP_ENGINE": config.engine,
        "WIREZIP_MTU": str(config.mtu),
        "WIREZIP_COUNTERS": str(counters),
        "WIREZIP_RANKS_PER_NODE": str(config.ranks_per_node),
        "WIREZIP_ALGORITHM": config.algorithm,
        "WIREZIP_ELEMENT": config.element,
        "WIREZIP_FAULTS": config.faults,
        "WIREZIP_TIMEOUT_S": os.environ.get("WIREZIP_TIMEOUT_S", str(TIMEOUT_SECONDS)),
        # torch must load the entry point, or the program talks to the backend that it asks for.
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
    }


@contextmanager
def _ranks(
    config: ProgramConfig, variables: Mapping[str, str], quiet_stdout: bool
) -> "Iterator[list[subprocess.Popen[bytes]]]":
    """The processes of the program on this machine; none of them outlives the block."""
    command = [sys.executable, *config.program]
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        stack.callback(end_all, processes)
        for place in _places(config, stack):
            processes.append(
                subprocess.Popen(
                    command,
                    env=os.environ | variables | place,
                    stdout=sys.stderr.fileno() if quiet_stdout else None,
                    # The program is not ours and cannot ask for this itself. No thread runs yet.
                    preexec_fn=die_with_parent,
                )
            )
        yield processes


def _places(config: ProgramConfig, stack: ExitStack) -> list[dict[str, str]]:
    """Variables that tell each process which rank it is; `stack` holds the store's port."""
    nproc = NPROC if config.nproc is None else config.nproc
    if "RANK" in os.environ or nproc == 0:
        return [{}]
    # Bound and not listening: nobody is given the port but who names it, as the store does.
    held = stack.enter_context(socket.socket())
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    common = {
        "WORLD_SIZE": str(nproc),
        "LOCAL_WORLD_SIZE": str(nproc),
        "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(held.getsockname()[1]),
    }
    if nproc > 1:
        # As torchrun does: ranks share the cores.
        common["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
    return [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(nproc)]


def _wait(ranks: "Sequence[subprocess.Popen[bytes]]", switch: RunningSwitch | None) -> None:
    """Wait for all ranks, and for the others a moment only once one or the switch has failed.

    Raises:
        RunError: names the ranks that failed, in the order in which they ended, or the switch.
    """
    failures: dict[int, int] = {}
    deadline = None
    running = True
    while running and not (deadline and time.monotonic() > deadline):
        statuses = [process.poll() for process in ranks]
        failures |= {rank: status for rank, status in enumerate(statuses) if status}
        running = None in statuses
        switch_ended = None if switch is None else switch.process.poll()
        if (failures or switch_ended is not None) and deadline is None:
            deadline = time.monotonic() + GRACE_SECONDS
        if running:
            time.sleep(POLL_SECONDS)
    if switch_ended is not None:
        raise RunError(f"the switch {how_it_ended(switch_ended)}")
    if failures:
        culprits = {r: status for r, status in failures.items() if status != LOST_OTHERS}
        raise RunError(
            ", ".join(
                _reason(rank, status, alone=len(ranks) == 1)
                for rank, status in (culprits or failures).items()
            )
        )


def _reason(rank: int, status: int, *, alone: bool) -> str:
    return f"{'the program' if alone else f'rank {rank}'} {how_it_ended(status)}"


def _read_counters(folder: Path) -> list[dict[str, Any]]:
    """What each NIC left there, by rank; `Nic.write_counters` describes a file."""
    files = sorted(folder.glob("counters-rank*.json")) if folder.is_dir() else []
    if not files:
        raise RunError(
            f"expected a program that asks torch.distributed for {BACKENDS.replace(',', ' or ')}; "
            "found no process group on the NIC"
        )
    found = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    return sorted(found, key=lambda content: int(content["rank"]))


def _read_ports(config: ProgramConfig, folder: Path) -> SwitchTraffic | None:
    """What the switch left there, if there was one; `nic_emul/switch/__main__.py` writes it."""
    path = folder / "counters-switch.json"
    if not path.exists():
        return None
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return switch_traffic(rows, sums=config.algorithm == "switch")


def _summarise(
    config: ProgramConfig,
    nics: Sequence[Mapping[str, Any]],
    ports: SwitchTraffic | None,
    seconds: float,
) -> ProgramSummary:
    sent = [row for nic in nics for row in nic["rows"] if row["messages"] + row["intra_messages"]]

    def add_up_by(*names: str) -> dict[tuple[str, ...], Totals]:
        groups: dict[tuple[str, ...], list[TrafficRow]] = {}
        for row in sent:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        return {key: add_up(rows) for key, rows in sorted(groups.items())}

    return ProgramSummary(
        program=list(config.program),
        engine=config.engine,
        mtu=config.mtu,
        world_size=int(os.environ.get("WORLD_SIZE", len(nics))),
        ranks=[int(nic["rank"]) for nic in nics],
        seconds=seconds,
        totals=add_up(sent),
        by_role={key[0]: totals for key, totals in add_up_by("role").items()},
        by_collective={key[0]: totals for key, totals in add_up_by("collective").items()},
        rows=[
            TrafficRow(role=key[0], collective=key[1], dtype=key[2], **totals)
            for key, totals in add_up_by("role", "collective", "dtype").items()
        ],
        intra=intra_node(
            [sum(row["intra_bytes"] for row in nic["rows"]) for nic in nics],
            ranks_per_node=config.ranks_per_node,
            gb_per_s=config.intra_gb_per_s,
        ),
        faults=fault_totals(config.faults, [nic["links"] for nic in nics if "links" in nic]),
        switch=ports,
    )
