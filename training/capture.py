# SPDX-License-Identifier: Apache-2.0
"""One capture of all ranks: each NIC writes its own frames, and they are merged at the end."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from training.errors import ConfigError


@contextmanager
def capturing(path: Path | None) -> Iterator[dict[str, str]]:
    """Variables for ranks whose frames are to be in the capture `path`, complete after the block.

    Without a path nothing is captured. After an error `path` has what was sent until then.

    Raises:
        ConfigError: scapy, which the NICs take the headers from, is missing.
    """
    if path is None:
        yield {}
        return
    if find_spec("scapy") is None:
        raise ConfigError(
            "pcap: expected the package scapy (pip install 'wirezip[pcap]'); found none"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Beside the capture: it is as large, and where there is room for one there may be for both.
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
        try:
            yield {"WIREZIP_PCAP": folder}
        finally:
            # Only here, since it loads torch.
            from nic_emul.capture import merge

            merge(sorted(Path(folder).glob("*.pcap")), path)
