# SPDX-License-Identifier: Apache-2.0
"""The Numba engine: every mode and element type of the format, at memory-like speed.

The loops are in `codec.kernels`. They work on addresses, so that read-only and misaligned buffers
need no copy and no kernel of their own; this file checks what they rely on.
"""

import functools
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codec import reference
from codec.elements import ElementType
from codec.engine import U8, Packets, block_lengths, check_output, check_packets, check_request
from codec.errors import (
    CorruptFrame,
    FrameError,
    InvalidInput,
)
from codec.format import SHORT_HEADER_BYTES, Mode
from codec.kernels import decode, encode
from codec.kernels.compile import only_one_process
from codec.kernels.decode import OK, decode_blocks
from codec.kernels.encode import encode_blocks
from codec.kernels.scratch import Arena


@functools.cache
def compile_kernels() -> None:
    """Compile the kernels, or load them; the first use in a process calls this.

    Takes some ten seconds when nothing is in the cache. Of several processes that start at once,
    one compiles and the others wait for it.
    """
    data, lengths, modes = np.zeros(8, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.uint8)
    out = np.zeros(encoded_bytes_max(data.size, data.size), np.uint8)
    arena = Arena(max(encode.AT.end, decode.AT.end))
    with only_one_process():
        encode_blocks(
            arena.address, data.ctypes.data, 8, 0, 8, 0, False, 0, out.ctypes.data, lengths, modes
        )
        decode_blocks(
            arena.address,
            out.ctypes.data,
            9,
            lengths,
            modes,
            0,
            8,
            0,
            False,
            0,
            data.ctypes.data,
            8,
        )


def kernels_are_cached() -> bool:
    """Whether `compile_kernels` will find what it needs, which then takes less than a second."""
    python = "py{}{}".format(*sys.version_info)
    return all(
        any(Path(kernel.stats.cache_path).glob(f"*.{kernel.__name__}-*.{python}*.nbi"))
        for kernel in (encode_blocks, decode_blocks)
    )


def encoded_bytes_max(total_bytes: int, block_bytes: int) -> int:
    """The most bytes that the frames of a buffer can take."""
    return total_bytes + SHORT_HEADER_BYTES * -(-total_bytes // block_bytes)


def encode_into(
    data: U8,
    element: ElementType,
    block_bytes: int,
    out: U8,
    lengths: NDArray[np.int32],
    modes: NDArray[np.uint8],
    *,
    phase: int = 0,
    bare: bool = False,
    resident: U8 | None = None,
) -> int:
    """`NumbaEngine.encode` into the caller's arrays; returns the bytes written to `out`.

    Args:
        out: uint8, at least `encoded_bytes_max(data.size, block_bytes)`.
        lengths: int32 `(blocks,)`.
        modes: uint8 `(blocks,)`.

    Raises:
        InvalidInput: a wrong type, size or phase, or an array that is too small.
    """
    check_request(data, element, block_bytes, phase, resident)
    blocks = -(-data.size // block_bytes)
    room = encoded_bytes_max(data.size, block_bytes)
    if out.size < room or not out.flags.c_contiguous or out.dtype != np.uint8:
        raise InvalidInput(f"out: expected {room} contiguous bytes; found {out.size} {out.dtype}")
    for name, array, dtype in (("lengths", lengths, np.int32), ("modes", modes, np.uint8)):
        if array.shape != (blocks,) or array.dtype != dtype or not array.flags.c_contiguous:
            raise InvalidInput(
                f"{name}: expected {dtype.__name__} ({blocks},); found {array.shape}"
            )
    compile_kernels()
    arena = Arena(encode.AT.end)
    written = encode_blocks(
        arena.address,
        data.ctypes.data,
        data.size,
        int(element),
        block_bytes,
        phase,
        bare,
        _address(resident),
        out.ctypes.data,
        lengths,
        modes,
    )
    return int(written)


class NumbaEngine:
    """See `codec.engine.Engine`."""

    name = "numba"

    def encode(
        self,
        data: U8,
        element: ElementType,
        block_bytes: int,
        *,
        phase: int = 0,
        bare: bool = False,
        resident: U8 | None = None,
    ) -> Packets:
        check_request(data, element, block_bytes, phase, resident)
        blocks = -(-data.size // block_bytes)
        out = np.empty(encoded_bytes_max(data.size, block_bytes), np.uint8)
        lengths, modes = np.empty(blocks, np.int32), np.empty(blocks, np.uint8)
        written = encode_into(
            data,
            element,
            block_bytes,
            out,
            lengths,
            modes,
            phase=phase,
            bare=bare,
            resident=resident,
        )
        return Packets(out[:written], lengths, modes)

    def decode(
        self,
        packets: Packets,
        element: ElementType,
        block_bytes: int,
        out: U8,
        *,
        phase: int = 0,
        bare: bool = False,
        resident: U8 | None = None,
    ) -> None:
        check_output(out, element, block_bytes, phase, resident)
        check_packets(packets, block_lengths(out.size, block_bytes).size)
        compile_kernels()
        payload = np.ascontiguousarray(packets.payload)
        arena = Arena(decode.AT.end)
        status, block, offset = decode_blocks(
            arena.address,
            payload.ctypes.data,
            payload.size,
            np.ascontiguousarray(packets.lengths, np.int32),
            np.ascontiguousarray(packets.modes, np.uint8),
            int(element),
            block_bytes,
            phase,
            bare,
            _address(resident),
            out.ctypes.data,
            out.size,
        )
        if status == OK:
            return
        # The reference refuses it too, and says what is wrong with it.
        start = block * block_bytes
        expected = min(block_bytes, out.size - start)
        copy = None if resident is None else resident[start : start + expected].tobytes()
        try:
            reference.decode_payload(
                payload[offset : offset + int(packets.lengths[block])].tobytes(),
                element,
                expected,
                (phase - start) % element.width_bytes,
                bare=bare,
                bare_block=bare and packets.modes[block] == Mode.RAW,
                resident=copy,
            )
        except FrameError as error:
            raise type(error)(f"block {block}: {error}") from None
        raise CorruptFrame(f"block {block}: refused with status {status}")


def _address(resident: U8 | None) -> int:
    return 0 if resident is None or resident.size == 0 else resident.ctypes.data


ENGINE = NumbaEngine()
