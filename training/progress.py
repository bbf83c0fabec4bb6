# SPDX-License-Identifier: Apache-2.0
"""Progress of runs: a bar on a terminal, a line now and then elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from training.records import StepRecord

PLAIN_LINES_PER_RUN = 5


class RunProgress:
    """Shows the steps of one run after the other; use it as a context manager."""

    def __init__(self, console: Console, *, total_steps: int) -> None:
        """`total_steps` is the sum over all runs."""
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting the ranks", total=total_steps)

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def step(self, name: str, record: StepRecord, *, steps: int) -> None:
        """Another step of the run called `name`, which has `steps`, is done."""
        done = record.step + 1
        self._bar.update(self._task, advance=1, description=f"{name}  loss {record.loss:.4f}")
        line_due = done % max(1, steps // PLAIN_LINES_PER_RUN) == 0 or done == steps
        if line_due and not self._console.is_terminal:
            self._console.print(f"{name}: step {done} of {steps}, loss {record.loss:.4f}")
