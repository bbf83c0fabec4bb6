# SPDX-License-Identifier: Apache-2.0
"""Writes coverage when a test process ends, where it was asked for."""

import sys

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    if dut := sys.modules.get("tests.rtl.dut"):
        dut.write_coverage()
