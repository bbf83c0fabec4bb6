# SPDX-License-Identifier: Apache-2.0
"""The `wirezip` command: every subcommand of every package, each loaded only when it is called.

A subcommand is a frozen dataclass whose fields are its options and whose `run` returns the exit
status: 0 success, 1 a failed run or a comparison that differs, 2 a wrong option or input, 130
interrupted. Anything raised on purpose is printed as one line.
"""

import importlib
import itertools
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import tyro
from tyro.conf import Positional

from codec.engine import EngineName
from codec.errors import WirezipError
from codec.output import STANDARD_OUTPUT, JsonPath, console_beside, write_json, write_text
from training import config
from training.config import Algorithm, ElementSource, RunConfig
from training.errors import ConfigError, DataError, RecordError, TrainingError

if TYPE_CHECKING:
    from rich.console import Console

    from training.compare import Comparison
    from training.records import StepRecord

# name: (module, class, what it does)
COMMANDS = {
    "compress": ("codec.cli", "Compress", "compress a file or the tensors of a checkpoint"),
    "decompress": ("codec.cli", "Decompress", "undo compress"),
    "inspect": ("codec.cli", "Inspect", "show what a compressed file holds"),
    "bench": ("codec.cli", "Bench", "measure ratio and speed on checkpoints"),
    "netzip": ("codec.cli", "Netzip", "measure the NetZIP pipeline on tensors of two steps"),
    "train": ("training.cli", "Train", "train a preset with all ranks on this machine"),
    "compare": ("training.cli", "Compare", "train with compression off and on, and compare bits"),
    "run": ("training.cli", "Run", "run a program of yours over emulated network cards"),
    "infer": ("nic_emul.cli", "Infer", "report how well element types are told from bytes"),
    "bench-collectives": (
        "nic_emul.cli",
        "BenchCollectives",
        "time collectives on emulated network cards beside gloo",
    ),
    "wire": ("nic_emul.cli", "Wire", "compress every frame between a host's interface and a wire"),
    "demo": ("training.cli", "Demo", "ZeRO-2 and ZeRO-3, off and on: what compression saves"),
    "testbed": ("training.cli", "Testbed", "train over links that are really slow, and time it"),
    "plan": ("training.cli", "Plan", "rank sharding strategies for a model on a cluster"),
    "report": ("training.cli", "Report", "make tables and plots of run folders again"),
    "doctor": ("training.cli", "Doctor", "check that this machine has what is needed"),
}

StepList = Annotated[str, tyro.conf.arg(metavar="STEPS")]
RateList = Annotated[str, tyro.conf.arg(metavar="RATES")]
CsvPath = Annotated[Path | None, tyro.conf.arg(name="csv", metavar="PATH")]
PcapPath = Annotated[Path | None, tyro.conf.arg(metavar="PATH")]
ProgramArguments = Annotated[tuple[str, ...], tyro.conf.arg(metavar="SCRIPT [ARG ...]")]
# Options of `wirezip run` without a value.
_ALONE = ("-h", "--help", "--switch", "--no-switch")
# `codec.packet.MTUS`, which the parser has to know before anything is loaded.
Mtu = Literal[1024, 4096]


