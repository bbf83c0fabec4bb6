# SPDX-License-Identifier: Apache-2.0
"""`wirezip wire`: a frozen dataclass of options with `run`; `training.cli` gathers it.

What it loads besides, it loads in `run`.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from codec.engine import EngineName
from codec.output import JsonPath, console_beside, write_json

Interface = Annotated[str, tyro.conf.arg(metavar="INTERFACE")]
Namespace = Annotated[str | None, tyro.conf.arg(metavar="NAME|PATH")]
Address = Annotated[str | None, tyro.conf.arg(metavar="ADDRESS/BITS")]


@dataclass(frozen=True)
class Wire:
    """Options of `wirezip wire`."""

    host: Interface
    """TAP device that the host uses as its network interface; made if there is none."""
    wire: Interface
    """Interface that the frames leave by; the far end of its cable is another `wirezip wire`. The
    device gets its MTU."""
    host_namespace: Namespace = None
    """Network namespace of the TAP device; this one by default."""
    wire_namespace: Namespace = None
    """Network namespace of the wire's interface; this one by default."""
    address: Address = None
    """IPv4 address to give to the TAP device, such as 10.0.0.1/24."""
    engine: EngineName = "numba"
    """What codes payloads; `null` lets all frames pass as they are, and still restores."""
    ethertype: int = 0x88B5
    """EtherType of coded frames, on both ends; by default one that IEEE 802 has for experiments."""
    json: JsonPath = None
    """Where to write counters by flow as JSON, at the end and on each SIGUSR1; `-` is standard
    output."""

    def run(self) -> int:
        from nic_emul.wire import WireConfig, run_wire

        console = console_beside(self.json)
        config = WireConfig(
            host=self.host,
            wire=self.wire,
            host_namespace=self.host_namespace,
            wire_namespace=self.wire_namespace,
            address=self.address,
            engine=self.engine,
            ethertype=self.ethertype,
        )

        def ready(mtu: int) -> None:
            console.print(f"{self.host} <-> {self.wire}, MTU {mtu}", highlight=False)

        run_wire(config, on_ready=ready, on_report=self._report)
        return 0

    def _report(self, counters: dict[str, Any]) -> None:
        write_json(self.json, counters)
