# SPDX-License-Identifier: Apache-2.0
"""Fuzz the decoders, guided by the coverage of the reference: `make fuzz MINUTES=10`.

Usage: python -m tests.fuzz.decode FOLDER [libFuzzer options]. The folder is the corpus; it is
filled with the golden vectors at first, and keeps what reaches new code.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["codec.reference", "codec.header"]):
    from codec import reference

from tests.conformance.vectors import load_good
from tests.fuzz.check import Checker, pack


def main() -> None:
    """Run until libFuzzer's limit; the exit status is not 0 if something was found."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for i, vector in enumerate(load_good()):
        if len(vector.frame) <= 600:
            (folder / f"vector-{i}").write_bytes(pack(vector))
    checker = Checker()

    def test_one(data: bytes) -> None:
        checker.check(data)

    assert reference.ENGINE.name == "reference"
    options = ["-max_len=900", "-timeout=60", "-rss_limit_mb=4096"]
    options += [f"-artifact_prefix={folder}/", *sys.argv[2:]]
    atheris.Setup([sys.argv[0], *options, str(folder)], test_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
