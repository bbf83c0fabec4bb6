# SPDX-License-Identifier: Apache-2.0
"""Inputs that fuzzing found worth keeping: tests offer them, and a search begins with them.

After a search, `python -m tests.fuzz.kept TARGET FOLDER` keeps what it left in its folder. Imports
nothing of the codec, which is to be imported where it can be instrumented.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

_BYTES_MAX = 100_000


def kept_path(target: str) -> Path:
    """The file of the inputs of a target that fuzzing found worth keeping."""
    return Path(__file__).with_name(f"{target}.bin")


def read_kept(target: str) -> list[bytes]:
    """The kept inputs of a target: each stands behind its length, two bytes."""
    path = kept_path(target)
    data = path.read_bytes() if path.exists() else b""
    found, at = [], 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "little")
        found.append(data[at + 2 : end])
        at = end
    return found


def write_kept(target: str, inputs: Iterable[bytes]) -> None:
    """Write what `read_kept` reads."""
    rows = (len(data).to_bytes(2, "little") + data for data in inputs)
    kept_path(target).write_bytes(b"".join(rows))


def main() -> None:
    """Keep what a search found and what was kept before, small and large, but not too many."""
    target, folder = sys.argv[1], Path(sys.argv[2])
    found = {path.read_bytes() for path in folder.iterdir() if not path.name.startswith("seed-")}
    inputs = sorted(found.union(read_kept(target)), key=lambda data: (len(data), data))
    write_kept(target, inputs[:: -(-sum(map(len, inputs)) // _BYTES_MAX)])


if __name__ == "__main__":
    main()
