# SPDX-License-Identifier: Apache-2.0
"""The engine that a conformance test runs on: each one of the table in turn."""

import pytest

from codec.engine import Engine, get_engine
from tests.conformance.engines import CAPABILITIES


@pytest.fixture(params=CAPABILITIES, scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    return get_engine(request.param)


@pytest.fixture(params=[n for n, c in CAPABILITIES.items() if c.reference_mode], scope="session")
def resident_engine(request: pytest.FixtureRequest) -> Engine:
    """The engines that have reference mode."""
    return get_engine(request.param)
