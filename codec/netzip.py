# SPDX-License-Identifier: Apache-2.0
"""The NetZIP pipeline (MICRO 2025) as a baseline: rearrange BF16 values, then a standard codec.

An arm is one of four differences followed by one of three groupings; an arm's output goes through
each of four standard codecs, as one whole tensor or packet by packet. Everything is undone again
and compared bit by bit: an arm that does not return every value is lossy, whatever it saves.
`docs/netzip.md` sets what this measures beside what was published.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from codec.checkpoint import Tensor
from codec.elements import ElementType
from codec.engine import U8, get_engine
from codec.errors import InvalidInput
from codec.format import BLOCK_BYTES_MAX

U16 = NDArray[np.uint16]
Grouping = Literal["none", "byte", "bit"]
Delta = Literal["none", "base", "previous-int", "previous-float"]
BaseRule = Literal["minimum", "percentile"]
Unit = Literal["tensor", "packet"]

PACKET_BYTES = 4096
WIREZIP = "wirezip"

# Of the step before: the artifact's base.
_PERCENTILE = 1
_PLANES = 16


@dataclass(frozen=True)
class Arm:
    """One way to rearrange values.

    Attributes:
        delta: `none`; `base`, the BF16 rounding of value - base; `previous-int`, the wrapping
            difference of the 16-bit patterns from the step before; `previous-float`, the BF16
            rounding of the difference of the numbers.
        grouping: `none`; `byte`, all low bytes and then all high ones; `bit`, 16 bit planes, least
            significant first, each padded to a byte.
    """

    delta: Delta
    grouping: Grouping


DELTAS: tuple[Delta, ...] = ("none", "base", "previous-int", "previous-float")
GROUPINGS: tuple[Grouping, ...] = ("none", "byte", "bit")
ARMS = tuple(Arm(delta, grouping) for delta in DELTAS for grouping in GROUPINGS)


@dataclass(frozen=True)
class Row:
    """One arm and one codec on all tensors of a role; sizes in bytes.

    Attributes:
        file: the path as it was given.
        role: what stands before the first slash of the tensors' names, or `*`.
        unit: what is coded at a time: a whole `tensor`, or a `packet` of 4,096 bytes of one.
        delta: of the arm.
        grouping: of the arm.
        base: how the base was chosen; None in arms without one.
        compressor: `lz4`, `snappy`, `zlib-1`, `zstd-1`; or `wirezip` for comparison.
        original_bytes: before.
        compressed_bytes: after, bases included. A packet that does not shrink travels as it is.
        values: number of values.
        mismatches: values that came back with other bits.
        lossless: there are none.
    """

    file: str
    role: str
    unit: Unit
    delta: Delta
    grouping: Grouping
    base: BaseRule | None
    compressor: str
    original_bytes: int
    compressed_bytes: int
    values: int
    mismatches: int
    lossless: bool


@dataclass(frozen=True)
class _Compressor:
    """A standard codec: `decompress` is told the size that it must return."""

    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]


def measure(
    file: str,
    tensors: Sequence[Tensor],
    previous: Sequence[Tensor],
    *,
    base: BaseRule = "minimum",
    on_step: Callable[[str], None] | None = None,
) -> list[Row]:
    """Run every arm and codec over BF16 tensors, by role.

    Args:
        file: what the rows call the tensors' origin.
        tensors: of this step.
        previous: of the step before; must hold every tensor of this step.
        base: `minimum`, of the values that are coded at a time, as the paper describes it; or
            `percentile`, the first of the same tensor in the step before, as in the artifact.
        on_step: told what is being measured.

    Raises:
        InvalidInput: a tensor is not BF16, or the step before lacks it or has another size.
    """
    if not tensors:
        raise InvalidInput("tensors: expected at least one; found none")
    older = {tensor.name: tensor for tensor in previous}
    roles: dict[str, list[tuple[U16, U16]]] = {}
    for tensor in tensors:
        role = tensor.name.partition("/")[0] if "/" in tensor.name else "*"
        roles.setdefault(role, []).append((_values(tensor), _previous(tensor, older)))
    rows: list[Row] = []
    for role, pairs in roles.items():
        for unit in ("tensor", "packet"):
            pieces = [piece for pair in pairs for piece in _pieces(*pair, unit, base)]
            for arm in ARMS:
                if on_step:
                    on_step(f"{role}, {unit}s: {arm.delta} {arm.grouping}")
                rows += _measure_arm(file, role, unit, arm, pieces, base)
        rows.append(_wirezip_row(file, role, [values for values, _ in pairs]))
    return rows


# The arms


def group(values: U16, grouping: Grouping) -> bytes:
    """The bytes of uint16 `(n,)`, rearranged."""
    if grouping == "byte":
        return values.view(np.uint8).reshape(-1, 2).T.tobytes()
    if grouping == "bit":
        bits = (values >> np.arange(_PLANES, dtype=np.uint16)[:, None]) & 1
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little").tobytes()
    return values.tobytes()


def ungroup(data: bytes, count: int, grouping: Grouping) -> U16:
    """The `count` values that `group` made `data` of."""
    octets = np.frombuffer(data, np.uint8)
    if grouping == "byte":
        return np.ascontiguousarray(octets.reshape(2, count).T).view(np.uint16).reshape(-1)
    if grouping == "bit":
        bits = np.unpackbits(octets.reshape(_PLANES, -1), axis=1, count=count, bitorder="little")
        weights = (np.uint16(1) << np.arange(_PLANES, dtype=np.uint16))[:, None]
        values: U16 = (bits * weights).sum(axis=0, dtype=np.uint16)
        return values
    return octets.view(np.uint16)


def subtract(values: U16, delta: Delta, *, previous: U16, base: np.float32) -> U16:
    """What an arm transmits in place of the BF16 patterns `values`, uint16 `(n,)`."""
    if delta == "previous-int":
        return values - previous
    if delta == "none":
        return values
    other = base if delta == "base" else _to_float(previous)
    # Infinities and NaN are values like others here: the comparison judges what becomes of them.
    with np.errstate(over="ignore", invalid="ignore"):
        return _to_bf16(_to_float(values) - other)


def add(differences: U16, delta: Delta, *, previous: U16, base: np.float32) -> U16:
    """The best that a receiver can do to undo `subtract`; exact for `none` and `previous-int`."""
    if delta == "previous-int":
        return differences + previous
    if delta == "none":
        return differences
    other = base if delta == "base" else _to_float(previous)
    with np.errstate(over="ignore", invalid="ignore"):
        return _to_bf16(_to_float(differences) + other)


def _to_float(patterns: U16) -> NDArray[np.float32]:
    numbers: NDArray[np.float32] = patterns.view(ml_dtypes.bfloat16).astype(np.float32)
    return numbers


def _to_bf16(numbers: NDArray[np.float32]) -> U16:
    patterns: U16 = numbers.astype(ml_dtypes.bfloat16).view(np.uint16)
    return patterns


# What is coded at a time


@dataclass(frozen=True)
class _Piece:
    """A tensor or a packet of one: BF16 patterns, those of the step before, and the base."""

    values: U16
    previous: U16
    base: np.float32


def _pieces(values: U16, previous: U16, unit: Unit, rule: BaseRule) -> Iterator[_Piece]:
    step = values.size if unit == "tensor" else PACKET_BYTES // 2
    fixed = np.float32(0)
    if rule == "percentile":
        fixed = np.float32(np.percentile(_to_float(previous), _PERCENTILE))
    for start in range(0, values.size, step):
        part = values[start : start + step]
        base = np.fmin.reduce(_to_float(part)) if rule == "minimum" else fixed
        yield _Piece(part, previous[start : start + step], base)


def _values(tensor: Tensor) -> U16:
    if tensor.element is not ElementType.BF16:
        raise InvalidInput(f"{tensor.name}: expected BF16 (--cast bf16); found {tensor.dtype}")
    return np.frombuffer(tensor.data, "<u2")


def _previous(tensor: Tensor, older: dict[str, Tensor]) -> U16:
    found = older.get(tensor.name)
    if found is None or found.data.size != tensor.data.size:
        raise InvalidInput(
            f"previous: expected {tensor.name!r} of {tensor.data.size} bytes; "
            f"found {found.data.size if found else 'no such tensor'}"
        )
    return _values(found)


# Measuring


def _measure_arm(
    file: str, role: str, unit: Unit, arm: Arm, pieces: Sequence[_Piece], rule: BaseRule
) -> Iterator[Row]:
    sent = [
        group(subtract(p.values, arm.delta, previous=p.previous, base=p.base), arm.grouping)
        for p in pieces
    ]
    # A base that was chosen from the values themselves is a BF16 value and travels as one.
    base_bytes = (2 if rule == "minimum" else 4) if arm.delta == "base" else 0
    for name, compressor in _compressors(unit).items():
        compressed = mismatches = 0
        for piece, data in zip(pieces, sent, strict=True):
            stored = compressor.compress(data)
            size = len(stored) + base_bytes
            if unit == "packet" and size >= piece.values.nbytes:
                compressed += piece.values.nbytes
                continue
            compressed += size
            grouped = compressor.decompress(stored, len(data))
            differences = ungroup(grouped, piece.values.size, arm.grouping)
            restored = add(differences, arm.delta, previous=piece.previous, base=piece.base)
            mismatches += int(np.count_nonzero(restored != piece.values))
        yield Row(
            file=file,
            role=role,
            unit=unit,
            delta=arm.delta,
            grouping=arm.grouping,
            base=rule if arm.delta == "base" else None,
            compressor=name,
            original_bytes=sum(piece.values.nbytes for piece in pieces),
            compressed_bytes=compressed,
            values=sum(piece.values.size for piece in pieces),
            mismatches=mismatches,
            lossless=mismatches == 0,
        )


def _wirezip_row(file: str, role: str, tensors: Sequence[U16]) -> Row:
    """This project's codec over the same packets."""
    engine = get_engine("numba")
    compressed = mismatches = 0
    for values in tensors:
        data: U8 = values.view(np.uint8)
        packets = engine.encode(data, ElementType.BF16, BLOCK_BYTES_MAX, bare=True)
        restored = np.empty_like(data)
        engine.decode(packets, ElementType.BF16, BLOCK_BYTES_MAX, restored, bare=True)
        compressed += packets.payload.size
        mismatches += int(np.count_nonzero(restored.view(np.uint16) != values))
    return Row(
        file=file,
        role=role,
        unit="packet",
        delta="none",
        grouping="none",
        base=None,
        compressor=WIREZIP,
        original_bytes=sum(values.nbytes for values in tensors),
        compressed_bytes=compressed,
        values=sum(values.size for values in tensors),
        mismatches=mismatches,
        lossless=mismatches == 0,
    )


