# SPDX-License-Identifier: Apache-2.0
"""The run folder: what a run leaves behind, and the only thing that tables and plots are made from.

    config.toml     the resolved configuration; `wirezip train DIR/config.toml` repeats the run
    env.json        commit, versions, CPU, seed, hash of the text
    steps.jsonl     one `StepRecord` a line, appended as the run goes
    summary.json    a `Summary`: losses and bytes of the whole run, over all ranks
    summary.csv     the same bytes, a row per (role, collective, dtype)
    logs/           what each local rank printed
    plots/          drawn from the files above
    tensors/        of the steps in `dump_tensors`, see `training/dump.py`
    checkpoints/    to go on from, see `training/checkpoint.py`

Every file but `steps.jsonl` and the logs appears complete or not at all.
"""

import csv
import dataclasses
import io
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from codec.environment import cpu_name, package_version
from training.config import RunConfig, to_toml
from training.errors import RecordError


class Totals(TypedDict):
    """Bytes before the codec, after it, and on the wire with headers; packets, and those among them
    that were sent on as they came: all of that between nodes. Then the bytes that stayed in a
    node, beside its NICs."""

    logical_bytes: int
    payload_bytes: int
    wire_bytes: int
    packets: int
    forwarded_packets: int
    intra_bytes: int


class TrafficRow(TypedDict):
    """What was sent for one (role, collective, dtype), over all ranks and hops."""

    role: str
    collective: str
    dtype: str
    logical_bytes: int
    payload_bytes: int
    wire_bytes: int
    packets: int
    forwarded_packets: int
    intra_bytes: int


class IntraNode(TypedDict):
    """What stayed inside the nodes, where ranks share one."""

    ranks_per_node: int
    gb_per_s: float
    """Stated, not measured: what `seconds` is computed with."""
    bytes: int
    """Sent to ranks of the same node, over all ranks."""
    bytes_busiest: int
    """Of the rank that sent most."""
    seconds: float
    """Modelled: the bytes of the busiest rank at the stated speed."""


class MemoryReport(TypedDict):
    """Bytes by kind (`training/memory.py`), each at its peak, from the first step on."""

    measured: dict[str, int]
    """Of the rank that had most of the kind."""
    predicted: dict[str, int]
    """Of every rank, by formula."""


class FaultTotals(TypedDict):
    """What happened to packets on links with faults, over all ranks, in no other figure."""

    spec: str
    """The faults."""
    retransmitted_wire_bytes: int
    """Of packets of messages that were sent again, as `nic_emul/packets.py` has them."""
    links: dict[str, int]
    """All that was counted: `nic_emul.LinkCounters`."""


class Crossed(TypedDict):
    """What crossed a port of the switch in one direction, as the NICs count."""

    logical_bytes: int
    payload_bytes: int
    wire_bytes: int
    packets: int


class PortTotals(TypedDict):
    """What crossed one port of the switch."""

    port: int
    """Number of its node."""
    up: Crossed
    """Into the switch."""
    down: Crossed
    """Out of it."""


class SwitchTraffic(TypedDict):
    """What crossed the switch, where there is one."""

    sums: bool
    """Whether it sums, besides forwarding."""
    order: str
    """In which order sums are made, and what follows from that: `SWITCH_ORDER` or `RING_ORDER`."""
    ports: list[PortTotals]


SWITCH_ORDER = (
    "The switch adds in FP32 in the order of its ports and rounds once, where a ring rounds to the "
    "tensor's type at every hop and begins each chunk at another rank: its sums, and so losses, "
    "differ from a ring's in their last bits, with and without compression alike."
)
RING_ORDER = "Sums are those of the ranks' own rings: a switch that forwards changes no bit."


class HardwareTotals(TypedDict):
    """What the simulated engines did in one direction, in clocks and words of their streams; summed
    over ranks, but for the last two."""

    clocks: int
    packets: int
    input_bytes: int
    output_bytes: int
    input_beats: int
    output_beats: int
    input_stalls: int
    output_stalls: int
    clocks_busiest: int
    """Of the rank whose engine was busy longest."""
    seconds: float
    """Modelled: those at the stated clock. No wall-clock time of this machine is in it."""


