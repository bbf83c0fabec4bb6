# SPDX-License-Identifier: Apache-2.0
"""What all tests share: tiers, seeds, and the list of what was skipped and why.

The quick tier is the default; `-m ""` takes the tests marked `full` in, and
`--hypothesis-profile=full` searches further.
"""

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.tools import in_ci

SEED = 20_260_101

# Of tests that use Verilated models: the first one of each waits for the compiler, which takes
# minutes on a loaded machine. They are in these folders or marked.
BUILD_TIMEOUT_S = 1800
BUILD_FOLDERS = tuple(Path(__file__).with_name(name) for name in ("rtl", "sim"))

# No deadline: the first call of a kernel compiles it. In CI the examples are always the same.
settings.register_profile(
    "quick",
    max_examples=50,
    deadline=None,
    derandomize=in_ci(),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("full", settings.get_profile("quick"), max_examples=2000)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: too long for the quick tier; `make all` runs it")
    config.addinivalue_line("markers", "builds: may wait until a Verilated model is built")
    config.addinivalue_line(
        "markers", "ranks: starts several processes that use every core; never two such at a time"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("ranks"):
            item.add_marker(pytest.mark.xdist_group("ranks"))
        builds = item.get_closest_marker("builds") or any(
            folder in item.path.parents for folder in BUILD_FOLDERS
        )
        if builds and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BUILD_TIMEOUT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} skipped")
    for report in skipped:
        terminalreporter.line(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test starts from the same state of every generator, whatever ran before it."""
    random.seed(SEED)
    np.random.seed(SEED)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(SEED)
