# SPDX-License-Identifier: Apache-2.0
"""Code ranges of a buffer on several threads; the bytes are the same for any number of them.

Blocks do not depend on each other, and kernels run without the interpreter lock. A range is a
whole number of blocks, long enough that starting it costs little beside coding it, and short enough
that all threads end together. Results come in order and few at a time, so memory does not grow with
the buffer.
"""

import ctypes
import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codec.elements import ElementType
from codec.engine import U8, Engine, Packets, block_lengths, check_output, check_packets
from codec.errors import FrameError, InvalidInput

RANGE_BYTES_MIN, RANGE_BYTES_MAX = 1 << 20, 1 << 24
_RANGES_PER_THREAD = 16

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def check_threads(threads: int) -> int:
    """`threads`, if that is a number of threads.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(threads, int | np.integer) or threads < 1:
        raise InvalidInput(f"threads: expected 1 or more; found {threads!r}")
    return int(threads)


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int
) -> Generator[_Result, None, None]:
    """`map` on `threads` threads, with at most a few results waiting to be taken.

    What `function` raises is raised here, in the place of its result. Close it (as
    `contextlib.closing` does) if what `function` uses may go away before it is exhausted. With one
    thread, no other is started.
    """
    if threads == 1:
        for item in items:
            yield function(item)
        return
    pool = _pool(threads)
    pending: deque[Future[_Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > threads + 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        wait([future for future in pending if not future.cancel()])


def _share_out(
    items: Iterable[int], front: Callable[[int], None], back: Callable[[int], None], threads: int
) -> None:
    """Do `front` to items from the first on, in order, and, on other threads, `back` to items from
    the last on, until they meet. Raises what either does, once no thread is at work any more."""

    def work(function: Callable[[int], None], take: Callable[[], int]) -> None:
        try:
            while True:
                try:
                    item = take()
                except IndexError:
                    return
                function(item)
        except BaseException:
            left.clear()
            raise

    left = deque(items)
    helpers = min(threads, len(left)) - 1
    futures = [_pool(threads).submit(work, back, left.pop) for _ in range(helpers)]
    try:
        work(front, left.popleft)
    finally:
        # One that has not begun, since others keep the threads, has nothing left to do.
        futures = [future for future in futures if not future.cancel()]
        wait(futures)
    for future in futures:
        future.result()


@functools.lru_cache(4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that are kept: on a busy machine a new one waits long for a processor of its own.

    Those of a pool that is dropped for others end when they have done what was asked of them.
    """
    return ThreadPoolExecutor(threads, "wirezip")


# A process that is forked has none of the threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


def encode_ranges(
    engine: Engine,
    data: U8,
    element: ElementType,
    block_bytes: int,
    *,
    phase: int = 0,
    bare: bool = False,
    resident: U8 | None = None,
    threads: int = 1,
) -> Iterator[Packets]:
    """`Engine.encode` of `data` as the packets of its ranges, in order, of which few are held."""

    def encode(begin: int) -> Packets:
        part = slice(begin, begin + step)
        return engine.encode(
            data[part],
            element,
            block_bytes,
            phase=(phase - begin) % element.width_bytes,
            bare=bare,
            resident=None if resident is None else resident[part],
        )

    step = range_bytes(data.size, block_bytes, threads)
    if data.size <= step or (resident is not None and resident.size != data.size):
        yield engine.encode(data, element, block_bytes, phase=phase, bare=bare, resident=resident)
        return
    _prepare(engine)
    yield from in_order(encode, range(0, data.size, step), threads)


