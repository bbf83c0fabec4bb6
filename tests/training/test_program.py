# SPDX-License-Identifier: Apache-2.0
"""`wirezip run`: programs that know nothing of wirezip, as users start them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from codec.packet import MTUS
from nic_emul.capture import read
from nic_emul.config import ALGORITHMS, ELEMENT_SOURCES
from nic_emul.failure import EXIT_CODE
from nic_emul.replace import REPLACEABLE
from tests.tools import require_module
from tests.training.runs import ROOT, command, wirezip
from training import program
from training.cli import Mtu, main
from training.config import Algorithm, ElementSource
from training.errors import ConfigError
from training.program import ProgramConfig

pytestmark = pytest.mark.ranks

# The entry point is that of the installed package; the code is that of this checkout.
HERE = {"PYTHONPATH": str(ROOT)}

PROGRAM = r"""
import hashlib, os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
total = torch.randn(20_000).bfloat16()
dist.all_reduce(total)
passed = torch.randn(5_000) if rank == 0 else torch.empty(5_000)
dist.send(passed, 1) if rank == 0 else dist.recv(passed, 0)
digest = hashlib.sha256(total.view(torch.uint8).numpy().tobytes() + passed.numpy().tobytes())
# In one piece: ranks share the pipe.
local_rank = os.environ["LOCAL_RANK"]
sys.stdout.write(f"{rank} {size} {local_rank} {sys.argv[1:]} {digest.hexdigest()}\n")
"""
FAULTS = "loss=0.2,corrupt=0.1,duplicate=0.1,seed=4"
STARTS_ITS_RANKS = """
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, port):
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1000))
if __name__ == "__main__":
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A forked child ends without what `atexit` knows.
    mp.start_processes(work, args=(port,), nprocs=2, start_method="fork")
