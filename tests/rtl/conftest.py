# SPDX-License-Identifier: Apache-2.0
"""Keeps the quick tier to one build of each module, and writes coverage when tests end."""

import sys
from pathlib import Path

import pytest

# Builds that the quick tier tests, by what fixtures and arguments are called. A model takes much
# longer to build than to test, so others are of the full tier.
_QUICK = {
    "analyzer": ("all types",),
    "histogram": ((32, 0b111111),),
    "lanes": (32,),
    "types": (0b111111, "all types"),
    "width": (512,),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or Path(__file__).parent not in item.path.parents:
            continue
        if any(value not in _QUICK.get(name, (value,)) for name, value in call.params.items()):
            item.add_marker(pytest.mark.full)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if dut := sys.modules.get("tests.rtl.dut"):
        dut.write_coverage()
