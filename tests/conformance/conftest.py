# SPDX-License-Identifier: Apache-2.0
"""The engine that a conformance test runs on: each one of the table in turn."""

import pytest

from codec.engine import Engine, get_engine
from tests.conformance.engines import CAPABILITIES, Capability, ReferenceMode


@pytest.fixture(params=CAPABILITIES, scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    return get_engine(request.param)


@pytest.fixture(scope="session")
def capability(engine: Engine) -> Capability:
    return CAPABILITIES[engine.name]


@pytest.fixture(params=[n for n, c in CAPABILITIES.items() if c.reference_mode], scope="session")
def reference_mode(request: pytest.FixtureRequest) -> ReferenceMode:
    """Of the engines that have it."""
    mode = CAPABILITIES[request.param].reference_mode
    assert mode
    return mode
