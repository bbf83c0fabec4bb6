# SPDX-License-Identifier: Apache-2.0
"""Which element type are these bytes? A guess from the bytes alone, for a packet without a tag.

A payload may begin in the middle of an element, at any phase. Exponents of real tensors cluster,
and at the right width and phase they do so most: each candidate is given the bits that coding its
exponents by their entropy would save, and the best one wins. A wrong guess costs bytes and nothing
else: the codec restores any bytes under any type.
"""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.format import LONG_HEADER_BYTES

U8 = NDArray[np.uint8]

# In the order in which the kernel gives them.
_CANDIDATES = (
    *((ElementType.BF16, phase) for phase in range(2)),
    *((ElementType.FP16, phase) for phase in range(2)),
    *((ElementType.FP32, phase) for phase in range(4)),
    (ElementType.E4M3, 0),
    (ElementType.E5M2, 0),
)
_FP16 = 2
_BYTES_MIN = 64
# A frame has a header, and entropy is not quite reached: what saves less is not worth a frame.
_SAVED_SHARE_MIN = 0.02
# A BF16 reads three bits of an FP16's mantissa as exponent. They save next to nothing there, and
# more where they are an exponent. Chosen by measurement: docs/decisions/0014-inferred-types.md.
_BF16_EVIDENCE_BITS = 0.2


def infer(payload: U8) -> tuple[ElementType, int]:
    """The element type that `payload`, uint8 `(n,)`, is most probably made of, and its phase.

    The phase is the number of bytes, less than an element, at the start of `payload` that belong to
    an element begun before it, as `codec.engine.Engine.encode` takes it. `RAW`, phase 0, says that
    no type promises to save anything; so it is for fewer than 64 bytes.
    """
    if payload.size < _BYTES_MIN:
        return ElementType.RAW, 0
    data = np.ascontiguousarray(payload)
    saved = _survey(data)
    best = int(saved.argmax())
    if saved[best] < 8 * (LONG_HEADER_BYTES + _SAVED_SHARE_MIN * data.size):
        return ElementType.RAW, 0
    if best < _FP16:
        narrower = best + _FP16
        if saved[best] - saved[narrower] < _BF16_EVIDENCE_BITS * (data.size // 2):
            best = narrower
    return _CANDIDATES[best]


def _survey(data: U8) -> NDArray[np.float64]:
    from codec.kernels import exponents

    counts = np.empty((exponents.ROWS, 256), np.int32)
    lanes = np.empty(4, np.uint8)
    saved = np.empty(exponents.CANDIDATES, np.float64)
    _kernel()(data.ctypes.data, data.size, counts, lanes, saved)
    return saved


@functools.cache
def _kernel() -> Callable[..., None]:
    # Here, since Numba takes half a second to import.
    from codec.kernels.compile import only_one_process
    from codec.kernels.exponents import CANDIDATES, ROWS, saved_bits

    kernel: Callable[..., None] = saved_bits
    scratch = np.zeros(_BYTES_MIN, np.uint8)
    with only_one_process():
        kernel(
            scratch.ctypes.data,
            scratch.size,
            np.empty((ROWS, 256), np.int32),
            np.empty(4, np.uint8),
            np.empty(CANDIDATES, np.float64),
        )
    return kernel
