# SPDX-License-Identifier: Apache-2.0
"""Data, sharded, tensor, expert and pipeline parallel programs run unchanged, same bits on any
engine, whether they name the backend or ask for one that it replaces."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from nic_emul.errors import ConfigError
from nic_emul.replace import backend_of_cpu, parse_names
from tests.nic_emul import parallel, programs
from tests.nic_emul.ranks import ENGINES, run_ranks

pytestmark = pytest.mark.ranks

Program = Callable[[], programs.Result]

# The reference engine takes minutes for what these programs send.
CODING = [name for name in ENGINES if name not in ("null", "reference")]
PROGRAMS = [programs.ddp, programs.fsdp2_bf16, programs.fsdp2_fp32, programs.functional]
REPLACED = [
    (programs.ddp, "nccl"),
    (parallel.fsdp1, "gloo"),
    (parallel.tensor_parallel, "gloo"),
    (parallel.experts, "nccl"),
    (parallel.pipeline, "gloo"),
]
MORE = [
    programs.zero_redundancy,
    programs.hybrid,
    parallel.fsdp1,
    parallel.tensor_parallel,
    parallel.two_dimensions,
    parallel.experts,
    parallel.pipeline,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_run_and_ranks_agree(program: Program) -> None:
    results = run_ranks(program, 2)
    assert results == [results[0]] * 2


@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize("program", PROGRAMS)
def test_engine_changes_no_bit(engine: str, program: Program) -> None:
    check_engine(engine, program, 3, mtu=4096)


@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize(("program", "asked"), REPLACED)
def test_programs_that_ask_for_another_backend(engine: str, program: Program, asked: str) -> None:
    check_engine(engine, program, 2, mtu=4096, asked=asked)


@pytest.mark.full
@pytest.mark.parametrize("engine", CODING)
@pytest.mark.parametrize("program", [*PROGRAMS, *MORE])
def test_four_ranks_and_small_packets(engine: str, program: Program) -> None:
    check_engine(engine, program, 4, mtu=1024, asked="gloo")


def check_engine(engine: str, program: Program, size: int, *, mtu: int, asked: str = "") -> None:
    """The results with `engine` are those with the null engine, it did code something, and ranks
    agree. `asked` is the backend that the program names, if not ours."""
    replaced = {"WIREZIP_REPLACES": asked} if asked else {}
    null, coding = (
        run_ranks(
            programs.run_and_count,
            size,
            program,
            environment={"WIREZIP_ENGINE": name, "WIREZIP_MTU": str(mtu), **replaced},
        )
        for name in ("null", engine)
    )
    assert [result for result, _ in null] == [null[0][0]] * size
    assert [result for result, _ in coding] == [result for result, _ in null]
    assert [coded for _, coded in null] == [0] * size
    assert all(coded > 0 for _, coded in coding) or program is programs.functional


def ask_for_groups() -> list[str]:
    """The backend of groups that a program asks for in every way, and the role of each."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    group = dist.new_group(backend="gloo")
    both = dist.new_group(backend="cpu:gloo,cuda:nccl")
    options = dist.ProcessGroupGloo._Options()
    with_options = dist.new_group(backend="gloo", pg_options=options)
    groups = [group, both, with_options, mesh.get_group("dp"), mesh.get_group("tp")]
    dist.all_reduce(torch.ones(10), group=both)
    return [f"{dist.get_backend(g)} {g._collectives.role}" for g in groups]


def test_every_way_to_ask_for_a_group() -> None:
    found = run_ranks(ask_for_groups, 2, environment={"WIREZIP_REPLACES": "gloo"})
    assert found == [[*["wirezip None"] * 4, "wirezip 3"]] * 2


def test_names_that_can_be_replaced() -> None:
    assert parse_names(" gloo, NCCL ,") == ("gloo", "nccl")
    with pytest.raises(ConfigError, match="WIREZIP_REPLACES: expected names out of gloo, nccl; fo"):
        parse_names("gloo,mpi")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gloo", "gloo"),
        ("nccl", "nccl"),
        ("cpu:gloo,cuda:nccl", "gloo"),
        ("cuda:nccl,cpu:wirezip", "wirezip"),
        ("undefined", "gloo"),
        ("wirezip", "wirezip"),
    ],
)
def test_which_backend_a_string_means(asked: str, found: str) -> None:
    assert backend_of_cpu(asked) == found
