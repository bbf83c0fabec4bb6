# SPDX-License-Identifier: Apache-2.0
"""The decorator of every kernel, and where compiled kernels are kept.

Numba keys a kernel's cache entry on the file that the kernel is in, so an edit to a file that it
calls into would go unnoticed. Here the folder's name carries a hash of all that kernels depend on,
the choice of portable kernels included.
"""

import fcntl
import hashlib
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numba
from llvmlite import binding
from numba import njit

_SOURCES = Path(__file__).parent
_FEATURES = binding.get_host_cpu_features()

NATIVE = (
    _FEATURES.get("bmi2", False)
    and _FEATURES.get("avx2", False)
    and os.environ.get("WIREZIP_PORTABLE") != "1"
)
"""Whether kernels use the processor's own instructions; `WIREZIP_PORTABLE=1` forbids it."""

EXPANDS_BYTES = NATIVE and _FEATURES.get("avx512vbmi2", False)
"""Whether the processor moves the bytes that a mask names in one instruction."""

FOLDS_CRC = NATIVE and all(_FEATURES.get(name, False) for name in ("avx512f", "vpclmulqdq"))
"""Whether the processor multiplies polynomials, four pairs at once."""


def _make_cache_folder():
    """The folder of compiled kernels: under `NUMBA_CACHE_DIR`, the user's cache, or `/tmp`.

    Compiled kernels are code: a folder that others may write to, or that is not ours, is not used.
    """
    digest = hashlib.sha256(repr((numba.__version__, NATIVE)).encode())
    constants = [_SOURCES.parent / "elements.py", _SOURCES.parent / "format.py"]
    for source in [*sorted(_SOURCES.glob("*.py")), *constants]:
        digest.update(source.read_bytes())
    bases = list(_cache_bases())
    for base in bases:
        folder = base / f"kernels-{digest.hexdigest()[:16]}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except OSError:
            continue
        if status.st_uid == os.getuid() and not status.st_mode & 0o022:
            return folder
    raise OSError(
        f"compiled kernels: expected a folder of our own to write to; found none in {bases}"
    )


def _cache_bases():
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"]) / "wirezip"
    # Without HOME, and without an entry for the user, there is no home.
    with suppress(RuntimeError):
        yield Path.home() / ".cache" / "wirezip"
    yield Path(tempfile.gettempdir()) / f"wirezip-{os.getuid()}"


CACHE_FOLDER = _make_cache_folder()


@contextmanager
def only_one_process():
    """Let one process at a time compile, so that the others find its result."""
    with (CACHE_FOLDER / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def kernel(function):
    """Compile without the interpreter lock, and keep the result on disk.

    Kernels own no memory, so reference counts are left out: in code that runs once a block they
    would take longer than the work. Allocating in a kernel therefore does not compile.
    """
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(CACHE_FOLDER)
    try:
        return njit(nogil=True, cache=True, _nrt=False)(function)
    finally:
        numba.config.CACHE_DIR = before