def encode_into_parts(
    data: U8,
    element: ElementType,
    block_bytes: int,
    out: U8,
    *,
    resident: U8 | None = None,
    threads: int = 1,
) -> int:
    """Frames of `data`, from phase 0 on, in memory that the caller keeps; returns the bytes used.

    This thread codes ranges from the first on, each behind the one before. Others code them from
    the last on, to where they would lie if no frame were shorter than its block, and these are
    moved together in the end: of two threads' output, half.

    Args:
        out: uint8, at least `codec.numba_engine.encoded_bytes_max(data.size, block_bytes)`.
    """
    from codec.numba_engine import compile_kernels, encode_into, encoded_bytes_max

    def encode(begin: int, at: int) -> int:
        part = data[begin : begin + step]
        blocks = slice(begin // block_bytes, -(-(begin + part.size) // block_bytes))
        return encode_into(
            part,
            element,
            block_bytes,
            out[at : at + encoded_bytes_max(part.size, block_bytes)],
            lengths[blocks],
            modes[blocks],
            phase=-begin % element.width_bytes,
            resident=None if resident is None else resident[begin : begin + step],
        )

    used, apart = 0, dict[int, int]()

    def encode_behind(begin: int) -> None:
        nonlocal used
        used += encode(begin, used)

    def encode_apart(begin: int) -> None:
        at = encoded_bytes_max(begin, block_bytes)
        apart[at] = encode(begin, at)

    if resident is not None and resident.size != data.size:
        raise InvalidInput(f"resident: expected {data.size} bytes; found {resident.size}")
    step = range_bytes(data.size, block_bytes, threads) if threads > 1 else max(data.size, 1)
    blocks = -(-data.size // block_bytes)
    lengths, modes = np.empty(blocks, np.int32), np.empty(blocks, np.uint8)
    compile_kernels()
    _share_out(range(0, data.size, step), encode_behind, encode_apart, threads)
    for at, size in sorted(apart.items()):
        # Not an assignment of slices, which goes through a copy where they overlap.
        ctypes.memmove(out.ctypes.data + used, out.ctypes.data + at, size)
        used += size
    return used


def decode_ranges(
    engine: Engine,
    packets: Packets,
    element: ElementType,
    block_bytes: int,
    out: U8,
    *,
    phase: int = 0,
    bare: bool = False,
    resident: U8 | None = None,
    threads: int = 1,
) -> None:
    """`Engine.decode` on `threads` threads; raises what it raises with one."""

    def decode(begin: int) -> None:
        first = begin // block_bytes
        blocks = slice(first, first + step // block_bytes)
        part = slice(begin, begin + step)
        lengths = packets.lengths[blocks]
        engine.decode(
            Packets(
                packets.payload[starts[first] : starts[first + lengths.size]],
                lengths,
                packets.modes[blocks],
            ),
            element,
            block_bytes,
            out[part],
            phase=(phase - begin) % element.width_bytes,
            bare=bare,
            resident=None if resident is None else resident[part],
        )

    def decode_all() -> None:
        engine.decode(packets, element, block_bytes, out, phase=phase, bare=bare, resident=resident)

    step = range_bytes(out.size, block_bytes, threads)
    if threads == 1 or out.size <= step:
        decode_all()
        return
    check_output(out, element, block_bytes, phase, resident)
    check_packets(packets, block_lengths(out.size, block_bytes).size)
    starts = _starts(packets)
    _prepare(engine)
    try:
        _share_out(range(0, out.size, step), decode, decode, threads)
    except FrameError:
        # A range does not know the number of its first block; the whole says which one it is.
        decode_all()


def decode_pieces(
    engine: Engine,
    packets: Packets,
    element: ElementType,
    block_bytes: int,
    total_bytes: int,
    *,
    resident: U8 | None = None,
    threads: int = 1,
) -> Iterator[U8]:
    """`Engine.decode` of frames from phase 0 on, as the `total_bytes` of its ranges, in order.

    The bytes of a range that is damaged do not come out; the error says where it is.
    """

    def decode(begin: int) -> U8:
        end = min(begin + step, total_bytes)
        blocks = slice(begin // block_bytes, -(-end // block_bytes))
        out = np.empty(end - begin, np.uint8)
        part = Packets(
            packets.payload[starts[blocks.start] : starts[blocks.stop]],
            packets.lengths[blocks],
            packets.modes[blocks],
        )
        try:
            engine.decode(
                part,
                element,
                block_bytes,
                out,
                phase=-begin % element.width_bytes,
                resident=None if resident is None else resident[begin:end],
            )
        except FrameError as error:
            raise type(error)(f"bytes {begin} to {end}: {error}") from None
        return out

    step = range_bytes(total_bytes, block_bytes, threads)
    starts = _starts(packets)
    _prepare(engine)
    yield from in_order(decode, range(0, total_bytes, step), threads)


def _prepare(engine: Engine) -> None:
    """Have what must be compiled or loaded be so once, rather than on all threads."""
    nothing = np.empty(0, np.uint8)
    packets = engine.encode(nothing, ElementType.RAW, 1, bare=True)
    engine.decode(packets, ElementType.RAW, 1, nothing, bare=True)


def _starts(packets: Packets) -> NDArray[np.int64]:
    """int64 `(blocks + 1,)`: where each payload begins, and the end."""
    starts = np.zeros(packets.lengths.size + 1, np.int64)
    np.cumsum(packets.lengths, out=starts[1:])
    return starts


def range_bytes(total_bytes: int, block_bytes: int, threads: int) -> int:
    """How long the ranges of a buffer are: a whole number of blocks, in bytes."""
    share = total_bytes // (_RANGES_PER_THREAD * threads)
    size = min(max(share, RANGE_BYTES_MIN), RANGE_BYTES_MAX)
    return -(-size // block_bytes) * block_bytes
