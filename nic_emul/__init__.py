# SPDX-License-Identifier: Apache-2.0
"""An emulated SmartNIC under torch.distributed: the backend `wirezip`.

Importing this package registers the backend; the names below load on first use, so that
`import torch`, which imports the package too, stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from nic_emul.autoload import load

if TYPE_CHECKING:
    from codec.packet import MTUS
    from nic_emul.config import GroupOptions, NicConfig
    from nic_emul.counters import CounterRow, Counters, Summary, aggregate
    from nic_emul.nic import Nic, local_nic
    from nic_emul.roles import Collective, Role

__all__ = [
    "MTUS",
    "Collective",
    "CounterRow",
    "Counters",
    "GroupOptions",
    "Nic",
    "NicConfig",
    "Role",
    "Summary",
    "aggregate",
    "local_nic",
]

_HOME = {
    "MTUS": "config",
    "Collective": "roles",
    "CounterRow": "counters",
    "Counters": "counters",
    "GroupOptions": "config",
    "Nic": "nic",
    "NicConfig": "config",
    "Role": "roles",
    "Summary": "counters",
    "aggregate": "counters",
    "local_nic": "nic",
}

load()


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"nic_emul.{_HOME[name]}"), name)
