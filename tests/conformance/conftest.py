# SPDX-License-Identifier: Apache-2.0
"""The engine that a conformance test runs on: each one of the table in turn."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from codec.engine import Engine
from tests.conformance.engines import CAPABILITIES, Capability, make_engine


def _those(holds: Callable[[Capability], bool]) -> list[Any]:
    return [
        pytest.param(name, marks=list(_marks(name, capability)))
        for name, capability in CAPABILITIES.items()
        if holds(capability)
    ]


def _marks(name: str, capability: Capability) -> Iterator[pytest.MarkDecorator]:
    if not capability.quick:
        yield pytest.mark.full
    if name.startswith("rtl"):
        yield pytest.mark.builds


@pytest.fixture(params=_those(lambda _: True), scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(request.param)


@pytest.fixture(params=_those(lambda c: c.reference_mode), scope="session")
def resident_engine(request: pytest.FixtureRequest) -> Engine:
    """The engines that have reference mode."""
    return make_engine(request.param)
