# SPDX-License-Identifier: Apache-2.0
"""Makes the engine `numba` lossy in every process that has this folder on PYTHONPATH.

It flips the lowest bit of the first element of a message on the way out, the smallest loss there
is: in the first message that a process sends, or in every one (`LOSSY_MESSAGES`). Nothing in the
product has a switch for this.
"""

import itertools
import os

import codec.engine


class LossyEngine(codec.engine.NullEngine):
    name = "numba"

    def __init__(self) -> None:
        every = os.environ["LOSSY_MESSAGES"] == "every"
        self._flips = itertools.repeat(1) if every else itertools.chain([1], itertools.repeat(0))

    def encode(self, data, element, block_bytes, *, phase=0, bare=False):
        changed = data.copy()
        changed[0] ^= next(self._flips)
        return super().encode(changed, element, block_bytes, phase=phase, bare=bare)


_get_engine = codec.engine.get_engine
codec.engine.get_engine = lambda name: LossyEngine() if name == "numba" else _get_engine(name)
