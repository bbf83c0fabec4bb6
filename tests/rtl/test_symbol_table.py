# SPDX-License-Identifier: Apache-2.0
"""wz_symbol_table: orders as the reference codec builds them, two tables, clocks a table."""

from collections.abc import Sequence

import numpy as np
import pytest

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder
from tests.rtl.dut import Dut

LANES = 32
PAIRS = {Coder.R0: 8, Coder.R1: 8, Coder.R2: 16, Coder.F2: 8}
Job = tuple[ElementType, Coder, int, int, int]


@pytest.fixture(scope="module")
def dut() -> Dut:
    return Dut("wz_symbol_table")


def _word(job: Job) -> int:
    """`table_job_t` of wz_restore_pkg."""
    element, coder, base, path, zero_rank = job
    return element << 28 | coder << 26 | base << 18 | path << 4 | zero_rank


def _jobs(rng: np.random.Generator, count: int) -> Sequence[Job]:
    floats = [element for element in ElementType if element != ElementType.RAW]
    jobs = []
    for i in range(count):
        element = floats[i % len(floats)]
        last = (1 << element.layout.exponent_bits) - 1
        base = int(rng.choice([1, 2, last, last - 1, rng.integers(1, last + 1)]))
        path = int(rng.choice([0, 0x3FFF, 0x1555, rng.integers(1 << 14)]))
        jobs.append((element, Coder(i // 5 % 4), base, path, int(rng.integers(16))))
    return jobs


def _check(dut: Dut, job: Job) -> None:
    element, coder, base, path, zero_rank = job
    ranks = f.CODER_RANKS[coder]
    order = reference._order(base, path, zero_rank, ranks, (1 << element.layout.exponent_bits) - 1)
    dut["rank"] = sum(lane % ranks << 5 * lane for lane in range(LANES))
    dut.eval()
    symbols, nonzero, known = dut["symbol"], dut["nonzero"], dut["known"]
    for lane in range(LANES):
        rank = lane % ranks
        assert known >> lane & 1 == (rank < len(order)), (job, rank)
        if rank < len(order):
            assert symbols >> 8 * lane & 255 == order[rank], (job, rank)
            assert nonzero >> lane & 1 == (order[rank] != 0)


def _load(dut: Dut, job: Job) -> None:
    dut["s_job_tdata"] = _word(job)
    dut["s_job_tvalid"] = 1
    dut.eval()
    while not dut["s_job_tready"]:
        dut.clock()
    dut.clock()
    dut["s_job_tvalid"] = 0
    dut.eval()


def _done(dut: Dut) -> None:
    dut["done"] = 1
    dut.clock()
    dut["done"] = 0
    dut.eval()


def test_orders(dut: Dut) -> None:
    dut.reset()
    jobs = _jobs(np.random.default_rng(1), 200)
    _load(dut, jobs[0])
    for i, job in enumerate(jobs):
        if i + 1 < len(jobs):
            _load(dut, jobs[i + 1])  # into the other table
        while not dut["m_ready"]:
            dut.clock()
        _check(dut, job)
        _done(dut)


@pytest.mark.parametrize("coder", list(Coder))
def test_clocks(dut: Dut, coder: Coder) -> None:
    dut.reset()
    job = (ElementType.BF16, coder, 120, 0x1234, 3)
    before = dut.clocks
    _load(dut, job)
    _load(dut, job)
    assert dut.clocks - before == PAIRS[coder] + 1
    while not dut["m_ready"]:
        dut.clock()
    assert dut.clocks - before == PAIRS[coder] + 3
    _done(dut)
    dut.clock(PAIRS[coder])
    assert dut["m_ready"]
    assert dut["s_job_tready"]


def test_two_tables_and_no_more(dut: Dut) -> None:
    dut.reset()
    first = (ElementType.BF16, Coder.R0, 120, 0, 15)
    second = (ElementType.BF16, Coder.R2, 99, 0x2AAA, 0)
    _load(dut, first)
    _load(dut, second)
    dut.clock(40)
    assert not dut["s_job_tready"]
    _check(dut, first)
    _done(dut)
    _check(dut, second)
    _done(dut)
    assert not dut["m_ready"]


def test_reset_in_mid_walk(dut: Dut) -> None:
    dut.reset()
    _load(dut, (ElementType.FP32, Coder.R2, 7, 0x3210, 2))
    dut.clock(4)
    dut.reset()
    dut.clock(30)
    assert not dut["m_ready"]
    job = (ElementType.FP16, Coder.R2, 7, 0x3210, 2)
    _load(dut, job)
    while not dut["m_ready"]:
        dut.clock()
    _check(dut, job)
