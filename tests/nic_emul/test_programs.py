# SPDX-License-Identifier: Apache-2.0
"""DDP, FSDP2, functional collectives and DTensor run unchanged, same bits on any engine."""

from collections.abc import Callable

import pytest

from tests.nic_emul import programs
from tests.nic_emul.ranks import ENGINES, run_ranks

pytestmark = pytest.mark.ranks

# The reference engine takes minutes for what these programs send.
CODING = [name for name in ENGINES if name not in ("null", "reference")]
PROGRAMS = [programs.ddp, programs.fsdp2_bf16, programs.fsdp2_fp32, programs.functional]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_and_ranks_agree(program: Callable[[], programs.Result]) -> None:
    results = run_ranks(program, 2)
    assert results == [results[0]] * 2


@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize("program", PROGRAMS)
def test_engine_changes_no_bit(engine: str, program: Callable[[], programs.Result]) -> None:
    expected = run_ranks(program, 3)
    assert run_ranks(program, 3, environment={"WIREZIP_ENGINE": engine}) == expected


@pytest.mark.full
@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize("program", [*PROGRAMS, programs.zero_redundancy, programs.hybrid])
def test_four_ranks_and_small_packets(engine: str, program: Callable[[], programs.Result]) -> None:
    environment = {"WIREZIP_MTU": "1024"}
    expected = run_ranks(program, 4, environment=environment)
    environment["WIREZIP_ENGINE"] = engine
    assert run_ranks(program, 4, environment=environment) == expected
