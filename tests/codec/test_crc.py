# SPDX-License-Identifier: Apache-2.0
"""Every way to sum a block gives the CRC that the reference gives."""

from collections.abc import Callable

import numpy as np
import pytest

from codec import reference
from codec.checksum import crc32c, padded_crc32c
from codec.errors import InvalidInput
from codec.format import CRC_INIT
from codec.kernels import crc
from codec.kernels.compile import FOLDS_CRC

UPDATES = [crc._update_words, *([crc._update_folded] if FOLDS_CRC else [])]
WAYS = [crc._sum_block, *([crc._fold_block] if FOLDS_CRC else [])]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.py_func.__name__)
@pytest.mark.parametrize("size", [64, 192, 256, 320, 512, 1024, 1280, 3840, 4032, 4096])
def test_sum_of_a_block(way: Callable, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 64, np.uint8)
    assert int(way(data, size)) ^ CRC_INIT == reference.crc32c(data[:size].tobytes())


@pytest.mark.parametrize("way", UPDATES, ids=lambda way: way.py_func.__name__)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 511, 1000, 4096, 5003])
def test_sum_of_any_number_of_bytes(way: Callable, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 3, np.uint8)[3:]
    whole = reference.crc32c(data.tobytes())
    assert int(way(CRC_INIT, data.ctypes.data, size)) ^ CRC_INIT == whole
    for cut in {0, size // 3, size}:
        state = way(CRC_INIT, data.ctypes.data, cut)
        state = way(state, data.ctypes.data + cut, size - cut)
        assert int(state) ^ CRC_INIT == whole


def test_sums_go_on_and_are_padded() -> None:
    data = np.frombuffer(b"123456789", np.uint8)
    # The check value that every description of CRC-32C gives.
    assert crc32c(data) == 0xE3069283
    assert crc32c(data[4:], crc32c(data[:4])) == 0xE3069283
    assert padded_crc32c(data) == reference.crc32c(bytes(data) + bytes(55))
    assert padded_crc32c(data[:0]) == crc32c(data[:0]) == 0
    long = np.arange(64, dtype=np.uint8)
    assert padded_crc32c(long) == crc32c(long) == reference.crc32c(bytes(long))
    for wrong in (long[::2], long.view(np.uint16), long.reshape(8, 8)):
        with pytest.raises(InvalidInput, match="contiguous uint8"):
            crc32c(wrong)
