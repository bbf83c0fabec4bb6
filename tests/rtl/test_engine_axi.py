# SPDX-License-Identifier: Apache-2.0
"""wz_engine on its buses, AXI4-Stream and AXI4-Lite, as cocotbext-axi drives them.

The top is wz_engine_ip. The functions with `@cocotb.test` run inside the simulator, which the one
pytest function starts.
"""

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools import require_module, require_verilator

cocotb = require_module("cocotb")

from cocotb.clock import Clock  # noqa: E402
from cocotb.triggers import ClockCycles, RisingEdge, Timer, with_timeout  # noqa: E402
from cocotb_tools.runner import Verilator, get_results  # noqa: E402
from cocotbext.axi import (  # noqa: E402
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)

from codec.elements import ElementType  # noqa: E402
from codec.format import Mode  # noqa: E402
from codec.header import parse_header  # noqa: E402
from codec.reference import encode_frame  # noqa: E402
from hw.csr.generate import compile_map, control_registers  # noqa: E402
from hw.sim import build as sim  # noqa: E402
from hw.sim.sources import RTL, sources  # noqa: E402

TOP = "wz_engine_ip"
CLOCK_NS = 4

# Starts the simulator, once for each width.


class _Runner(Verilator):
    """cocotb makes every signal of the design visible; the ports will do, and are faster."""

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        return [[part for part in verilate if part != "--public-flat-rw"], make]


