# SPDX-License-Identifier: Apache-2.0
"""Is this machine ready? One check after another, each with what was expected and found."""

import importlib
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from codec.engine import ENGINE_NAMES, get_engine
from codec.errors import EngineUnavailable

# The rest need tools that not everyone has.
REQUIRED_ENGINES = ("null", "reference", "numba")


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes:
        name: what was looked at.
        passed: whether it is as expected.
        required: whether wirezip can do without it.
        found: what was found.
    """

    name: str
    passed: bool
    required: bool
    found: str


def examine() -> list[Check]:
    """Run every check; none raises."""
    checks = [
        _attempt("python >= 3.11", _python),
        _attempt("numpy", partial(_version_of, "numpy")),
        _attempt("numba", partial(_version_of, "numba")),
        _attempt("torch 2.13", _torch),
        _attempt("torch.distributed backend wirezip", _backend),
        _attempt("loopback sockets", _loopback),
        _attempt("network namespaces", _namespaces, required=False),
        _attempt("TAP devices", _tap, required=False),
    ]
    return checks + [
        _attempt(f"engine {name}", partial(_engine, name), name in REQUIRED_ENGINES)
        for name in ENGINE_NAMES
    ]


def _attempt(name: str, check: Callable[[], str], required: bool = True) -> Check:
    try:
        return Check(name, True, required, check())
    # Whatever goes wrong is the finding.
    except Exception as error:
        return Check(name, False, required, f"{type(error).__name__}: {error}")


def _python() -> str:
    found = sys.version.split()[0]
    # Read as data: the package's own minimum is what is in question here.
    if tuple(sys.version_info) < (3, 11):
        raise RuntimeError(f"expected 3.11 or newer; found {found}")
    return found


def _version_of(module: str) -> str:
    return str(importlib.import_module(module).__version__)


def _torch() -> str:
    found = _version_of("torch")
    if found.split(".")[:2] != ["2", "13"]:
        raise RuntimeError(f"expected 2.13; found {found}")
    return found


def _backend() -> str:
    importlib.import_module("nic_emul")
    distributed = importlib.import_module("torch.distributed")
    if "wirezip" not in distributed.Backend.backend_list:
        raise RuntimeError(f"expected wirezip; found {distributed.Backend.backend_list}")
    return "registered"


def _loopback() -> str:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as client,
    ):
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"wirezip")
            if accepted.recv(7) != b"wirezip":
                raise RuntimeError("expected the bytes that were sent; found others")
    return "a connection to 127.0.0.1 works"


def _namespaces() -> str:
    netns = importlib.import_module("nic_emul.netns")
    netns.sandboxed(["true"])
    return "a sandbox can be made (wirezip testbed)"


def _tap() -> str:
    with open("/dev/net/tun", "rb"):
        return "can be made (wirezip wire)"


def _engine(name: str) -> str:
    try:
        get_engine(name)
    except EngineUnavailable as error:
        raise EngineUnavailable(f"not available: {error}") from None
    return "available"
