# SPDX-License-Identifier: Apache-2.0
"""The engine interface, and the table that finds an engine by its name.

An engine codes whole buffers, many blocks a call, so that Python costs nothing per block. Every
engine but `null` produces the same bytes (`docs/format.md`); `null` codes nothing and is the
baseline that savings are measured against.
"""

import functools
import importlib
from dataclasses import dataclass, fields
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.errors import CorruptFrame, EngineUnavailable, InvalidInput
from codec.format import BLOCK_BYTES_MAX, Mode

U8 = NDArray[np.uint8]


@dataclass(frozen=True)
class Packets:
    """The payloads of consecutive blocks, back to back.

    Attributes:
        payload: uint8 `(sum(lengths),)`.
        lengths: int32 `(blocks,)`, bytes of each payload.
        modes: uint8 `(blocks,)`, a `Mode` each. `RAW` marks a bare block where an engine was asked
            for bare raw blocks; every other payload is a frame. A receiver that only knows which
            payloads are frames passes `Mode.CODED` for those.
    """

    payload: U8
    lengths: NDArray[np.int32]
    modes: NDArray[np.uint8]


class Engine(Protocol):
    """Codes the consecutive blocks of one buffer."""

    name: str

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
        """Code `data`, cut into blocks of `block_bytes` (the last may be shorter).

        Args:
            data: uint8 `(n,)`, contiguous; never written to.
            element: what the bytes are.
            block_bytes: 1 to 4096.
            phase: bytes at the start of `data` that belong to an element begun before it.
            bare: a block whose frame would not be shorter than itself travels without a frame
                (packets); otherwise every block gets a frame (streams).
            resident: a copy that the receiver holds, as long as `data`: allows reference mode.

        Raises:
            InvalidInput: a wrong type, size or phase.
        """
        ...

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
        """Undo `encode` into `out`, uint8 `(n,)`, whose size says how many bytes are expected.

        `resident` is the copy that frames in reference mode were coded against, uint8 `(n,)`.

        Raises:
            FrameError: any payload is not what `encode` made; the message names the block. What
                `out` holds then is unspecified.
            InvalidInput: a wrong type, size or phase.
        """
        ...


@dataclass(frozen=True)
class DirectionCounters:
    """What a simulated engine did in one direction, in clocks and beats of its streams.

    Attributes:
        clocks: from the first beat offered to the last beat taken, added up over calls.
        packets: blocks or frames.
        input_bytes, output_bytes: of the packets.
        input_beats, output_beats: words of the streams.
        input_stalls, output_stalls: clocks in which a beat was offered and not taken.
    """

    clocks: int = 0
    packets: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    input_beats: int = 0
    output_beats: int = 0
    input_stalls: int = 0
    output_stalls: int = 0

    def minus(self, earlier: "DirectionCounters") -> "DirectionCounters":
        """These counters less `earlier`, field by field."""
        return DirectionCounters(
            **{f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)}
        )


@dataclass(frozen=True)
class EngineCounters:
    """What a simulated engine did since it was made."""

    encode: DirectionCounters
    decode: DirectionCounters

    def minus(self, earlier: "EngineCounters") -> "EngineCounters":
        """What was added after `earlier`."""
        return EngineCounters(self.encode.minus(earlier.encode), self.decode.minus(earlier.decode))


@runtime_checkable
class SimulatedEngine(Engine, Protocol):
    """An engine that is simulated hardware: it is built before it is used, and counts clocks.

    Attributes:
        around: sends blocks through the same hardware as they are, where `null` would be used.
        data_bits: width of the hardware's streams.
    """

    around: Engine
    data_bits: int

    def is_built(self) -> bool:
        """Whether `build` has nothing to do."""
        ...

    def build(self) -> None:
        """Build the model if it was never built, which takes a minute or two.

        Raises:
            EngineUnavailable: a tool is missing.
        """
        ...

    def counters(self) -> EngineCounters:
        """The totals of this process so far."""
        ...


EngineName = Literal["null", "reference", "numba", "rtl", "hls"]
ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
_MODULES = {
    "reference": "codec.reference",
    "numba": "codec.numba_engine",
    "rtl": "hw.rtl_engine",
}


