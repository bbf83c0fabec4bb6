# SPDX-License-Identifier: Apache-2.0
"""Every collective on real ranks: bits and bytes equal those of the model, with every engine."""

from collections.abc import Callable

import pytest
import torch

from nic_emul import CounterRow, aggregate
from tests.nic_emul import checks
from tests.nic_emul.ranks import ENGINES, run_ranks

pytestmark = pytest.mark.ranks

ALL = list(range(len(checks.OPERATIONS)))
FLOATS = [i for i, (dtype, _) in enumerate(checks.OPERATIONS) if dtype.is_floating_point]
FP32_SUM = checks.OPERATIONS.index((torch.float32, torch.distributed.ReduceOp.SUM))
BF16_SUM = checks.OPERATIONS.index((torch.bfloat16, torch.distributed.ReduceOp.SUM))
UINT8_SUM = checks.OPERATIONS.index((torch.uint8, torch.distributed.ReduceOp.SUM))
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8]


def small_counts(size: int) -> list[int]:
    return sorted({0, 1, size - 1, size, size + 1, 64, 1001})


def check_conservation(ranks: list[list[CounterRow]]) -> None:
    """What all ranks sent is what all ranks received, row by row."""
    rows = [row for rows in ranks for row in rows]
    for key in {row.key for row in rows}:
        matching = [row for row in rows if row.key == key]
        for name in (
            "messages",
            "logical_bytes",
            "payload_bytes",
            "wire_bytes",
            "packets",
            "intra_messages",
            "intra_bytes",
        ):
            sent = sum(getattr(row, name) for row in matching)
            received = sum(getattr(row, f"received_{name}") for row in matching)
            assert sent == received, (key, name)
        marked = sum(row.constant_frames + row.coded_frames for row in matching)
        assert marked == sum(row.received_marked_packets for row in matching), key
        assert sum(row.packets for row in matching) == marked + sum(
            row.raw_packets for row in matching
        )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_reductions_match_model_and_formulas(size: int) -> None:
    check_conservation(run_ranks(checks.reductions, size, small_counts(size), ALL, True, 4096))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_movements_match_model_and_formulas(size: int) -> None:
    check_conservation(run_ranks(checks.movements, size, small_counts(size), DTYPES, True, 4096))


@pytest.mark.parametrize("mtu", [1024, 4096])
def test_many_slices_and_loops(mtu: int) -> None:
    environment = {"WIREZIP_MTU": str(mtu)}

    def check(function: Callable[..., checks.Rows], *args: object, size: int) -> None:
        check_conservation(run_ranks(function, size, *args, True, mtu, environment=environment))

    # Three slices of FP32; two loops and a bit of two ranks in bytes.
    check(checks.reductions, [600_007], [FP32_SUM], size=3)
    check(checks.reductions, [9_000_001], [UINT8_SUM], size=2)
    check(checks.movements, [600_007], [torch.float32], size=3)


def test_ring_formula_for_sizes_that_divide() -> None:
    """Where everything divides, a rank sends 2(n-1)/n of an all-reduce, (n-1) parts otherwise."""
    count, size = 4 * 65536, 4
    ranks = run_ranks(checks.reductions, size, [count], [FP32_SUM], True, 4096)
    for rows in ranks:
        sent = {row.collective: row for row in rows}
        tensor_bytes = 4 * count
        volume = 2 * (size - 1) * tensor_bytes // size
        assert sent["all_reduce"].logical_bytes == volume
        assert sent["all_reduce"].packets == volume // 4096
        # Six messages of one slice (256 KiB, cut in two slices of 128 KiB each).
        assert sent["all_reduce"].wire_bytes == volume + 82 * volume // 4096 + 20 * 12
        assert sent["reduce_scatter"].logical_bytes == (size - 1) * tensor_bytes
    total = aggregate(row for rows in ranks for row in rows)
    assert total.by_collective["all_reduce"]["logical_bytes"] == size * volume
    assert total.by_role == {"gradient": total.total}


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "null"])
def test_engines_change_no_bit(engine: str) -> None:
    # The reference engine takes a second for what the others do in a millisecond.
    size, counts = (2, [1, 600]) if engine == "reference" else (3, [*small_counts(3), 5003])
    environment = {"WIREZIP_ENGINE": engine}
    ranks = run_ranks(checks.reductions, size, counts, FLOATS, False, 4096, environment=environment)
    check_conservation(ranks)
    assert any(row.coded_frames for rows in ranks for row in rows)
    ranks = run_ranks(checks.movements, size, counts, DTYPES, False, 4096, environment=environment)
    check_conservation(ranks)


@pytest.mark.full
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "reference"])
@pytest.mark.parametrize("mtu", [1024, 4096])
@pytest.mark.parametrize("size", [2, 4])
def test_large_tensors(engine: str, mtu: int, size: int) -> None:
    environment = {"WIREZIP_ENGINE": engine, "WIREZIP_MTU": str(mtu)}
    raw = engine == "null"
    counts = [262_144, 262_145, size * 524_288, size * 524_288 + 5]
    operations = [FP32_SUM, BF16_SUM, UINT8_SUM]
    ranks = run_ranks(
        checks.reductions, size, counts, operations, raw, mtu, environment=environment
    )
    check_conservation(ranks)
    ranks = run_ranks(checks.movements, size, [300_001], DTYPES, raw, mtu, environment=environment)
    check_conservation(ranks)
