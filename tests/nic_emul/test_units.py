# SPDX-License-Identifier: Apache-2.0
"""The parts that need no peer: configuration, roles, policy, packet arithmetic, counters."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import ReduceOp

from codec.elements import ElementType
from nic_emul import (
    MTUS,
    CounterRow,
    Counters,
    GroupOptions,
    NicConfig,
    Role,
    aggregate,
    schedule,
)
from nic_emul.autoload import check_torch, load
from nic_emul.config import LOOPBACK, listen_host
from nic_emul.dtypes import describe, label_of
from nic_emul.errors import ConfigError, UnsupportedOperation, UnsupportedTorch
from nic_emul.packets import wire_bytes
from nic_emul.policy import MIN_COMPRESSED_BYTES, compresses
from nic_emul.reduce_ops import ReduceCode, reduction
from nic_emul.roles import Collective, resolve_role, role_of_mesh


def test_configuration_from_environment() -> None:
    assert NicConfig.from_environment({}) == NicConfig(engine="numba", mtu=4096, timeout_s=60.0)
    assert MTUS == (1024, 4096)
    found = NicConfig.from_environment(
        {
            "WIREZIP_ENGINE": "null",
            "WIREZIP_MTU": "1024",
            "WIREZIP_TIMEOUT_S": "2.5",
            "WIREZIP_COUNTERS": "some/folder",
            "WIREZIP_PCAP": "other/folder",
            "WIREZIP_HOST": "10.0.0.7",
            "WIREZIP_RANKS_PER_NODE": "8",
            "WIREZIP_ALGORITHM": "hierarchical",
            "WIREZIP_ELEMENT": "inferred",
            "WIREZIP_SWITCH": "10.0.0.9:29400",
            "WIREZIP_SWITCH_SECRET": "0f" * 16,
            "LOCAL_WORLD_SIZE": "4",
            "PATH": "/bin",
        }
    )
    assert found == NicConfig(
        engine="null",
        mtu=1024,
        timeout_s=2.5,
        counters_dir=Path("some/folder"),
        pcap_dir=Path("other/folder"),
        host="10.0.0.7",
        ranks_per_node=8,
        algorithm="hierarchical",
        element="inferred",
        switch=("10.0.0.9", 29400),
        switch_secret=b"\x0f" * 16,
    )
    assert "switch_secret" not in repr(found)
    assert NicConfig.from_environment({"WIREZIP_MTU": " "}).mtu == 4096


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WIREZIP_ENGINE", "zip"),
        ("WIREZIP_MTU", "1500"),
        ("WIREZIP_MTU", "many"),
        ("WIREZIP_TIMEOUT_S", "0"),
        ("WIREZIP_TIMEOUT_S", "-1"),
        ("WIREZIP_TIMEOUT_S", "inf"),
        ("WIREZIP_TIMEOUT_S", "nan"),
        ("WIREZIP_TIMEOUT_S", "soon"),
        ("WIREZIP_HOST", "example.org"),
        ("WIREZIP_HOST", "::1"),
        ("WIREZIP_RANKS_PER_NODE", "0"),
        ("WIREZIP_RANKS_PER_NODE", "65536"),
        ("WIREZIP_RANKS_PER_NODE", "two"),
        ("WIREZIP_SWITCH", "10.0.0.9"),
        ("WIREZIP_SWITCH", "example.org:1"),
        ("WIREZIP_SWITCH", "10.0.0.9:0"),
        ("WIREZIP_SWITCH", "10.0.0.9:65536"),
        ("WIREZIP_SWITCH_SECRET", "not hexadecimal"),
        ("WIREZIP_ALGORITHM", "tree"),
        ("WIREZIP_ELEMENT", "guessed"),
    ],
)
def test_nonsense_in_the_environment_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        NicConfig.from_environment({name: value})


def test_a_switch_needs_its_secret_and_the_algorithm_its_switch() -> None:
    switch = {"WIREZIP_SWITCH": "10.0.0.9:29400"}
    for environment, named in (
        (switch, "WIREZIP_SWITCH_SECRET"),
        (switch | {"WIREZIP_SWITCH_SECRET": "0f" * 15}, "at least 16 bytes in hexadecimal"),
        ({"WIREZIP_ALGORITHM": "switch"}, "WIREZIP_SWITCH: expected HOST:PORT"),
    ):
        with pytest.raises(ConfigError, match=named):
            NicConfig.from_environment(environment)


def test_group_options_take_a_role() -> None:
    assert GroupOptions().role is None
    with pytest.raises(ConfigError, match="GroupOptions"):
        GroupOptions(role=1)  # type: ignore[arg-type]


def test_listening_address() -> None:
    config = NicConfig()
    assert listen_host(config, {}) == LOOPBACK
    assert listen_host(config, {"MASTER_ADDR": "localhost"}) == LOOPBACK
    assert listen_host(config, {"MASTER_ADDR": "127.0.0.1"}) == LOOPBACK
    assert listen_host(NicConfig(host="10.1.2.3"), {"MASTER_ADDR": "localhost"}) == "10.1.2.3"
    with pytest.raises(ConfigError, match="MASTER_ADDR"):
        listen_host(config, {"MASTER_ADDR": "no.such.host.invalid"})


def test_roles() -> None:
    for collective in Collective:
        assert resolve_role(collective, floating=False, declared=Role.GRADIENT) is Role.OTHER
        declared = resolve_role(collective, floating=True, declared=Role.OPTIMIZER_STATE)
        expected = Role.OTHER if collective is Collective.BARRIER else Role.OPTIMIZER_STATE
        assert declared is expected
    defaults = {
        collective.label: resolve_role(collective, floating=True, declared=None).label
        for collective in Collective
    }
    assert defaults == {
        "all_reduce": "gradient",
        "reduce_scatter": "gradient",
        "reduce": "gradient",
        "all_gather": "parameter",
        "broadcast": "parameter",
        "gather": "parameter",
        "scatter": "parameter",
        "all_to_all": "activation",
        "send": "activation",
        "barrier": "other",
    }


def test_roles_of_mesh_dimensions() -> None:
    split = [f"mesh_{name}" for name in ("tp", "sp", "cp", "ep", "pp")]
    assert [role_of_mesh(name) for name in split] == [Role.ACTIVATION] * 5
    others = ["mesh_dp", "mesh_dp_shard", "mesh_0", "mesh_default", "default_pg", "undefined", "tp"]
    assert [role_of_mesh(name) for name in others] == [None] * 7


def test_policy() -> None:
    size = MIN_COMPRESSED_BYTES
    assert compresses(Role.GRADIENT, ElementType.BF16, size)
    assert not compresses(Role.GRADIENT, ElementType.BF16, size - 1)
    assert not compresses(Role.OTHER, ElementType.BF16, size)
    assert not compresses(Role.PARAMETER, ElementType.RAW, size)


def test_wire_bytes_of_known_messages() -> None:
    def cost(*lengths: int) -> int:
        return wire_bytes(np.array(lengths, np.int32))

    assert cost() == 0
    # One byte: padded to four, 82 bytes of packet headers, 16 of RETH, 4 of ImmDt.
    assert cost(1) == 4 + 82 + 20
    assert cost(4096) == 4096 + 82 + 20
    # A slice of 1 MiB: 256 full packets. 98.04 % of such packets is payload.
    assert cost(*[4096] * 256) == 256 * (4096 + 82) + 20
    assert cost(*[4096] * 255, 5) == 255 * (4096 + 82) + 8 + 82 + 20
    assert round(100 * 4096 / (4096 + 82), 2) == 98.04
    # Coded packets are padded one by one.
    assert cost(2731, 2730) == 2732 + 2732 + 2 * 82 + 20


def test_dtypes_have_distinct_tags() -> None:
    known = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32, torch.bool]
    assert len({describe(dtype).tag for dtype in known}) == len(known)
    assert describe(torch.bfloat16).element is ElementType.BF16
    assert describe(torch.float64).element is ElementType.RAW
    assert describe(torch.float64).floating
    assert label_of(describe(torch.bfloat16).tag) == "bfloat16"
    with pytest.raises(UnsupportedOperation, match="quint8"):
        describe(torch.quint8)


def test_reduce_codes_are_those_of_torch() -> None:
    names = {name: int(value) for name, value in ReduceOp.RedOpType.__members__.items()}
    assert names == {code.name: code.value for code in ReduceCode}


def test_factors_are_rounded_to_the_dtype() -> None:
    assert reduction(ReduceOp.AVG, torch.float32, 4).factor == 0.25
    third = reduction(ReduceOp.AVG, torch.bfloat16, 3).factor
    assert third == torch.tensor(1 / 3).bfloat16().item() != 1 / 3
    assert reduction(ReduceOp.SUM, torch.bfloat16, 3).factor is None
    assert reduction(ReduceOp.AVG, torch.int32, 3).divisor == 3


@given(
    count=st.integers(0, 3_000_000),
    itemsize=st.sampled_from([1, 2, 4, 8, 16]),
    grain=st.sampled_from([schedule.RING, schedule.CHAIN]),
)
def test_slices_cover_their_loops(count: int, itemsize: int, grain: schedule.Grain) -> None:
    position = 0
    for start, stop in schedule.loops(count, grain, itemsize):
        pieces = schedule.slices((start, stop), grain, itemsize)
        assert len(pieces) <= grain.slices_per_chunk
        for low, high in pieces:
            assert low == position
            assert 0 < (high - low) * itemsize <= grain.steps_per_slice * 512 * 1024
            position = high
    assert position == count


@given(
    count=st.integers(0, 9_000_000),
    size=st.integers(2, 9),
    itemsize=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_all_reduce_chunks_cover_the_tensor(count: int, size: int, itemsize: int) -> None:
    position = 0
    loops = list(schedule.all_reduce_loops(count, size, itemsize))
    for chunks in loops:
        assert len(chunks) == size
        for low, high in chunks:
            assert low == position
            # Chunks begin at multiples of 16 bytes, as NCCL's do; the end of the data is an end.
            assert low * itemsize % 16 == 0 or low == count
            position = high
    assert position == count
    assert len(loops) == math.ceil(count * itemsize / (size * 2 * 1024 * 1024))


def test_counters_add_up_and_tell_differences() -> None:
    counters = Counters()
    key = ("all_reduce", "gradient", "bfloat16")
    four = {"logical_bytes": 100, "payload_bytes": 70, "wire_bytes": 180, "packets": 1}
    counters.add(key, {"messages": 1, "encode_s": 0.5, **four})
    before = counters.snapshot()
    counters.add(key, {"messages": 2, **four})
    counters.add(("send", "activation", "float32"), {"received_messages": 1})
    rows = {row.key: row for row in counters.rows()}
    assert rows[key].logical_bytes == 200
    assert rows[key].encode_s == 0.5
    changes = {row.key: row for row in counters.delta(before)}
    assert changes[key].messages == 2
    assert changes[key].encode_s == 0
    assert changes[key].as_dict()["wire_bytes"] == 180
    assert set(changes) == {key, ("send", "activation", "float32")}
    assert counters.delta(counters.snapshot()) == []


def test_aggregate_counts_what_was_sent() -> None:
    def row(collective: str, role: str, amount: int) -> CounterRow:
        return CounterRow(
            collective=collective,
            role=role,
            dtype="float32",
            messages=1,
            logical_bytes=amount,
            payload_bytes=amount,
            wire_bytes=amount + 102,
            packets=1,
            received_logical_bytes=999,
        )

    silent = CounterRow(collective="broadcast", role="parameter", dtype="float32")
    inside = CounterRow(
        collective="reduce", role="gradient", dtype="float32", intra_messages=1, intra_bytes=5
    )
    rows = [row("all_gather", "parameter", 8), row("all_reduce", "gradient", 4)]
    summary = aggregate([*rows, row("all_reduce", "gradient", 4), silent, inside])
    between = {"logical_bytes": 8, "payload_bytes": 8, "wire_bytes": 212, "packets": 2}
    between["forwarded_packets"] = 0
    assert summary.by_role["gradient"] == between | {"intra_bytes": 5}
    assert summary.by_collective["all_reduce"] == between | {"intra_bytes": 0}
    assert set(summary.by_collective) == {"all_gather", "all_reduce", "reduce"}
    assert summary.as_dict()["logical_bytes"] == 16
    assert summary.as_dict()["by_role"] == summary.by_role


def test_torch_range() -> None:
    check_torch("2.13.0+cpu")
    check_torch("2.13.1")
    for version in ("2.12.1", "2.14.0", "3.0.0", "1.13.1"):
        with pytest.raises(UnsupportedTorch, match=version.replace(".", r"\.")):
            check_torch(version)


def test_load_can_be_called_again() -> None:
    load()
    load()
    assert torch.distributed.Backend.backend_list.count("wirezip") == 1
