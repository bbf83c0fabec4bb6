# SPDX-License-Identifier: Apache-2.0
"""Sends and receives, subgroups, asynchronous work, and all the forms in which torch calls."""

import pytest

from tests.nic_emul import exchanges
from tests.nic_emul.ranks import ENGINES, run_ranks
from tests.nic_emul.test_collectives import check_conservation

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("size", [2, 3, 4])
def test_point_to_point(size: int) -> None:
    check_conservation(run_ranks(exchanges.point_to_point, size))


def test_links_opened_from_all_sides() -> None:
    run_ranks(exchanges.connect_from_all_sides, 5, 6, 0.005)


def test_sends_are_read_when_cleared() -> None:
    run_ranks(exchanges.sends_are_read_when_cleared, 2)


def test_slow_sends_make_progress() -> None:
    run_ranks(exchanges.slow_sends_make_progress, 2, environment={"WIREZIP_TIMEOUT_S": "1"})


@pytest.mark.parametrize("size", [1, 2, 4])
def test_reads_in_order(size: int) -> None:
    run_ranks(exchanges.reads_in_order, size)


@pytest.mark.parametrize("size", [2, 5])
def test_subgroups_with_roles_and_threads(size: int) -> None:
    ranks = run_ranks(exchanges.subgroups, size)
    check_conservation(ranks)
    roles = {row.role for rows in ranks for row in rows if row.messages}
    # Two ranks have one even rank among them, which talks to nobody.
    assert roles == ({"gradient"} if size == 2 else {"gradient", "optimizer_state"})


@pytest.mark.parametrize("size", [1, 2, 3])
def test_asynchronous_work(size: int) -> None:
    run_ranks(exchanges.asynchronous, size)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_call_form(size: int, engine: str) -> None:
    run_ranks(exchanges.every_call_form, size, environment={"WIREZIP_ENGINE": engine})


def test_wrong_calls_raise_in_the_caller() -> None:
    for raised in run_ranks(exchanges.wrong_calls, 2):
        assert raised == ["UnsupportedOperation"] * 9 + ["ConfigError"]
