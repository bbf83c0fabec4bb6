# SPDX-License-Identifier: Apache-2.0
"""How well are element types told from bytes, and what does it cost? Measured on real tensors.

Of each tensor some full packets are taken, evenly spread, and each at every phase: as if it began
in the middle of an element. They are coded with their type known, with the type inferred, and as
bytes of no type. What was inferred is decoded again and compared.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codec.bench import Options, select
from codec.checkpoint import Tensor
from codec.elements import ElementType
from codec.engine import Packets, get_engine
from codec.errors import InvalidInput
from nic_emul.element_source import source_of
from nic_emul.inference import infer

U8 = NDArray[np.uint8]


@dataclass(frozen=True)
class Study:
    """What to measure.

    Attributes:
        packet_bytes: payload of a packet.
        packets: taken of a tensor, at most.
        cast: type that wider ones are rounded to first, one of `codec.bench.CASTS`.
        tensors: shell patterns, of which a tensor's name has to match one.
    """

    packet_bytes: int = 4096
    packets: int = 32
    cast: str | None = None
    tensors: Sequence[str] = ("*",)


@dataclass(frozen=True)
class Row:
    """The packets of one group of tensors, element type and phase.

    Attributes:
        group: what stands before the first slash of the tensors' names, empty if nothing does.
        dtype: of the tensors, in lower case.
        phase: bytes at the start of each packet that belong to an element begun before it.
        packets: how many were taken.
        original_bytes: of their payloads.
        tagged_bytes, inferred_bytes, off_bytes: of their payloads when coded with type and phase
            known, inferred, and as bytes.
        wrong: packets for which another type or phase was inferred.
        found: those, by what was inferred: `fp16+1` is FP16 at phase 1.
    """

    group: str
    dtype: str
    phase: int
    packets: int
    original_bytes: int
    tagged_bytes: int
    inferred_bytes: int
    off_bytes: int
    wrong: int
    found: dict[str, int]


def measure(paths: Sequence[Path], study: Study) -> list[Row]:
    """The rows of the tensors in `paths`, checkpoints as `wirezip bench` takes them.

    Raises:
        InvalidInput: there is no full packet in them.
        CheckpointError: a file is not what it should be.
    """
    windows: dict[tuple[str, str, ElementType], list[U8]] = {}
    options = Options(cast=study.cast, tensors=study.tensors)
    for path in paths:
        for tensor in select(path, options):
            key = (_group(tensor.name), tensor.dtype.lower(), tensor.element)
            windows.setdefault(key, []).extend(_windows(tensor, study))
    rows = [
        _row(group, dtype, element, phase, taken, study.packet_bytes)
        for (group, dtype, element), taken in sorted(windows.items())
        if taken
        for phase in range(element.width_bytes)
    ]
    if not rows:
        raise InvalidInput(f"paths: expected a tensor of {study.packet_bytes} bytes; found none")
    return rows


def total(rows: Sequence[Row]) -> Row:
    """The sum of `rows` of one type and phase, over groups."""
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.found)
    return Row(
        group="",
        dtype=rows[0].dtype,
        phase=rows[0].phase,
        packets=sum(row.packets for row in rows),
        original_bytes=sum(row.original_bytes for row in rows),
        tagged_bytes=sum(row.tagged_bytes for row in rows),
        inferred_bytes=sum(row.inferred_bytes for row in rows),
        off_bytes=sum(row.off_bytes for row in rows),
        wrong=sum(row.wrong for row in rows),
        found=dict(found),
    )


def _group(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _windows(tensor: Tensor, study: Study) -> Iterator[U8]:
    """Parts of `tensor` that begin with an element and hold a packet at any phase."""
    width = tensor.element.width_bytes
    size = study.packet_bytes + width - 1
    places = (tensor.nbytes - size) // width + 1
    if places < 1:
        return
    for place in np.linspace(0, places - 1, min(study.packets, places), dtype=np.int64):
        yield tensor.read(int(place) * width, size)


def _row(
    group: str, dtype: str, element: ElementType, phase: int, windows: list[U8], packet_bytes: int
) -> Row:
    start = -phase % element.width_bytes
    # A packet is a multiple of every width, so the next one behind it has its phase.
    data = np.concatenate([window[start : start + packet_bytes] for window in windows])
    engine = get_engine("numba")
    tagged = engine.encode(data, element, packet_bytes, phase=phase, bare=True)
    off = engine.encode(data, ElementType.RAW, packet_bytes, bare=True)
    inferred = source_of("inferred").encode(engine, data, element, packet_bytes)
    _check(data, inferred, packet_bytes)
    guesses = Counter(
        infer(data[at : at + packet_bytes]) for at in range(0, data.size, packet_bytes)
    )
    del guesses[element, phase]
    return Row(
        group=group,
        dtype=dtype,
        phase=phase,
        packets=len(windows),
        original_bytes=data.size,
        tagged_bytes=tagged.payload.size,
        inferred_bytes=inferred.payload.size,
        off_bytes=off.payload.size,
        wrong=guesses.total(),
        found={f"{kind.name.lower()}+{at}": count for (kind, at), count in guesses.most_common()},
    )


def _check(data: U8, packets: Packets, packet_bytes: int) -> None:
    out = np.empty_like(data)
    source_of("inferred").decode(get_engine("numba"), packets, ElementType.RAW, packet_bytes, out)
    if not np.array_equal(out, data):
        raise AssertionError("inferred packets: expected the original after decoding")
