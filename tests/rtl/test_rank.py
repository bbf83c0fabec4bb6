# SPDX-License-Identifier: Apache-2.0
"""wz_rank: ranks of the symbols in groups of values, against the order's definition."""

from random import Random
from typing import Any

import numpy as np
import pytest

from codec import format as f
from codec import reference
from codec.elements import ElementType
from codec.format import Coder
from tests.conformance.blocks import value
from tests.rtl import rows
from tests.rtl.dut import Dut, Sink, Source

LATENCY = 4
FIELDS = ("rank", "present", "escape", "symbol", "first", "last")


@pytest.mark.parametrize(("lanes", "types"), [(32, 63), (8, 63), (16, 63), (64, 63), (32, 2)])
def test_ranks(lanes: int, types: int) -> None:
    rng = Random(lanes + types)
    dut = Dut("wz_rank", parameters={"LANES": lanes, "TYPES": types})
    dut.reset()
    elements = [e for e in ElementType if types >> e & 1 and e.layout.exponent_bits]
    for turn in range(12):
        element, coder, bank = rng.choice(elements), rng.choice(list(Coder)), turn % 4
        last = (1 << element.layout.exponent_bits) - 1
        limit = f.CODER_RANKS[coder]
        base = rng.randint(1, last)
        zero_rank = rng.choice([f.ZERO_RANK_NONE, rng.randrange(min(15, last))])
        order = reference._order(base, rng.getrandbits(14), zero_rank, limit, last)
        nonzero = [symbol for symbol in order if symbol]
        for step, symbol in enumerate(nonzero):
            dut["table_we"], dut["table_bank"] = 1, bank
            dut["table_symbol"], dut["table_step"] = symbol % 32, step
            dut.clock()
        dut["table_we"] = 0
        config = rows.codes(
            element=element,
            coder=coder,
            bank=bank,
            order_lo=min(nonzero),
            order_hi=max(nonzero),
            zero_rank=zero_rank,
        )
        check(dut, rng, element, lanes, config, order, limit)


def check(
    dut: Dut,
    rng: Random,
    element: ElementType,
    lanes: int,
    config: int,
    order: list[int],
    escape: int,
) -> None:
    last = (1 << element.layout.exponent_bits) - 1
    per_beat = 64 // element.width_bytes
    group_size = min(lanes, per_beat)
    fields: dict[str, Any] = {"group": [], "count": [], "first": [], "last": []}
    data, expected = b"", []
    for _ in range(80):
        group = rng.randrange(per_beat // group_size)
        count = rng.choice([group_size, rng.randint(1, group_size)])
        symbols = [rng.choice([*order, rng.randint(0, last)]) for _ in range(per_beat)]
        mantissas = [rng.getrandbits(element.layout.mantissa_bits) for _ in symbols]
        numbers = [
            value(element, rng.getrandbits(1), symbol, mantissa)
            for symbol, mantissa in zip(symbols, mantissas, strict=True)
        ]
        data += b"".join(v.to_bytes(element.width_bytes, "little") for v in numbers)
        for name, entry in zip(
            fields, (group, count, rng.getrandbits(1), rng.getrandbits(1)), strict=True
        ):
            fields[name].append(entry)
        expected.append(symbols[group * group_size : group * group_size + count])
    source = Source(
        "s",
        data=np.frombuffer(data, np.uint8).reshape(-1, 64),
        codes=[config] * len(expected),
        valid="valid",
        ready=None,
        stall=0.1,
        **fields,
    )
    sink = Sink("m", fields=FIELDS, valid="valid", ready=None)
    dut.stream(source, sink, drain=10)
    assert np.array_equal(sink.clocks, source.clocks + LATENCY)
    assert list(sink["first"]) == fields["first"]
    assert list(sink["last"]) == fields["last"]
    got = (sink.integers(name) for name in ("rank", "present", "escape", "symbol"))
    for symbols, rank, present, escapes, symbol in zip(expected, *got, strict=True):
        ranks = [order.index(s) if s in order else escape for s in symbols]
        assert present == (1 << len(symbols)) - 1
        assert [rank >> 5 * i & 31 for i in range(len(symbols))] == ranks
        assert escapes == sum((r == escape) << i for i, r in enumerate(ranks))
        assert [symbol >> 8 * i & 255 for i in range(len(symbols))] == symbols
