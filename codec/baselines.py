# SPDX-License-Identifier: Apache-2.0
"""The codecs that `wirezip bench` measures, ours among them, each in a process of its own.

    python -m codec.baselines CODEC [BLOCK_BYTES [THREADS]]

reads requests, one JSON object a line, and answers each with one: `{"file", "element"}`, with
`"resident"` for codecs that code against an older copy, reads the files, codes, decodes and
compares; `{"loops", "clock"}` then times that many further runs. So a codec that crashes takes
nothing along, one that corrupts its heap harms no other, and all are measured under the same
conditions: one thread (ours takes more on request), a heap that keeps its memory (`ENVIRONMENT`),
and buffers that are reused as far as the codec's interface allows.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from codec.buffers import buffer_bytes
from codec.elements import ElementType
from codec.engine import U8, Packets, get_engine
from codec.errors import InvalidInput
from codec.stream import bound, compress_into, decompress

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

# Processor time of this process alone: what else the machine does meanwhile is not the codec's
# doing, and a codec that starts threads is charged for all of them. Threads gain time that passes.
CLOCKS: dict[str, Callable[[], float]] = {"processor": process_time, "wall": perf_counter}

# One thread; and what is freed stays with the process, in huge pages where the system has them, so
# that no codec is charged for fetching the pages of its result anew each time.
ENVIRONMENT = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class Codec(Protocol):
    """A codec that was given `data`, uint8 `(n,)`, and what it is made of."""

    def prepare(self) -> None:
        """What has to be done before each `encode` and is not the codec's work."""
        ...

    def encode(self) -> int:
        """Compress the data; returns the bytes that this takes."""
        ...

    def decode(self) -> object:
        """Undo the last `encode`; returns a buffer of the data."""
        ...


class _Plain:
    """A codec that leaves its input alone."""

    def prepare(self) -> None:
        return


class Wirezip(_Plain):
    """This project's stream, made by the Numba engine."""

    def __init__(
        self, data: U8, element: ElementType, block_bytes: int, *, threads: int = 1
    ) -> None:
        self._data, self._element, self._block_bytes = data, element, block_bytes
        self._threads = threads
        self._stream = np.empty(bound(data.size, block_bytes), np.uint8)
        self._restored = np.empty(data.size, np.uint8)
        self._size = 0

    def encode(self) -> int:
        self._size = compress_into(
            self._data,
            self._stream,
            self._element,
            block_bytes=self._block_bytes,
            threads=self._threads,
        )
        return self._size

    def decode(self) -> object:
        return decompress(self._stream[: self._size], out=self._restored, threads=self._threads)


class WirezipReference(_Plain):
    """This project's frames in reference mode: the receiver holds `resident`, an older copy."""

    def __init__(self, data: U8, element: ElementType, block_bytes: int, resident: U8) -> None:
        self._engine = get_engine("numba")
        self._data, self._element, self._block_bytes = data, element, block_bytes
        self._resident = resident
        self._restored = np.empty(data.size, np.uint8)
        self._packets: Packets | None = None

    def encode(self) -> int:
        self._packets = self._engine.encode(
            self._data, self._element, self._block_bytes, resident=self._resident
        )
        return self._packets.payload.size

    def decode(self) -> object:
        if self._packets is None:
            raise AssertionError("decode: expected an encode before")
        self._engine.decode(
            self._packets,
            self._element,
            self._block_bytes,
            self._restored,
            resident=self._resident,
        )
        return self._restored


class Copy(_Plain):
    """A copy, which shows what memory allows."""

    def __init__(self, data: U8, element: ElementType) -> None:
        self._data = data
        self._stored = np.empty_like(data)
        self._restored = np.empty_like(data)

    def encode(self) -> int:
        np.copyto(self._stored, self._data)
        return self._stored.size

    def decode(self) -> object:
        np.copyto(self._restored, self._stored)
        return self._restored


class Lz4(_Plain):
    """An LZ4 frame."""

    def __init__(self, data: U8, element: ElementType) -> None:
        import lz4.frame

        self._lz4 = lz4.frame
        self._data = data
        self._stored = b""

    def encode(self) -> int:
        self._stored = self._lz4.compress(self._data.data)
        return len(self._stored)

    def decode(self) -> object:
        return self._lz4.decompress(self._stored)


class Zstd(_Plain):
    """A zstd frame."""

    def __init__(self, data: U8, element: ElementType, level: int = 1) -> None:
        self._encoder, self._decoder = _zstd(level)
        self._data = data
        self._stored = b""

    def encode(self) -> int:
        self._stored = self._encoder.compress(self._data.data)
        return len(self._stored)

    def decode(self) -> object:
        return self._decoder.decompress(self._stored)


