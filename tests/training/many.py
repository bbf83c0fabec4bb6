# SPDX-License-Identifier: Apache-2.0
"""Many runs in the same few processes: what the tests of strategies need, at a fraction of the cost
of starting the ranks of each."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nic_emul
from tests.nic_emul.ranks import run_ranks
from training.checkpoint import load_checkpoint, save_checkpoint
from training.config import RunConfig, strategy_of
from training.data import Batches, load_corpus
from training.loop import ShardedTrainer
from training.memory import Memory
from training.network import Network
from training.volumes import Volume


@dataclass(frozen=True)
class Job:
    """A run to train.

    Attributes:
        config: of the run.
        save: where to leave checkpoints, of the state at the start and after every step.
        resume: a checkpoint to start from.
    """

    config: RunConfig
    save: Path | None = None
    resume: Path | None = None


@dataclass(frozen=True)
class Trained:
    """What became of a run on one rank, or with the bytes of all of them.

    Attributes:
        losses, grad_norms: of each step.
        param_hash: at the end.
        padded: elements of all units with padding.
        sent: logical bytes of all steps by (role, collective).
        memory, predicted: bytes by kind, measured and by formula; no part of a comparison.
    """

    losses: list[float]
    grad_norms: list[float]
    param_hash: str
    padded: int
    sent: Mapping[tuple[str, str], Volume]
    memory: Memory = field(compare=False)
    predicted: Memory = field(compare=False)


def train_many(runs: Sequence[RunConfig | Job]) -> list[Trained]:
    """Train each of `runs`, which are of one cluster, engine and algorithm, on real ranks."""
    jobs = [run if isinstance(run, Job) else Job(run) for run in runs]
    config = jobs[0].config
    cluster = strategy_of(config).cluster
    environment = {
        "WIREZIP_ENGINE": config.network.engine,
        "WIREZIP_RANKS_PER_NODE": str(cluster.ranks_per_node),
        "WIREZIP_ALGORITHM": config.network.algorithm,
    }
    ranks = run_ranks(train_each, cluster.world_size, jobs, environment=environment)
    return [_together(of_run) for of_run in zip(*ranks, strict=True)]


def train_each(jobs: Sequence[Job]) -> list[Trained]:
    """The part of one rank."""
    return [_train(job) for job in jobs]


def _train(job: Job) -> Trained:
    config = job.config
    network = Network.over_nics(strategy_of(config))
    trainer = ShardedTrainer(config, network)
    corpus = load_corpus(config.data, vocabulary=config.model.vocabulary)
    batches = Batches(corpus, config.model.context, config.data.batch_size, config.seed)
    text, first = corpus.sha256, 0
    if job.resume:
        first = load_checkpoint(job.resume, config=config, units=trainer.units, text_sha256=text)

    def save(step: int) -> None:
        if job.save:
            save_checkpoint(job.save, step, config=config, units=trainer.units, text_sha256=text)

    save(first)
    counters = nic_emul.local_nic().counters
    before = counters.snapshot()
    results = []
    for step in range(first, config.steps):
        batch = batches.at(step, rank=network.rank, world_size=network.world_size)
        results.append(trainer.step(step, *batch))
        save(step + 1)
    sent = {
        (row.role, row.collective): Volume(row.logical_bytes, row.intra_bytes)
        for row in counters.delta(before)
    }
    memory = trainer.memory.peak
    param_hash = trainer.parameter_hash()
    network.close()
    return Trained(
        losses=[result.loss for result in results],
        grad_norms=[result.grad_norm for result in results],
        param_hash=param_hash,
        padded=trainer.padded_parameters,
        sent=sent,
        memory=memory,
        predicted=trainer.predicted_memory,
    )


def _together(ranks: Sequence[Trained]) -> Trained:
    """The run of rank 0, which the others must agree with, with the bytes of all ranks."""
    first = ranks[0]
    sums: dict[tuple[str, str], Volume] = {}
    for rank in ranks:
        assert rank.losses == first.losses
        assert rank.param_hash == first.param_hash
        assert rank.memory == first.memory, (rank.memory, first.memory, rank.predicted)
        for key, volume in rank.sent.items():
            sums[key] = sums.get(key, Volume(0, 0)) + volume
    return dataclasses.replace(first, sent=sums)
