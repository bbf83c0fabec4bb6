# SPDX-License-Identifier: Apache-2.0
"""Whole programs as users start them: what they import, how they end, what they leave behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from nic_emul import CounterRow, aggregate
from nic_emul.failure import EXIT_CODE
from tests.nic_emul import model

pytestmark = pytest.mark.ranks

ROOT = Path(__file__).parents[2]
JOIN = "import torch, torch.distributed as dist, nic_emul; dist.init_process_group('wirezip')\n"


def start(script: str, size: int, **environment: str) -> list[subprocess.CompletedProcess[str]]:
    """Run `script` on `size` ranks with the variables that torchrun sets."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = []
    for rank in range(size):
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            # The store of the test serves, as torchrun's does.
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "WORLD_SIZE": str(size),
            "RANK": str(rank),
            "OMP_NUM_THREADS": "1",
            "WIREZIP_ENGINE": "null",
            "WIREZIP_TIMEOUT_S": "60",
            **environment,
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", script],
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ends = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += "\nstill running"
        ends.append(subprocess.CompletedProcess([], process.returncode, out, err))
    return ends


def test_counters_of_an_unmodified_program(tmp_path: Path) -> None:
    script = JOIN + "dist.all_reduce(torch.ones(65536)); dist.destroy_process_group()"
    ends = start(script, 2, WIREZIP_COUNTERS=str(tmp_path / "new"))
    assert [end.returncode for end in ends] == [0, 0], ends
    assert not any(end.stderr for end in ends), ends
    rows = []
    for rank in range(2):
        content = json.loads((tmp_path / "new" / f"counters-rank{rank}.json").read_text())
        assert (content["rank"], content["engine"], content["mtu"]) == (rank, "null", 4096)
        rows += [CounterRow(**row) for row in content["rows"]]
    expected = model.uncoded_totals(model.all_reduce_messages(65536, 2, 4, 0) * 2, 4096)
    total = aggregate(rows).total
    # Of two ranks neither passes anything on.
    assert total == {name: expected.get(name, 0) for name in total}


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("", id="falls off the end"),
        pytest.param("import sys; sys.exit(0)", id="exit", marks=pytest.mark.full),
        pytest.param("dist.destroy_process_group()", id="destroy", marks=pytest.mark.full),
        pytest.param(
            "dist.new_group(backend='wirezip'); dist.all_reduce(torch.ones(10**6), async_op=True)",
            id="work in flight",
        ),
        pytest.param(
            "dist.isend(torch.ones(10**6), 1 - dist.get_rank());"
            "dist.recv(torch.ones(10**6), 1 - dist.get_rank())",
            id="send in flight",
        ),
    ],
)
def test_programs_end_cleanly(ending: str) -> None:
    """No thread outlives the interpreter, which would abort the process after a good run."""
    ends = start(JOIN + "dist.all_reduce(torch.ones(100000))\n" + ending, 2)
    assert [end.returncode for end in ends] == [0, 0], ends
    assert not any("terminate called" in end.stderr for end in ends), ends


def test_forked_children_leave_the_group_alone() -> None:
    """A child that ends, by whatever way, says no goodbye in its parent's name."""
    script = JOIN + (
        "import os, sys\n"
        "dist.barrier()\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "for _ in range(3):\n"
        "    ones = torch.ones(100000)\n"
        "    dist.all_reduce(ones)\n"
        "    assert ones.sum() == 200000\n"
    )
    ends = start(script, 2)
    assert [end.returncode for end in ends] == [0, 0], ends


def test_uncaught_exception_is_passed_on() -> None:
    script = JOIN + (
        # A rank that were still in the barrier would raise there, and not be ended from outside.
        "dist.barrier()\n"
        "store = dist.distributed_c10d._get_default_store()\n"
        "store.set(f'past/{dist.get_rank()}', 'the barrier')\n"
        "if dist.get_rank() == 1:\n"
        "    store.wait(['past/0', 'past/2'])\n"
        "    raise ArithmeticError('a bug')\n"
        "import time; time.sleep(100)"
    )
    ends = start(script, 3)
    assert [end.returncode for end in ends] == [EXIT_CODE, 1, EXIT_CODE], ends
    assert "ArithmeticError ended a rank: a bug" in ends[0].stderr


def test_error_in_python_shows_its_type() -> None:
    script = JOIN + "dist.all_reduce(torch.ones(100 + 16 * dist.get_rank()))"
    ends = start(script, 2)
    assert all(end.returncode == 1 for end in ends), ends
    assert any("nic_emul.errors.CollectiveMismatch" in end.stderr for end in ends)


def test_wrong_variable_is_named() -> None:
    (end,) = start(JOIN, 1, WIREZIP_MTU="9000")
    assert end.returncode == 1
    assert "WIREZIP_MTU: expected one of (1024, 4096); found 9000" in end.stderr


def test_entry_point_imports_nothing_heavy() -> None:
    """torch calls it at every import: it may register a name, no more."""
    script = (
        "import sys, torch\n"
        "before = set(sys.modules)\n"
        "import nic_emul.autoload; nic_emul.autoload.load()\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert new <= {'nic_emul', 'codec'}, new\n"
        "assert not {'nic_emul.backend', 'nic_emul.replace'} & set(sys.modules)\n"
        "assert 'wirezip' in torch.distributed.Backend.backend_list\n"
    )
    (end,) = start(script, 1)
    assert end.returncode == 0, end.stderr


def test_script_that_asks_for_gloo(tmp_path: Path) -> None:
    """It imports nothing of ours: torch loads the entry point."""
    script = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "dist.all_reduce(torch.ones(65536))\n"
        "print(dist.get_backend())\n"
        "dist.destroy_process_group()\n"
    )
    for replaced, backend in (("gloo,nccl", "wirezip"), ("nccl", "gloo")):
        folder = tmp_path / backend
        ends = start(script, 2, WIREZIP_REPLACES=replaced, WIREZIP_COUNTERS=str(folder))
        assert [(end.returncode, end.stdout) for end in ends] == [(0, backend + "\n")] * 2, ends
        assert len(list(folder.glob("*.json"))) == (2 if backend == "wirezip" else 0)


def test_backend_that_cannot_be_replaced_is_named() -> None:
    (end,) = start("import torch", 1, WIREZIP_REPLACES="gloo,mpi")
    assert end.returncode == 1
    assert "WIREZIP_REPLACES: expected names out of gloo, nccl; found 'mpi'" in end.stderr


def test_lazy_names_exist() -> None:
    script = (
        "import nic_emul\n"
        "found = [getattr(nic_emul, name) for name in nic_emul.__all__]\n"
        "assert None not in found\n"
        "try: nic_emul.nothing\n"
        "except AttributeError as error: assert 'nothing' in str(error)\n"
        "else: raise AssertionError\n"
    )
    (end,) = start(script, 1)
    assert end.returncode == 0, end.stderr
