# SPDX-License-Identifier: Apache-2.0
"""Engine `rtl`: the Verilated hardware behind the codec's engine interface.

Every block and every frame goes through `wz_engine`, beat by beat. What is wrong with a frame is
what the hardware says; nothing is checked a second time here. The hardware has no reference mode
yet: `encode` does not use a resident copy, and a frame that needs one is refused as unsupported.
"""

import ctypes
import functools
import os
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from codec.elements import ElementType
from codec.engine import (
    U8,
    DirectionCounters,
    Engine,
    EngineCounters,
    Packets,
    block_lengths,
    check_output,
    check_packets,
    check_request,
)
from codec.errors import (
    CorruptFrame,
    EngineFault,
    FrameError,
    InvalidInput,
    TruncatedFrame,
    UnsupportedFrame,
)
from codec.format import MODE_BITS, MODE_LSB, SHORT_HEADER_BYTES, Mode
from hw.sim.build import engine_is_built, engine_library

DEFAULT_PARAMETERS: Mapping[str, int] = MappingProxyType({"DATA_W": 512})

_OK, _FAULT = 0, 4
_ERRORS: dict[int, tuple[type[FrameError], str]] = {
    1: (TruncatedFrame, "the packet ends before its frame does"),
    2: (CorruptFrame, "not a valid frame, or not the one of this block"),
    3: (UnsupportedFrame, "another format version, or a mode that the hardware does not have"),
}