class Command(Protocol):
    """A subcommand with its options."""

    def run(self) -> int:
        """Do it; returns the exit status."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        sys.stdout.write(_usage())
        return 0 if given else 2
    if given[0] == "--version":
        return _version()
    if given[0] not in COMMANDS:
        return _fail(f"command: expected one of {', '.join(COMMANDS)}; found {given[0]!r}", 2)
    module, name, purpose = COMMANDS[given[0]]
    try:
        command: Command = tyro.cli(
            getattr(importlib.import_module(module), name),
            prog=f"wirezip {given[0]}",
            description=purpose[0].upper() + purpose[1:] + ".",
            args=_options_first(given[1:]) if given[0] == "run" else given[1:],
        )
        return command.run()
    except (ConfigError, DataError, RecordError, WirezipError) as error:
        return _fail(str(error), 2)
    except TrainingError as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(": ".join(str(p) for p in (error.filename, error.strerror) if p), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _options_first(arguments: Sequence[str]) -> list[str]:
    """Separate the options of `wirezip run`, most of which have a value, from the program and its.

    The program begins at the first argument that is no option, or at `-m`.
    """
    end = 0
    while end < len(arguments) and arguments[end].startswith("-") and arguments[end] != "-m":
        if arguments[end] == "--":
            return list(arguments)
        alone = arguments[end] in _ALONE or "=" in arguments[end]
        end += 1 if alone else 2
    program = arguments[end:]
    return [*arguments[:end], *(["--", *program] if program else [])]


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"wirezip: error: {message}\n")
    return status


def _version() -> int:
    try:
        sys.stdout.write(f"wirezip {metadata.version('wirezip')}\n")
    except metadata.PackageNotFoundError:
        return _fail("version: expected an installed wirezip; found none (pip install -e .)", 2)
    return 0


def _usage() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{purpose}" for name, (_, _, purpose) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: wirezip [--version] [--help] COMMAND ...",
            "",
            "Lossless compression of training traffic inside the network card.",
            "",
            "commands:",
            *lines,
            "",
            "`wirezip COMMAND --help` lists the options of a command.",
            "",
        ]
    )


@dataclass(frozen=True)
class _RunOptions:
    """What `wirezip train` and `wirezip compare` have in common."""

    preset: Positional[str]
    """Name of a preset, or path of a TOML file."""
    strategy: str | None = None
    """Instead of the preset's: ddp, zero1, zero2, zero3, hsdp, mics, hpz, maz3, or spelled, such as
    p=1x1,g=2x1,os=2x2 (ranks in a node x nodes for parameters, gradients, optimizer states)."""
    engine: EngineName | None = None
    """Instead of the preset's; `null` switches compression off, `rtl` simulates the hardware."""
    clock_mhz: float | None = None
    """Of simulated hardware, for the time that is modelled; 250 if the preset says nothing."""
    world_size: int | None = None
    """Ranks on this machine, instead of the preset's."""
    ranks_per_node: int | None = None
    """Ranks that share a node, and so reach each other without a network card, instead of the
    preset's."""
    algorithm: Algorithm | None = None
    """Collectives in one ring, within nodes and then between them, or summed by a switch; instead
    of the preset's."""
    switch: bool = False
    """Connect the nodes by a switch, also where the preset has none; one that sums is always
    there."""
    element: ElementSource | None = None
    """Element types of packets: tagged by the program, inferred from the bytes of each packet, or
    off; instead of the preset's."""
    faults: str | None = None
    """What happens to packets between nodes, such as loss=1e-3,corrupt=1e-3,duplicate=1e-3,
    reorder=1e-3,delay=1e-3:2ms,seed=1; instead of the preset's."""
    steps: int | None = None
    """Instead of the preset's."""
    seed: int | None = None
    """Instead of the preset's."""


