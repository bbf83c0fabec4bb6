# SPDX-License-Identifier: Apache-2.0
"""The life of one rank: join the others, train, count, write down."""

import logging
import os
import random
import time
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

import nic_emul
from codec.engine import DirectionCounters, EngineCounters
from nic_emul.counters import CounterRow
from training.checkpoint import load_checkpoint, save_checkpoint
from training.config import RunConfig, strategy_of
from training.data import Batches, Corpus, load_corpus
from training.errors import DataError
from training.loop import ShardedTrainer
from training.network import Network
from training.pacing import local_pace
from training.ports import crossed_between, rows_between_barriers
from training.records import (
    Hardware,
    HardwareTotals,
    MemoryReport,
    Recorder,
    StepRecord,
    Summary,
    Totals,
    TrafficRow,
    fault_totals,
    intra_node,
    switch_traffic,
    timestamped,
)

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def train_rank(config: RunConfig, folder: Path | None, resume: Path | None = None) -> None:
    """Run this rank of `config` from start to end; rank 0 writes `folder`.

    Args:
        resume: a checkpoint to go on from.

    Raises:
        TrainingError: the data, the folder or the run is not what it must be.
        WirezipError: the NIC or the network failed.
    """
    _make_deterministic(config.seed)
    # Makes the NIC, which may have to compile its codec; no peer waits for this rank yet.
    nic_emul.local_nic()
    _join()
    network = Network.over_nics(strategy_of(config))
    # Each rank may have another time, and all write checkpoints into one folder.
    default = timestamped(f"{config.name}-{config.network.engine}")
    folder = folder or _all_gather(default, network.world_size)[0]
    recorder = Recorder(folder, config) if network.rank == 0 else None
    try:
        _train(config, network, recorder, folder, resume)
    finally:
        dist.destroy_process_group()


def _train(
    config: RunConfig,
    network: Network,
    recorder: Recorder | None,
    folder: Path,
    resume: Path | None,
) -> None:
    corpus = load_corpus(config.data, vocabulary=config.model.vocabulary)
    _require_same_text(corpus, network.world_size)
    batches = Batches(corpus, config.model.context, config.data.batch_size, config.seed)
    trainer = ShardedTrainer(config, network)
    first_step = 0
    if resume:
        first_step = load_checkpoint(
            resume, config=config, units=trainer.units, text_sha256=corpus.sha256
        )
    if recorder:
        recorder.environment(seed=config.seed, text_sha256=corpus.sha256)
    LOG.info(
        "rank %d of %d: %s, engine %s, %d parameters, %d tokens of text in %d files",
        network.rank,
        network.world_size,
        config.strategy,
        config.network.engine,
        trainer.parameters,
        corpus.tokens.size,
        corpus.files,
    )
    dist.barrier()
    ports_start = rows_between_barriers()

    pace = local_pace()
    counters = nic_emul.local_nic().counters
    engine_start = nic_emul.local_nic().engine_counters()
    started, start = time.perf_counter(), counters.snapshot()
    for step in range(first_step, config.steps):
        tokens, targets = batches.at(step, rank=network.rank, world_size=network.world_size)
        if pace:
            pace.await_step(step)
        step_started, before = time.perf_counter(), counters.snapshot()
        communicated = network.communication_seconds
        dump = folder if step in config.dump_tensors else None
        result = trainer.step(step, tokens, targets, dump=dump)
        if pace:
            pace.end_step()
        if recorder:
            seconds = time.perf_counter() - step_started
            communicated = network.communication_seconds - communicated
            traffic = counters.delta(before)
            recorder.step(
                StepRecord(
                    step=step,
                    loss=result.loss,
                    lr=result.lr,
                    grad_norm=result.grad_norm,
                    step_seconds=seconds,
                    computation_seconds=seconds - communicated,
                    communication_seconds=communicated,
                    codec_seconds=sum(row.encode_s + row.decode_s for row in traffic),
                    rank0=_totals(nic_emul.aggregate(traffic).total),
                )
            )
            LOG.info(
                "step %d of %d: loss %.4f, gradient norm %.3f, %.3f s (%.3f s communication)",
                step + 1,
                config.steps,
                result.loss,
                result.grad_norm,
                seconds,
                communicated,
            )
        if config.checkpoint_every and (step + 1) % config.checkpoint_every == 0:
            save_checkpoint(
                folder, step + 1, config=config, units=trainer.units, text_sha256=corpus.sha256
            )
    seconds = time.perf_counter() - started
    if pace:
        pace.finish()

    # Whatever follows is not traffic of the training and is not counted.
    engine_end = nic_emul.local_nic().engine_counters()
    trained = counters.delta(start)
    ports_end = rows_between_barriers()
    everyones = _all_gather(trained, network.world_size)
    rows = [row for rows in everyones for row in rows]
    hardware = _hardware(engine_start, engine_end, config.network.clock_mhz, network.world_size)
    links = _all_gather(nic_emul.local_nic().links.total().as_dict(), network.world_size)
    sent = nic_emul.aggregate(rows)
    memory = _memory(trainer, network.world_size)
    param_hash = trainer.parameter_hash()
    if recorder:
        recorder.finish(
            Summary(
                preset=config.name,
                strategy=config.strategy,
                engine=config.network.engine,
                world_size=network.world_size,
                steps=config.steps,
                first_step=first_step,
                memory=memory,
                mtu=config.network.mtu,
                reduce_dtype=config.network.reduce_dtype,
                parameters=trainer.parameters,
                padded_parameters=trainer.padded_parameters,
                text_sha256=corpus.sha256,
                param_hash=param_hash,
                seconds=seconds,
                totals=_totals(sent.total),
                by_role=_by_name(sent.by_role),
                by_collective=_by_name(sent.by_collective),
                rows=_traffic(rows),
                hardware=hardware,
                intra=intra_node(
                    [sum(row.intra_bytes for row in mine) for mine in everyones],
                    ranks_per_node=config.network.ranks_per_node,
                    gb_per_s=config.network.intra_gb_per_s,
                ),
                faults=fault_totals(config.network.faults, links),
                switch=None
                if ports_start is None or ports_end is None
                else switch_traffic(
                    crossed_between(ports_start, ports_end),
                    sums=config.network.algorithm == "switch",
                ),
            )
        )


