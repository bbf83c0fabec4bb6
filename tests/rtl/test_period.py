# SPDX-License-Identifier: Apache-2.0
"""wz_period: blocks that repeat with a period of 1, 2 or 4 bytes, and those that nearly do."""

from random import Random

from tests.rtl.dut import Dut

LATENCY = 3


def block(rng: Random) -> bytes:
    size = rng.choice((1, 2, 3, 4, 5, 6, 63, 64, 65, rng.randrange(1, 300)))
    pattern = rng.choice((rng.randbytes(1), rng.randbytes(2), rng.randbytes(4)))
    data = bytearray((pattern * size)[:size])
    if rng.random() < 0.5:
        data[rng.randrange(size)] ^= 1 << rng.randrange(8)
    return bytes(data)


def periods(data: bytes) -> int:
    """Bit i: a period of 2**i bytes."""
    return sum(1 << i for i in range(3) if data == (data[: 1 << i] * len(data))[: len(data)])


def test_blocks() -> None:
    dut = Dut("wz_period")
    rng = Random("periods")
    for _ in range(500):
        data = block(rng)
        for at in range(0, len(data), 64):
            beat = data[at : at + 64]
            dut["s_tdata"] = int.from_bytes(beat, "little")
            dut["s_tkeep"] = (1 << len(beat)) - 1
            dut["s_first"], dut["s_valid"] = at == 0, 1
            dut.clock()
            if rng.random() < 0.2:
                dut["s_valid"] = 0
                dut["s_tdata"], dut["s_first"] = rng.getrandbits(512), rng.getrandbits(1)
                dut.clock(rng.randrange(1, 4))
        dut["s_valid"] = 0
        dut.clock(LATENCY - 1)
        assert dut["m_periods"] == periods(data), data.hex()
        assert dut["m_pattern"] == int.from_bytes(data[:4], "little")