@dataclass(frozen=True)
class Train(_RunOptions):
    """Options of `wirezip train`."""

    dump_tensors: StepList | None = None
    """Steps, from 0, whose tensors are written as safetensors, such as 5,6,500; instead of the
    preset's. Needs a world size of 1."""
    checkpoint_every: int | None = None
    """Steps from one checkpoint in the run folder to the next, instead of the preset's."""
    resume: Path | None = None
    """A checkpoint to go on from, such as RUN/checkpoints/step-000010, of the same model, data and
    optimizer; strategy and world size may be others."""
    out: Path | None = None
    """Run folder; by default runs/PRESET-ENGINE-TIME."""
    pcap: PcapPath = None
    """Where to write the frames of the emulated wire, for Wireshark; as large as what is sent."""
    json: JsonPath = None
    """Where to write the summary as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.launch import launch
        from training.progress import RunProgress
        from training.records import timestamped
        from training.report import (
            fault_table,
            hardware_table,
            intra_table,
            memory_table,
            print_ports,
            run_table,
            write_plots,
        )

        run_config = _resolve(self)
        engine, steps = run_config.network.engine, run_config.steps
        folder = self.out or timestamped(f"{run_config.name}-{engine}")
        console = console_beside(self.json)
        _compile_codec(console, [run_config])
        with RunProgress(console, total_steps=steps) as progress:
            show = partial(progress.step, f"{run_config.strategy} {engine}", steps=steps)
            run = launch(run_config, folder, on_step=show, pcap=self.pcap, resume=self.resume)
        plots = write_plots([run], folder / "plots")
        console.print(run_table([run]))
        print_ports(console, run.summary.switch)
        tables = (
            intra_table(run.summary.intra),
            fault_table(run.summary.faults),
            hardware_table(run),
            memory_table(run.summary.memory),
        )
        for table in tables:
            if table:
                console.print(table)
        _print_paths(console, [folder, *plots, *([self.pcap] if self.pcap else [])])
        write_json(self.json, asdict(run.summary) | {"losses": run.losses})
        return 0


@dataclass(frozen=True)
class Compare(_RunOptions):
    """Options of `wirezip compare`."""

    engine: EngineName | None = None
    """What to compare `null` with, instead of the preset's."""
    out: Path | None = None
    """Folder of both runs; by default runs/PRESET-compare-TIME."""
    json: JsonPath = None
    """Where to write the comparison as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.records import timestamped
        from training.report import print_comparison

        run_config = _resolve(self)
        folder = self.out or timestamped(f"{run_config.name}-compare")
        console = console_beside(self.json)
        (comparison,), plots = _compare_all(console, [(run_config, folder)])
        print_comparison(console, comparison)
        _print_paths(console, [folder, *plots])
        write_json(self.json, comparison.report())
        return 0 if comparison.difference is None else 1


@dataclass(frozen=True)
class Plan:
    """Options of `wirezip plan`."""

    model: str
    """7b, 13b, 30b, or path of a TOML file (`training/plan_inputs.py`)."""
    cluster: str
    """a800-1024, ethernet-64, or path of a TOML file."""
    formulas: Literal["rings", "amsp"] = "rings"
    """The collectives of this loop, or those of AMSP's paper."""
    micro_batches: int | None = None
    """Of a rank in a step, instead of the model's."""
    reserved_gb: float | None = None
    """Of a rank's memory for activations, in 10^9 bytes, instead of the model's."""
    gradient_ratio: float | None = None
    """Logical by payload bytes of gradients, if they are compressed between nodes."""
    parameter_ratio: float | None = None
    """The same of parameters."""
    ratios_of: Path | None = None
    """A run folder whose ratios are taken where none is given."""
    top: int = 10
    """How many strategies to show."""
    json: JsonPath = None
    """Where to write the plan as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.plan_inputs import load_cluster, load_model
        from training.plan_report import plan_report, plan_table
        from training.planner import plan

        if self.top < 1:
            raise ConfigError(f"top: expected at least 1; found {self.top}")
        model = load_model(
            self.model, micro_batches=self.micro_batches, reserved_gb=self.reserved_gb
        )
        cluster = load_cluster(self.cluster)
        ratios = self._ratios()
        off = plan(model, cluster, formulas=self.formulas)
        on = plan(model, cluster, formulas=self.formulas, ratios=ratios) if ratios else []
        report = plan_report(
            model,
            cluster,
            formulas=self.formulas,
            ratios=ratios,
            off=off,
            on=on,
            top=self.top,
        )
        console = console_beside(self.json)
        console.print(plan_table(f"{model.name} on {cluster.name}, modelled", report["off"]))
        if on:
            listed = ", ".join(f"{role} {ratio:.3f}" for role, ratio in ratios.items())
            console.print(plan_table(f"with compression ({listed})", report["on"]))
            change = "changes" if report["changed"] else "does not change"
            console.print(f"compression {change} the first choice")
        write_json(self.json, report)
        return 0

    def _ratios(self) -> dict[str, float]:
        """By role: those that were given, else those of the run."""
        from training.records import read_run

        ratios: dict[str, float] = {}
        if self.ratios_of:
            for role, totals in read_run(self.ratios_of).summary.by_role.items():
                if totals["payload_bytes"]:
                    ratios[role] = totals["logical_bytes"] / totals["payload_bytes"]
        given = {"gradient": self.gradient_ratio, "parameter": self.parameter_ratio}
        for role, ratio in given.items():
            if ratio is None:
                continue
            if not 0 < ratio < float("inf"):
                raise ConfigError(f"{role}-ratio: expected above 0 and finite; found {ratio!r}")
            ratios[role] = ratio
        return ratios


@dataclass(frozen=True)
class Demo:
    """Options of `wirezip demo`."""

    steps: int | None = None
    """Instead of the presets'."""
    out: Path | None = None
    """Folder of all runs; by default runs/demo-TIME."""
    json: JsonPath = None
    """Where to write the comparisons, a list, as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.records import timestamped
        from training.report import print_comparison

        folder = self.out or timestamped("demo")
        console = console_beside(self.json)
        configs = [
            config.override(config.load(name), steps=self.steps)
            for name in ("demo-zero2", "demo-zero3")
        ]
        console.print(
            f"A GPT learns Python's standard library on {configs[0].world_size} ranks. Gradients "
            "and parameters cross emulated network cards: first as they are, then compressed."
        )
        comparisons, plots = _compare_all(console, [(c, folder / c.strategy) for c in configs])
        for comparison in comparisons:
            print_comparison(console, comparison)
        _print_paths(console, [folder, *plots])
        write_json(self.json, [comparison.report() for comparison in comparisons])
        return 0 if all(c.difference is None for c in comparisons) else 1


@dataclass(frozen=True)
class Run:
    """Options of `wirezip run`, all of them before SCRIPT."""

    program: Positional[ProgramArguments] = ()
    """A Python script or -m MODULE, and its own arguments. What it asks of gloo or nccl in
    torch.distributed, the emulated network cards do; it is not changed."""
    nproc: int | None = None
    """Ranks on this machine, as torchrun starts them, 2 by default; 0 for a program that starts
    its ranks itself. Where another launcher has set RANK, none is started, and rank 0 sums up
    what it sent itself."""
    engine: EngineName = "numba"
    """Of the network cards; `null` switches compression off, `rtl` simulates the hardware."""
    mtu: Mtu = 4096
    """Bytes of a block, and of the payload of a full packet."""
    ranks_per_node: int = 1
    """Ranks that share a node, and so reach each other without a network card."""
    algorithm: Algorithm = "ring"
    """Collectives in one ring, within nodes and then between them, or summed by a switch."""
    switch: bool = False
    """Connect the nodes by a switch; one that sums is always there."""
    element: ElementSource = "tagged"
    """Element types of packets: tagged by the program, inferred from the bytes of each packet, or
    off."""
    faults: str = ""
    """What happens to packets between nodes, such as loss=1e-3,corrupt=1e-3,duplicate=1e-3,
    reorder=1e-3,delay=1e-3:2ms,seed=1; nothing by default."""
    intra_gb_per_s: float = config.INTRA_GB_PER_S
    """Speed of a rank's way to the others of its node, each direction, for the time that is
    modelled; by default NVLink 4."""
    pcap: PcapPath = None
    """Where to write the frames of the emulated wire, for Wireshark; as large as what is sent."""
    json: JsonPath = None
    """Where to write the summary as JSON; `-` is standard output, and the program's own output
    then goes to standard error."""

    def run(self) -> int:
        from training.launch import compile_codec
        from training.program import ProgramConfig, run_program
        from training.report import fault_table, intra_table, print_ports, program_table

        program = ProgramConfig(
            program=self.program,
            nproc=self.nproc,
            engine=self.engine,
            mtu=self.mtu,
            pcap=self.pcap,
            ranks_per_node=self.ranks_per_node,
            algorithm=self.algorithm,
            switch=self.switch,
            element=self.element,
            faults=self.faults,
            intra_gb_per_s=self.intra_gb_per_s,
        )
        console = console_beside(self.json)
        compile_codec(self.engine, announce=lambda: console.print("compiling the codec (once) ..."))
        summary = run_program(program, quiet_stdout=self.json == STANDARD_OUTPUT)
        if summary is not None:
            console.print(program_table(summary))
            print_ports(console, summary.switch)
            for table in (intra_table(summary.intra), fault_table(summary.faults)):
                if table:
                    console.print(table)
            _print_paths(console, [self.pcap] if self.pcap else [])
            write_json(self.json, summary.as_dict())
        return 0


@dataclass(frozen=True)
class Testbed:
    """Options of `wirezip testbed`."""

    preset: Positional[str]
    """Name of a preset, or path of a TOML file. Its ranks get a network namespace each, or one for
    each node. Needs Linux, iproute2, and root or user namespaces."""
    rate: RateList = "100mbit,400mbit,1gbit"
    """Rates of the links, each direction; steps without a limit are always measured."""
    rounds: int = 20
    """Steps that are measured at each rate, with compression off and on in turn."""
    mtu: int = 1500
    """Of the links, in bytes."""
    strategy: str | None = None
    """Instead of the preset's."""
    engine: EngineName | None = None
    """What compresses when compression is on, instead of the preset's."""
    world_size: int | None = None
    """Instead of the preset's."""
    ranks_per_node: int | None = None
    """Ranks that share a node, instead of the preset's."""
    out: Path | None = None
    """Folder; by default runs/PRESET-testbed-TIME."""
    csv: CsvPath = None
    """Where to write the conditions as CSV; `-` is standard output."""
    json: JsonPath = None
    """Where to write everything as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.progress import RunProgress
        from training.records import timestamped
        from training.report import fall_table, testbed_table
        from training.testbed import RatePlan, parse_rates, run_testbed
        from training.testbed_report import Recording, report

        run_config = config.override(
            config.load(self.preset),
            strategy=self.strategy,
            engine=self.engine,
            world_size=self.world_size,
            ranks_per_node=self.ranks_per_node,
        )
        testbed = RatePlan(parse_rates(self.rate), self.rounds, self.mtu)
        folder = self.out or timestamped(f"{run_config.name}-testbed")
        console = console_beside(STANDARD_OUTPUT if self.csv == STANDARD_OUTPUT else self.json)
        _compile_codec(console, [run_config])
        with RunProgress(console, total_steps=testbed.steps) as progress:
            show = partial(progress.step, f"{run_config.strategy} testbed", steps=testbed.steps)
            run = run_testbed(run_config, testbed, folder, on_step=show)
        found = report(Recording(run, testbed, folder, run_config.network.ranks_per_node))
        write_text(self.csv, found.csv())
        write_json(self.json, found.as_dict())
        console.print(testbed_table(found))
        console.print(fall_table(found))
        _print_paths(console, [folder])
        return 0


@dataclass(frozen=True)
class Report:
    """Options of `wirezip report`."""

    folders: Positional[tuple[Path, ...]]
    """Run folders, or folders of such (a comparison, a demo)."""
    out: Path | None = None
    """Where to draw the plots; by default `plots` in the first folder."""
    json: JsonPath = None
    """Where to write the summaries, a list, as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.compare import OFF, Comparison
        from training.report import find_runs, print_comparison, run_table, write_plots

        if not self.folders:
            raise ConfigError("folders: expected at least one run folder; found none")
        runs = [run for folder in self.folders for run in find_runs(folder)]
        plots = write_plots(runs, self.out or self.folders[0] / "plots")
        console = console_beside(self.json)
        console.print(run_table(runs))
        for off, on in itertools.pairwise(runs):
            same_folder = off.folder.parent == on.folder.parent
            if same_folder and off.summary.engine == OFF and on.summary.engine != OFF:
                print_comparison(console, Comparison(off, on))
        _print_paths(console, plots)
        write_json(self.json, [asdict(run.summary) | {"losses": run.losses} for run in runs])
        return 0