def get_engine(name: str) -> Engine:
    """The engine called `name`, one of `ENGINE_NAMES`.

    Raises:
        EngineUnavailable: no such engine, or it is not built yet; the message says which exist.
    """
    if name == "null":
        return NullEngine()
    module = _MODULES.get(name)
    if module is None:
        available = ", ".join(("null", *_MODULES))
        raise EngineUnavailable(f"engine: expected one of {available}; found {name!r}")
    engine: Engine = importlib.import_module(module).ENGINE
    return engine


def block_lengths(total_bytes: int, block_bytes: int) -> NDArray[np.int32]:
    """int32 `(blocks,)`: the length of each block of a buffer of `total_bytes`."""
    lengths = np.full(-(-total_bytes // block_bytes), block_bytes, np.int32)
    if total_bytes % block_bytes:
        lengths[-1] = total_bytes % block_bytes
    return lengths


@functools.lru_cache(maxsize=256)
def raw_blocks(total_bytes: int, block_bytes: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Lengths and modes of the packets of a buffer of which no block is coded; read-only.

    Networks send the same few sizes again and again, and most of them have many blocks.
    """
    lengths = block_lengths(total_bytes, block_bytes)
    modes = np.full(lengths.size, Mode.RAW, np.uint8)
    lengths.setflags(write=False)
    modes.setflags(write=False)
    return lengths, modes


def check_request(
    data: U8, element: ElementType, block_bytes: int, phase: int, resident: U8 | None = None
) -> None:
    """Raise `InvalidInput` unless an engine can work on these arguments."""
    if not isinstance(element, ElementType):
        raise InvalidInput(f"element: expected an ElementType; found {element!r}")
    for name, value in (("block_bytes", block_bytes), ("phase", phase)):
        if not isinstance(value, int | np.integer):
            raise InvalidInput(f"{name}: expected an integer; found {value!r}")
    _check_bytes("data", data)
    if resident is not None:
        _check_bytes("resident", resident)
        if resident.size != data.size:
            raise InvalidInput(f"resident: expected {data.size} bytes; found {resident.size}")
    if not 1 <= block_bytes <= BLOCK_BYTES_MAX:
        raise InvalidInput(f"block_bytes: expected 1 to {BLOCK_BYTES_MAX}; found {block_bytes}")
    if not 0 <= phase < element.width_bytes:
        raise InvalidInput(
            f"phase: expected 0 to {element.width_bytes - 1} for {element.name}; found {phase}"
        )


def check_output(
    out: U8, element: ElementType, block_bytes: int, phase: int, resident: U8 | None = None
) -> None:
    """`check_request` for an array that will be written to."""
    check_request(out, element, block_bytes, phase, resident)
    if not out.flags.writeable:
        raise InvalidInput("out: expected a writable array; found a read-only one")


def _check_bytes(name: str, array: U8) -> None:
    if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
        raise InvalidInput(
            f"{name}: expected contiguous uint8 (n,); found {array.dtype} {array.shape}"
            f"{'' if array.flags.c_contiguous else ', not contiguous'}"
        )


def check_packets(packets: Packets, blocks: int) -> None:
    """Raise `CorruptFrame` unless there is one payload a block and their lengths add up."""
    if packets.lengths.size != blocks or packets.modes.size != blocks:
        raise CorruptFrame(f"packets: expected {blocks}; found {packets.lengths.size}")
    total = int(packets.lengths.sum(dtype=np.int64))
    if (blocks and int(packets.lengths.min()) < 0) or total != packets.payload.size:
        raise CorruptFrame(f"packets: expected {packets.payload.size} bytes; found {total}")


class NullEngine:
    """Passes every block through as it is."""

    name = "null"

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
            raise InvalidInput("engine null makes no frames: it only serves bare packets")
        return Packets(data, *raw_blocks(data.size, block_bytes))

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
        if not bare:
            raise InvalidInput("engine null makes no frames: it only serves bare packets")
        check_packets(packets, block_lengths(out.size, block_bytes).size)
        if np.any(packets.modes != Mode.RAW):
            block = int(np.flatnonzero(packets.modes != Mode.RAW)[0])
            raise CorruptFrame(f"block {block}: engine null expected a raw packet; found a frame")
        if not np.array_equal(packets.lengths, block_lengths(out.size, block_bytes)):
            raise CorruptFrame(f"packets: expected {out.size} bytes; found other lengths")
        out[:] = packets.payload