class Hardware(TypedDict):
    """Engines that are simulated hardware."""

    clock_mhz: float
    """Stated, not measured: what `seconds` is computed with."""
    data_bits: int
    """Width of the streams."""
    encode: HardwareTotals
    decode: HardwareTotals


@dataclass(frozen=True)
class StepRecord:
    """One step, as rank 0 saw it."""

    step: int
    """From 0."""
    loss: float
    """Mean over the batch, nats."""
    lr: float
    """Learning rate."""
    grad_norm: float
    """Global norm before clipping."""
    step_seconds: float
    """Wall-clock time of the step; the next two add up to it."""
    computation_seconds: float
    """Time outside collectives."""
    communication_seconds: float
    """Time in collectives: codec, sockets, and waiting for other ranks."""
    codec_seconds: float
    """Time in the engine on this CPU, over all threads: part of what collectives take, never the
    time of a NIC."""
    rank0: Totals
    """What rank 0 sent in this step."""


@dataclass(frozen=True)
class Summary:
    """A finished run; bytes are summed over ranks and hops of all steps, and nothing else."""

    preset: str
    strategy: str
    engine: str
    world_size: int
    steps: int
    mtu: int
    reduce_dtype: str
    parameters: int
    """Of the model."""
    padded_parameters: int
    """With the padding of every unit: what crosses the network."""
    text_sha256: str
    """Hash of the training text."""
    param_hash: str
    """SHA-256 of the final FP32 master and BF16 parameters."""
    seconds: float
    """Wall-clock time of all steps."""
    totals: Totals
    by_role: dict[str, Totals]
    by_collective: dict[str, Totals]
    rows: list[TrafficRow]
    hardware: Hardware | None = None
    """Of all ranks, if the engine is simulated hardware."""
    intra: IntraNode | None = None
    """Of all ranks, if some share a node."""
    memory: MemoryReport | None = None
    """What a rank needs; None in runs of earlier versions."""
    switch: SwitchTraffic | None = None
    """What crossed its ports, if there is one."""
    first_step: int = 0
    """Where the run began, if it went on from a checkpoint."""
    faults: FaultTotals | None = None
    """Of all ranks, if there are faults: from the start of the NICs to the end of the last step."""


@dataclass(frozen=True)
class Run:
    """A run folder that was read back."""

    folder: Path
    summary: Summary
    steps: list[StepRecord]

    @property
    def losses(self) -> list[float]:
        return [record.loss for record in self.steps]


def write_atomically(path: Path, text: str) -> None:
    """Make `path` hold `text`; nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def claim_folder(folder: Path) -> None:
    """Create `folder` for a new run.

    Raises:
        RecordError: there is a run in it already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("steps.jsonl", "summary.json"):
        if (folder / name).exists():
            raise RecordError(f"{folder}: expected a folder without a run; found {name}")


def timestamped(name: str) -> Path:
    """`runs/<name>-<local time>`."""
    return Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


class Recorder:
    """Writes one run folder; rank 0 has one."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        claim_folder(folder)
        self._folder = folder
        self._steps = (folder / "steps.jsonl").open("a", encoding="utf-8")
        write_atomically(folder / "config.toml", to_toml(config))

    def environment(self, *, seed: int, text_sha256: str) -> None:
        write_json(
            self._folder / "env.json", environment() | {"seed": seed, "text_sha256": text_sha256}
        )

    def step(self, record: StepRecord) -> None:
        # One write of one line: a reader that follows the file never sees a torn one for long.
        self._steps.write(json.dumps(dataclasses.asdict(record), allow_nan=False) + "\n")
        self._steps.flush()

    def finish(self, summary: Summary) -> None:
        self._steps.close()
        write_json(self._folder / "summary.json", dataclasses.asdict(summary))
        table = io.StringIO()
        writer = csv.DictWriter(table, fieldnames=list(TrafficRow.__annotations__))
        writer.writeheader()
        writer.writerows(summary.rows)
        write_atomically(self._folder / "summary.csv", table.getvalue())


class StepFollower:
    """Reads `steps.jsonl` while it grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "steps.jsonl"
        self._offset = 0

    def new(self) -> list[StepRecord]:
        """The steps that were completely written since the last call."""
        if not self._path.is_file():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            complete = file.read().rpartition(b"\n")[0]
        if not complete:
            return []
        self._offset += len(complete) + 1
        return [StepRecord(**json.loads(line)) for line in complete.split(b"\n")]


