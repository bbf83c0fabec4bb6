# SPDX-License-Identifier: Apache-2.0
"""Training over links whose rate the kernel limits: bytes, bits, and that nothing is left."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nic_emul import netns
from nic_emul.errors import NamespaceError
from nic_emul.netns import burst_bytes, sandboxed
from tests.training.runs import ROOT, wirezip
from training.errors import ConfigError
from training.pacing import compresses
from training.testbed import UNLIMITED, RatePlan, parse_rates

TIMEOUT_S = 200


def test_rates_are_parsed() -> None:
    assert parse_rates("100mbit,2.5Gbit, 2000kbit") == (1e8, 2.5e9, 2e6)
    for text in ("", "100", "100mb", "-1mbit", "0mbit", "100gbit", "nanmbit", "1mbit,"):
        with pytest.raises(ConfigError, match="expected 1mbit to 99gbit"):
            parse_rates(text)


def test_buckets_hold_a_packet_and_a_millisecond() -> None:
    assert [burst_bytes(rate) for rate in (1e6, 1e8, 1e9, 1e10)] == [65536, 65536, 125000, 1250000]


def test_every_condition_is_visited_in_turn() -> None:
    testbed = RatePlan((1e8, 1e9), rounds=2)
    visited = [(testbed.rate_of(step), compresses(step)) for step in range(testbed.steps)]
    cycle = [(rate, on) for rate in (UNLIMITED, 1e8, 1e9) for on in (False, True)]
    assert visited == cycle * 3
    assert [testbed.measured(step) for step in range(testbed.steps)] == [False] * 6 + [True] * 12
    for wrong in ({"rates": ()}, {"rates": (1e8,), "rounds": 0}, {"rates": (1e8,), "mtu": 100}):
        with pytest.raises(ConfigError):
            RatePlan(**wrong)  # type: ignore[arg-type]


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else f"/bin/{tool}")
    with pytest.raises(NamespaceError, match=r"expected `tc` \(iproute2\); found none"):
        sandboxed(["true"])


def test_a_refusal_of_the_kernel_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "_ISOLATED", ("--no-such-option",))
    require_sandbox()
    with pytest.raises(NamespaceError, match="expected root, or a kernel that gives user"):
        sandboxed(["true"])


def test_users_get_a_sandbox_from_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    require_testbed()
    program = (
        "from nic_emul.netns import Star\n"
        "star = Star(2)\n"
        "star.limit(1e8)\n"
        "print(star.addresses, star.sent_bytes())\n"
    )
    command = sandboxed([sys.executable, "-c", program])
    assert "--user" in command
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "['10.77.0.1', '10.77.0.2'] [0, 0]\n"


def require_sandbox() -> None:
    """Skip the test where no sandbox can be made for another reason."""
    for tool in ("ip", "tc", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"missing tool: {tool}")


def require_testbed() -> None:
    """Skip the test, with the reason, where there can be no testbed."""
    try:
        sandboxed(["true"])
    except NamespaceError as error:
        pytest.skip(str(error))


@pytest.mark.ranks
@pytest.mark.timeout(3 * TIMEOUT_S)
def test_slow_links_carry_the_bytes_and_change_no_bit(tmp_path: Path) -> None:
    require_testbed()
    table = tmp_path / "rows.csv"
    result = wirezip(
        *("testbed", "tiny", "--rate", "50mbit", "--rounds", "2"),
        *("--out", str(tmp_path / "testbed"), "--csv", str(table), "--json", "-"),
        timeout=TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    rows = found["rows"]
    assert [(row["mbit"], row["compression"], row["steps"]) for row in rows] == [
        (mbit, compression, 2) for mbit in (0.0, 50.0) for compression in ("off", "on")
    ]
    for row in rows:
        # The kernel counts acknowledgements and the barriers between steps as well.
        assert row["message_bytes"] < row["wire_bytes"] < 1.15 * row["message_bytes"]
        # Nothing leaves faster than its link, but for what the bucket holds at first.
        least = (row["wire_bytes"] / 2 - burst_bytes(50e6)) / (50e6 / 8) if row["mbit"] else 0
        assert least <= row["step_s"]
        assert row["predicted_s"] > 0
        assert (row["codec_s"] > 0) == (row["compression"] == "on")
    free_off, free_on, off, on = (row["message_bytes"] for row in rows)
    assert free_off == off
    assert free_on == pytest.approx(on, rel=0.02)
    assert on < 0.75 * off
    (fall,) = found["falls"]
    assert fall["wire_ratio"] == rows[3]["wire_bytes"] / rows[2]["wire_bytes"]
    assert [row["compression"] for row in csv.DictReader(table.open())] == ["off", "on"] * 2

    # The same steps in one place, uncompressed: the same parameters.
    plain = wirezip(
        *("train", "tiny", "--engine", "null", "--steps", "12", "--json", "-"),
        *("--out", str(tmp_path / "plain")),
        timeout=TIMEOUT_S,
    )
    assert plain.returncode == 0, plain.stderr
    slow = json.loads((tmp_path / "testbed" / "run" / "summary.json").read_text())
    assert slow["steps"] == 12
    assert slow["param_hash"] == json.loads(plain.stdout)["param_hash"]


@pytest.mark.ranks
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)],
)
def test_nothing_is_left_of_a_killed_testbed(tmp_path: Path, number: signal.Signals) -> None:
    require_testbed()
    folder = tmp_path / "testbed"
    command = [sys.executable, "-m", "training.cli", "testbed", "tiny", "--out", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: len(processes_of(folder)) > 3)
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == (-9 if number is signal.SIGKILL else 128 + number)
        wait_for(lambda: not processes_of(folder))
    finally:
        process.kill()
        process.wait()


def processes_of(folder: Path) -> list[int]:
    """The processes of this machine whose command names `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            # It ended meanwhile.
            continue
    return found


def wait_for(condition: Any) -> None:
    """Return once `condition()` holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.1)
