# SPDX-License-Identifier: Apache-2.0
"""Programs that ask torch.distributed for gloo or nccl get the emulated NIC, without an edit.

Every process group of torch is made by one function. `replace` wraps it: where the program named
one of the backends that are replaced, the group is made by the backend `wirezip`. The program sees
that in `dist.get_backend()` and nowhere else. What it passed for the other backend only, options
and the accelerator that a group is bound to, is left out.
"""

import functools
from collections.abc import Callable
from typing import Any

from torch.distributed import distributed_c10d

from nic_emul.errors import ConfigError

REPLACEABLE = ("gloo", "nccl")
_OPTIONS = ("backend_options", "device_id")


def parse_names(text: str) -> tuple[str, ...]:
    """The backends in a list such as `gloo,nccl`.

    Raises:
        ConfigError: one of them cannot be replaced.
    """
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if wrong := [name for name in names if name not in REPLACEABLE]:
        raise ConfigError(
            f"WIREZIP_REPLACES: expected names out of {', '.join(REPLACEABLE)}; found {wrong[0]!r}"
        )
    return names


def replace(names: tuple[str, ...], by: str) -> None:
    """Have every process group that is asked of one of `names` from now on made by `by`.

    A second call takes the place of the first.
    """
    module: Any = distributed_c10d
    made = module._new_process_group_helper
    original: Callable[..., Any] = getattr(made, "__wrapped__", made)

    @functools.wraps(original)
    def make(size: Any, rank: Any, ranks: Any, backend: Any, *args: Any, **options: Any) -> Any:
        if backend_of_cpu(str(backend)) in names:
            backend = distributed_c10d.Backend(by)
            options |= dict.fromkeys(set(_OPTIONS) & options.keys())
        return original(size, rank, ranks, backend, *args, **options)

    module._new_process_group_helper = make


def backend_of_cpu(asked: str) -> str:
    """What a backend string means for tensors on the CPU.

    `cpu:gloo,cuda:nccl` names it; `nccl` has none, and stands for itself; a group whose program
    names nothing (`undefined`) has torch's default.
    """
    if asked in REPLACEABLE:
        return asked
    backends = distributed_c10d.BackendConfig(distributed_c10d.Backend(asked))
    return str(backends.get_device_backend_map().get("cpu", asked))
