# SPDX-License-Identifier: Apache-2.0
"""wz_unrecord: records of every type with every set of flags, full, partial and in parts."""

from random import Random

import pytest

from codec.elements import ElementType
from tests.conformance import builder
from tests.rtl import packets
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.structs import pack


@pytest.fixture(scope="module", params=["all types", "BF16"])
def types(request: pytest.FixtureRequest) -> list[ElementType]:
    return list(ElementType) if request.param == "all types" else [ElementType.BF16]


@pytest.fixture(scope="module")
def dut(types: list[ElementType]) -> Dut:
    return Dut("wz_unrecord", parameters={"TYPES": sum(1 << t for t in types)})


def windows(rng: Random, element: ElementType) -> tuple[list[int], list[int], int]:
    """Windows of a record, what comes beside them, and the elements."""
    layout, width = element.layout, element.width_bytes
    per_beat = 64 // width
    count = rng.choice((per_beat, 1, rng.randint(1, per_beat)))
    sign = rng.random() < 0.5 and layout.signed
    bits = layout.remainder_bits - sign
    planes, top = divmod(bits, 8)
    flags = rng.randrange(1 << planes)
    constants = [rng.randrange(256) if flags >> p & 1 else 0 for p in range(3)]
    remainders = []
    for _ in range(count):
        remainder = rng.getrandbits(bits)
        for p in range(planes):
            if flags >> p & 1:
                remainder = remainder & ~(0xFF << 8 * p) | constants[p] << 8 * p
        remainders.append(remainder)
    sign_value = int(sign and rng.random() < 0.5)

    # Where planes and top bits lie in a full record, and in a partial one.
    parts = [
        (p, bytes(r >> 8 * p & 255 for r in remainders))
        for p in range(planes)
        if not flags >> p & 1
    ]
    if top:
        parts.append((planes, builder.bit_string([(r >> 8 * planes, top) for r in remainders])))
    low = int(element == ElementType.FP32 and flags & 0b11 == 0b10)
    info = {
        "bytes": count * width,
        "choice": 1 if sign else 2 if flags & 1 else 3,
        "element": element,
        "sign_flag": int(sign),
        "sign_value": sign_value,
        "plane_flags": flags,
        "plane_bytes": sum(byte << 8 * p for p, byte in enumerate(constants)),
    }
    data, beside = [], []
    if count < per_beat and len(parts) > 1:
        for i, (plane, part) in enumerate(parts):
            at = plane * per_beat
            window = rng.randbytes(at) + part
            window += rng.randbytes(64 - len(window))
            lanes = {1: 0b1010, 2: 0b1010}[plane] if width == 2 and i else 0b1111
            if width == 4 and i:
                lanes = 0b0010 if plane == 1 else 0b1100
            data.append(window)
            beside.append(info | {"set": lanes, "last_part": int(i == len(parts) - 1)})
    else:
        window = bytearray(rng.randbytes(64))
        for plane, part in parts:
            at = per_beat if low and plane == 2 else plane * per_beat
            window[at : at + len(part)] = part
        data.append(bytes(window))
        beside.append(info | {"set": 0b1111, "last_part": 1, "low": low})

    elements = 0
    for i, remainder in enumerate(remainders):
        mantissa = remainder & (1 << layout.mantissa_bits) - 1
        negative = sign_value if sign else remainder >> layout.mantissa_bits
        value = mantissa | negative << (layout.mantissa_bits + layout.exponent_bits)
        elements |= value << 8 * width * i
    return (
        [int.from_bytes(window, "little") for window in data],
        [pack(packets.WINDOW, **fields) for fields in beside],
        elements,
    )


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_records(dut: Dut, types: list[ElementType], stall: float) -> None:
    rng = Random(str(stall))
    data, info, ends, wanted = [], [], [], []
    for _ in range(2500):
        if rng.random() < 0.1:
            size = rng.randint(1, 64)
            window = rng.getrandbits(512)
            data.append(window)
            info.append(
                pack(
                    packets.WINDOW,
                    bytes=size,
                    set=15,
                    last_part=1,
                    element=rng.randrange(6),
                    plane_flags=rng.randrange(8),
                )
            )
            wanted.append(window & (1 << 8 * size) - 1)
        else:
            parts, beside, elements = windows(rng, rng.choice(types))
            data += parts
            info += beside
            wanted.append(elements)
        ends.append(len(data) - 1)
    dut.reset()
    sent = Source("s", valid="valid", ready=None, data=data, info=info, stall=stall)
    got = Sink("m", valid="valid", ready=None, fields=("data",))
    dut.stream(sent, got, seed=6)
    assert got.integers("data") == wanted
    assert [int(c) for c in got.clocks] == [int(sent.clocks[i]) + 2 for i in ends]