def read_run(folder: Path) -> Run:
    """Read a finished run back.

    Raises:
        RecordError: a file is missing or is not what `Recorder` writes.
    """
    path = folder / "summary.json"
    try:
        summary = Summary(**json.loads(path.read_text(encoding="utf-8")))
        steps = StepFollower(folder).new()
    except FileNotFoundError:
        raise RecordError(f"{folder}: expected a finished run; found no summary.json") from None
    except (json.JSONDecodeError, TypeError) as error:
        raise RecordError(f"{folder}: expected the files of a run; {error}") from None
    if set(summary.totals) != set(Totals.__annotations__):
        raise RecordError(
            f"{folder}: expected totals of {', '.join(Totals.__annotations__)}; "
            f"found {', '.join(summary.totals)}, as another version writes them"
        )
    expected = summary.steps - summary.first_step
    if len(steps) != expected:
        raise RecordError(f"{folder}: expected {expected} lines in steps.jsonl; found {len(steps)}")
    return Run(folder, summary, steps)


def add_up(rows: Iterable[Totals | TrafficRow]) -> Totals:
    """The sum of the totals."""
    listed = list(rows)
    return Totals(
        logical_bytes=sum(row["logical_bytes"] for row in listed),
        payload_bytes=sum(row["payload_bytes"] for row in listed),
        wire_bytes=sum(row["wire_bytes"] for row in listed),
        packets=sum(row["packets"] for row in listed),
        forwarded_packets=sum(row["forwarded_packets"] for row in listed),
        intra_bytes=sum(row["intra_bytes"] for row in listed),
    )


def intra_node(sent: Sequence[int], *, ranks_per_node: int, gb_per_s: float) -> IntraNode | None:
    """What stayed inside nodes, by the bytes that each rank sent there; None if none share one."""
    if ranks_per_node == 1:
        return None
    busiest = max(sent)
    return IntraNode(
        ranks_per_node=ranks_per_node,
        gb_per_s=gb_per_s,
        bytes=sum(sent),
        bytes_busiest=busiest,
        seconds=busiest / (gb_per_s * 1e9),
    )


def fault_totals(spec: str, nics: Sequence[dict[str, int]]) -> FaultTotals | None:
    """What the counters of each NIC's links add up to; None if there are no faults."""
    if not spec:
        return None
    links = {name: sum(counters[name] for counters in nics) for name in nics[0]}
    return FaultTotals(
        spec=spec,
        retransmitted_wire_bytes=links["retransmitted_wire_bytes"],
        links=links,
    )


def switch_traffic(rows: Iterable[Mapping[str, Any]], *, sums: bool) -> SwitchTraffic:
    """Add up `rows`, each a `nic_emul.switch.report.PortRow`, by port."""
    ports: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        ports.setdefault(row["port"], []).append(row)
    return SwitchTraffic(
        sums=sums,
        order=SWITCH_ORDER if sums else RING_ORDER,
        ports=[
            PortTotals(
                port=port,
                up=_crossed([row["up"] for row in found]),
                down=_crossed([row["down"] for row in found]),
            )
            for port, found in sorted(ports.items())
        ],
    )


def _crossed(found: Sequence[Mapping[str, int]]) -> Crossed:
    return Crossed(
        logical_bytes=sum(one["logical_bytes"] for one in found),
        payload_bytes=sum(one["payload_bytes"] for one in found),
        wire_bytes=sum(one["wire_bytes"] for one in found),
        packets=sum(one["packets"] for one in found),
    )


def environment() -> dict[str, Any]:
    """What a result may depend on, as JSON types."""
    packages = ("wirezip", "torch", "numpy", "numba", "matplotlib", "tokenizers")
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "versions": {name: package_version(name) for name in packages},
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _commit() -> str | None:
    """The commit of the checkout that the code runs from, `+` if it was edited since; None outside
    a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