class RtlEngine:
    """See `codec.engine.Engine`. One Verilated model, made at the first call, used by one thread
    at a time.

    Args:
        parameters: of `wz_engine`; `DATA_W` is 128, 256 or 512.
        extra: SystemVerilog files in place of those of `hw/rtl` that are called so.
        seed: draws what flops without a reset start with, and stalls.
        stall: the probability that either side of a stream waits before a beat.
    """

    name = "rtl"
    around: Engine

    def __init__(
        self,
        parameters: Mapping[str, int] = DEFAULT_PARAMETERS,
        *,
        extra: tuple[Path, ...] = (),
        seed: int = 1,
        stall: float = 0.0,
    ) -> None:
        self._parameters = parameters
        self._extra = extra
        self._seed = seed
        self._stall = stall
        self.data_bits = parameters["DATA_W"]
        self.around = _Around(self)
        self._lock = threading.Lock()
        self._model: _Model | None = None

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
        return self._encode(data, element, block_bytes, phase=phase, bare=bare, code=True)

    def _encode(
        self,
        data: U8,
        element: ElementType,
        block_bytes: int,
        *,
        phase: int,
        bare: bool,
        code: bool,
    ) -> Packets:
        blocks = -(-data.size // block_bytes)
        payload = np.empty(data.size + SHORT_HEADER_BYTES * blocks, np.uint8)
        lengths, coded = np.empty(blocks, np.int32), np.empty(blocks, np.uint8)
        if blocks:
            with self._lock:
                self._call(
                    "wz_encode",
                    data.ctypes.data,
                    data.size,
                    int(element),
                    block_bytes,
                    phase,
                    bare,
                    code,
                    payload.ctypes.data,
                    lengths.ctypes.data,
                    coded.ctypes.data,
                )
        ends = lengths.cumsum(dtype=np.int64)
        written = int(ends[-1]) if blocks else 0
        modes = payload[ends - lengths] >> MODE_LSB & (1 << MODE_BITS) - 1
        return Packets(payload[:written], lengths, np.where(coded, modes, np.uint8(Mode.RAW)))

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
        if not out.size:
            return
        payload = np.ascontiguousarray(packets.payload)
        lengths = np.ascontiguousarray(packets.lengths, np.int32)
        coded = np.ones(lengths.size, np.uint8)
        if bare:
            coded = (packets.modes != Mode.RAW).astype(np.uint8)
        block = ctypes.c_int64()
        with self._lock:
            status = self._call(
                "wz_decode",
                payload.ctypes.data,
                lengths.ctypes.data,
                coded.ctypes.data,
                int(element),
                block_bytes,
                phase,
                bare,
                out.ctypes.data,
                out.size,
                ctypes.byref(block),
            )
        if status != _OK:
            error, message = _ERRORS[status]
            raise error(f"block {block.value}: refused by the hardware: {message}")

    def is_built(self) -> bool:
        """Whether the model is in the cache."""
        return engine_is_built(self._parameters, extra=self._extra)

    def build(self) -> None:
        """Build the model unless it is in the cache.

        Raises:
            EngineUnavailable: Verilator or a compiler is missing, or fails.
        """
        engine_library(self._parameters, extra=self._extra)

    def counters(self) -> EngineCounters:
        """What the model did so far; zero if it has not been used."""
        with self._lock:
            if self._model is None:
                return EngineCounters(DirectionCounters(), DirectionCounters())
            return EngineCounters(self._model.count(0), self._model.count(1))

    def read(self, address: int) -> int:
        """The register at a byte address (`hw/csr/wz_csr.rdl`)."""
        with self._lock:
            return self._made().read(address)

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        with self._lock:
            self._made().write(address, value)

    def _call(self, function: str, *arguments: Any) -> int:
        try:
            return self._made().call(function, *arguments)
        except EngineFault:
            self._model = None
            raise

    def _made(self) -> "_Model":
        if self._model is None:
            library = engine_library(self._parameters, extra=self._extra)
            self._model = _Model(library, self._seed, self._stall)
        return self._model


class _Around:
    """Sends blocks through the hardware as they are, as engine `null` does without it."""

    name = "null"

    def __init__(self, engine: RtlEngine) -> None:
        self._engine = engine

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
        if not bare:
            raise InvalidInput("blocks that are not coded have no frames: bare packets only")
        return self._engine._encode(data, element, block_bytes, phase=phase, bare=True, code=False)

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
        self._engine.decode(
            packets, element, block_bytes, out, phase=phase, bare=bare, resident=resident
        )


class _Model:
    """One `wz_model`."""

    def __init__(self, path: Path, seed: int, stall: float) -> None:
        self._library = _load(path)
        self._handle = self._library.wz_create(seed, stall)
        if not self._handle:
            raise EngineFault("engine rtl: the model does not come out of reset")

    def __del__(self) -> None:
        self._library.wz_destroy(self._handle)

    def call(self, function: str, *arguments: Any) -> int:
        """What `wz_encode` or `wz_decode` returns.

        Raises:
            EngineFault: the model broke its contract; it is of no more use.
        """
        status = int(getattr(self._library, function)(self._handle, *arguments))
        if status == _FAULT:
            raise EngineFault(f"engine rtl: {self._library.wz_fault(self._handle).decode()}")
        return status

    def count(self, decoding: int) -> DirectionCounters:
        counters = self._library.wz_count(self._handle, decoding)
        return DirectionCounters(
            **{field.name: getattr(counters, field.name) for field in fields(DirectionCounters)}
        )

    def read(self, address: int) -> int:
        value = ctypes.c_uint32()
        self.call("wz_read", address, ctypes.byref(value))
        return value.value

    def write(self, address: int, value: int) -> None:
        self.call("wz_write", address, value)


class _Counters(ctypes.Structure):
    """`wz_counters`."""

    _fields_ = tuple((field.name, ctypes.c_uint64) for field in fields(DirectionCounters))


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path), mode=os.RTLD_LOCAL)
    pointer, integer, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "wz_create": (pointer, [ctypes.c_uint64, ctypes.c_double]),
        "wz_destroy": (None, [pointer]),
        "wz_encode": (
            integer,
            [pointer, pointer, long, *[integer] * 5, pointer, pointer, pointer],
        ),
        "wz_decode": (
            integer,
            [*[pointer] * 4, *[integer] * 4, pointer, long, pointer],
        ),
        "wz_count": (_Counters, [pointer, integer]),
        "wz_fault": (ctypes.c_char_p, [pointer]),
        "wz_read": (integer, [pointer, ctypes.c_uint32, pointer]),
        "wz_write": (integer, [pointer, ctypes.c_uint32, ctypes.c_uint32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
