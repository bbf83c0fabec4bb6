# SPDX-License-Identifier: Apache-2.0
"""Lossless compression of training tensors, block by block (`docs/format.md`).

    stream = codec.compress(tensor)
    restored = codec.decompress(stream).view(np.float32).reshape(tensor.shape)

    with codec.open_container("model.safetensors.wz") as container:
        data, dtype, shape = container.read("embeddings.weight")

Everything raised on purpose derives from `WirezipError`.
"""

from codec.container import Container, open_container
from codec.container_writer import write_container
from codec.elements import ElementType
from codec.errors import WirezipError
from codec.stream import Inspection, bound, compress, compress_into, decompress, inspect

__all__ = [
    "Container",
    "ElementType",
    "Inspection",
    "WirezipError",
    "bound",
    "compress",
    "compress_into",
    "decompress",
    "inspect",
    "open_container",
    "write_container",
]
