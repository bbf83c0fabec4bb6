# SPDX-License-Identifier: Apache-2.0
"""Golden vectors in memory and on disk (see `tests/make_vectors.py`)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codec import errors
from codec.elements import ElementType
from codec.errors import FrameError
from codec.format import Coder, Mode
from codec.header import parse_header

FOLDER = Path(__file__).parents[1] / "vectors"


@dataclass(frozen=True)
class Good:
    """A block and a frame that every decoder must turn into it.

    Attributes:
        name: unique, `group/what`; the group is the file.
        why: what it is there to catch.
        element, phase: of the block.
        block: at most 4,096 bytes.
        frame: the frame.
        resident: the copy that reference mode needs, or None.
        canonical: the frame is the one that every encoder writes for the block.
    """

    name: str
    why: str
    element: ElementType
    block: bytes
    frame: bytes
    phase: int = 0
    resident: bytes | None = None
    canonical: bool = True


@dataclass(frozen=True)
class Bad:
    """A frame that every decoder must refuse.

    Attributes:
        name, element, phase, resident, frame: as in `Good`.
        why: the rule that is broken.
        block_bytes: length of the block that the receiver expects.
        error: what the reference codec raises.
    """

    name: str
    why: str
    element: ElementType
    block_bytes: int
    frame: bytes
    error: type[FrameError]
    phase: int = 0
    resident: bytes | None = None


def pack(good: Iterable[Good], bad: Iterable[Bad]) -> dict[str, bytes]:
    """What the folder must contain: file name to contents."""
    files: dict[str, bytearray] = {}
    rows: dict[str, list[dict[str, object]]] = {"good": [], "bad": []}
    for vector in good:
        header = parse_header(vector.frame)
        row = _row(vector, files, f"good/{vector.name.split('/')[0]}.bin", vector.block)
        row["mode"] = header.mode.name
        row["coder"] = Coder(header.coder).name if header.mode == Mode.CODED else None
        row["canonical"] = vector.canonical
        rows["good"].append(row)
    for vector in bad:
        row = _row(vector, files, f"bad/{vector.name.split('/')[0]}.bin", b"")
        row["block_bytes"] = vector.block_bytes
        row["error"] = vector.error.__name__
        rows["bad"].append(row)
    lists = [
        f'"{kind}": [\n' + ",\n".join(json.dumps(row) for row in rows[kind]) + "\n]"
        for kind in rows
    ]
    manifest = "{\n" + ",\n".join(lists) + "\n}\n"
    return {name: bytes(data) for name, data in files.items()} | {
        "manifest.json": manifest.encode()
    }


def load_good() -> list[Good]:
    return [
        Good(
            name=row["name"],
            why=row["why"],
            element=ElementType[row["element"]],
            block=block,
            frame=frame,
            phase=row["phase"],
            resident=resident,
            canonical=row["canonical"],
        )
        for row, block, resident, frame in _read("good")
    ]


def load_bad() -> list[Bad]:
    return [
        Bad(
            name=row["name"],
            why=row["why"],
            element=ElementType[row["element"]],
            block_bytes=row["block_bytes"],
            frame=frame,
            error=getattr(errors, row["error"]),
            phase=row["phase"],
            resident=resident,
        )
        for row, _, resident, frame in _read("bad")
    ]


def _row(
    vector: Good | Bad, files: dict[str, bytearray], file: str, block: bytes
) -> dict[str, object]:
    """The vector's manifest row; its bytes are appended to `files[file]`."""
    data = files.setdefault(file, bytearray())
    row: dict[str, object] = {
        "name": vector.name,
        "why": vector.why,
        "element": vector.element.name,
        "phase": vector.phase,
        "file": file,
        "offset": len(data),
        "block_bytes": len(block),
        "resident_bytes": None if vector.resident is None else len(vector.resident),
        "frame_bytes": len(vector.frame),
    }
    data += block + (vector.resident or b"") + vector.frame
    return row


def _read(kind: str) -> list[tuple[dict, bytes, bytes | None, bytes]]:
    """Row, block, resident copy and frame of each vector."""
    rows = json.loads((FOLDER / "manifest.json").read_text())[kind]
    files = {row["file"]: (FOLDER / row["file"]).read_bytes() for row in rows}
    out = []
    for row in rows:
        at = row["offset"]
        parts = []
        stored = row["block_bytes"] if kind == "good" else 0
        for size in (stored, row["resident_bytes"] or 0, row["frame_bytes"]):
            parts.append(files[row["file"]][at : at + size])
            at += size
        block, resident, frame = parts
        out.append((row, block, None if row["resident_bytes"] is None else resident, frame))
    return out
