# SPDX-License-Identifier: Apache-2.0
"""The tensors of an earlier checkpoint, which a later one is coded against."""

from pathlib import Path
from types import TracebackType

from codec.checkpoint import Tensor, read_checkpoint
from codec.engine import U8
from codec.files import SourceFile
from codec.table import TensorEntry


class ResidentCheckpoint:
    """Finds the resident copy of a tensor by its name, type and shape.

    Args:
        path: whatever `codec.checkpoint.read_checkpoint` reads.

    Raises:
        CheckpointError: it is no checkpoint.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors: dict[str, Tensor] = {}
        self._files: dict[Path, SourceFile] = {}
        try:
            for tensor in read_checkpoint(path):
                self._tensors.setdefault(tensor.name, tensor)
                if tensor.file not in self._files:
                    self._files[tensor.file] = SourceFile(tensor.file)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "ResidentCheckpoint":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def mismatch(self, wanted: TensorEntry) -> str | None:
        """What there is in place of a copy of `wanted`; None if there is one."""
        found = self._tensors.get(wanted.name)
        if found is None:
            return "no tensor of this name"
        if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
            return f"{found.dtype} {found.shape}"
        # A forged container may name any size with a shape.
        return None if found.nbytes == wanted.original_bytes else f"{found.nbytes} bytes"

    def read(self, name: str, begin: int, size: int) -> U8:
        """`size` bytes of a tensor that is there, from byte `begin` on, uint8 `(size,)`."""
        tensor = self._tensors[name]
        if tensor.in_place:
            return self._files[tensor.file].read(tensor.span[0] + begin, size)
        return tensor.read(begin, size)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
