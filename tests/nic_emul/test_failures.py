# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong on one rank ends every rank with an error: no hang, no wrong data.

`start_ranks` raises when a rank is still running after a while, so each of these tests also asserts
that nothing hangs.
"""

import signal
from collections.abc import Callable

import pytest

from nic_emul.failure import EXIT_CODE
from tests.nic_emul import faults
from tests.nic_emul.ranks import ENGINES, Outcome, run_ranks, start_ranks

pytestmark = pytest.mark.ranks

SIZE = 3
SHORT = {"WIREZIP_TIMEOUT_S": "2"}
FAULTY = {"WIREZIP_FAULTS": "loss=0.01,corrupt=0.01,duplicate=0.01,reorder=0.01,seed=2"}
CODING = [name for name in ENGINES if name != "null"]


def expect_failure(
    outcomes: list[Outcome], reported: str, *, culprit_code: int | None = None
) -> None:
    """Every rank ended with an error, and one of them said `reported`."""
    for rank, outcome in enumerate(outcomes):
        if rank == faults.CULPRIT and culprit_code is not None:
            assert outcome.exit_code == culprit_code, outcome
        else:
            assert outcome.exit_code in (1, EXIT_CODE), outcome
            assert "wrong data" not in outcome.stderr
    assert any(reported in outcome.stderr for outcome in outcomes), outcomes


@pytest.mark.parametrize(
    "fault",
    [
        faults.die_between_collectives,
        faults.die_in_mid_message,
        faults.die_with_a_child,
        faults.die_while_others_are_idle,
        faults.die_in_backward,
        faults.die_in_functional_collective,
        faults.catch_and_go_on,
    ],
)
def test_dead_peer(fault: Callable[[], None]) -> None:
    outcomes = start_ranks(fault, SIZE)
    expect_failure(outcomes, "wirezip: rank", culprit_code=-signal.SIGKILL)
    assert all(outcome.value is None for outcome in outcomes)
    # The end itself was noticed, not only the silence after it.
    assert not any("PeerTimeout" in outcome.stderr for outcome in outcomes)


@pytest.mark.parametrize(
    "fault", [faults.die_between_collectives, faults.die_in_mid_message, faults.die_in_backward]
)
def test_dead_peer_on_links_with_faults(fault: Callable[[], None]) -> None:
    outcomes = start_ranks(fault, SIZE, environment=FAULTY)
    expect_failure(outcomes, "wirezip: rank", culprit_code=-signal.SIGKILL)
    assert not any("PeerTimeout" in outcome.stderr for outcome in outcomes)


def test_hung_peer_on_links_with_faults() -> None:
    expect_failure(start_ranks(faults.hang, SIZE, environment=SHORT | FAULTY), "PeerTimeout")


def test_stopped_peer_on_links_with_faults() -> None:
    outcomes = start_ranks(
        faults.stop_process, SIZE, environment=SHORT | FAULTY, stopped=faults.CULPRIT
    )
    expect_failure(outcomes, "PeerTimeout", culprit_code=-signal.SIGKILL)


def test_wire_that_lets_nothing_through() -> None:
    outcomes = start_ranks(
        faults.init_over_a_dead_wire,
        SIZE,
        environment={"WIREZIP_FAULTS": "loss=0.999999"},
        join=False,
    )
    expect_failure(outcomes, "RetryExceeded")


@pytest.mark.parametrize("environment", [{}, FAULTY])
def test_nothing_is_left_of_a_destroyed_group(environment: dict[str, str]) -> None:
    left = run_ranks(faults.init_and_leave_nothing, SIZE, environment=environment, join=False)
    assert left == [[]] * SIZE


def test_exception_in_user_code_ends_the_other_ranks() -> None:
    expect_failure(start_ranks(faults.raise_in_user_code, SIZE), "a bug in the program")


def test_hung_peer() -> None:
    expect_failure(start_ranks(faults.hang, SIZE, environment=SHORT), "PeerTimeout")


def test_hung_peer_and_short_timeout_of_the_group() -> None:
    outcomes = start_ranks(faults.init_with_short_timeout, SIZE, join=False)
    expect_failure(outcomes, "PeerTimeout")


def test_slow_compilation_is_no_timeout() -> None:
    ranks = run_ranks(faults.init_while_one_rank_compiles, SIZE, environment=SHORT, join=False)
    assert ranks == [SIZE] * SIZE


@pytest.mark.parametrize("how", ["shutdown", "abort"])
def test_unfinished_work_of_a_closed_group(how: str) -> None:
    outcomes = start_ranks(faults.leave_with_work_unfinished, SIZE, how)
    expect_failure(outcomes, "PeerFailed", culprit_code=0)
    assert outcomes[faults.CULPRIT].value == "GroupClosed GroupClosed GroupClosed"


def test_stopped_peer() -> None:
    """A stopped process cannot end itself; the others do."""
    outcomes = start_ranks(faults.stop_process, SIZE, environment=SHORT, stopped=faults.CULPRIT)
    expect_failure(outcomes, "PeerTimeout", culprit_code=-signal.SIGKILL)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", ["header", "table", "payload"])
def test_bit_flipped_on_the_wire(part: str, engine: str) -> None:
    environment = {"WIREZIP_ENGINE": engine}
    outcomes = start_ranks(faults.flip_bit_on_the_wire, SIZE, part, environment=environment)
    expect_failure(outcomes, "ProtocolError" if part == "table" else "CorruptMessage")


@pytest.mark.parametrize("engine", CODING)
def test_damaged_frame(engine: str) -> None:
    outcomes = start_ranks(faults.damage_frames, SIZE, environment={"WIREZIP_ENGINE": engine})
    expect_failure(outcomes, "CorruptMessage")


@pytest.mark.parametrize(
    "about",
    [
        "count",
        "dtype",
        "reduction",
        "root",
        "collective",
        "order",
        "role",
        "send size",
        "send dtype",
    ],
)
def test_ranks_disagree(about: str) -> None:
    expect_failure(start_ranks(faults.disagree, SIZE, about), "CollectiveMismatch")


def test_receive_that_nobody_sends() -> None:
    outcomes = start_ranks(faults.receive_what_nobody_sends, SIZE, environment=SHORT)
    expect_failure(outcomes, "a receive from rank 1 made no progress")


def test_send_that_nobody_receives() -> None:
    outcomes = start_ranks(faults.send_what_nobody_receives, SIZE, environment=SHORT)
    expect_failure(outcomes, "a send to rank 0 made no progress")


@pytest.mark.parametrize("how", ["receive", "send", "link"])
def test_peer_that_left_is_not_waited_for(how: str) -> None:
    outcomes = start_ranks(faults.leave_while_others_wait, SIZE, how)
    expect_failure(outcomes, "PeerLost", culprit_code=0)
    assert not any("PeerTimeout" in outcome.stderr for outcome in outcomes)


def test_strangers_change_nothing() -> None:
    assert run_ranks(faults.strangers_knock, SIZE) == [True] * SIZE


def test_overheard_hello_changes_nothing() -> None:
    assert run_ranks(faults.overheard_hello, SIZE) == [True] * SIZE


@pytest.mark.parametrize(
    ("variable", "own", "others"),
    [
        ("WIREZIP_MTU", "1024", "4096"),
        ("WIREZIP_RANKS_PER_NODE", "2", "1"),
        ("WIREZIP_ALGORITHM", "hierarchical", "ring"),
        ("WIREZIP_ELEMENT", "inferred", "off"),
    ],
)
def test_ranks_with_different_settings(variable: str, own: str, others: str) -> None:
    outcomes = start_ranks(faults.init_with_own, SIZE, variable, own, others, join=False)
    expect_failure(outcomes, variable)


def test_faults_on_one_side() -> None:
    outcomes = start_ranks(faults.init_with_faults_on_one_side, SIZE, join=False)
    expect_failure(outcomes, "WIREZIP_FAULTS")


def test_ranks_of_different_versions() -> None:
    outcomes = start_ranks(faults.init_with_another_version, SIZE, join=False)
    expect_failure(outcomes, "ProtocolError: hello: expected protocol version")


@pytest.mark.parametrize("environment", [{}, FAULTY])
def test_messages_of_another_version(environment: dict[str, str]) -> None:
    outcomes = start_ranks(faults.send_another_version, SIZE, environment=environment)
    expect_failure(outcomes, "ProtocolError: message header: expected protocol version")


def test_rank_that_never_comes() -> None:
    outcomes = start_ranks(faults.init_without_one_rank, SIZE, environment=SHORT, join=False)
    expect_failure(outcomes, "a rank of the group did not come in 2 s")
