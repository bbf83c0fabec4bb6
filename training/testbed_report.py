# SPDX-License-Identifier: Apache-2.0
"""What a testbed measured, beside what the model predicts of it."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from nic_emul.netns import burst_bytes
from nic_emul.replay import Path as WirePath
from nic_emul.replay import Wire, frame_bytes_sent, measure_path, rank_step, replay
from nic_emul.trace import Event, read_trace
from training.errors import RecordError
from training.pacing import compresses
from training.records import Run, StepRecord
from training.testbed import UNLIMITED, RatePlan


@dataclass(frozen=True)
class Row:
    """One condition; times are medians over its steps, of rank 0.

    Attributes:
        mbit: rate of the links in 10^6 bits a second; 0 if they have no limit.
        compression: `off` or `on`.
        steps: that were measured.
        step_s: measured time of a step.
        predicted_s: the same, replayed from steps without a limit.
        error_percent: of the prediction.
        communication_s: measured time in collectives, with codec and waiting in it.
        codec_s: of that, time in the codec on this processor, of all threads of rank 0.
        wire_bytes: Ethernet frames that left all nodes in a step, as the kernel counted them.
        message_bytes: the same by the messages alone, without acknowledgements.
    """

    mbit: float
    compression: str
    steps: int
    step_s: float
    predicted_s: float
    error_percent: float
    communication_s: float
    codec_s: float
    wire_bytes: float
    message_bytes: float


@dataclass(frozen=True)
class Fall:
    """How far communication time falls at one rate.

    Attributes:
        mbit: rate.
        communication_off_s, communication_on_s: medians.
        wire_ratio: wire bytes with compression ÷ without.
        expected_s: the fall if time went with wire bytes: off * (1 - ratio).
        fall_s: the fall that was measured.
        reached_percent: of the one expected.
    """

    mbit: float
    communication_off_s: float
    communication_on_s: float
    wire_ratio: float
    expected_s: float
    fall_s: float
    reached_percent: float


@dataclass(frozen=True)
class TestbedReport:
    """Everything that a testbed found.

    Attributes:
        preset, strategy, engine, ranks, ranks_per_node, mtu: of the run.
        path: what a message costs without a limit, as measured.
        rows: conditions.
        falls: one per rate.
        error_median_percent, error_max_percent: of the predictions at limited rates, as magnitudes.
    """

    preset: str
    strategy: str
    engine: str
    ranks: int
    ranks_per_node: int
    mtu: int
    path: WirePath
    rows: tuple[Row, ...]
    falls: tuple[Fall, ...]
    error_median_percent: float
    error_max_percent: float

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return asdict(self)

    def csv(self) -> str:
        """The conditions as CSV."""
        table = io.StringIO()
        writer = csv.DictWriter(table, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return table.getvalue()


class Recording:
    """What a testbed left in its folder."""

    def __init__(self, run: Run, testbed: RatePlan, folder: Path, ranks_per_node: int) -> None:
        """Read it.

        Raises:
            RecordError: something is missing.
        """
        self.run = run
        self.testbed = testbed
        self.ranks_per_node = ranks_per_node
        world = range(run.summary.world_size)
        try:
            self.sent: list[int] = json.loads((folder / "sent.json").read_text())
            self._events = [
                read_trace(folder / "trace" / f"trace-rank{rank}.jsonl") for rank in world
            ]
        except OSError as error:
            raise RecordError(f"{folder}: expected the files of a testbed; {error}") from None
        self._begins = [[e.end for e in rank if e.kind == "begin"] for rank in self._events]
        self._ends = [[e.end for e in rank if e.kind == "end"] for rank in self._events]
        if any(len(marks) != len(run.steps) for marks in (*self._begins, *self._ends)):
            raise RecordError(f"{folder}: expected {len(run.steps)} steps in every trace")

    def steps(self, rate: float, compression: bool) -> list[StepRecord]:
        """The measured steps of a condition."""
        return [
            record
            for record in self.run.steps
            if self.testbed.measured(record.step)
            and self.testbed.rate_of(record.step) == rate
            and compresses(record.step) == compression
        ]

    def events(self, step: int) -> list[list[Event]]:
        """What each rank did in `step`."""
        return [
            [e for e in events if begins[step] <= e.end <= ends[step]]
            for events, begins, ends in zip(self._events, self._begins, self._ends, strict=True)
        ]

    def replayed(self, step: int, wire: Wire, path: WirePath) -> float:
        """How long rank 0 would take for `step` on other links."""
        marks = zip(self.events(step), self._begins, self._ends, strict=True)
        ranks = [rank_step(events, begin[step], end[step]) for events, begin, end in marks]
        ends = replay(ranks, wire=wire, path=path, node_of=lambda r: r // self.ranks_per_node)
        return ends[0]

    def message_bytes(self, step: int, wire: Wire) -> int:
        """Ethernet frames of the messages of `step`, all ranks."""
        marks = zip(self.events(step), self._begins, self._ends, strict=True)
        return sum(
            frame_bytes_sent(rank_step(events, begin[step], end[step]), wire)
            for events, begin, end in marks
        )


def report(recording: Recording) -> TestbedReport:
    """Compare what was measured with what the model makes of the steps without a limit."""
    testbed, summary = recording.testbed, recording.run.summary
    free = [
        recording.events(record.step) for record in recording.steps(UNLIMITED, compression=False)
    ]
    path = measure_path([[e for step in free for e in step[rank]] for rank in range(len(free[0]))])
    rows = tuple(
        _row(recording, rate, compression, path)
        for rate in testbed.links
        for compression in (False, True)
    )
    errors = [abs(row.error_percent) for row in rows if row.mbit]
    return TestbedReport(
        preset=summary.preset,
        strategy=summary.strategy,
        engine=summary.engine,
        ranks=summary.world_size,
        ranks_per_node=recording.ranks_per_node,
        mtu=testbed.mtu,
        path=path,
        rows=rows,
        falls=tuple(_fall(off, on) for off, on in zip(rows[2::2], rows[3::2], strict=True)),
        error_median_percent=median(errors),
        error_max_percent=max(errors),
    )


def _row(recording: Recording, rate: float, compression: bool, path: WirePath) -> Row:
    limited = rate != UNLIMITED
    mtu = recording.testbed.mtu
    wire = (
        Wire(rate / 8, burst_bytes(rate), mtu) if limited else Wire(float("inf"), float("inf"), mtu)
    )
    records = recording.steps(rate, compression)
    models = recording.steps(UNLIMITED, compression)
    step_s = median(record.step_seconds for record in records)
    predicted = median(recording.replayed(record.step, wire, path) for record in models)
    sent = recording.sent
    return Row(
        mbit=rate / 1e6 if limited else 0.0,
        compression="on" if compression else "off",
        steps=len(records),
        step_s=step_s,
        predicted_s=predicted,
        error_percent=100 * (predicted / step_s - 1),
        communication_s=median(record.communication_seconds for record in records),
        codec_s=median(record.codec_seconds for record in records),
        wire_bytes=_mean([sent[record.step + 1] - sent[record.step] for record in records]),
        message_bytes=_mean([recording.message_bytes(record.step, wire) for record in records]),
    )


def _fall(off: Row, on: Row) -> Fall:
    ratio = on.wire_bytes / off.wire_bytes
    expected = off.communication_s * (1 - ratio)
    fall = off.communication_s - on.communication_s
    return Fall(
        mbit=off.mbit,
        communication_off_s=off.communication_s,
        communication_on_s=on.communication_s,
        wire_ratio=ratio,
        expected_s=expected,
        fall_s=fall,
        reached_percent=100 * fall / expected if expected else 0.0,
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)
