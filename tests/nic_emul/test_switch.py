# SPDX-License-Identifier: Apache-2.0
"""The switch with real ranks: bits equal the model, both sides count the same, all ends in time."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nic_emul import CounterRow
from nic_emul.capture import read
from nic_emul.failure import EXIT_CODE
from nic_emul.switch.report import PortRow
from tests.nic_emul import checks, exchanges, faults, model, sums, switch_faults
from tests.nic_emul.ranks import ENGINES, Outcome, run_ranks, start_ranks
from tests.nic_emul.switches import RunningSwitch, running_switch
from tests.nic_emul.test_collectives import check_conservation
from tests.tools import require_module

pytestmark = pytest.mark.ranks

SIZE = 3
CODING = ENGINES[-1]
SUM = {"WIREZIP_ALGORITHM": "switch"}
NAMES = ("messages", "logical_bytes", "payload_bytes", "wire_bytes", "packets")
FLOATS = [i for i, (dtype, _) in enumerate(checks.OPERATIONS) if dtype.is_floating_point]
# Of FP32 a slice has 65,536 elements.
COUNTS = [0, 1, 7, 1001, 65_537]
LARGE = [65_536, 131_072, 400_003]


def expect_same_counts(
    ports: list[PortRow], ranks: list[list[CounterRow]], per_node: int = 1
) -> None:
    """Every NIC of a node and the port of the node count the same, in both directions."""
    keys = {(row["port"], row["collective"], row["role"], row["dtype"]) for row in ports}
    assert len(keys) == len(ports)
    crossed = dict(zip(sorted(keys), ports, strict=True))
    for node in range(-(-len(ranks) // per_node)):
        rows = [row for rank in ranks[node * per_node : (node + 1) * per_node] for row in rank]
        for key in {row.key for row in rows} | {key[1:] for key in keys if key[0] == node}:
            port = crossed.get((node, *key))
            for name in NAMES:
                sent = sum(getattr(row, name) for row in rows if row.key == key)
                received = sum(getattr(row, f"received_{name}") for row in rows if row.key == key)
                found = (port["up"][name], port["down"][name]) if port else (0, 0)
                assert found == (sent, received), (node, key, name)


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (checks.reductions, FLOATS),
        (checks.movements, [torch.bfloat16, torch.int64]),
    ],
)
def test_forwarded_collectives(function: Callable[..., checks.Rows], kinds: list) -> None:
    """The same messages as without a switch, and so the same bits; the formulas hold."""
    with running_switch() as switch:
        ranks = run_ranks(function, SIZE, [0, 1, 1001], kinds, True, 4096,
                          environment=switch.variables)  # fmt: skip
        ports = switch.stop()
    check_conservation(ranks)
    expect_same_counts(ports, ranks)
    assert {row["port"] for row in ports} == set(range(SIZE))


def test_only_what_leaves_a_node_crosses_the_switch() -> None:
    size, per_node = 5, 2
    shared = {"WIREZIP_RANKS_PER_NODE": str(per_node), "WIREZIP_ENGINE": CODING}
    with running_switch(**shared) as switch:
        ranks = run_ranks(checks.reductions, size, [5003], FLOATS[:2], False, 4096,
                          environment=shared | switch.variables)  # fmt: skip
        ports = switch.stop()
    check_conservation(ranks)
    expect_same_counts(ports, ranks, per_node)
    assert any(row.intra_bytes for rows in ranks for row in rows)
    assert any(row["up"]["payload_bytes"] < row["up"]["logical_bytes"] for row in ports)


def test_sends_and_receives_through_the_switch() -> None:
    with running_switch() as switch:
        ranks = run_ranks(exchanges.point_to_point, SIZE, environment=switch.variables)
        ports = switch.stop()
    assert any(row["collective"] == "send" for row in ports)
    expect_same_counts(ports, ranks)


@pytest.mark.parametrize(
    ("size", "per_node", "engine"), [(2, 1, CODING), (3, 1, "null"), (4, 2, CODING)]
)
def test_sums_equal_the_numpy_model(size: int, per_node: int, engine: str) -> None:
    expect_sums(size, per_node, engine, COUNTS)


@pytest.mark.full
@pytest.mark.parametrize(("size", "per_node"), [(2, 1), (4, 1), (5, 1), (5, 2), (6, 3)])
def test_large_sums_equal_the_numpy_model(size: int, per_node: int) -> None:
    expect_sums(size, per_node, CODING, COUNTS + LARGE)


def expect_sums(size: int, per_node: int, engine: str, counts: list[int]) -> None:
    shared = {"WIREZIP_RANKS_PER_NODE": str(per_node), "WIREZIP_ENGINE": engine}
    names, operations = list(sums.TYPES), list(sums.OPERATIONS)
    with running_switch(**shared) as switch:
        found = run_ranks(sums.reduce_all, size, counts, names, operations,
                          environment=shared | switch.variables | SUM)  # fmt: skip
        ports = switch.stop()
    sums.expect_all([results for results, _ in found], counts, names, operations)
    expect_same_counts(ports, [rows for _, rows in found], per_node)
    coded = any(row["down"]["payload_bytes"] < row["down"]["logical_bytes"] for row in ports)
    assert coded == (engine != "null")


def slices(count: int, itemsize: int) -> list[int]:
    """Message sizes of `count` elements on the way to the switch, from the documentation."""
    return model.slice_sizes(count, itemsize, chunk_kib=256, slice_kib=256)


def test_volumes_are_those_of_the_formulas() -> None:
    """Up N and down N for an all-reduce, up N and down N/n for a reduce-scatter of N bytes."""
    size, counts = 4, [262_144]
    with running_switch() as switch:
        found = run_ranks(sums.reduce_all, size, counts, ["float32"], ["sum"],
                          environment=switch.variables | SUM)  # fmt: skip
        ports = switch.stop()
    part = model.uncoded_totals(slices(counts[0], 4), 4096)
    assert part["logical_bytes"] == 4 * counts[0]
    assert (part["messages"], part["packets"]) == (4, 256)
    # Every slice of 256 KiB is 64 packets of 82 bytes more, and 20 bytes more itself.
    assert part["wire_bytes"] == 4 * counts[0] + 82 * 256 + 20 * 4
    whole = {name: size * amount for name, amount in part.items()}
    expected = {"all_reduce": (part, part), "reduce_scatter": (whole, part)}
    for row in ports:
        assert (row["up"], row["down"]) == expected[row["collective"]]
    for rows in (rows for _, rows in found):
        sent = {row.collective: row.logical_bytes for row in rows}
        assert sent == {"all_reduce": 4 * counts[0], "reduce_scatter": 4 * size * counts[0]}


def test_everything_else_goes_around_the_ring() -> None:
    with running_switch() as switch:
        summed = run_ranks(switch_faults.everything_else, SIZE, 1001,
                           environment=switch.variables | SUM)  # fmt: skip
        expect_same_counts(switch.stop(), summed)
    ring = run_ranks(switch_faults.everything_else, SIZE, 1001)
    for rows, alone in zip(summed, ring, strict=True):
        assert [replace(row, encode_s=0) for row in rows] == [
            replace(row, encode_s=0) for row in alone
        ]


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (switch_faults.remake_groups, (), [[4.0, 4.0, 4.0, 6.0], [6.0], [4.0, 4.0, 4.0, 6.0]]),
        (switch_faults.alias_output, (100_000,), [True] * SIZE),
        (switch_faults.strangers_knock, (), [True] * SIZE),
    ],
)
def test_sums_of(function: Callable[..., object], args: tuple, expected: list) -> None:
    with running_switch() as switch:
        assert run_ranks(function, SIZE, *args, environment=switch.variables | SUM) == expected
        switch.stop()


def test_captured_sums(tmp_path: Path) -> None:
    """Every packet up and down is in a capture once, under the addresses of rank and switch."""
    require_module("scapy")
    shared = {"WIREZIP_PCAP": str(tmp_path), "WIREZIP_ENGINE": CODING}
    with running_switch(**shared) as switch:
        found = run_ranks(sums.reduce_all, SIZE, [5003], ["bfloat16"], ["sum"],
                          environment=shared | switch.variables | SUM)  # fmt: skip
        switch.stop()
    rows = [row for _, rows in found for row in rows]
    frames = [raw for path in tmp_path.iterdir() for _, raw in read(path)]
    data = [raw for raw in frames if raw[42] != 0x11]
    up = [raw for raw in data if raw[26:30] != bytes([10, 255, 255, 254])]
    assert all(raw[30:34] == bytes([10, 255, 255, 254]) for raw in up)
    assert len(up) == sum(row.packets for row in rows)
    assert len(data) - len(up) == sum(row.received_packets for row in rows)
    acknowledged = sum(row.messages + row.received_messages for row in rows)
    assert len(frames) - len(data) == acknowledged


# What goes wrong.


def expect_failure(outcomes: list[Outcome], *reported: str, culprit_code: int = EXIT_CODE) -> None:
    """Every rank ended with an error, and each of them but the culprit said all of `reported`."""
    for rank, outcome in enumerate(outcomes):
        if rank == faults.CULPRIT:
            assert outcome.exit_code in (1, culprit_code), outcome
            continue
        assert outcome.exit_code in (1, EXIT_CODE), outcome
        assert all(text in outcome.stderr for text in reported), outcome.stderr


@pytest.fixture
def switch() -> Iterator[RunningSwitch]:
    with running_switch(WIREZIP_TIMEOUT_S="2") as running:
        yield running


def run_fault(fault: Callable[..., object], switch: RunningSwitch, *args: object) -> list[Outcome]:
    """Each rank's end; the switch survives unless it was killed, and keeps no connection."""
    environment = switch.variables | SUM | {"WIREZIP_TIMEOUT_S": "2"}
    return start_ranks(fault, SIZE, *args, environment=environment)


