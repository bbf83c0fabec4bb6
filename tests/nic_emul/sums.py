# SPDX-License-Identifier: Apache-2.0
"""Sums by the switch: what ranks do, and what must come out, computed in NumPy without torch.

The model is written from the words in `nic_emul/switch/arithmetic.py`.
"""

import ml_dtypes
import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import nic_emul
from nic_emul.ring import as_bytes

TYPES = {
    "float32": (torch.float32, np.float32, np.uint32, 0x7FC00000),
    "bfloat16": (torch.bfloat16, ml_dtypes.bfloat16, np.uint16, 0x7FC0),
    "float16": (torch.float16, np.float16, np.uint16, 0x7E00),
}
FACTOR = 0.3
OPERATIONS = {
    "sum": lambda: dist.ReduceOp.SUM,
    "avg": lambda: dist.ReduceOp.AVG,
    "premul": lambda: dist._make_nccl_premul_sum(FACTOR),
}
U8 = NDArray[np.uint8]


def make_input(rank: int, count: int, name: str) -> NDArray[np.void]:
    """Numbers, the first of which are arbitrary bits: NaNs of all kinds, infinities, subnormals."""
    _, numpy_type, bits, _ = TYPES[name]
    random = np.random.default_rng([count, rank])
    numbers = random.standard_normal(count).astype(np.float32) * np.float32(3)
    data = numbers.astype(numpy_type).view(bits)
    arbitrary = min(count // 2, 20_000)
    data[:arbitrary] = random.integers(0, np.iinfo(bits).max, arbitrary, bits, endpoint=True)
    # What arbitrary bits of 32 hardly ever are.
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-40, -1e-40, 6e-8, 65504.0])
    with np.errstate(all="ignore"):
        chosen = random.choice(special, arbitrary // 2).astype(numpy_type).view(bits)
    data[: chosen.size] = chosen
    return data.view(numpy_type)


def expected(inputs: list[NDArray[np.void]], name: str, operation: str) -> NDArray[np.void]:
    """The sum of `inputs`, which are in port order."""
    _, numpy_type, bits, nan = TYPES[name]
    with np.errstate(all="ignore"):
        if operation != "sum":
            factor = FACTOR if operation == "premul" else 1 / len(inputs)
            rounded = np.float32(np.array(factor).astype(np.float32).astype(numpy_type))
            inputs = [(data.astype(np.float32) * rounded).astype(numpy_type) for data in inputs]
        total = inputs[0].astype(np.float32)
        for data in inputs[1:]:
            total = total + data.astype(np.float32)
        result = total.astype(numpy_type)
    result.view(bits)[np.isnan(total)] = nan
    return result


def as_tensor(data: NDArray[np.void], name: str) -> torch.Tensor:
    tensor = torch.empty(data.size, dtype=TYPES[name][0])
    as_bytes(tensor)[:] = data.view(np.uint8)
    return tensor


def reduce_all(
    counts: list[int], names: list[str], operations: list[str]
) -> tuple[list[U8], list[nic_emul.CounterRow]]:
    """An all-reduce and a reduce-scatter of every size, type and operation: bytes and counters."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found = []
    for count in counts:
        for name in names:
            narrow, wide = (make_input(rank, n, name) for n in (count, size * count))
            for operation in operations:
                op = OPERATIONS[operation]()
                tensor = as_tensor(narrow, name)
                dist.all_reduce(tensor, op=op)
                data, out = as_tensor(wide, name), torch.empty(count, dtype=TYPES[name][0])
                dist.reduce_scatter_single(out, data, op=op)
                assert np.array_equal(as_bytes(data), wide.view(np.uint8)), "the input changed"
                found += [as_bytes(tensor), as_bytes(out)]
    return found, nic_emul.local_nic().counters.rows()


def expect_all(
    found: list[list[U8]], counts: list[int], names: list[str], operations: list[str]
) -> None:
    """Check the bytes that `reduce_all` returned, by rank; ports are in the order of ranks."""
    size = len(found)
    results = [iter(of_rank) for of_rank in found]
    for count in counts:
        for name in names:
            narrow, wide = (
                [make_input(rank, n, name) for rank in range(size)] for n in (count, size * count)
            )
            for operation in operations:
                whole = expected(narrow, name, operation).view(np.uint8)
                parts = expected(wide, name, operation).reshape(size, count)
                for rank in range(size):
                    what = f"{operation} of {count} {name} on rank {rank} of {size}"
                    assert np.array_equal(next(results[rank]), whole), f"all_reduce {what}"
                    mine = parts[rank].view(np.uint8)
                    assert np.array_equal(next(results[rank]), mine), f"reduce_scatter {what}"
    assert all(next(rest, None) is None for rest in results)
