# SPDX-License-Identifier: Apache-2.0
"""Runs that never were, for tests of what is done with the results of runs."""

from pathlib import Path

from training.records import Run, StepRecord, Summary, Totals, TrafficRow


def totals(logical: int, payload: int, wire: int) -> Totals:
    return Totals(
        logical_bytes=logical,
        payload_bytes=payload,
        wire_bytes=wire,
        packets=3,
        forwarded_packets=0,
        intra_bytes=0,
    )


def made_up_run(engine: str, *, losses: list[float], param_hash: str = "ab") -> Run:
    """A run that never was, of 1,000 logical bytes."""
    sent = totals(1000, 1000, 1100) if engine == "null" else totals(1000, 625, 725)
    summary = Summary(
        preset="made-up",
        strategy="zero2",
        engine=engine,
        world_size=2,
        steps=len(losses),
        mtu=4096,
        reduce_dtype="bf16",
        parameters=7,
        padded_parameters=16,
        text_sha256="cd",
        param_hash=param_hash,
        seconds=1.0,
        totals=sent,
        by_role={"gradient": sent},
        by_collective={"reduce_scatter": sent},
        rows=[TrafficRow(role="gradient", collective="reduce_scatter", dtype="bfloat16", **sent)],
    )
    steps = [
        StepRecord(step, loss, 1e-3, 1.0, 0.2, 0.1, 0.1, 0.05, totals(500, 500, 550))
        for step, loss in enumerate(losses)
    ]
    return Run(Path("made-up") / engine, summary, steps)
