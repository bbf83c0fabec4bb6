# SPDX-License-Identifier: Apache-2.0
"""Golden vectors: `python -m tests.make_vectors` writes `tests/vectors/`, `--check` finds drift.

Every conformance test of every engine, and every hardware bench, reads them. Good vectors are a
block and its frame (and its resident copy, in reference mode). Where `canonical` is set the frame
is what `codec.reference` encodes, and every encoder must write these bytes; the others are valid
frames that no encoder writes, made by `tests/conformance/builder.py`, which decoders must accept.
Bad vectors are frames that break exactly one rule of `docs/format.md`, with the CRC that fits.

`manifest.json` has one vector a line: why it exists, what it is, and where its bytes are. `file`
holds, from `offset` on, the block (not in bad vectors), the resident copy and the frame.
"""

import sys
from pathlib import Path

from tests.conformance.bad import bad_vectors
from tests.conformance.good import good_vectors
from tests.conformance.vectors import FOLDER, pack


def main(arguments: list[str]) -> int:
    """Write the vectors, or with `--check` compare them; 1 where they differ."""
    files = pack(good_vectors(), bad_vectors())
    stale = sorted(_stored() - files.keys())
    changed = [name for name, data in files.items() if not _holds(FOLDER / name, data)]
    if arguments == ["--check"]:
        for name in [*changed, *stale]:
            sys.stderr.write(f"{FOLDER / name} differs: run `make vectors`\n")
        return int(bool(changed or stale))
    for name in changed:
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])
    for name in stale:
        (FOLDER / name).unlink()
    return 0


def _stored() -> set[str]:
    return {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
