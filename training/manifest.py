# SPDX-License-Identifier: Apache-2.0
"""`checkpoint.json`: what a checkpoint is of; read without torch, before any rank starts."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from training.errors import CheckpointError
from training.records import write_json

VERSION = 1
_NAME = "checkpoint.json"


@dataclass(frozen=True)
class Manifest:
    """What `checkpoint.json` says."""

    version: int
    """Of this layout."""
    step: int
    """Steps that were done."""
    strategy: str
    """Under which it was saved."""
    world_size: int
    """Ranks of the run."""
    text_sha256: str
    """Hash of the text that was trained on."""
    settings: dict[str, object]
    """What a run that goes on has to have, too."""
    units: dict[str, int]
    """Parameters of each unit, without padding."""
    shards: list[str]
    """Names of the files."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Complete the checkpoint in `folder`, whose shards are there."""
    write_json(folder / _NAME, dataclasses.asdict(manifest))


def read_manifest(folder: Path) -> Manifest:
    """What is in a checkpoint.

    Raises:
        CheckpointError: it is not complete, or not one of ours.
    """
    try:
        found = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        manifest = Manifest(**found)
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"{folder}: expected a complete checkpoint; found no {_NAME}"
        ) from None
    except (json.JSONDecodeError, TypeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{folder}: expected the files of a checkpoint; {error}") from None
    if manifest.version != VERSION:
        raise CheckpointError(f"{folder}: expected version {VERSION}; found {manifest.version}")
    return manifest