def _hardware(
    start: EngineCounters | None, end: EngineCounters | None, clock_mhz: float, world_size: int
) -> Hardware | None:
    """What the engines of all ranks did between the two, if they are simulated hardware."""
    if start is None or end is None:
        return None
    everyones = _all_gather(end.minus(start), world_size)
    return Hardware(
        clock_mhz=clock_mhz,
        data_bits=nic_emul.local_nic().engine_data_bits,
        encode=_direction([counters.encode for counters in everyones], clock_mhz),
        decode=_direction([counters.decode for counters in everyones], clock_mhz),
    )


def _direction(ranks: list[DirectionCounters], clock_mhz: float) -> HardwareTotals:
    busiest = max(counters.clocks for counters in ranks)
    return HardwareTotals(
        clocks=sum(counters.clocks for counters in ranks),
        packets=sum(counters.packets for counters in ranks),
        input_bytes=sum(counters.input_bytes for counters in ranks),
        output_bytes=sum(counters.output_bytes for counters in ranks),
        input_beats=sum(counters.input_beats for counters in ranks),
        output_beats=sum(counters.output_beats for counters in ranks),
        input_stalls=sum(counters.input_stalls for counters in ranks),
        output_stalls=sum(counters.output_stalls for counters in ranks),
        clocks_busiest=busiest,
        seconds=busiest / (clock_mhz * 1e6),
    )


def _memory(trainer: ShardedTrainer, world_size: int) -> MemoryReport:
    """What ranks needed so far, and what the formulas say."""
    everyones = _all_gather(asdict(trainer.memory.peak), world_size)
    return MemoryReport(
        measured={kind: max(peak[kind] for peak in everyones) for kind in everyones[0]},
        predicted=asdict(trainer.predicted_memory),
    )


def _make_deterministic(seed: int) -> None:
    """One seed for every generator; batches and parameters have generators of their own."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    # The same as use_deterministic_algorithms(True), which loads the compiler: a second a rank.
    torch.set_deterministic_debug_mode("error")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _join() -> None:
    """Meet the other ranks: at torchrun's store, or on the socket that our launcher opened."""
    listening = os.environ.get("WIREZIP_STORE_FD")
    if listening is None:
        dist.init_process_group("wirezip")
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size,
        is_master=rank == 0,
        master_listen_fd=int(listening) if rank == 0 else None,
    )
    dist.init_process_group("wirezip", store=store, rank=rank, world_size=world_size)


def _require_same_text(corpus: Corpus, world_size: int) -> None:
    """Raise `DataError` on every rank unless all of them read the same text."""
    digests = _all_gather(corpus.sha256, world_size)
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise DataError(
            f"data.text: expected the text of rank 0 (SHA-256 {digests[0][:16]}...) on every rank; "
            f"found another on {', '.join(f'rank {rank}' for rank in others)} "
            f"({digests[others[0]][:16]}...)"
        )


def _all_gather(mine: T, world_size: int) -> list[T]:
    """What each rank passed, by rank."""
    everyones: list[T] = [mine] * world_size
    dist.all_gather_object(everyones, mine)
    return everyones


def _traffic(rows: list[CounterRow]) -> list[TrafficRow]:
    """Sum over ranks, one row per (role, collective, dtype)."""
    merged: dict[tuple[str, str, str], list[CounterRow]] = {}
    for row in rows:
        if row.sent:
            merged.setdefault((row.role, row.collective, row.dtype), []).append(row)
    return [
        TrafficRow(
            role=key[0],
            collective=key[1],
            dtype=key[2],
            **_totals(nic_emul.aggregate(group).total),
        )
        for key, group in sorted(merged.items())
    ]


def _by_name(sums: dict[str, dict[str, int]]) -> dict[str, Totals]:
    return {name: _totals(found) for name, found in sorted(sums.items())}


def _totals(found: dict[str, int]) -> Totals:
    return Totals(
        logical_bytes=found["logical_bytes"],
        payload_bytes=found["payload_bytes"],
        wire_bytes=found["wire_bytes"],
        packets=found["packets"],
        forwarded_packets=found["forwarded_packets"],
        intra_bytes=found["intra_bytes"],
    )
