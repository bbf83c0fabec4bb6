# SPDX-License-Identifier: Apache-2.0
"""The decorator of every kernel, and where compiled kernels are kept.

Numba keys a kernel's cache entry on the file that the kernel is in, so an edit to a file that it
calls into would go unnoticed. Here the folder's name carries a hash of all that kernels depend on,
the choice of portable kernels included.
"""

import hashlib
import os
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


def cache_folder():
    """The folder that holds compiled kernels, under `NUMBA_CACHE_DIR` or the user's cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home) / "wirezip")
    digest = hashlib.sha256(repr((numba.__version__, NATIVE)).encode())
    for name in sorted([*_SOURCES.glob("*.py"), *_SOURCES.parent.glob("[ef]*.py")]):
        digest.update(name.read_bytes())
    return base / f"kernels-{digest.hexdigest()[:16]}"


_CACHE_FOLDER = str(cache_folder())


def kernel(function):
    """Compile without the interpreter lock, and keep the result on disk."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _CACHE_FOLDER
    try:
        return njit(nogil=True, cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before
