# SPDX-License-Identifier: Apache-2.0
"""Search for inputs that break a decoder: `make fuzz TARGET=streams MINUTES=10`.

Usage: python -m tests.fuzz.run TARGET FOLDER [libFuzzer options]. The search is guided by the
coverage of the Python that the target runs. The folder is the corpus: it is filled with the
target's seeds and kept inputs at first, and keeps what reaches new code; what breaks something is
left in it as `crash-...`, `timeout-...` or `oom-...`.
"""

import importlib
import resource
import sys
from pathlib import Path
from typing import Any

import atheris

from tests.fuzz.kept import read_kept

_READERS = ["codec.reference", "codec.header", "codec.frames", "codec.table", "codec.checkpoint"]
# Kernels are compiled from what they are; instructions between would be compiled too.
GUIDES = {
    "frames": ["codec.reference", "codec.header"],
    "streams": ["codec.reference", "codec.header", "codec.frames", "codec.stream"],
    "containers": [*_READERS, "codec.container", "codec.container_writer", "codec.resident"],
    "checkpoints": ["codec.checkpoint", "codec.container_writer", "codec.resident", "pickletools"],
}
# More than any input of a target's size has a right to.
_ALLOWANCE_BYTES = 512 << 20


def main() -> None:
    """Run until libFuzzer's limit; the exit status is not 0 if something was found."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    with atheris.instrument_imports(include=GUIDES[name]):
        target: Any = importlib.import_module(f"tests.fuzz.{name}")
    folder.mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate([*target.seeds(), *read_kept(name)]):
        if len(seed) <= target.MAX_BYTES:
            (folder / f"seed-{i}").write_bytes(seed)
    checker = target.Checker()
    for seed in target.seeds():
        checker.check(seed)
    _limit_memory()
    options = [f"-max_len={target.MAX_BYTES}", "-timeout=60", "-rss_limit_mb=2048"]
    options += [f"-artifact_prefix={folder}/", *sys.argv[3:]]
    atheris.Setup([sys.argv[0], *options, str(folder)], checker.check)
    atheris.Fuzz()


def _limit_memory() -> None:
    """Make an allocation that nothing bounds an error, which is then a finding."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").split()
    data_bytes = 1024 * int(status[status.index("VmData:") + 1])
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes + _ALLOWANCE_BYTES,) * 2)


if __name__ == "__main__":
    main()
