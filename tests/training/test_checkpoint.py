# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a run that goes on ends as one that was never stopped, however it is sharded."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.training.many import Job, Trained, train_many
from tests.training.runs import run, tiny
from training.checkpoint import load_checkpoint
from training.config import RunConfig, load, override
from training.errors import CheckpointError
from training.launch import launch
from training.loop import ShardedTrainer
from training.manifest import read_manifest
from training.network import Network

STEPS, SAVED = 4, 2


def config(strategy: str, *, nodes: int = 2, ranks: int = 2) -> RunConfig:
    base = override(tiny("zero2", nodes * ranks, steps=STEPS), ranks_per_node=ranks)
    return override(base, strategy=strategy)


def checkpoint(folder: Path, step: int) -> Path:
    return folder / "checkpoints" / f"step-{step:06}"


def stored(folder: Path) -> dict[str, Tensor]:
    """The whole tensors of a checkpoint, by `UNIT/STATE`."""
    pieces: dict[str, dict[int, Tensor]] = {}
    for name in read_manifest(folder).shards:
        with safe_open(folder / name, framework="pt") as shard:
            starts = shard.metadata()
            for key in shard.keys():  # noqa: SIM118 - a file, not a mapping
                start = int(starts[key.partition("/")[0]])
                pieces.setdefault(key, {})[start] = shard.get_tensor(key)
    return {key: torch.cat([parts[at] for at in sorted(parts)]) for key, parts in pieces.items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trained]:
    """A run under MAZ3 on two nodes, and its checkpoints."""
    folder = tmp_path_factory.mktemp("saved")
    (trained,) = train_many([Job(config("maz3"), save=folder)])
    return folder, trained


@pytest.mark.ranks
def test_a_run_that_goes_on_ends_with_the_same_bits(saved: tuple[Path, Trained]) -> None:
    folder, whole = saved
    (rest,) = train_many([Job(config("maz3"), resume=checkpoint(folder, SAVED))])
    assert rest.losses == whole.losses[SAVED:]
    assert rest.grad_norms == whole.grad_norms[SAVED:]
    assert rest.param_hash == whole.param_hash


@pytest.mark.ranks
def test_any_strategy_and_world_goes_on_from_the_same_state(
    saved: tuple[Path, Trained], tmp_path: Path
) -> None:
    folder, whole = saved
    source = checkpoint(folder, SAVED)
    worlds = (
        ((2, 2), ("ddp", "zero3", "hpz", "p=1x1,g=2x1,os=2x1")),
        ((1, 1), ("zero2",)),
        ((1, 4), ("mics",)),
    )
    for (nodes, ranks), strategies in worlds:
        configs = [config(strategy, nodes=nodes, ranks=ranks) for strategy in strategies]
        outs = [tmp_path / f"{strategy}-{nodes}x{ranks}" for strategy in strategies]
        jobs = [Job(c, save=out, resume=source) for c, out in zip(configs, outs, strict=True)]
        for trained, out in zip(train_many(jobs), outs, strict=True):
            assert same(stored(checkpoint(out, SAVED)), stored(source)), out
            assert trained.losses == pytest.approx(whole.losses[SAVED:], rel=1e-3)
            assert not same(stored(checkpoint(out, STEPS)), stored(source))


@pytest.mark.ranks
def test_only_one_replica_writes(saved: tuple[Path, Trained]) -> None:
    manifest = read_manifest(checkpoint(saved[0], SAVED))
    assert manifest.shards == [f"shard-{part:05}-of-00004.safetensors" for part in range(4)]
    tensors = stored(checkpoint(saved[0], SAVED))
    for unit, numel in manifest.units.items():
        for state in ("master", "exp_avg", "exp_avg_sq"):
            assert tensors[f"{unit}/{state}"].numel() == numel
            assert tensors[f"{unit}/{state}"].any()
    assert not list(checkpoint(saved[0], SAVED).glob(".*"))