@pytest.mark.parametrize("data_w", [512, 256, 128])
def test_engine(data_w: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_verilator()
    program = sim.verilator()
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    # Python on the buses takes longer than a model that is not optimised.
    monkeypatch.setenv("MAKEFLAGS", "OPT_FAST=-O0 OPT_GLOBAL=-O2")
    files = [*sources("wz_engine"), RTL / f"{TOP}.v"]
    ports = tmp_path / "ports.vlt"
    ports.write_text(f'`verilator_config\npublic_flat_rw -module "{TOP}" -var "*"\n')
    # Before the reset flops hold anything, also what no case of a one-hot state is for.
    options = ["--assert", "--no-assert-case", "--x-initial", "unique", "--x-assign", "unique"]
    options += ["-Wno-fatal", "--output-split", "10000"]
    plusargs = ["+verilator+rand+reset+2", "+verilator+seed+1"]
    if os.environ.get("COVERAGE"):
        from tests.rtl.dut import COVERAGE

        COVERAGE.mkdir(parents=True, exist_ok=True)
        options.append("--coverage-line")
        plusargs.append(f"+verilator+coverage+file+{COVERAGE / f'{TOP}-{data_w}.dat'}")
        # To cocotb it would mean the coverage of Python.
        monkeypatch.delenv("COVERAGE")
    runner = _Runner()

    def build(folder: Path) -> None:
        runner.build(
            sources=[*files, ports],
            hdl_toplevel=TOP,
            parameters={"DATA_W": data_w},
            build_args=options,
            build_dir=folder,
            timescale=("1ns", "1ps"),
            log_file=folder / "build.log",
        )

    key = (*files, *options, str(data_w), os.environ.get("WAVES", ""), cocotb.__version__)
    folder = sim.cached(TOP, key=key, build=build)
    log = tmp_path / "test.log"
    try:
        results = runner.test(
            test_module=__name__,
            hdl_toplevel=TOP,
            hdl_toplevel_lang="verilog",
            build_dir=folder,
            test_dir=tmp_path,
            results_xml=str(tmp_path / "results.xml"),
            plusargs=plusargs,
            seed=1,
            extra_env={"DATA_W": str(data_w)},
            log_file=log,
        )
    except (RuntimeError, SystemExit):
        pytest.fail(log.read_text()[-8000:])
    assert get_results(results) == (10, 0)


# Inside the simulator.


@dataclass(frozen=True)
class Block:
    data: bytes
    element: ElementType = ElementType.BF16
    phase: int = 0
    code: bool = True

    @property
    def user(self) -> int:
        return self.code << 5 | self.phase << 3 | self.element

    def frame(self) -> bytes | None:
        """What a packet of this block carries, if that is not the block itself."""
        if not self.code:
            return None
        frame = encode_frame(self.data, self.element, self.phase)
        return frame if len(frame) < len(self.data) else None

    def packet_user(self, *, coded: bool, expect: bool = True) -> int:
        return (len(self.data) - 1) << 7 | self.phase << 5 | self.element << 2 | expect << 1 | coded


def words(chance: random.Random, count: int) -> Block:
    """BF16 that shrinks."""
    return Block(
        b"".join(bytes((chance.getrandbits(8), chance.choice((0x3F, 0xBF)))) for _ in range(count))
    )


def noise(chance: random.Random, size: int) -> Block:
    """Bytes that do not shrink."""
    return Block(chance.randbytes(size), ElementType.RAW)


class Engine:
    """The engine with something on every bus."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        reset = {"reset": dut.aresetn, "reset_active_level": False}

        def stream(kind: type, name: str) -> Any:
            return kind(AxiStreamBus.from_prefix(dut, name), dut.aclk, **reset)

        self.blocks = stream(AxiStreamSource, "s_axis_enc")
        self.packets = stream(AxiStreamSink, "m_axis_enc")
        self.received = stream(AxiStreamSource, "s_axis_dec")
        self.restored = stream(AxiStreamSink, "m_axis_dec")
        self.lite = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, **reset)
        for bus in (self.blocks, self.packets, self.received, self.restored):
            bus.log.setLevel("WARNING")
        self.lite.write_if.log.setLevel("WARNING")
        self.lite.read_if.log.setLevel("WARNING")
        top = compile_map()
        self._registers = {node.inst_name: node for node in control_registers(top)}
        self._counters = {
            f"{group.inst_name}.{node.inst_name}": node.absolute_address
            for file in top.children()
            if file.inst_name == "counters"
            for group in file.children()
            for node in group.children()
        }

    @classmethod
    async def start(cls, dut: Any) -> "Engine":
        """Clock running, out of reset."""
        for bus in ("s_axis_enc", "s_axis_dec", "s_axis_ref"):
            for signal in ("tdata", "tkeep", "tlast", "tvalid"):
                getattr(dut, f"{bus}_{signal}").value = 0
        dut.aclk.value = dut.aresetn.value = 0
        await Timer(1, "ns")
        Clock(dut.aclk, CLOCK_NS, unit="ns").start()
        engine = cls(dut)
        await engine.reset()
        return engine

    async def reset(self) -> None:
        self.dut.aresetn.value = 0
        await self.clocks(4)
        self.dut.aresetn.value = 1
        await self.clocks(4)

    async def clocks(self, count: int) -> None:
        await ClockCycles(self.dut.aclk, count)

    def pause(self, *streams: Any, seed: int, share: float = 0.4) -> None:
        for number, stream in enumerate(streams):
            chance = random.Random(seed + number)
            stream.set_pause_generator(chance.random() < share for _ in itertools.count())

    async def read(self, register: str) -> dict[str, int]:
        node = self._registers[register]
        value = await self.lite.read_dword(node.absolute_address)
        return {
            field.inst_name: value >> field.low & (1 << field.width) - 1 for field in node.fields()
        }

    async def write(self, register: str, **fields: int) -> None:
        """Other fields take their reset values."""
        node = self._registers[register]
        value = 0
        for field in node.fields():
            if field.is_sw_writable:
                value |= fields.pop(field.inst_name, field.get_property("reset")) << field.low
        assert not fields
        await self.lite.write_dword(node.absolute_address, value)

    async def control(self, path: str, **fields: int) -> None:
        """Write a path's control and wait until it is in force."""
        await self.write(f"{path}_control", **fields)
        while (await self.read(f"{path}_status"))["enabled"] != fields.get("enable", 0):
            pass

    async def statistics(self, **requests: int) -> None:
        await self.write("statistics", **requests)
        while (await self.read("statistics"))["busy"]:
            pass

    async def counters(self) -> dict[str, int]:
        """Take a snapshot, and read it."""
        await self.statistics(snapshot=1)
        return {name: await self.lite.read_qword(at) for name, at in self._counters.items()}

    async def encode(self, blocks: Sequence[Block]) -> list[tuple[bytes, int]]:
        """The packets of blocks, each with its mark."""
        for block in blocks:
            self.blocks.send_nowait(AxiStreamFrame(block.data, tuser=block.user))
        return [await self.packet() for _ in blocks]

    async def packet(self) -> tuple[bytes, int]:
        return await _receive(self.packets)

    async def decode(self, packets: Sequence[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
        """The blocks of packets, each with its error; the second of a packet is its tuser."""
        for data, user in packets:
            self.received.send_nowait(AxiStreamFrame(data, tuser=user))
        return [await _receive(self.restored) for _ in packets]


async def _receive(sink: Any) -> tuple[bytes, int]:
    frame = await with_timeout(sink.recv(compact=False), 40_000 * CLOCK_NS, "ns")
    data = bytes(d for d, keep in zip(frame.tdata, frame.tkeep, strict=True) if keep)
    return data, frame.tuser[-1]


def expected(blocks: Sequence[Block]) -> list[tuple[bytes, int]]:
    frames = [block.frame() for block in blocks]
    return [
        (block.data, 0) if frame is None else (frame, 1)
        for block, frame in zip(blocks, frames, strict=True)
    ]


@cocotb.test()
async def after_reset_it_is_a_wire(dut: Any) -> None:
    engine = await Engine.start(dut)
    streams = (engine.blocks, engine.packets, engine.received, engine.restored)
    engine.pause(*streams, seed=1)
    chance = random.Random(2)
    sizes = [1, 1, 63, 64, 65, 9000, 4097, *(chance.randrange(1, 400) for _ in range(30))]
    there = [chance.randbytes(size) for size in sizes]
    back = [chance.randbytes(size) for size in reversed(sizes)]
    task = cocotb.start_soon(engine.encode([Block(data) for data in there]))
    # All of tuser set: nothing of it counts.
    assert await engine.decode([(data, 0x7FFFF) for data in back]) == [(data, 0) for data in back]
    assert await task == [(data, 0) for data in there]
    for path in ("enc", "dec"):
        assert await engine.read(f"{path}_status") == {"enabled": 0, "busy": 0, "pending": 0}
    dut.s_axis_ref_tvalid.value = 1
    await engine.clocks(10)
    assert dut.s_axis_ref_tready.value == 0


@cocotb.test()
async def bypass_is_one_register(dut: Any) -> None:
    engine = await Engine.start(dut)
    blocks = [Block(bytes(range(200))) for _ in range(50)]
    seen: list[list[int]] = [[], []]

    async def watch(valid: Any, ready: Any, clocks: list[int]) -> None:
        for clock in itertools.count():
            await RisingEdge(dut.aclk)
            if valid.value and ready.value:
                clocks.append(clock)

    for bus, clocks in zip(("s_axis_enc", "m_axis_enc"), seen, strict=True):
        valid, ready = (getattr(dut, f"{bus}_t{name}") for name in ("valid", "ready"))
        cocotb.start_soon(watch(valid, ready, clocks))
    await engine.encode(blocks)
    beats = len(blocks) * -(-200 * 8 // int(os.environ["DATA_W"]))
    assert len(seen[0]) == len(seen[1]) == beats
    assert {out - into for into, out in zip(*seen, strict=True)} == {1}
    assert seen[0][-1] - seen[0][0] == beats - 1


@cocotb.test()
async def registers(dut: Any) -> None:
    engine = await Engine.start(dut)
    assert (await engine.lite.read(0, 4)).data == b"WZEN"
    assert (await engine.read("version"))["format"] == 1
    data_w = int(os.environ["DATA_W"])
    built = {"data_bytes": data_w // 8, "lanes": data_w // 16, "types": 0x3F, "by_reference": 0}
    assert await engine.read("build") == built
    await engine.write("scratch", value=0xDEADBEEF)
    await engine.lite.write(0x00D, b"\x55")
    assert await engine.read("scratch") == {"value": 0xDEAD55EF}
    assert await engine.read("enc_control") == {"enable": 0, "bare": 1, "flush": 0}
    assert await engine.read("enc_policy") == {"types": 0x3F, "min_bytes": 0}
    for address in (0x01C, 0x040, 0x0FC, 0x200, 0xFFC):
        assert (await engine.lite.read(address, 4)).resp == AxiResp.SLVERR
        assert (await engine.lite.write(address, bytes(4))).resp == AxiResp.SLVERR
    for address in (0x000, 0x014, 0x100, 0x1FC):
        assert (await engine.lite.write(address, b"\xff" * 4)).resp == AxiResp.SLVERR
        assert (await engine.lite.read(address, 4)).resp == AxiResp.OKAY
    assert (await engine.lite.read(0x100, 8)).data == bytes(8)
    # A place among the counters without one.
    assert (await engine.lite.read(0x170, 8)).data == bytes(8)
    await engine.reset()
    assert await engine.read("scratch") == {"value": 0}


@cocotb.test()
async def both_directions_code(dut: Any) -> None:
    engine = await Engine.start(dut)
    await engine.control("enc", enable=1)
    await engine.control("dec", enable=1)
    engine.pause(engine.blocks, engine.packets, engine.received, engine.restored, seed=3, share=0.2)
    chance = random.Random(4)
    blocks = [
        words(chance, 64),
        noise(chance, 100),
        Block(bytes(100), ElementType.FP32),
        Block(b"\x01"),
        Block(words(chance, 50).data, code=False),
        Block(words(chance, 200).data[1:], phase=1),
        words(chance, 500),
        *(words(chance, chance.randrange(20, 100)) for _ in range(10)),
    ]
    packets = await engine.encode(blocks)
    assert packets == expected(blocks)
    assert {coded for _, coded in packets} == {0, 1}
    sent = [
        (data, block.packet_user(coded=bool(coded)))
        for block, (data, coded) in zip(blocks, packets, strict=True)
    ]
    assert await engine.decode(sent) == [(block.data, 0) for block in blocks]
    counts = await engine.counters()
    modes = [parse_header(data).mode if coded else None for data, coded in packets]
    for path in ("enc", "dec"):
        assert counts[f"{path}.not_coded"] == modes.count(None)
        assert counts[f"{path}.constant"] == modes.count(Mode.CONSTANT)
        assert counts[f"{path}.coded"] == modes.count(Mode.CODED)
        assert counts[f"{path}.raw"] == counts[f"{path}.bypassed"] == 0
    sizes = sum(len(block.data) for block in blocks), sum(len(data) for data, _ in packets)
    assert (counts["enc.bytes_in"], counts["enc.bytes_out"]) == sizes
    assert (counts["dec.bytes_out"], counts["dec.bytes_in"]) == sizes
    for name in ("busy_clocks", "output_stalls", "input_stalls"):
        assert 0 < counts[f"enc.{name}"] < counts["enc.clocks"], name


@cocotb.test()
async def bad_packets_are_marked_and_counted(dut: Any) -> None:
    engine = await Engine.start(dut)
    await engine.control("dec", enable=1)
    block = words(random.Random(5), 100)
    frame = block.frame()
    assert frame is not None
    user = block.packet_user(coded=True)
    flipped = bytes((*frame[:40], frame[40] ^ 1, *frame[41:]))
    version = bytes((frame[0] ^ 2, *frame[1:]))
    sent = [(frame, user), (flipped, user), (frame[:50], user), (version, user), (frame, user)]
    got = await engine.decode(sent)
    assert [error for _, error in got] == [0, 2, 1, 3, 0]
    assert got[0][0] == got[4][0] == block.data
    assert all(len(data) <= len(block.data) for data, _ in got)
    counts = await engine.counters()
    names = ("coded", "corrupt", "truncated", "unsupported", "not_coded", "raw")
    assert [counts[f"dec.{name}"] for name in names] == [2, 1, 1, 1, 0, 0]


@cocotb.test()
async def bypass_changes_between_packets(dut: Any) -> None:
    engine = await Engine.start(dut)
    engine.pause(engine.blocks, engine.packets, seed=6, share=0.2)
    chance = random.Random(7)
    blocks = [words(chance, chance.randrange(20, 200)) for _ in range(100)]
    task = cocotb.start_soon(engine.encode(blocks))
    enable = 0
    while not task.done():
        enable ^= 1
        await engine.write("enc_control", enable=enable)
        await engine.clocks(chance.randrange(300))
    packets = await task
    frames = expected(blocks)
    for packet, block, frame in zip(packets, blocks, frames, strict=True):
        assert packet in ((block.data, 0), frame)
    marks = [coded for _, coded in packets]
    assert sum(a != b for a, b in itertools.pairwise(marks)) > 3


@cocotb.test()
async def policy(dut: Any) -> None:
    engine = await Engine.start(dut)
    chance = random.Random(8)
    data = words(chance, 64).data
    blocks = [
        Block(data),
        Block(data[:126]),
        Block(bytes(range(64)) * 2, ElementType.FP16),
        Block(bytes(128), ElementType.FP16),
        Block(bytes(127), ElementType.RAW),
        Block(bytes(128), ElementType.RAW),
    ]
    types = 1 << ElementType.BF16 | 1 << ElementType.RAW
    await engine.write("enc_policy", min_bytes=128, types=types)
    await engine.control("enc", enable=1)
    every = expected(blocks)
    as_it_is = [(block.data, 0) for block in blocks]
    allowed = [len(block.data) >= 128 and bool(types >> block.element & 1) for block in blocks]
    assert await engine.encode(blocks) == [
        coded if may else plain for coded, plain, may in zip(every, as_it_is, allowed, strict=True)
    ]
    # Frames of streams: raw ones too.
    await engine.write("enc_policy")
    await engine.write("enc_control", enable=1, bare=0)
    await engine.clocks(20)
    raw = noise(chance, 70)
    assert await engine.encode([raw]) == [(encode_frame(raw.data, raw.element), 1)]
    assert (await engine.counters())["enc.raw"] == 1


@cocotb.test()
async def long_packets_are_cut(dut: Any) -> None:
    engine = await Engine.start(dut)
    await engine.control("enc", enable=1)
    data = (words(random.Random(9), 100).data * 60)[: 2 * 4096 + 100]
    engine.blocks.send_nowait(AxiStreamFrame(data, tuser=Block(data, phase=1).user))
    parts = [Block(data[at : at + 4096], phase=1) for at in range(0, len(data), 4096)]
    assert [await engine.packet() for _ in parts] == expected(parts)
    assert (await engine.counters())["enc.cut"] == 2
    assert (await engine.read("enc_status")) == {"enabled": 1, "busy": 0, "pending": 0}


@cocotb.test()
async def reset_and_flush_in_mid_packet(dut: Any) -> None:
    engine = await Engine.start(dut)
    chance = random.Random(10)
    blocks = [words(chance, 100) for _ in range(3)]
    packets = expected(blocks)
    sent = [
        (data, block.packet_user(coded=True))
        for block, (data, _) in zip(blocks, packets, strict=True)
    ]
    plain = [(block.data, 0) for block in blocks]

    for clocks in (1, 3, 40, 150):
        await engine.control("enc", enable=1)
        await engine.control("dec", enable=1)
        engine.packets.pause = engine.restored.pause = clocks > 3
        for block in (*blocks, words(chance, 1500)):
            engine.blocks.send_nowait(AxiStreamFrame(block.data, tuser=block.user))
        for data, user in (*sent, (sent[0][0] * 20, sent[0][1])):
            engine.received.send_nowait(AxiStreamFrame(data, tuser=user))
        await engine.clocks(clocks)
        for stream in (engine.blocks, engine.received):
            stream.clear()
        await engine.reset()
        for sink in (engine.packets, engine.restored):
            sink.clear()
            sink.pause = False
        # In bypass, empty, and as good as new.
        assert await engine.encode(blocks) == plain
        await engine.control("enc", enable=1)
        await engine.control("dec", enable=1)
        assert await engine.encode(blocks) == packets
        assert await engine.decode(sent) == plain
        counts = await engine.counters()
        assert counts["enc.bypassed"] == counts["enc.coded"] == counts["dec.coded"] == 3

    # A flush takes the rest of the packet that is coming in with it, and no more.
    engine.pause(engine.blocks, engine.received, seed=11)
    long = words(chance, 1500)
    engine.blocks.send_nowait(AxiStreamFrame(long.data, tuser=long.user))
    engine.received.send_nowait(AxiStreamFrame(sent[0][0] * 20, tuser=sent[0][1]))
    await engine.clocks(25)
    await engine.write("enc_control", enable=1, flush=1)
    await engine.write("dec_control", enable=1, flush=1)
    await engine.clocks(20)
    for sink in (engine.packets, engine.restored):
        # Of the packet that was flushed a part may have come.
        sink.assert_reset()
        sink.clear()
        sink.assert_reset(False)
    assert await engine.encode(blocks) == packets
    assert await engine.decode(sent) == plain
    for path in ("enc", "dec"):
        assert await engine.read(f"{path}_status") == {"enabled": 1, "busy": 0, "pending": 0}


@cocotb.test()
async def counters(dut: Any) -> None:
    engine = await Engine.start(dut)
    counts = await engine.counters()
    assert not any(value for name, value in counts.items() if name != "enc.clocks")
    sizes = [1, 64, 65, 640, 31, 4096]
    blocks = [Block(bytes(size)) for size in sizes]
    engine.packets.pause = True
    task = cocotb.start_soon(engine.encode(blocks))
    await engine.clocks(100)
    engine.packets.pause = False
    await task
    counts = await engine.counters()
    beat = int(os.environ["DATA_W"]) // 8
    beats = sum(-(-size // beat) for size in sizes)
    assert counts["enc.beats_in"] == counts["enc.beats_out"] == beats
    assert counts["enc.bytes_in"] == counts["enc.bytes_out"] == sum(sizes)
    assert counts["enc.bypassed"] == len(sizes)
    assert 90 <= counts["enc.output_stalls"] <= 100
    assert 90 <= counts["enc.input_stalls"] <= 100
    assert counts["enc.busy_clocks"] >= counts["enc.output_stalls"] + beats
    assert not any(value for name, value in counts.items() if name.startswith("dec."))

    # A snapshot stays as it is, and the next goes on from it.
    await engine.encode(blocks)
    assert {
        name: await engine.lite.read_qword(at) for name, at in engine._counters.items()
    } == counts
    later = await engine.counters()
    assert later["enc.bytes_in"] == 2 * sum(sizes)
    assert later["enc.clocks"] > counts["enc.clocks"]

    # Both at once: what was counted is seen once more, and then gone.
    await engine.statistics(snapshot=1, clear=1)
    assert await engine.lite.read_qword(engine._counters["enc.bytes_in"]) == 2 * sum(sizes)
    counts = await engine.counters()
    assert not any(value for name, value in counts.items() if name != "enc.clocks")
    assert 0 < counts["enc.clocks"] < 2000