"""


def write(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def test_same_bits_and_packets_on_any_engine(tmp_path: Path) -> None:
    script = write(tmp_path, PROGRAM)
    summaries, outputs = [], []
    require_module("scapy")
    for engine, options in (
        ("null", []),
        ("numba", ["--pcap", str(tmp_path / "numba.pcap")]),
        ("numba", ["--faults", FAULTS]),
    ):
        arguments = ["--engine", engine, *options, "--json", "-", script, "--lr", "1", "--json"]
        result = wirezip("run", *arguments, env=HERE)
        assert result.returncode == 0, result.stderr
        summaries.append(json.loads(result.stdout))
        outputs.append(sorted(line for line in result.stderr.splitlines() if "--lr" in line))
    assert outputs[0] == outputs[1] == outputs[2]
    assert [line.rsplit(" ", 1)[0] for line in outputs[0]] == [
        f"{rank} 2 {rank} ['--lr', '1', '--json']" for rank in range(2)
    ]
    null, numba, faulty = summaries
    assert null["program"] == [script, "--lr", "1", "--json"]
    assert (null["ranks"], null["world_size"], null["mtu"]) == ([0, 1], 2, 4096)
    # Each rank sends half of an all-reduce twice.
    assert null["by_role"]["gradient"]["logical_bytes"] == 2 * 2 * 20_000
    assert null["by_role"]["activation"]["logical_bytes"] == 4 * 5_000
    for one, other in ((null, numba), (null["by_role"], numba["by_role"])):
        assert one.keys() == other.keys()
    for name in ("gradient", "activation"):
        off, on = null["by_role"][name], numba["by_role"][name]
        assert off["payload_bytes"] == off["logical_bytes"] == on["logical_bytes"]
        assert off["packets"] == on["packets"]
        assert on["payload_bytes"] < off["payload_bytes"]
    assert null["faults"] is numba["faults"] is None
    assert faulty["totals"] == numba["totals"]
    assert faulty["faults"]["spec"] == FAULTS
    links = faulty["faults"]["links"]
    assert links["packets"] == faulty["totals"]["packets"]
    assert links["wire_bytes"] == faulty["totals"]["wire_bytes"]
    assert links["lost"] > 0
    assert links["retransmitted_wire_bytes"] == faulty["faults"]["retransmitted_wire_bytes"] > 0
    frames = [frame for _, frame in read(tmp_path / "numba.pcap")]
    # The others acknowledge.
    data = [frame for frame in frames if frame[42] != 0x11]
    assert len(data) == numba["totals"]["packets"]
    assert sum(len(frame) + 24 for frame in data) == numba["totals"]["wire_bytes"]
    for summary in summaries:
        for totals in ("totals", "by_role", "by_collective"):
            parts = summary[totals].values() if totals != "totals" else [summary[totals]]
            for key in ("logical_bytes", "wire_bytes", "packets"):
                assert sum(part[key] for part in parts) == sum(r[key] for r in summary["rows"])


def test_a_failed_rank_ends_the_others(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "import time, torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "dist.barrier()\n"
        "if dist.get_rank() == 1: raise SystemExit(5)\n"
        "time.sleep(300)\n",
    )
    result = wirezip("run", "--engine", "null", script, env=HERE)
    assert result.returncode == 1
    assert result.stderr.endswith("wirezip: error: rank 1 exited with status 5\n")


def test_a_program_without_a_group_is_told_so(tmp_path: Path) -> None:
    result = wirezip("run", "--engine", "null", "--nproc", "1", write(tmp_path, "print('hello')"))
    assert (result.returncode, result.stdout) == (1, "hello\n")
    assert "expected a program that asks torch.distributed for gloo or nccl" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_killed_launcher_takes_the_program_with_it(tmp_path: Path) -> None:
    script = write(tmp_path, "import time; print('here', flush=True); time.sleep(300)")
    with command("run", "--engine", "null", "--nproc", "1", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
        # Whoever still holds the pipe keeps this from its end.
        assert process.stdout.read() == ""


@pytest.mark.full
def test_a_program_that_starts_its_ranks_itself(tmp_path: Path) -> None:
    script = write(tmp_path, STARTS_ITS_RANKS)
    out = tmp_path / "summary.json"
    result = wirezip(
        "run", "--nproc", "0", "--engine", "null", "--json", str(out), script, env=HERE
    )
    assert result.returncode == 0, result.stderr
    summary = json.loads(out.read_text())
    assert summary["ranks"] == [0, 1]
    assert summary["by_collective"]["all_reduce"]["logical_bytes"] == 2 * 4000
    assert "2 ranks, engine null" in result.stdout


@pytest.mark.full
def test_a_rank_of_another_launcher_counts_itself(tmp_path: Path) -> None:
    script = write(tmp_path, PROGRAM)
    out = tmp_path / "summary.json"
    result = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "--no-python", sys.executable, "-m", "training.cli", "run", "--engine", "null",
         "--json", str(out), script],
        cwd=ROOT, env=os.environ | HERE, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    summary = json.loads(out.read_text())
    assert (summary["ranks"], summary["world_size"]) == ([0], 2)
    assert "rank 0 of 2, engine null" in result.stdout
    assert summary["by_collective"]["send"]["logical_bytes"] == 4 * 5_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], r"program: expected SCRIPT or -m MODULE; found nothing"),
        (["-m"], r"program: expected SCRIPT or -m MODULE; found nothing"),
        (["--engine=null", "no.py"], r"program: expected a Python script; found no file 'no.py'"),
        (["--nproc", "-1", "-m", "x"], r"nproc: expected at least 0; found -1"),
        (
            ["--faults", "loss=2", "-m", "x"],
            r"WIREZIP_FAULTS: loss: expected 0 up to but not 1; found '2'",
        ),
    ],
)
def test_wrong_options(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *arguments]) == 2
    assert capsys.readouterr().err == f"wirezip: error: {message}\n"


def test_ranks_are_not_started_in_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(ConfigError, match="another launcher has started rank 3; found 2"):
        ProgramConfig(program=("-m", "x"), nproc=2, engine="null", mtu=4096)
    with pytest.raises(ConfigError, match=r"WIREZIP_PCAP where another .* rank 3; found a\.pcap"):
        ProgramConfig(program=("-m", "x"), nproc=None, engine="null", mtu=4096, pcap=Path("a.pcap"))


def test_what_is_written_twice_agrees() -> None:
    """The launcher knows these without the package, whose import loads torch."""
    assert get_args(Algorithm) == ALGORITHMS
    assert get_args(ElementSource) == ELEMENT_SOURCES
    assert ",".join(REPLACEABLE) == program.BACKENDS
    assert program.LOST_OTHERS == EXIT_CODE
    assert get_args(Mtu) == MTUS