@dataclass(frozen=True)
class Doctor:
    """Options of `wirezip doctor`."""

    json: JsonPath = None
    """Where to write the checks, a list, as JSON; `-` is standard output."""

    def run(self) -> int:
        from training.doctor import examine

        console = console_beside(self.json)
        checks = examine()
        for check in checks:
            mark = (
                "[green]ok[/]  "
                if check.passed
                else ("[red]FAIL[/]" if check.required else "[yellow]none[/]")
            )
            console.print(mark, f"{check.name}:", check.found, soft_wrap=True, highlight=False)
        write_json(self.json, [asdict(check) for check in checks])
        return 0 if all(check.passed or not check.required for check in checks) else 1


def _resolve(command: Train | Compare) -> RunConfig:
    return config.override(
        config.load(command.preset),
        strategy=command.strategy,
        engine=command.engine,
        clock_mhz=command.clock_mhz,
        world_size=command.world_size,
        ranks_per_node=command.ranks_per_node,
        algorithm=command.algorithm,
        switch=command.switch or None,
        element=command.element,
        faults=command.faults,
        steps=command.steps,
        seed=command.seed,
        dump_tensors=_steps(command.dump_tensors) if isinstance(command, Train) else (),
        checkpoint_every=command.checkpoint_every if isinstance(command, Train) else 0,
    )


