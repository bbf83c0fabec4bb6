# SPDX-License-Identifier: Apache-2.0
"""`wirezip wire | infer | bench-collectives`: frozen dataclasses of options with `run`.

`training.cli` gathers them. What they load besides, they load in `run`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from codec.engine import EngineName
from codec.errors import InvalidInput
from codec.output import JsonPath, console_beside, write_json

if TYPE_CHECKING:
    from rich.table import Table

    from nic_emul.collective_bench import BenchOptions, BenchRow
    from nic_emul.inference_study import Row

Interface = Annotated[str, tyro.conf.arg(metavar="INTERFACE")]
Namespace = Annotated[str | None, tyro.conf.arg(metavar="NAME|PATH")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS/BITS")]


@dataclass(frozen=True)
class Wire:
    """Options of `wirezip wire`."""

    host: Interface
    """TAP device that the host uses as its network interface; made if there is none."""
    wire: Interface
    """Interface that the frames leave by; the far end of its cable is another `wirezip wire`. The
    device gets its MTU."""
    host_namespace: Namespace = None
    """Network namespace of the TAP device; this one by default."""
    wire_namespace: Namespace = None
    """Network namespace of the wire's interface; this one by default."""
    address: Address = None
    """IPv4 address to give to the TAP device, such as 10.0.0.1/24."""
    engine: EngineName = "numba"
    """What codes payloads; `null` lets all frames pass as they are, and still restores."""
    ethertype: int = 0x88B5
    """EtherType of coded frames, on both ends; by default one that IEEE 802 has for experiments."""
    json: JsonPath = None
    """Where to write counters by flow as JSON, at the end and on each SIGUSR1; `-` is standard
    output."""

    def run(self) -> int:
        from nic_emul.wire import WireConfig, run_wire

        console = console_beside(self.json)
        config = WireConfig(
            host=self.host,
            wire=self.wire,
            host_namespace=self.host_namespace,
            wire_namespace=self.wire_namespace,
            address=self.address,
            engine=self.engine,
            ethertype=self.ethertype,
        )

        def ready(mtu: int) -> None:
            console.print(f"{self.host} <-> {self.wire}, MTU {mtu}", highlight=False)

        run_wire(config, on_ready=ready, on_report=self._report)
        return 0

    def _report(self, counters: dict[str, Any]) -> None:
        write_json(self.json, counters)


@dataclass(frozen=True)
class Infer:
    """Options of `wirezip infer`."""

    paths: Positional[tuple[Path, ...]]
    """Checkpoints or tensors of a run, as `wirezip bench` takes them."""
    cast: Literal["bf16", "fp16", "e4m3", "e5m2"] | None = None
    """Round wider floating-point tensors to this first."""
    tensors: tuple[str, ...] = ("*",)
    """Shell patterns of the names of tensors to take, such as 'gradient/*'."""
    packets: int = 32
    """Packets to take of each tensor at most, evenly spread."""
    mtu: Literal[1024, 4096] = 4096
    """Bytes of a packet's payload."""
    json: JsonPath = None
    """Where to write a row for each group of tensors, type and phase as JSON; `-` is standard
    output."""

    def run(self) -> int:
        from nic_emul.inference_study import Study, measure

        if not self.paths:
            raise InvalidInput("paths: expected at least one checkpoint; found none")
        if self.packets < 1:
            raise InvalidInput(f"packets: expected at least 1; found {self.packets}")
        console = console_beside(self.json)
        study = Study(
            packet_bytes=self.mtu, packets=self.packets, cast=self.cast, tensors=self.tensors
        )
        rows = measure(self.paths, study)
        console.print(_infer_table(rows))
        write_json(self.json, [asdict(row) for row in rows])
        return 0


def _infer_table(rows: "Sequence[Row]") -> "Table":
    """A line for each type and phase: ratio original / payload, and what was inferred wrongly."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from nic_emul.inference_study import total

    table = Table(box=SIMPLE_HEAD)
    for name in ("type", "phase", "packets", "tagged", "inferred", "off", "wrong", "taken for"):
        table.add_column(name, justify="left" if name in ("type", "taken for") else "right")
    kinds = sorted({(row.dtype, row.phase) for row in rows})
    for dtype, phase in kinds:
        row = total([r for r in rows if (r.dtype, r.phase) == (dtype, phase)])
        ratios = (row.tagged_bytes, row.inferred_bytes, row.off_bytes)
        table.add_row(
            dtype,
            str(phase),
            f"{row.packets:,}",
            *(f"{row.original_bytes / size:.3f}" for size in ratios),
            f"{100 * row.wrong / row.packets:.2f} %",
            ", ".join(f"{name} {count}" for name, count in row.found.items()),
        )
    return table


@dataclass(frozen=True)
class BenchCollectives:
    """Options of `wirezip bench-collectives`."""

    ranks: int = 4
    """Processes on this machine."""
    sizes: tuple[int, ...] = (4096, 1 << 20, 1 << 23, 1 << 25)
    """Bytes of FP32 that all-reduce reduces, reduce-scatter takes, and all-gather makes."""
    turns: int = 15
    """Of each backend, for each collective and size, behind two more; the median counts."""
    engine: EngineName = "null"
    """Of the emulated cards; `null` leaves the codec out."""
    json: JsonPath = None
    """Where to write environment and rows as JSON; `-` is standard output."""

    def run(self) -> int:
        from nic_emul.collective_bench import BenchOptions, environment, measure

        console = console_beside(self.json)
        options = BenchOptions(
            ranks=self.ranks, sizes=self.sizes, turns=self.turns, engine=self.engine
        )
        with console.status("measuring"):
            rows = measure(options)
        report = {"environment": environment(options), "rows": [asdict(row) for row in rows]}
        write_json(self.json, report)
        console.print(_collectives_table(options, rows))
        return 0


def _collectives_table(options: "BenchOptions", rows: "Sequence[BenchRow]") -> "Table":
    """A line for each collective and size."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=f"{options.ranks} ranks, engine {options.engine}; ms; cpu: of all ranks together",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("collective")
    for name in ("bytes", "wirezip", "gloo", "ratio", "wirezip cpu", "gloo cpu"):
        table.add_column(name, justify="right")
    for row in rows:
        seconds = (row.wirezip_s, row.gloo_s)
        processor = (row.wirezip_cpu_s, row.gloo_cpu_s)
        table.add_row(
            row.collective,
            f"{row.size_bytes:,}",
            *(f"{1e3 * each:.2f}" for each in seconds),
            f"{row.time_ratio:.2f}",
            *(f"{1e3 * each:.2f}" for each in processor),
        )
    return table