@pytest.mark.parametrize("how", ["working", "idle"])
def test_dead_switch(switch: RunningSwitch, how: str) -> None:
    outcomes = run_fault(switch_faults.kill_switch, switch, switch.process.pid, how)
    expect_failure(outcomes, "the switch at 127.0.0.1", "died or was killed")
    assert not any("rank 1 died" in outcome.stderr for outcome in outcomes)


@pytest.mark.parametrize("fault", [faults.die_between_collectives, faults.die_in_mid_message])
def test_dead_rank(switch: RunningSwitch, fault: Callable[[], None]) -> None:
    outcomes = run_fault(fault, switch)
    expect_failure(outcomes, "rank 1 died or was killed", culprit_code=-signal.SIGKILL)
    switch.stop()


def test_hung_rank(switch: RunningSwitch) -> None:
    expect_failure(run_fault(faults.hang, switch), "rank 1 sent nothing within the timeout")
    switch.stop()


@pytest.mark.parametrize("about", ["count", "dtype", "reduction", "collective"])
def test_ranks_disagree(switch: RunningSwitch, about: str) -> None:
    expect_failure(run_fault(switch_faults.disagree, switch, about), "CollectiveMismatch", "rank 1")
    switch.stop()


def test_rank_that_left(switch: RunningSwitch) -> None:
    expect_failure(run_fault(switch_faults.leave_before_a_sum, switch), "rank 1", culprit_code=0)
    switch.stop()


