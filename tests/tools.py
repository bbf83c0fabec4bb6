# SPDX-License-Identifier: Apache-2.0
"""Programs that tests call, and what happens when one is missing.

A test asks for each one with `require_tool`, so that it is skipped, with the reason, on a machine
without it. Where `make test` has installed everything (`CI` is set), a tool that it installs may
not be missing: there the test fails.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

# The tools that `make test` installs; those of a Python package by the package that brings them.
INSTALLED = {"g++": None, "make": None, "perl": None, "verilator": "verilator"}


def require_tool(name: str) -> Path:
    """Path of the program `name`; skips the test, or fails it, where there is none."""
    if path := find_tool(name):
        return path
    _missing(f"missing tool: {name}", installed=name in INSTALLED)


def require_verilator() -> None:
    """All that a Verilated model is built with; skips or fails where something is missing."""
    for name in ("g++", "make", "perl", "verilator"):
        require_tool(name)


def require_module(name: str) -> ModuleType:
    """The module `name` of an extra that `make test` installs; skips or fails without it."""
    if importlib.util.find_spec(name):
        return importlib.import_module(name)
    _missing(f"missing Python module: {name}", installed=True)


def require_package(name: str) -> None:
    """Skip the test where there is no package `name`, which `make test` does not install; it is
    not loaded."""
    if not importlib.util.find_spec(name):
        _missing(f"missing Python module: {name}", installed=False)


def find_tool(name: str) -> Path | None:
    """Path of the program `name`: of its Python package if there is one, else on PATH."""
    package = INSTALLED.get(name)
    spec = importlib.util.find_spec(package) if package else None
    for folder in (spec and spec.submodule_search_locations) or ():
        if (path := Path(folder, "bin", name)).is_file():
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def in_ci() -> bool:
    return bool(os.environ.get("CI"))


def _missing(reason: str, *, installed: bool) -> NoReturn:
    if installed and in_ci():
        pytest.fail(f"{reason}, which `make test` installs", pytrace=False)
    pytest.skip(reason)