def _compressors(unit: Unit) -> dict[str, _Compressor]:
    """The standard codecs. LZ4 has no frame around a packet, whose size the receiver knows."""
    import cramjam
    import lz4.block
    import lz4.frame
    import zstandard

    def lz4_block(data: bytes) -> bytes:
        return bytes(lz4.block.compress(data, store_size=False))

    def lz4_block_back(data: bytes, size: int) -> bytes:
        return bytes(lz4.block.decompress(data, uncompressed_size=size))

    def lz4_frame(data: bytes) -> bytes:
        return bytes(lz4.frame.compress(data, compression_level=1))

    def lz4_frame_back(data: bytes, size: int) -> bytes:
        return bytes(lz4.frame.decompress(data))

    def zstd_back(data: bytes, size: int) -> bytes:
        return decoder.decompress(data, max_output_size=size)

    encoder, decoder = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()
    packets = unit == "packet"
    return {
        "lz4": _Compressor(
            lz4_block if packets else lz4_frame, lz4_block_back if packets else lz4_frame_back
        ),
        "snappy": _Compressor(
            lambda data: bytes(cramjam.snappy.compress_raw(data)),
            lambda data, size: bytes(cramjam.snappy.decompress_raw(data)),
        ),
        "zlib-1": _Compressor(
            lambda data: zlib.compress(data, 1), lambda data, size: zlib.decompress(data)
        ),
        "zstd-1": _Compressor(encoder.compress, zstd_back),
    }
