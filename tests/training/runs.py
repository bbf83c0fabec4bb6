# SPDX-License-Identifier: Apache-2.0
"""Real runs with real ranks, shared between tests, and the command as users call it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from training.config import RunConfig, load, override
from training.launch import launch
from training.records import Run

ROOT = Path(__file__).parents[2]


def tiny(strategy: str, world_size: int, *, engine: str = "null", steps: int = 6) -> RunConfig:
    """The preset `tiny`, changed."""
    return override(
        load("tiny"), strategy=strategy, world_size=world_size, engine=engine, steps=steps
    )


def run(config: RunConfig, folder: Path) -> Run:
    """Train with all ranks on this machine."""
    return launch(config, folder, on_step=lambda record: None)


def command(*arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start `wirezip` with `arguments`."""
    return subprocess.Popen(
        [sys.executable, "-m", "training.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | (env or {}),
    )


def wirezip(
    *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run `wirezip` with `arguments` to its end."""
    with command(*arguments, env=env) as process:
        out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
