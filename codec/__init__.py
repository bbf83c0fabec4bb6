# SPDX-License-Identifier: Apache-2.0
"""Lossless compression of training tensors, block by block (`docs/format.md`).

    stream = codec.compress(tensor)
    restored = codec.decompress(stream).view(np.float32).reshape(tensor.shape)

Everything raised on purpose derives from `WirezipError`.
"""

from codec.elements import ElementType
from codec.errors import WirezipError
from codec.stream import Inspection, bound, compress, compress_into, decompress, inspect

__all__ = [
    "ElementType",
    "Inspection",
    "WirezipError",
    "bound",
    "compress",
    "compress_into",
    "decompress",
    "inspect",
]
