# SPDX-License-Identifier: Apache-2.0
"""`wirezip wire` between real hosts, as far as network namespaces are: any program, any frame."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nic_emul.errors import NamespaceError
from nic_emul.netns import sandboxed
from tests.nic_emul.wire_scenarios import run_gloo

pytestmark = pytest.mark.ranks

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 240


def in_sandbox(*command: str) -> list[str]:
    """`command` in a sandbox; skips the test where there can be none."""
    try:
        return sandboxed(command)
    except NamespaceError as error:
        pytest.skip(str(error))


def scenario(*arguments: str) -> dict[str, Any]:
    """What a scenario of `wire_scenarios.py` found."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun: expected the right to make TAP devices; found none")
    command = in_sandbox(sys.executable, "-m", "tests.nic_emul.wire_scenarios", *arguments)
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def assert_counted(counters: dict[str, Any]) -> None:
    """Totals of a table are the sums of its rows, and every frame has a fate."""
    for table in (counters[end][way] for end in "ab" for way in ("sent", "received")):
        rows = [*table["flows"], table["others"]]
        for name, total in table["total"].items():
            assert total == sum(row[name] for row in rows)
        assert table["total"]["frames"] == (
            table["total"]["compressed"] + table["total"]["bypassed"]
        )


@pytest.mark.parametrize("mtu", [1500, pytest.param(9000, marks=pytest.mark.full)])
def test_everything_arrives_and_less_travels(mtu: int) -> None:
    found = scenario("plain", str(mtu))
    assert found["tcp"]
    assert found["udp"]
    assert all(found["frames"].values()), found["frames"]
    counters = found["counters"]
    assert_counted(counters)
    for here, there in ("ab", "ba"):
        sent, received = counters[here]["sent"], counters[there]["received"]
        assert (sent["damaged"], sent["refused"]) == (0, 0)
        assert (received["damaged"], received["refused"]) == (0, 0)
        assert sent["total"] == received["total"]
    large, small = (
        next(row for row in counters[end]["sent"]["flows"] if row["protocol"] == "tcp")
        for end in "ab"
    )
    assert (large["source"], large["target"], large["target_port"]) == (
        "10.0.0.1",
        "10.0.0.2",
        5000,
    )
    assert (small["source_port"], small["target_port"]) == (5000, large["source_port"])
    # Normal BF16 numbers to host b; noise and acknowledgements to host a.
    assert large["compressed"] > 0.9 * 2_000_000 / mtu
    assert large["wire_bytes"] < 0.75 * large["bytes"]
    assert small["compressed"] == 0
    assert small["wire_bytes"] == small["bytes"]


def test_lost_and_damaged_frames_are_dropped_and_counted() -> None:
    found = scenario("spoilt")
    assert found["tcp"]
    counters = found["counters"]
    assert_counted(counters)
    for (here, there), way in (("ab", "there"), ("ba", "back")):
        damaged, dropped = found[way]
        assert damaged > 0
        assert dropped > 0
        received = counters[there]["received"]
        assert received["damaged"] == damaged
        assert received["refused"] == 0
        sent = counters[here]["sent"]["total"]["frames"]
        assert sent == received["total"]["frames"] + damaged + dropped


def test_gloo_computes_the_same_bits() -> None:
    found = scenario("gloo")
    without = run_gloo("127.0.0.1", [lambda command: command] * 2)
    assert without[0]
    assert found["digests"] == without
    table = found["counters"]["a"]["sent"]["total"]
    assert table["wire_bytes"] < 0.95 * table["bytes"]


def test_a_killed_sandbox_leaves_nothing() -> None:
    program = (
        "import subprocess, sys, time\n"
        "from nic_emul.netns import Star\n"
        "Star(2)\n"
        "subprocess.Popen(['sleep', '1000'])\n"
        "print('made', flush=True)\n"
        "time.sleep(1000)\n"
    )
    command = in_sandbox(sys.executable, "-c", program)
    before = interfaces()
    sandbox = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert sandbox.stdout is not None
    try:
        assert sandbox.stdout.readline() == "made\n"
        assert interfaces() == before
    finally:
        sandbox.kill()
    # All that ran in it held the pipe; its end says that nothing does any more.
    assert sandbox.stdout.read() == ""
    sandbox.wait()
    assert interfaces() == before


def interfaces() -> tuple[list[str], list[str]]:
    """The interfaces of this namespace, and the named namespaces of this machine."""
    names = Path("/run/netns")
    return (
        sorted(os.listdir("/sys/class/net")),
        sorted(path.name for path in names.iterdir()) if names.is_dir() else [],
    )


def test_what_is_missing_is_said_in_a_line() -> None:
    cases = (
        (["--wire", "nowhere"], "expected an Ethernet interface 'nowhere'; found no interface"),
        (["--wire", "lo", "--wire-namespace", "nowhere"], "expected a network namespace"),
        (["--wire", "lo", "--address", "10.0.0"], "expected one like 10.0.0.1/24; found '10.0.0'"),
    )
    program = (
        "from training.cli import main\n"
        f"for arguments in {[arguments for arguments, _ in cases]}:\n"
        "    print(main(['wire', '--host', 'eth0', *arguments]))\n"
    )
    command = in_sandbox(sys.executable, "-c", program)
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.stdout.split() == ["2"] * len(cases), result.stderr
    for line, (_, message) in zip(result.stderr.splitlines(), cases, strict=True):
        assert message in line
