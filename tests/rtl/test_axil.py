# SPDX-License-Identifier: Apache-2.0
"""wz_axil: accesses reach the registers once, in the clocks of the data sheet, and are answered."""

from random import Random

import pytest

from tests.rtl.dut import Dut


@pytest.fixture
def dut() -> Dut:
    dut = Dut("wz_axil")
    dut.reset()
    return dut


class Registers:
    """Sixteen words, which answer at once or some clocks later; addresses from 64 on are errors."""

    def __init__(self, dut: Dut, rng: Random) -> None:
        self._dut = dut
        self._rng = rng
        self._wait: int | None = None
        self.words = [0] * 16
        self.requests: list[tuple[bool, int]] = []

    def clock(self) -> None:
        """One clock; the outputs of the module are looked at before it."""
        dut = self._dut
        if dut["request"]:
            assert self._wait is None
            self.requests.append((bool(dut["is_write"]), dut["address"]))
            self._wait = self._rng.choice((0, 0, 1, 5))
        dut["ack"] = answers = int(self._wait == 0)
        dut["read_data"], dut["error"] = self._rng.getrandbits(32), self._rng.getrandbits(1)
        if answers:
            address = dut["address"]
            dut["error"] = int(address >= 64)
            if address < 64:
                dut["read_data"] = self.words[address // 4]
                if dut["is_write"]:
                    kept = self.words[address // 4] & ~dut["write_bits"]
                    self.words[address // 4] = kept | dut["write_data"] & dut["write_bits"]
            self._wait = None
        elif self._wait is not None:
            self._wait -= 1
        dut.clock()


def test_accesses(dut: Dut) -> None:
    """Reads and writes at the same time, addresses before and behind data, answers not taken."""
    rng = Random("accesses")
    registers = Registers(dut, rng)
    memory = [0] * 16
    reads, writes = 0, 0
    read_waits = write_waits = False  # taken, not answered
    reading: int | None = None
    writing: tuple[int, int, int] | None = None
    for clock in range(20_100):
        more = clock < 20_000  # the last ones are to be answered, too
        if more and reading is None and rng.random() < 0.3:
            reading = 4 * rng.randrange(20)
        if more and writing is None and rng.random() < 0.3:
            writing = 4 * rng.randrange(20), rng.getrandbits(32), rng.getrandbits(4)
        if reading is not None and not read_waits and rng.random() < 0.5:
            dut["s_axil_araddr"], dut["s_axil_arvalid"] = reading, 1
        if writing is not None and not write_waits:
            address, data, strobe = writing
            if not dut["s_axil_awvalid"] and rng.random() < 0.5:
                dut["s_axil_awaddr"], dut["s_axil_awvalid"] = address, 1
            if not dut["s_axil_wvalid"] and rng.random() < 0.5:
                dut["s_axil_wdata"], dut["s_axil_wstrb"], dut["s_axil_wvalid"] = data, strobe, 1
        dut["s_axil_rready"], dut["s_axil_bready"] = rng.getrandbits(1), rng.getrandbits(1)
        dut.eval()
        read_taken = dut["s_axil_arvalid"] and dut["s_axil_arready"]
        write_taken = dut["s_axil_awvalid"] and dut["s_axil_awready"]
        assert bool(write_taken) == bool(dut["s_axil_wvalid"] and dut["s_axil_wready"])
        if dut["s_axil_rvalid"] and dut["s_axil_rready"]:
            assert reading is not None
            good = reading < 64
            assert dut["s_axil_rresp"] == (0 if good else 2)
            assert not good or dut["s_axil_rdata"] == memory[reading // 4]
            reading, read_waits, reads = None, False, reads + 1
        if dut["s_axil_bvalid"] and dut["s_axil_bready"]:
            assert writing is not None
            assert dut["s_axil_bresp"] == (0 if writing[0] < 64 else 2)
            writing, write_waits, writes = None, False, writes + 1
        if write_taken and writing is not None and writing[0] < 64:
            # Nothing is read between a write that was taken and its effect.
            address, data, strobe = writing
            mask = sum(0xFF << 8 * i for i in range(4) if strobe >> i & 1)
            memory[address // 4] = memory[address // 4] & ~mask | data & mask
        registers.clock()
        if read_taken:
            dut["s_axil_arvalid"], read_waits = 0, True
        if write_taken:
            dut["s_axil_awvalid"] = dut["s_axil_wvalid"] = 0
            write_waits = True
    assert registers.words == memory
    assert reads > 500
    assert writes > 500
    assert len(registers.requests) == reads + writes


def test_turns_and_clocks(dut: Dut) -> None:
    """Where both wait they take turns; a response after 3 clocks, an access in 4."""
    dut["s_axil_awvalid"] = dut["s_axil_wvalid"] = dut["s_axil_arvalid"] = 1
    dut["s_axil_rready"] = dut["s_axil_bready"] = dut["ack"] = 0
    seen = []
    for clock in range(40):
        dut["ack"] = dut["request"]
        dut["s_axil_rready"] = dut["s_axil_bready"] = 1
        dut.eval()
        for kind, valid in (("write", "s_axil_bvalid"), ("read", "s_axil_rvalid")):
            if dut[valid]:
                seen.append((clock, kind))
        dut.clock()
    assert [clock for clock, _ in seen] == list(range(3, 40, 4))
    assert all(kind == ("write", "read")[i % 2] for i, (_, kind) in enumerate(seen))


def test_reset_in_an_access(dut: Dut) -> None:
    for clocks in range(1, 5):
        dut["s_axil_arvalid"] = 1
        for _ in range(clocks):
            dut["ack"] = dut["request"]
            dut.clock()
        dut["s_axil_arvalid"] = dut["ack"] = 0
        dut.reset()
        for _ in range(5):
            assert not any(dut[name] for name in ("request", "s_axil_rvalid", "s_axil_arready"))
            dut.clock()