class GroupedZstd(_Plain):
    """Byte grouping: the first bytes of all elements, then the second ones and so on, as one zstd
    frame of level 1 each; bytes behind the last whole element are kept as they are."""

    _LENGTH_BYTES = 8

    def __init__(self, data: U8, element: ElementType) -> None:
        self._encoder, self._decoder = _zstd(1)
        width = element.width_bytes
        whole = data.size // width * width
        self._elements = data[:whole].reshape(-1, width)
        self._tail = data[whole:]
        self._planes = np.empty((width, whole // width), np.uint8)
        self._restored = np.empty_like(data)
        self._stored: list[bytes] = []

    def encode(self) -> int:
        np.copyto(self._planes, self._elements.T)
        self._stored = [self._encoder.compress(plane.data) for plane in self._planes]
        frames = sum(len(frame) + self._LENGTH_BYTES for frame in self._stored)
        return frames + self._tail.size

    def decode(self) -> U8:
        elements = self._restored[: self._elements.size].reshape(self._elements.shape)
        for place, frame in enumerate(self._stored):
            elements[:, place] = np.frombuffer(self._decoder.decompress(frame), np.uint8)
        self._restored[self._elements.size :] = self._tail
        return self._restored


class XorGroupedZstd(_Plain):
    """What differs in bits from an older copy, as `GroupedZstd`."""

    def __init__(self, data: U8, element: ElementType, resident: U8) -> None:
        self._data, self._resident = data, resident
        self._difference = np.empty_like(data)
        self._coder = GroupedZstd(self._difference, element)

    def encode(self) -> int:
        np.bitwise_xor(self._data, self._resident, out=self._difference)
        return self._coder.encode()

    def decode(self) -> object:
        restored = self._coder.decode()
        return np.bitwise_xor(restored, self._resident, out=restored)


class Bitshuffle(_Plain):
    """Blosc2 with its bit shuffle, which transposes bits of many elements, and zstd of level 1."""

    # A chunk, as Blosc2 calls it, is at most 2 GiB.
    _CHUNK_BYTES = 1 << 30

    def __init__(self, data: U8, element: ElementType) -> None:
        import blosc2

        self._blosc2 = blosc2
        # One thread is the default of neither direction.
        self._options: dict[str, Any] = {
            "codec": blosc2.Codec.ZSTD,
            "clevel": 1,
            "filters": [blosc2.Filter.BITSHUFFLE],
            "filters_meta": [0],
            "typesize": element.width_bytes,
            "nthreads": 1,
        }
        self._data = data
        self._restored = np.empty_like(data)
        self._stored: list[bytes] = []

    def encode(self) -> int:
        self._stored = [
            self._blosc2.compress2(self._data[start : start + self._CHUNK_BYTES], **self._options)
            for start in range(0, self._data.size, self._CHUNK_BYTES)
        ]
        return sum(map(len, self._stored))

    def decode(self) -> object:
        for index, chunk in enumerate(self._stored):
            start = index * self._CHUNK_BYTES
            part = self._restored[start : start + self._CHUNK_BYTES]
            self._blosc2.decompress2(chunk, dst=part, nthreads=1)
        return self._restored


_ZIPNN_NAMES = {
    ElementType.BF16: "bfloat16",
    ElementType.FP16: "float16",
    ElementType.FP32: "float32",
    ElementType.E4M3: "float8_e4m3fn",
    ElementType.E5M2: "float8_e5m2",
}


class ZipNN:
    """The zipnn package, which overwrites its input."""

    def __init__(self, data: U8, element: ElementType) -> None:
        from zipnn import ZipNN as Coder

        self._coder = Coder(input_format="byte", bytearray_dtype=_ZIPNN_NAMES[element], threads=1)
        self._data = data
        self._input = bytearray(data.size)
        self._stored = b""

    def prepare(self) -> None:
        self._input[:] = self._data.data

    def encode(self) -> int:
        self._stored = self._coder.compress(self._input)
        return len(self._stored)

    def decode(self) -> object:
        return self._coder.decompress(self._stored)


# By the name that the command line knows them by.
FACTORIES: dict[str, Callable[[U8, ElementType], Codec]] = {
    "zipnn": ZipNN,
    "grouped-zstd-1": GroupedZstd,
    "zstd-1": Zstd,
    "zstd-3": partial(Zstd, level=3),
    "bitshuffle": Bitshuffle,
    "lz4": Lz4,
    "copy": Copy,
}
WIREZIP = "wirezip"
WIREZIP_REFERENCE = "wirezip-ref"
XOR_GROUPED_ZSTD = "xor-zstd-1"
# What takes the size of its blocks, what runs on several threads, what codes against an older copy.
BLOCK_CODECS = (WIREZIP, WIREZIP_REFERENCE)
THREAD_CODECS = (WIREZIP,)
REFERENCE_CODECS = (WIREZIP_REFERENCE, XOR_GROUPED_ZSTD)
CODECS = (WIREZIP, WIREZIP_REFERENCE, XOR_GROUPED_ZSTD, *FACTORIES)


def make(
    name: str,
    block_bytes: int | None,
    data: U8,
    element: ElementType,
    resident: U8 | None = None,
    *,
    threads: int = 1,
) -> Codec:
    """The codec called `name`, one of `CODECS`, over `data`.

    Args:
        name: of the codec.
        block_bytes: of the codecs in `BLOCK_CODECS`.
        data: uint8 `(n,)`.
        element: what the bytes are.
        resident: an older copy, uint8 `(n,)`, for those in `REFERENCE_CODECS`.
        threads: more than one only of those in `THREAD_CODECS`.

    Raises:
        InvalidInput: no such codec, one that lacks its block size or copy, or one that does not
            take this element type.
    """
    if name not in CODECS:
        raise InvalidInput(f"codec: expected one of {', '.join(CODECS)}; found {name!r}")
    if not takes(name, element):
        raise InvalidInput(f"{name}: expected a floating-point type; found {element.name}")
    if name in REFERENCE_CODECS:
        if resident is None:
            raise InvalidInput(f"{name}: expected an older copy; found none")
        if resident.size != data.size:
            raise InvalidInput(f"{name}: expected {data.size} older bytes; found {resident.size}")
    if threads != 1 and name not in THREAD_CODECS:
        raise InvalidInput(f"{name}: expected one thread; found {threads}")
    if name in BLOCK_CODECS and block_bytes is None:
        raise InvalidInput(f"{name}: expected block bytes; found none")
    if name == WIREZIP and block_bytes is not None:
        return Wirezip(data, element, block_bytes, threads=threads)
    if name == WIREZIP_REFERENCE and block_bytes is not None and resident is not None:
        return WirezipReference(data, element, block_bytes, resident)
    if name == XOR_GROUPED_ZSTD and resident is not None:
        return XorGroupedZstd(data, element, resident)
    return FACTORIES[name](data, element)


def takes(name: str, element: ElementType) -> bool:
    """Whether the codec called `name` can code elements of this type."""
    return name != "zipnn" or element in _ZIPNN_NAMES


def _zstd(level: int) -> "tuple[ZstdCompressor, ZstdDecompressor]":
    import zstandard

    return zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()


class Server:
    """Answers the requests of one parent."""

    def __init__(self, name: str, block_bytes: int | None, *, threads: int = 1) -> None:
        self._name, self._block_bytes, self._threads = name, block_bytes, threads
        self._codec: Codec | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "file" in request:
            data = np.fromfile(request["file"], np.uint8)
            path = request.get("resident")
            resident = np.fromfile(path, np.uint8) if path else None
            return self._open(data, ElementType[request["element"]], resident)
        if self._codec is None:
            raise InvalidInput("request: expected a file first; found none")
        return self._time(self._codec, request["loops"], CLOCKS[request["clock"]])

    def _open(self, data: U8, element: ElementType, resident: U8 | None) -> dict[str, Any]:
        # Free the last one's buffers before the next one takes its own.
        self._codec = None
        codec = make(self._name, self._block_bytes, data, element, resident, threads=self._threads)
        codec.prepare()
        size = codec.encode()
        lossless = np.array_equal(buffer_bytes(codec.decode(), self._name), data)
        self._codec = codec
        return {"compressed_bytes": size, "lossless": bool(lossless)}

    def _time(self, codec: Codec, loops: int, clock: Callable[[], float]) -> dict[str, Any]:
        encode = decode = 0.0
        for _ in range(loops):
            codec.prepare()
            start = clock()
            codec.encode()
            middle = clock()
            codec.decode()
            end = clock()
            encode += middle - start
            decode += end - middle
        return {"encode_seconds": encode / loops, "decode_seconds": decode / loops}


def serve(server: Server, requests: TextIO, answers: TextIO) -> None:
    """Answer every line of `requests` until there are no more."""
    for line in requests:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def command(name: str, block_bytes: int | None, threads: int) -> list[str]:
    """The command line that serves a codec."""
    blocks = [] if block_bytes is None else [str(block_bytes), str(threads)]
    return [sys.executable, "-m", "codec.baselines", name, *blocks]


def environment() -> dict[str, str]:
    """The environment to serve a codec in."""
    package = str(Path(__file__).resolve().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ) | ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(paths)}


def main() -> None:
    # Whatever a codec prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    block_bytes = int(sys.argv[2]) if len(sys.argv) > 2 else None
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    serve(Server(sys.argv[1], block_bytes, threads=threads), sys.stdin, answers)


if __name__ == "__main__":
    main()
