# SPDX-License-Identifier: Apache-2.0
"""Memory is counted while it lives, once, under one name; the formulas are those of the papers.

That measured and predicted bytes are the same for every strategy is in `test_strategies.py`.
"""

import gc
import io
from dataclasses import asdict

import torch
from rich.console import Console

from training.config import ModelConfig
from training.memory import Memory, MemoryMeter, UnitSize, activation_bytes, predict_memory
from training.mesh import Cluster
from training.records import MemoryReport
from training.report import memory_table
from training.strategy import parse_strategy


def test_what_is_freed_is_no_longer_counted() -> None:
    meter = MemoryMeter()
    tensor = torch.zeros(1000)
    meter.watch("buffers", tensor)
    view = tensor[:10]
    meter.watch("buffers", view)
    assert meter.living.buffers == meter.peak.buffers == 4000
    del tensor
    gc.collect()
    assert meter.living.buffers == 4000
    del view
    gc.collect()
    assert meter.living.buffers == 0
    assert meter.peak.buffers == 4000


def test_what_is_released_is_no_longer_counted_although_somebody_holds_it() -> None:
    meter = MemoryMeter()
    tensor = torch.zeros(1000)
    meter.watch("parameters", tensor)
    meter.release(tensor)
    assert meter.living.parameters == 0
    meter.watch("buffers", tensor)
    del tensor
    gc.collect()
    assert meter.living.device == 0


def test_peaks_are_of_what_lives_at_once() -> None:
    meter = MemoryMeter()
    for _ in range(3):
        meter.watch("activations", torch.zeros(100))
    kept = torch.zeros(50)
    meter.watch("activations", kept)
    assert meter.peak.activations == 400
    meter.watch("optimizer", torch.zeros(0))
    assert meter.peak.optimizer == 0


def test_a_buffer_that_becomes_a_gradient_is_one() -> None:
    meter = MemoryMeter()
    tensor = torch.zeros(100)
    meter.watch("buffers", tensor)
    meter.watch("gradients", tensor)
    assert (meter.living.buffers, meter.living.gradients) == (0, 400)
    assert meter.peak.device == 800
    del tensor
    gc.collect()
    assert meter.living.device == 0


def test_what_a_graph_keeps_is_counted_until_its_backward() -> None:
    meter = MemoryMeter()
    weight = torch.ones(30, 30, requires_grad=True)
    with meter.watching_graph():
        loss = (torch.ones(20, 30) @ weight).square().sum()
    # The left factor and the product; the weight is needed for the gradient of neither.
    assert meter.living.activations == 2 * 4 * 20 * 30
    loss.backward()
    del loss
    gc.collect()
    assert meter.living.activations == 0


def test_states_are_those_of_amsp() -> None:
    cluster = Cluster(nodes=4, ranks_per_node=8)
    units = [UnitSize(numel=32 * 8 * 100, padded=32 * 8 * 100)] * 3
    elements = sum(unit.padded for unit in units)
    for name, (p, g, o) in {
        "ddp": (1, 1, 1),
        "zero1": (1, 1, 32),
        "zero2": (1, 32, 32),
        "p=1x1,g=8x1,os=8x1": (1, 8, 8),
        "mics": (8, 8, 8),
    }.items():
        found = predict_memory(
            parse_strategy(name, cluster),
            units,
            ModelConfig(),
            sequences=1,
            micro_batches=1,
            gradient_bytes=2,
            prefetch=False,
            recompute=False,
        )
        gathered = 0 if p == 1 else 2 * units[0].padded
        assert found.parameters == 2 * elements // p + gathered, name
        assert found.gradients == 2 * elements // g, name
        assert found.optimizer == 12 * elements // o, name


def test_table_of_a_run() -> None:
    assert memory_table(None) is None
    predicted = Memory(2_000_000, 0, 1_500_000, 0, 0, 0)
    report = MemoryReport(
        measured=asdict(predicted) | {"gradients": 0}, predicted=asdict(predicted)
    )
    out = io.StringIO()
    Console(file=out, width=100).print(memory_table(report))
    assert [line.split() for line in out.getvalue().splitlines()][-2:-1] == [
        ["parameters", "2.0", "2.0"]
    ]


def test_recomputing_keeps_streams_alone() -> None:
    model = ModelConfig(layers=50)
    whole, streams = (
        activation_bytes(model, sequences=2, micro_batches=1, recompute=recompute)
        for recompute in (False, True)
    )
    assert whole > 5 * streams
    # A layer more is a stream more.
    more = activation_bytes(ModelConfig(layers=51), sequences=2, micro_batches=1, recompute=True)
    assert more - streams == 2 * (2 * model.context) * model.width