@pytest.mark.ranks
def test_the_command_goes_on(tmp_path: Path) -> None:
    base = dataclasses.replace(tiny("maz3", 1, steps=STEPS), checkpoint_every=SAVED)
    whole = run(base, tmp_path / "whole")
    folders = sorted(path.name for path in (tmp_path / "whole" / "checkpoints").iterdir())
    assert folders == ["step-000002", "step-000004"]
    rest = launch(
        override(base, strategy="zero2"),
        tmp_path / "rest",
        on_step=lambda record: None,
        resume=checkpoint(tmp_path / "whole", SAVED),
    )
    assert rest.summary.first_step == SAVED
    memory = whole.summary.memory
    assert memory is not None
    assert memory["measured"] == memory["predicted"]
    assert memory["measured"]["host_parameters"] == 2 * whole.summary.padded_parameters
    assert [record.step for record in rest.steps] == [2, 3]
    assert rest.losses == whole.losses[SAVED:]
    assert rest.summary.param_hash == whole.summary.param_hash


@pytest.fixture
def alone(saved: tuple[Path, Trained], tmp_path: Path) -> tuple[RunConfig, Path]:
    """A configuration for one rank, and a copy of a checkpoint of its run."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint(saved[0], SAVED), folder)
    return config("zero2", nodes=1, ranks=1), folder


def resume(config: RunConfig, folder: Path) -> int:
    trainer = ShardedTrainer(config, Network(rank=0, world_size=1, groups={}))
    text = json.loads((folder / "checkpoint.json").read_text())["text_sha256"]
    return load_checkpoint(folder, config=config, units=trainer.units, text_sha256=text)


@pytest.mark.ranks
def test_what_does_not_fit_is_refused(alone: tuple[RunConfig, Path]) -> None:
    mine, folder = alone
    assert resume(mine, folder) == SAVED
    for other, key in (
        (override(mine, seed=7), "seed: expected 7, as this run has; found 1"),
        (override(mine, steps=9), "steps: expected 9"),
        (load("demo-zero2"), "model: expected"),
    ):
        with pytest.raises(CheckpointError, match=key):
            resume(override(other, world_size=1, strategy="zero2"), folder)
    trainer = ShardedTrainer(mine, Network(rank=0, world_size=1, groups={}))
    with pytest.raises(CheckpointError, match="text_sha256: expected 'another'"):
        load_checkpoint(folder, config=mine, units=trainer.units, text_sha256="another")


@pytest.mark.ranks
def test_what_is_damaged_is_refused(alone: tuple[RunConfig, Path]) -> None:
    mine, folder = alone
    shard = folder / "shard-00002-of-00004.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match=r"shard-00002.*: expected a shard"):
        resume(mine, folder)
    shard.unlink()
    with pytest.raises(CheckpointError, match=r"shard-00002.*: expected a shard"):
        resume(mine, folder)
    shutil.copy(folder / "shard-00001-of-00004.safetensors", shard)
    with pytest.raises(CheckpointError, match=r"embedding: expected elements \d+ to \d+; found"):
        resume(mine, folder)
    save_file(load_file(folder / "shard-00001-of-00004.safetensors"), shard)
    with pytest.raises(CheckpointError, match=r"shard-00002.*: expected a shard"):
        resume(mine, folder)
    manifest = folder / "checkpoint.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(CheckpointError, match="expected version 1; found 2"):
        resume(mine, folder)
    manifest.write_text('{"step": 2}')
    with pytest.raises(CheckpointError, match="expected the files of a checkpoint"):
        read_manifest(folder)
    manifest.unlink()
    with pytest.raises(CheckpointError, match=r"a complete checkpoint; found no checkpoint\.json"):
        read_manifest(folder)


def test_a_missing_checkpoint_is_named_before_ranks_start(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(CheckpointError, match=r"nowhere: expected a complete checkpoint"):
        launch(config("zero2"), folder, on_step=lambda _: None, resume=tmp_path / "nowhere")
    assert not folder.exists()
