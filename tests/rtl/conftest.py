# SPDX-License-Identifier: Apache-2.0
"""What the tests of the modules share.

Keeps the quick tier to one build of each module, has a build made and used by one process while
others make others, and writes coverage when tests end.
"""

import sys
from pathlib import Path

import pytest

# Builds that the quick tier tests, by what fixtures and arguments are called. A model takes much
# longer to build than to test, so others are of the full tier.
_QUICK = {
    "analyzer": ("all types",),
    "data_w": (512,),
    "histogram": ((32, 0b111111),),
    "lanes": (32,),
    "types": (0b111111, "all types"),
    "width": (512,),
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        call = getattr(item, "callspec", None)
        others = [
            value
            for name, value in (call.params.items() if call else ())
            if value not in _QUICK.get(name, (value,))
        ]
        if others:
            item.add_marker(pytest.mark.full)
        item.add_marker(pytest.mark.xdist_group(" ".join(map(str, (item.path.stem, *others)))))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if dut := sys.modules.get("tests.rtl.dut"):
        dut.write_coverage()
