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
    check_engine(engine, program, 3, mtu=4096)


@pytest.mark.full
@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize("program", [*PROGRAMS, programs.zero_redundancy, programs.hybrid])
def test_four_ranks_and_small_packets(engine: str, program: Callable[[], programs.Result]) -> None:
    check_engine(engine, program, 4, mtu=1024)


def check_engine(
    engine: str, program: Callable[[], programs.Result], size: int, *, mtu: int
) -> None:
    """The results with `engine` are those with the null engine, and it did code something."""
    null, coding = (
        run_ranks(
            programs.run_and_count,
            size,
            program,
            environment={"WIREZIP_ENGINE": name, "WIREZIP_MTU": str(mtu)},
        )
        for name in ("null", engine)
    )
    assert [result for result, _ in coding] == [result for result, _ in null]
    assert [coded for _, coded in null] == [0] * size
    assert all(coded > 0 for _, coded in coding) or program is programs.functional
