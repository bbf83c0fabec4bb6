# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: the optimizer states of a run, from which it goes on under any strategy.

    checkpoints/step-000010/
        shard-00000-of-00004.safetensors   of the ranks that hold a part of the optimizer first
        checkpoint.json                    written last: without it, the checkpoint is not complete

A shard has `UNIT/master`, `UNIT/exp_avg` and `UNIT/exp_avg_sq` of every unit, FP32, each a range of
the unit's flat buffer without its padding. Where ranges start is in the metadata of the file; so a
rank finds what it needs however many ranks there were, and whatever they kept. BF16 parameters are
casts of the masters, and are not stored. All ranks have to see the same folder.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from training.config import RunConfig
from training.errors import CheckpointError
from training.manifest import VERSION, Manifest, read_manifest, write_manifest
from training.sharding import ShardedUnit

STATES = ("master", "exp_avg", "exp_avg_sq")


def save_checkpoint(
    run_folder: Path,
    step: int,
    *,
    config: RunConfig,
    units: Sequence[ShardedUnit],
    text_sha256: str,
) -> Path:
    """Write this rank's part of the checkpoint after `step` steps; every rank does, at once.

    Returns:
        The checkpoint's folder; the checkpoint in it is complete.
    """
    folder = run_folder / "checkpoints" / f"step-{step:06}"
    folder.mkdir(parents=True, exist_ok=True)
    strategy, rank = units[0].strategy, dist.get_rank()
    parts = strategy.optimizer.size
    if strategy.is_first_replica(rank):
        part = strategy.optimizer_part(rank)
        _write_shard(folder / _shard_name(part, parts), units)
    dist.barrier()
    if rank == 0:
        manifest = Manifest(
            version=VERSION,
            step=step,
            strategy=str(strategy),
            world_size=config.world_size,
            text_sha256=text_sha256,
            settings=_settings(config),
            units={unit.name: unit.layout.numel for unit in units},
            shards=[_shard_name(part, parts) for part in range(parts)],
        )
        write_manifest(folder, manifest)
    return folder


def load_checkpoint(
    folder: Path, *, config: RunConfig, units: Sequence[ShardedUnit], text_sha256: str
) -> int:
    """Give `units` the states of a checkpoint; every rank does, at once.

    Returns:
        The step, from 0, to go on with.

    Raises:
        CheckpointError: the checkpoint is damaged, or of another run.
    """
    manifest = read_manifest(folder)
    expected = _settings(config) | {"text_sha256": text_sha256}
    found = manifest.settings | {"text_sha256": manifest.text_sha256}
    for key, value in expected.items():
        if found.get(key) != value:
            raise CheckpointError(
                f"{folder}: {key}: expected {value!r}, as this run has; found {found.get(key)!r}"
            )
    if manifest.step >= config.steps:
        raise CheckpointError(
            f"{folder}: expected a checkpoint before step {config.steps}; found {manifest.step}"
        )
    for unit in units:
        _read_unit(folder, manifest.shards, unit)
        unit.refresh()
    return manifest.step


def _settings(config: RunConfig) -> dict[str, object]:
    """What decides a run beside its text, its strategy, and how sums are ordered."""
    return {
        "model": dataclasses.asdict(config.model),
        "optimizer": dataclasses.asdict(config.optimizer),
        "batch_size": config.data.batch_size,
        "seed": config.seed,
        "steps": config.steps,
    }


def _shard_name(part: int, parts: int) -> str:
    return f"shard-{part:05}-of-{parts:05}.safetensors"


def _write_shard(path: Path, units: Sequence[ShardedUnit]) -> None:
    tensors: dict[str, Tensor] = {}
    starts: dict[str, str] = {}
    for unit in units:
        span = unit.optimizer_range
        starts[unit.name] = str(span.start)
        for state in STATES:
            tensors[f"{unit.name}/{state}"] = getattr(unit.state, state)[: len(span)]
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    save_file(tensors, partial, metadata=starts)
    partial.replace(path)


def _read_unit(folder: Path, shards: Sequence[str], unit: ShardedUnit) -> None:
    """Fill the optimizer shard of `unit` from ranges that overlap with it, which are in order."""
    missing = unit.optimizer_range
    for name in shards:
        try:
            missing = _read_overlap(folder / name, unit, missing)
        except (OSError, SafetensorError, ValueError) as error:
            raise CheckpointError(f"{folder / name}: expected a shard; {error}") from None
    if missing:
        raise CheckpointError(
            f"{folder}: {unit.name}: expected elements {missing.start} to {missing.stop}; "
            f"found them in no shard"
        )


def _read_overlap(path: Path, unit: ShardedUnit, missing: range) -> range:
    """Copy what the file has of the start of `missing`; returns what is missing then."""
    with safe_open(path, framework="pt") as shard:
        start = int((shard.metadata() or {}).get(unit.name, ""))
        stop = start + int(shard.get_slice(f"{unit.name}/master").get_shape()[0])
        if not start <= missing.start < stop:
            return missing
        end, base = min(stop, missing.stop), unit.optimizer_range.start
        for state in STATES:
            name = f"{unit.name}/{state}"
            stored: Tensor = shard.get_slice(name)[missing.start - start : end - start]
            if stored.dtype != torch.float32:
                raise ValueError(f"{name}: expected FP32; found {stored.dtype}")
            getattr(unit.state, state)[missing.start - base : end - base] = stored
    return range(end, missing.stop)
