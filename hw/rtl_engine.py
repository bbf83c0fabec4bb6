# SPDX-License-Identifier: Apache-2.0
"""Engine `rtl`, where `codec.engine.get_engine` looks for it.

Importing this raises `EngineUnavailable` where the engine cannot be built; it is built when it is
first used.
"""

from hw.sim.build import verilator
from hw.sim.engine import RtlEngine

verilator()
ENGINE = RtlEngine()
