# SPDX-License-Identifier: Apache-2.0
"""The life of one rank: join the others, train, count, write down."""

import logging
import os
import random
import time
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist

import nic_emul
from nic_emul.counters import CounterRow
from training.config import RunConfig
from training.data import Batches, load_corpus
from training.loop import ShardedTrainer
from training.network import Network
from training.records import (
    Recorder,
    StepRecord,
    Summary,
    Totals,
    TrafficRow,
    add_up,
    timestamped,
)

LOG = logging.getLogger(__name__)


def train_rank(config: RunConfig, folder: Path | None) -> None:
    """Run this rank of `config` from start to end; rank 0 writes `folder`.

    Raises:
        TrainingError: the data, the folder or the run is not what it must be.
        WirezipError: the NIC or the network failed.
    """
    _make_deterministic(config.seed)
    _join()
    network = Network.over_nics()
    recorder = None
    if network.rank == 0:
        folder = folder or timestamped(f"{config.name}-{config.network.engine}")
        recorder = Recorder(folder, config)
    try:
        _train(config, network, recorder, folder)
    finally:
        dist.destroy_process_group()


def _train(
    config: RunConfig, network: Network, recorder: Recorder | None, folder: Path | None
) -> None:
    corpus = load_corpus(config.data, vocabulary=config.model.vocabulary)
    batches = Batches(corpus, config.model.context, config.data.batch_size, config.seed)
    trainer = ShardedTrainer(config, network)
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

    counters = nic_emul.local_nic().counters
    started, start = time.perf_counter(), counters.snapshot()
    for step in range(config.steps):
        tokens, targets = batches.at(step, rank=network.rank, world_size=network.world_size)
        step_started, before = time.perf_counter(), counters.snapshot()
        communicated = network.communication_seconds
        dump = folder if step in config.dump_tensors else None
        result = trainer.step(step, tokens, targets, dump=dump)
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
                    rank0=_totals(traffic),
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
    seconds = time.perf_counter() - started

    # Whatever follows is not traffic of the training and is not counted.
    rows = _traffic(_gather_rows(counters.delta(start), network.world_size))
    param_hash = trainer.parameter_hash()
    if recorder:
        recorder.finish(
            Summary(
                preset=config.name,
                strategy=config.strategy,
                engine=config.network.engine,
                world_size=network.world_size,
                steps=config.steps,
                mtu=config.network.mtu,
                reduce_dtype=config.network.reduce_dtype,
                parameters=trainer.parameters,
                padded_parameters=trainer.padded_parameters,
                text_sha256=corpus.sha256,
                param_hash=param_hash,
                seconds=seconds,
                totals=add_up(rows),
                by_role=_by(rows, "role"),
                by_collective=_by(rows, "collective"),
                rows=rows,
            )
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


def _gather_rows(mine: list[CounterRow], world_size: int) -> list[CounterRow]:
    """The rows of all ranks."""
    everyones: list[list[CounterRow] | None] = [None] * world_size
    dist.all_gather_object(everyones, mine)
    return [row for rows in everyones if rows for row in rows]


def _traffic(rows: list[CounterRow]) -> list[TrafficRow]:
    """Sum over ranks, one row per (role, collective, dtype)."""
    merged: dict[tuple[str, str, str], list[CounterRow]] = {}
    for row in rows:
        if row.messages:
            merged.setdefault((row.role, row.collective, row.dtype), []).append(row)
    return [
        TrafficRow(role=key[0], collective=key[1], dtype=key[2], **_totals(group))
        for key, group in sorted(merged.items())
    ]


def _by(rows: list[TrafficRow], key: Literal["role", "collective"]) -> dict[str, Totals]:
    """Sum the rows that have the same `key`."""
    names = sorted({row[key] for row in rows})
    return {name: add_up(row for row in rows if row[key] == name) for name in names}


def _totals(rows: list[CounterRow]) -> Totals:
    return add_up(
        Totals(
            logical_bytes=row.logical_bytes,
            payload_bytes=row.payload_bytes,
            wire_bytes=row.wire_bytes,
            packets=row.packets,
        )
        for row in rows
    )
