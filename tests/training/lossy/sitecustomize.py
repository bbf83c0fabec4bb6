# SPDX-License-Identifier: Apache-2.0
"""Makes the engine `numba` lossy in every process that has this folder on PYTHONPATH.

It flips a bit of the mantissa of the first element of a message on the way out: in the first four
messages that a process codes (ZeRO-2 of `tiny` begins with four gradients), or in every one, as
`LOSSY_MESSAGES` says. Nothing in the product has a switch for this.
"""

import itertools
import os

import codec.engine


class LossyEngine(codec.engine.NullEngine):
    name = "numba"

    def __init__(self) -> None:
        every = os.environ["LOSSY_MESSAGES"] == "every"
        flips = itertools.repeat(0x40)
        rest = itertools.repeat(0)
        self._flips = flips if every else itertools.chain(itertools.islice(flips, 4), rest)

    def encode(self, data, element, block_bytes, *, phase=0, bare=False):
        changed = data.copy()
        changed[0] ^= next(self._flips)
        return super().encode(changed, element, block_bytes, phase=phase, bare=bare)


_get_engine = codec.engine.get_engine
codec.engine.get_engine = lambda name: LossyEngine() if name == "numba" else _get_engine(name)
