# SPDX-License-Identifier: Apache-2.0
"""Compression off and on, same seed: are all losses and the final parameters the same bits?"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from codec.engine import EngineName
from training.config import RunConfig, override
from training.errors import ConfigError
from training.launch import launch
from training.records import Run, StepRecord, SwitchTraffic, Totals, write_json

OFF: EngineName = "null"

OnStep = Callable[[str, StepRecord], None]
"""Called with the engine and each step of its run."""


class RunReport(TypedDict):
    """One run of a comparison, as JSON; bytes are summed over ranks and hops."""

    engine: str
    losses: list[float]
    param_hash: str
    logical_bytes: int
    payload_bytes: int
    wire_bytes: int
    packets: int
    forwarded_packets: int
    intra_bytes: int
    by_role: dict[str, Totals]
    by_collective: dict[str, Totals]
    switch: SwitchTraffic | None


class ComparisonReport(TypedDict):
    """What `wirezip compare --json` writes: first the run with `null`, then the other."""

    identical: bool
    strategy: str
    world_size: int
    steps: int
    runs: list[RunReport]
    ratio: float
    saved_percent: float


@dataclass(frozen=True)
class Comparison:
    """Two runs of one configuration.

    Attributes:
        off: with engine `null`.
        on: with the engine under test.
    """

    off: Run
    on: Run

    @property
    def difference(self) -> str | None:
        """The first thing in which the runs differ, None if they are identical bit for bit."""
        off, on = self.off.losses, self.on.losses
        for step, (a, b) in enumerate(zip(off, on, strict=False)):
            if struct.pack("<d", a) != struct.pack("<d", b):
                return f"loss of step {step}: {a!r} without compression, {b!r} with it"
        if len(off) != len(on):
            return f"steps: {len(off)} without compression, {len(on)} with it"
        if self.off.summary.param_hash != self.on.summary.param_hash:
            return "final parameters: all losses are equal, but their hashes differ"
        return None

    @property
    def ratio(self) -> float:
        """Logical over payload bytes with compression on; 1 when nothing was sent."""
        totals = self.on.summary.totals
        return _over(totals["logical_bytes"], totals["payload_bytes"])

    @property
    def saved_percent(self) -> float:
        """Wire bytes saved, headers included; 0 when nothing was sent."""
        on, off = self.on.summary.totals, self.off.summary.totals
        return 100 * (1 - _over(on["wire_bytes"], off["wire_bytes"]))

    def report(self) -> ComparisonReport:
        summary = self.on.summary
        return ComparisonReport(
            identical=self.difference is None,
            strategy=summary.strategy,
            world_size=summary.world_size,
            steps=summary.steps,
            runs=[_run_report(self.off), _run_report(self.on)],
            ratio=self.ratio,
            saved_percent=self.saved_percent,
        )


def compare(config: RunConfig, folder: Path, *, on_step: OnStep) -> Comparison:
    """Train `config` with engine `null` and with its own, into folders of `folder` by these names.

    Raises:
        ConfigError: the configuration's own engine is `null`.
        RunError: a rank of either run stopped early.
    """
    engine = config.network.engine
    if engine == OFF:
        raise ConfigError(f"network.engine: expected an engine to compare {OFF} with; found {OFF}")
    runs = [
        launch(override(config, engine=name), folder / name, on_step=partial(on_step, name))
        for name in (OFF, engine)
    ]
    comparison = Comparison(*runs)
    write_json(folder / "comparison.json", comparison.report())
    return comparison


def _run_report(run: Run) -> RunReport:
    summary = run.summary
    return RunReport(
        engine=summary.engine,
        losses=run.losses,
        param_hash=summary.param_hash,
        **summary.totals,
        by_role=summary.by_role,
        by_collective=summary.by_collective,
        switch=summary.switch,
    )


def _over(a: int, b: int) -> float:
    return a / b if b else 1.0