def _steps(text: str | None) -> tuple[int, ...] | None:
    """The numbers in a list such as `5,6,500`."""
    if text is None:
        return None
    try:
        return tuple(int(item) for item in text.split(","))
    except ValueError:
        raise ConfigError(f"dump-tensors: expected steps such as 5,6,500; found {text!r}") from None


def _compare_all(
    console: "Console", work: Sequence[tuple[RunConfig, Path]]
) -> "tuple[list[Comparison], list[Path]]":
    """Compare each configuration in its folder, under one progress bar; draw each pair."""
    from training.compare import compare
    from training.progress import RunProgress
    from training.report import write_plots

    _compile_codec(console, [run_config for run_config, _ in work])
    comparisons = []
    total = 2 * sum(run_config.steps for run_config, _ in work)
    with RunProgress(console, total_steps=total) as progress:
        for run_config, folder in work:

            def show(engine: str, record: "StepRecord", *, shown: RunConfig = run_config) -> None:
                progress.step(f"{shown.strategy} {engine}", record, steps=shown.steps)

            comparisons.append(compare(run_config, folder, on_step=show))
    plots = [
        path
        for comparison, (_, folder) in zip(comparisons, work, strict=True)
        for path in write_plots([comparison.off, comparison.on], folder / "plots")
    ]
    return comparisons, plots


def _compile_codec(console: "Console", configs: Sequence[RunConfig]) -> None:
    """Before ranks are shown as running: what they would else wait for is said in a line."""
    from training.launch import compile_codec

    for engine in dict.fromkeys(run_config.network.engine for run_config in configs):
        compile_codec(engine, announce=lambda: console.print("compiling the codec (once) ..."))


def _print_paths(console: "Console", paths: Sequence[Path]) -> None:
    for path in paths:
        console.print(str(path), soft_wrap=True, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
