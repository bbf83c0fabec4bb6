# SPDX-License-Identifier: Apache-2.0
"""Registers the backend name `wirezip` with torch; everything else is imported on first use.

`load` is the `torch.backends` entry point: torch calls it at the end of every `import torch`, so
that `init_process_group("wirezip")` works in programs that never import this package. Where
`WIREZIP_REPLACES` names other backends, programs that ask for those get this one (`replace.py`).
"""

import os
from typing import Any

from nic_emul.errors import UnsupportedTorch

BACKEND = "wirezip"
REPLACES = "WIREZIP_REPLACES"
TORCH_RANGE = ((2, 13), (2, 14))


def load() -> None:
    """Register the backend, once; do what `WIREZIP_REPLACES` says now.

    Raises:
        ConfigError: `WIREZIP_REPLACES` names a backend that cannot be replaced.
    """
    import torch.distributed as dist

    if not dist.is_available():
        return
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create_group, extended_api=True, devices=["cpu"])
    if replaced := os.environ.get(REPLACES, "").strip():
        from nic_emul.replace import parse_names, replace

        replace(parse_names(replaced), BACKEND)


def check_torch(version: str | None = None) -> None:
    """Check `version`, by default that of the installed torch.

    Raises:
        UnsupportedTorch: it is outside `TORCH_RANGE`.
    """
    if version is None:
        import torch

        version = str(torch.__version__)
    low, high = TORCH_RANGE
    found = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    if not low <= found < high:
        raise UnsupportedTorch(
            f"torch: expected >={low[0]}.{low[1]},<{high[0]}.{high[1]}; found {version}"
        )


def _create_group(backend_options: Any, group_options: Any) -> Any:
    check_torch()
    from nic_emul.backend import create_group

    return create_group(backend_options, group_options)
