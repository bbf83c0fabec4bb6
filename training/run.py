# SPDX-License-Identifier: Apache-2.0
"""One rank of a run: what `torchrun` starts, on one machine or many.

    torchrun --standalone --nproc-per-node 4 -m training.run --preset demo-zero2
    torchrun --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr HOST --master-port 29500 \\
        -m training.run --preset demo-zero2

Rank 0 writes the run folder. `wirezip train` starts local ranks without torchrun.
"""

import logging
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

import tyro

from codec.engine import EngineName
from codec.errors import WirezipError
from training import config
from training.errors import ConfigError, TrainingError
from training.processes import die_with_parent


@dataclass(frozen=True)
class Arguments:
    """Train one rank; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from torchrun."""

    preset: str
    """Name of a preset, or path of a TOML file."""
    strategy: str | None = None
    """Instead of the preset's: ddp, zero1, zero2, zero3, hsdp, mics, hpz, maz3, or spelled, such as
    p=1x1,g=2x1,os=2x2 (ranks in a node x nodes for parameters, gradients, optimizer states)."""
    engine: EngineName | None = None
    """Instead of the preset's."""
    steps: int | None = None
    """Instead of the preset's."""
    seed: int | None = None
    """Instead of the preset's."""
    out: Path | None = None
    """Run folder of rank 0; by default runs/PRESET-ENGINE-TIME."""
    resume: Path | None = None
    """A checkpoint to go on from."""


def main() -> int:
    """Exit status 0 when the run finished."""
    arguments = tyro.cli(Arguments, prog="python -m training.run")
    # Before torch is imported. Ranks share cores, and a thread that spins takes another rank's.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    launched = "WIREZIP_STORE_FD" in os.environ
    if launched:
        die_with_parent()
    # Our launcher gives every rank a log file; under torchrun they share a terminal.
    speaks = launched or os.environ.get("RANK", "0") == "0"
    logging.basicConfig(
        level=logging.INFO if speaks else logging.WARNING, format="%(message)s", stream=sys.stderr
    )
    try:
        run = config.override(
            config.load(arguments.preset),
            strategy=arguments.strategy,
            engine=arguments.engine,
            steps=arguments.steps,
            seed=arguments.seed,
            world_size=_world_size(),
        )
        _configure_nic("WIREZIP_ENGINE", run.network.engine)
        _configure_nic("WIREZIP_MTU", str(run.network.mtu))
        _configure_nic("WIREZIP_RANKS_PER_NODE", str(run.network.ranks_per_node))
        _configure_nic("WIREZIP_ALGORITHM", run.network.algorithm)
        _configure_nic("WIREZIP_ELEMENT", run.network.element)
        _configure_nic("WIREZIP_FAULTS", run.network.faults)
        _require_switch(run.network.switched)

        from training.rank import train_rank

        train_rank(run, arguments.out, arguments.resume)
    except Exception as error:
        # What is raised on purpose says all in one line; of the rest, one wants to see where. The
        # launcher quotes the last line.
        if not isinstance(error, TrainingError | WirezipError):
            traceback.print_exc()
        first_line = str(error).partition("\n")[0]
        sys.stderr.write(f"error: {type(error).__name__}: {first_line}\n")
        return 1
    return 0


def _world_size() -> int:
    text = os.environ.get("WORLD_SIZE")
    if text is None or "RANK" not in os.environ:
        raise ConfigError(
            "RANK and WORLD_SIZE: expected in the environment; found neither: start ranks with "
            "`torchrun --standalone --nproc-per-node N -m training.run` or `wirezip train`"
        )
    return int(text)


def _configure_nic(variable: str, value: str) -> None:
    """Hand a setting to the NIC, which reads its own from the environment."""
    found = os.environ.setdefault(variable, value)
    if found != value:
        raise ConfigError(
            f"{variable}: expected {value or 'none'}, as the configuration says, or nothing; "
            f"found {found}"
        )


def _require_switch(wanted: bool) -> None:
    """Raise `ConfigError` where the configuration has a switch and nobody said where it is."""
    if wanted and not os.environ.get("WIREZIP_SWITCH", "").strip():
        raise ConfigError(
            "WIREZIP_SWITCH: expected HOST:PORT of the switch that the configuration asks for; "
            "found nothing: start one with `python -m nic_emul.switch`, or all by `wirezip train`"
        )


if __name__ == "__main__":
    sys.exit(main())
