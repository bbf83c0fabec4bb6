# SPDX-License-Identifier: Apache-2.0
"""Runs an engine on buffers between inaccessible pages, its scratch full of garbage.

A program, started by `test_memory.py`: an access out of bounds ends it with a segmentation fault.
Prints how many calls it made.
"""

import ctypes
import mmap
import sys
from random import Random

import numpy as np

from codec.engine import U8, Engine, Packets, block_lengths, get_engine
from codec.errors import FrameError
from codec.format import Mode
from codec.kernels import scratch
from tests.conformance.vectors import Good, load_good

PAGE = mmap.PAGESIZE
PROT_NONE = 0
GARBAGE = 0xA5


class Guarded:
    """Memory of up to `size` bytes that can end, or begin, at an inaccessible page."""

    def __init__(self, size: int) -> None:
        self._room = -(-size // PAGE) * PAGE
        self._map = mmap.mmap(-1, self._room + 2 * PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        for page in (self._base, self._base + PAGE + self._room):
            if protect(page, PAGE, PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")

    def take(self, size: int, *, at_end: bool) -> U8:
        """`size` bytes right before the last page, or right behind the first."""
        start = self._base + PAGE + (self._room - size if at_end else 0)
        return np.frombuffer((ctypes.c_uint8 * size).from_address(start), np.uint8)

    def put(self, data: bytes, *, at_end: bool) -> U8:
        view = self.take(len(data), at_end=at_end)
        view[:] = np.frombuffer(data, np.uint8)
        return view


class Bench:
    """The guarded buffers of one engine, and the number of calls made."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._data, self._out, self._resident = (Guarded(PAGE) for _ in range(3))
        self._payload = Guarded(2 * PAGE)
        self.calls = 0

    def round_trip(self, vector: Good, *, at_end: bool) -> None:
        """Encode the block and decode what comes of it, framed and bare."""
        data = self._data.put(vector.block, at_end=at_end)
        resident = self._copy(vector, at_end=at_end)
        for bare in (False, True):
            packets = self._engine.encode(
                data, vector.element, data.size, phase=vector.phase, bare=bare, resident=resident
            )
            payload = packets.payload.tobytes()
            assert self.decode(vector, payload, packets.modes, bare=bare, at_end=at_end), vector
            self.calls += 1

    def decode(self, vector: Good, payload: bytes, modes: U8, *, bare: bool, at_end: bool) -> bool:
        """Whether the payload decodes; if it does, it must be to the vector's block."""
        out = self._out.take(len(vector.block), at_end=at_end)
        packets = Packets(
            self._payload.put(payload, at_end=at_end), block_lengths(len(payload), 1 << 20), modes
        )
        self.calls += 1
        try:
            self._engine.decode(
                packets,
                vector.element,
                out.size,
                out,
                phase=vector.phase,
                bare=bare,
                resident=self._copy(vector, at_end=at_end),
            )
        except FrameError:
            return False
        assert out.tobytes() == vector.block, vector.name
        return True

    def _copy(self, vector: Good, *, at_end: bool) -> U8 | None:
        if vector.resident is None:
            return None
        return self._resident.put(vector.resident, at_end=at_end)


def main() -> None:
    """Every golden vector, whole and damaged, at both ends of the buffers."""
    _fill_scratch()
    bench = Bench(get_engine(sys.argv[1]))
    rng = Random(7)
    framed = np.array([Mode.CODED], np.uint8)
    for vector in load_good():
        for at_end in (True, False):
            bench.round_trip(vector, at_end=at_end)
            for _ in range(8):
                frame = bytearray(vector.frame)
                for _ in range(rng.randint(1, 3)):
                    # Headers decide how much is read and written, so most damage goes there.
                    limit = 16 if rng.random() < 0.7 else len(frame)
                    frame[rng.randrange(min(limit, len(frame)))] ^= 1 << rng.randrange(8)
                cut = rng.randint(1, len(frame)) if rng.random() < 0.2 else len(frame)
                bench.decode(vector, bytes(frame[:cut]), framed, bare=False, at_end=at_end)
    sys.stdout.write(f"{bench.calls}\n")


def _fill_scratch() -> None:
    """Let every arena begin with garbage instead of what the system gives out."""
    make = scratch.Arena.__init__

    def make_filled(self: scratch.Arena, size: int) -> None:
        make(self, size)
        self._memory[:] = GARBAGE

    scratch.Arena.__init__ = make_filled  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
