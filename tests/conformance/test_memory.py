# SPDX-License-Identifier: Apache-2.0
"""No kernel reads or writes outside the buffers that it was given, nor depends on its scratch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "portable", ["0", pytest.param("1", marks=pytest.mark.full)], ids=["native", "portable"]
)
def test_buffers_between_inaccessible_pages(portable: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.conformance.guarded", "numba"],
        cwd=ROOT,
        env=os.environ | {"WIREZIP_PORTABLE": portable},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout) > 5000


def test_guard_pages_are_inaccessible() -> None:
    program = (
        "from tests.conformance.guarded import Guarded, PAGE\n"
        "import ctypes\n"
        "end = Guarded(PAGE).take(8, at_end=True)\n"
        "ctypes.string_at(end.ctypes.data, 9)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert result.returncode < 0
