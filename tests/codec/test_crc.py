# SPDX-License-Identifier: Apache-2.0
"""Every way to sum a block gives the CRC that the reference gives."""

from collections.abc import Callable

import numpy as np
import pytest

from codec import reference
from codec.format import CRC_INIT
from codec.kernels import crc
from codec.kernels.compile import FOLDS_CRC

WAYS = [crc._sum_block, *([crc._fold_block] if FOLDS_CRC else [])]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.py_func.__name__)
@pytest.mark.parametrize("size", [64, 192, 256, 320, 512, 1024, 1280, 3840, 4032, 4096])
def test_sum_of_a_block(way: Callable, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 64, np.uint8)
    assert int(way(data, size)) ^ CRC_INIT == reference.crc32c(data[:size].tobytes())