@pytest.mark.parametrize("part", ["header", "table", "payload"])
def test_bit_flipped_on_the_way_to_the_switch(switch: RunningSwitch, part: str) -> None:
    outcomes = run_fault(faults.flip_bit_on_the_wire, switch, part)
    expect_failure(outcomes, "ProtocolError" if part == "table" else "CorruptMessage", "rank 1")
    switch.stop()


@pytest.mark.parametrize(
    ("variables", "reported"),
    [
        ({"WIREZIP_SWITCH_SECRET": "00" * 32}, "SwitchLost"),
        ({"WIREZIP_MTU": "1024"}, "the switch has WIREZIP_MTU 4096; rank"),
        ({"WIREZIP_SWITCH": "127.0.0.1:1"}, "the switch at 127.0.0.1:1 cannot be reached"),
    ],
)
def test_ranks_that_do_not_fit_the_switch(
    switch: RunningSwitch, variables: dict[str, str], reported: str
) -> None:
    outcomes = start_ranks(faults.hang, SIZE, environment=switch.variables | variables)
    for outcome in outcomes:
        assert outcome.exit_code == 1, outcome
        assert reported in outcome.stderr, outcome.stderr
    switch.stop()


def test_the_program(tmp_path: Path) -> None:
    """`python -m nic_emul.switch` needs its variables, and leaves its counters when it is ended."""
    command = [sys.executable, "-m", "nic_emul.switch"]
    bare = {name: text for name, text in os.environ.items() if not name.startswith("WIREZIP_")}
    wrong = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert "WIREZIP_SWITCH: expected HOST:PORT" in wrong.stderr
