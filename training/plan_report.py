# SPDX-License-Identifier: Apache-2.0
"""Plans as tables and as JSON: the ranking without compression, with it, and what that changes."""

from collections.abc import Sequence
from typing import TypedDict

from rich.box import SIMPLE_HEAD
from rich.table import Table

from training.plan_inputs import PlannedCluster, PlannedModel
from training.planner import Candidate, Formulas, Ratios


class CandidateReport(TypedDict):
    """A strategy of a ranking; modelled, not measured."""

    strategy: str
    place: int
    """Equal for those that tie."""
    communication_seconds: float
    seconds_by_role: dict[str, float]
    between_bytes: float
    """Logical bytes that leave nodes in a step, over all nodes."""
    memory_bytes: float
    """Of a rank."""
    host_bytes: float
    """Of a node's host."""


class PlanReport(TypedDict):
    """What `wirezip plan --json` writes; rankings are best first."""

    model: str
    cluster: str
    formulas: str
    ratios: dict[str, float]
    fitting: int
    """Strategies that fit into memory."""
    off: list[CandidateReport]
    on: list[CandidateReport]
    """With compression at `ratios`; empty if none were given."""
    changed: bool
    """Whether compression changes the first choice."""


def plan_report(
    model: PlannedModel,
    cluster: PlannedCluster,
    *,
    formulas: Formulas,
    ratios: Ratios,
    off: Sequence[Candidate],
    on: Sequence[Candidate],
    top: int,
) -> PlanReport:
    """The first `top` of both rankings."""
    return PlanReport(
        model=model.name,
        cluster=cluster.name,
        formulas=formulas,
        ratios=dict(ratios),
        fitting=len(off),
        off=[_candidate(each) for each in off[:top]],
        on=[_candidate(each) for each in on[:top]],
        changed=bool(on) and on[0].strategy != off[0].strategy,
    )


def plan_table(title: str, ranking: Sequence[CandidateReport]) -> Table:
    """A row for each strategy; those of one place tie."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("place", justify="right", no_wrap=True)
    table.add_column("strategy", no_wrap=True)
    for name in ("communication", "between nodes", "memory", "host"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in ranking:
        table.add_row(
            str(each["place"]),
            each["strategy"],
            f"{1e3 * each['communication_seconds']:,.1f} ms",
            f"{each['between_bytes'] / 1e9:,.1f} GB",
            f"{each['memory_bytes'] / 1e9:.1f} GB",
            f"{each['host_bytes'] / 1e9:.0f} GB" if each["host_bytes"] else "-",
        )
    return table


def _candidate(candidate: Candidate) -> CandidateReport:
    return CandidateReport(
        strategy=str(candidate.strategy),
        place=candidate.place,
        communication_seconds=candidate.seconds,
        seconds_by_role=dict(candidate.seconds_by_role),
        between_bytes=candidate.between_bytes,
        memory_bytes=candidate.memory_bytes,
        host_bytes=candidate.host_bytes,
    )
