# SPDX-License-Identifier: Apache-2.0
"""wz_ring: banks at addresses of their own, outputs that stay, a beat in and a word out a clock."""

from random import Random

import pytest

from tests.rtl.dut import Dut


@pytest.mark.parametrize("banks", [4, 8])
def test_banks(banks: int) -> None:
    dut = Dut("wz_ring", parameters={"BANKS": banks})
    rng = Random(banks)
    width = 512 // banks
    mask = (1 << width) - 1
    memory = [rng.getrandbits(512) for _ in range(256)]
    dut["write"] = 1
    for address, beat in enumerate(memory):
        dut["write_address"], dut["write_data"] = address, beat
        dut.clock()
    want = [0] * banks
    for turn in range(300):
        read = rng.getrandbits(banks) if turn else (1 << banks) - 1
        addresses = [rng.randrange(128) for _ in range(banks)]
        # Written meanwhile, elsewhere.
        memory[128 + turn % 128] = rng.getrandbits(512)
        dut["write_address"], dut["write_data"] = 128 + turn % 128, memory[128 + turn % 128]
        dut["read"] = read
        dut["read_address"] = sum(a << 8 * b for b, a in enumerate(addresses))
        dut.clock()
        for b in range(banks):
            if read >> b & 1:
                want[b] = memory[addresses[b]] >> width * b & mask
        assert dut["read_data"] == sum(word << width * b for b, word in enumerate(want))
