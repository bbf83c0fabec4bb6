# SPDX-License-Identifier: Apache-2.0
"""CRC-32C (`docs/format.md`, section 5) of bytes of any number, at the speed of the kernels."""

import functools
from collections.abc import Callable

import numpy as np

from codec.engine import U8
from codec.errors import InvalidInput
from codec.format import BEAT_BYTES, CRC_INIT

_ZEROS = np.zeros(BEAT_BYTES, np.uint8)


def crc32c(data: U8, value: int = 0) -> int:
    """CRC-32C of `data`, going on from `value`, that of the bytes before, as `zlib.crc32` does.

    Args:
        data: uint8 `(n,)`, contiguous; may be read-only.
        value: 0 to 2^32 - 1.

    Raises:
        InvalidInput: other data.
    """
    if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
        raise InvalidInput(
            f"data: expected contiguous uint8 (n,); found {data.dtype} {data.shape}"
            f"{'' if data.flags.c_contiguous else ', not contiguous'}"
        )
    return int(_kernel()(value ^ CRC_INIT, data.ctypes.data, data.size)) ^ CRC_INIT


def padded_crc32c(data: U8) -> int:
    """CRC-32C of `data`, uint8 `(n,)`, with zeros added to a multiple of 64 bytes."""
    return crc32c(_ZEROS[: -data.size % BEAT_BYTES], crc32c(data))


@functools.cache
def _kernel() -> Callable[[int, int, int], int]:
    # Here, since Numba takes half a second to import.
    from codec.kernels.compile import only_one_process
    from codec.kernels.crc import crc_update

    with only_one_process():
        crc_update(CRC_INIT, 0, 0)
    kernel: Callable[[int, int, int], int] = crc_update
    return kernel
