# SPDX-License-Identifier: Apache-2.0
"""A module of `hw/rtl` under test, through PyVerilator.

    dut = Dut("wz_fifo", parameters={"W": 512, "DEPTH": 16})
    dut.reset()
    dut["s_tdata"] = 1 << 511                      # ports, as Python integers of any width
    dut["s_tvalid"] = 1
    dut.clock(2)
    assert dut["m_tvalid"] == 1

    sent = Source("s", tdata=beats, stall=0.3)     # whole buffers, many beats a millisecond
    got = Sink("m", fields=("tdata",), stall=0.3)
    dut.stream(sent, got, seed=7)
    assert np.array_equal(got["tdata"], beats)
    assert got.clocks[0] - sent.clocks[0] == 2     # the clock in which each beat was taken

Models are cached by their sources, parameters and Verilator's version. Flops without a reset start
at random values, drawn from `seed`. A failing assertion of the module raises `AssertionError`.
In the environment, `SEED=n` changes all seeds, `WAVES=1` writes a VCD file for each `Dut` into
`build/waves/`, and `COVERAGE=1` notes which lines ran (`tests/rtl/coverage.py`).

PyVerilator 0.7.0 was written for Verilator 4, Verilog and a Python that had Tk; `_adapted` is all
that it takes to use it with Verilator 5 and SystemVerilog.
"""

import ctypes
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hw.sim import build as sim
from hw.sim.sources import sources
from tests.tools import require_module, require_verilator

# Only PyVerilator's GTKWave link needs tclwrapper, which fails without Tk and on Python 3.11.
sys.modules.setdefault("tclwrapper", types.ModuleType("tclwrapper"))

require_module("pyverilator")
from pyverilator import pyverilator as library  # noqa: E402

PUMP = Path(__file__).with_name("pump.cpp")
BUILD = Path(__file__).resolve().parents[2] / "build"
WAVES = BUILD / "waves"
COVERAGE = BUILD / "coverage"

# Random values instead of X wherever a flop or variable is read before it is written.
_RANDOM_X = (*sim.RANDOM_START, "--x-assign", "unique")
_CFLAGS = "-fPIC -std=c++17 -fno-gnu-unique -DVL_USER_FINISH -DVL_USER_STOP -DVL_USER_FATAL"
# A file a model: reading Verilator's headers takes longer than what most files hold.
_OPTIMIZE = ("OPT_FAST=-O1", "OPT_GLOBAL=-O2", "VM_PARALLEL_BUILDS=0", "LDFLAGS=-fPIC -shared")

# Most models are compiled for longer than they run. Not so these, which see whole packets.
_RUN_LONG = ("wz_decoder", "wz_encoder")

_NO_VCD = (
    "struct VerilatedVcdC { void open(const char*) {} void dump(int) {} void flush() {} "
    "void close() {} };"
)

_DONE, _CLOCKS, _STUCK, _FAILED = range(4)
_wave_number = itertools.count()

# Instances whose coverage is still to be written; it is lost when the model is destroyed.
_covered: dict[Path, list["Dut"]] = {}

Integers = Sequence[int] | NDArray[Any]


class Stuck(AssertionError):
    """Nothing moved for many clocks although not all beats were taken."""


class _Port:
    """Where Verilator keeps a port: 1, 2, 4, 8 or 4n bytes, little-endian, zero above its width."""

    def __init__(self, name: str, address: int, width: int, *, is_input: bool) -> None:
        self.name = name
        self.address = address
        self.width = width
        self.is_input = is_input
        narrow = next((size for size in (1, 2, 4, 8) if width <= 8 * size), 0)
        self.bytes = narrow or 4 * (-(-width // 32))

    def pack(self, values: Integers) -> NDArray[np.uint8]:
        """uint8 `(beats, bytes)` of integers, or of an array of bytes with a row a beat."""
        if isinstance(values, np.ndarray) and values.ndim == 2:
            if values.dtype != np.uint8 or values.shape[1] != -(-self.width // 8):
                raise ValueError(
                    f"{self.name}: expected uint8 (n, {-(-self.width // 8)}); found "
                    f"{values.dtype} {values.shape}"
                )
            packed = np.zeros((len(values), self.bytes), np.uint8)
            packed[:, : values.shape[1]] = values
            return packed
        if isinstance(values, np.ndarray) and values.dtype.kind in "ub" and self.bytes <= 8:
            if values.size and int(values.max()) >> self.width:
                raise ValueError(f"{self.name}: expected {self.width} bits; found {values.max()}")
            return values.astype(f"<u{self.bytes}").view(np.uint8).reshape(-1, self.bytes)
        for value in values:
            if int(value) >> self.width:
                raise ValueError(f"{self.name}: expected {self.width} bits; found {value:#x}")
        data = b"".join(int(value).to_bytes(self.bytes, "little") for value in values)
        return np.frombuffer(data, np.uint8).reshape(-1, self.bytes)

    def unpack(self, data: NDArray[np.uint8]) -> NDArray[Any]:
        """Unsigned `(beats,)` up to 64 bits; else uint8, a row of bytes a beat."""
        if self.bytes <= 8 and self.width <= 64:
            return data.reshape(-1, self.bytes).view(f"<u{self.bytes}")[:, 0]
        return data.reshape(-1, self.bytes)[:, : -(-self.width // 8)]


class _Stream:
    """One side of a handshake. `clocks[i]` is the clock in which beat i was taken."""

    def __init__(
        self, prefix: str, stall: float, burst: int, valid: str | None, ready: str | None
    ) -> None:
        self.prefix = prefix
        self.stall = stall
        self.burst = burst
        self.valid = valid
        self.ready = ready
        self.clocks = np.zeros(0, np.int64)


class Source(_Stream):
    """Beats to send: `Source("s_axis", tdata=..., tlast=...)`.

    Args:
        prefix: port `tdata` is `{prefix}_tdata`, or the port called so where there is no such.
        stall: the probability that a beat which could be offered waits, for 1 to `burst` clocks.
        not_before: for each beat, the first clock in which it may be offered.
        valid, ready: names like those of fields; None where the module has none. A source without
            `valid` gives a beat a clock.
        fields: integers of any width, one a beat; or uint8 `(beats, bytes)`.
    """

    def __init__(
        self,
        prefix: str,
        *,
        stall: float = 0.0,
        burst: int = 1,
        not_before: Integers | None = None,
        valid: str | None = "tvalid",
        ready: str | None = "tready",
        **fields: Integers,
    ) -> None:
        super().__init__(prefix, stall, burst, valid, ready)
        self.fields = fields
        self.not_before = not_before
        counts = {name: len(values) for name, values in fields.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(f"{prefix}: expected fields of one length; found {counts}")
        self.beats = next(iter(counts.values()))

    @property
    def taken(self) -> int:
        """How many of the beats the module took."""
        return int(self.clocks.size)


class Sink(_Stream):
    """Takes beats: `Sink("m_axis", fields=("tdata", "tlast"))`; `sink["tdata"]` is what came.

    Up to 64 bits that is an unsigned array, one value a beat; above, uint8 `(beats, bytes)`. A sink
    without `ready` notes every valid beat; without `valid`, the ports in every clock.
    """

    def __init__(
        self,
        prefix: str,
        *,
        fields: Sequence[str] = ("tdata",),
        stall: float = 0.0,
        burst: int = 1,
        valid: str | None = "tvalid",
        ready: str | None = "tready",
    ) -> None:
        super().__init__(prefix, stall, burst, valid, ready)
        self.fields = tuple(fields)
        self._received: dict[str, NDArray[Any]] = {}

    def __getitem__(self, field: str) -> NDArray[Any]:
        return self._received[field]

    def __len__(self) -> int:
        return int(self.clocks.size)

    def integers(self, field: str) -> list[int]:
        """The values of a field of any width."""
        values = self._received[field]
        if values.ndim == 1:
            return [int(value) for value in values]
        return [int.from_bytes(row.tobytes(), "little") for row in values]


class Dut:
    """One module, built for these parameters, with its inputs at zero and not yet reset.

    Args:
        module: a file of `hw/rtl` (or of `extra`) and the module in it.
        parameters: integers or strings.
        extra: SystemVerilog files outside `hw/rtl`, such as a wrapper made for a test.
        seed: of the random values that flops start with.
    """

    def __init__(
        self,
        module: str,
        *,
        parameters: Mapping[str, int | str] | None = None,
        extra: Sequence[Path] = (),
        seed: int = 1,
    ) -> None:
        waves = bool(os.environ.get("WAVES"))
        folder = build(module, parameters=parameters, extra=tuple(extra), waves=waves)
        arguments = ("dut", f"+verilator+seed+{_seed(seed)}", "+verilator+rand+reset+2")
        self.sim = library.PyVerilator(
            str(folder / f"V{module}"), auto_eval=False, command_args=arguments
        )
        self._lib = self.sim.lib
        _declare(self._lib)
        self.clocks = 0
        self._ports = {port.name: port for port in self._read_ports()}
        self._trace: int | None = None
        if waves:
            WAVES.mkdir(parents=True, exist_ok=True)
            file = WAVES / f"{module}-{os.getpid()}-{next(_wave_number)}.vcd"
            print(f"waves: {file}")
            self.sim.start_vcd_trace(str(file), auto_tracing=False)
            self._trace = self.sim.vcd_trace
            self.clocks = 2
        if _measures_coverage():
            _covered.setdefault(folder, []).append(self)
        self._lib.pump_forget_failure()
        self.eval()

    def __getitem__(self, port: str) -> int:
        return int(self.sim[port])

    def __setitem__(self, port: str, value: int) -> None:
        if int(value) >> self._ports[port].width:
            raise ValueError(f"{port}: expected {self._ports[port].width} bits; found {value:#x}")
        self.sim[port] = int(value)

    @property
    def ports(self) -> dict[str, int]:
        """The width of every port."""
        return {name: port.width for name, port in self._ports.items()}

    def eval(self) -> None:
        """Let outputs follow inputs without a clock edge."""
        self.sim.eval()
        if self._trace:
            self._lib.add_to_vcd_trace(self._trace, 10 * self.clocks + 5 * self["clk"])
        if failure := self._lib.pump_failure().decode():
            self._lib.pump_forget_failure()
            raise AssertionError(f"clock {self.clocks}: {failure}")

    def clock(self, count: int = 1) -> None:
        """Let `count` clocks pass; ports are read and set while the clock is low."""
        for _ in range(count):
            self.eval()
            self["clk"] = 1
            self.eval()
            self["clk"] = 0
            self.clocks += 1
        self.eval()

    def reset(self, clocks: int = 3) -> None:
        """Hold `rst` for some clocks."""
        self["rst"] = 1
        self.clock(clocks)
        self["rst"] = 0
        self.eval()

    def stream(
        self,
        *streams: Source | Sink,
        seed: int = 1,
        clocks: int | None = None,
        drain: int = 300,
        patience: int = 3000,
    ) -> int:
        """Run until every source is taken and nothing moved for `drain` clocks; how many passed.

        With `clocks`, run for so many and leave off, whatever was taken. A `Sink` always holds what
        came in the latest call. Valid outputs that are not taken are checked to stay as they are.

        Raises:
            Stuck: beats are left and nothing moved for `patience` clocks.
            AssertionError: the protocol was broken, or an assertion of the module failed.
        """
        self._lib.pump_forget_failure()
        before = self.clocks
        pump = self._lib.pump_new(
            self.sim.model, self._ports["clk"].address, _seed(seed), self.clocks, self._trace
        )
        try:
            kept = [self._add(pump, stream) for stream in streams]
            result = self._lib.pump_run(pump, -1 if clocks is None else clocks, drain, patience)
            self.clocks = self._lib.pump_clock(pump)
            for index, stream in enumerate(streams):
                self._fetch(pump, index, stream)
            error = self._lib.pump_error(pump).decode()
        finally:
            self._lib.pump_delete(pump)
            self._lib.pump_forget_failure()
        del kept
        if result == _FAILED:
            raise AssertionError(error)
        if result == _STUCK:
            state = ", ".join(
                f"{stream.prefix} {stream.clocks.size}"
                + (f" of {stream.beats}" if isinstance(stream, Source) else "")
                for stream in streams
            )
            raise Stuck(f"clock {self.clocks}: nothing moved for {patience} clocks; beats: {state}")
        return self.clocks - before

    def _add(self, pump: int, stream: Source | Sink) -> object:
        """Describe `stream` to the pump; what is returned must outlive the run."""
        is_input = isinstance(stream, Source)
        not_before = None
        if isinstance(stream, Source) and stream.not_before is not None:
            not_before = np.ascontiguousarray(stream.not_before, np.int64)
        self._lib.pump_stream(
            pump,
            stream.prefix.encode(),
            is_input,
            self._handshake(stream.prefix, stream.valid),
            self._handshake(stream.prefix, stream.ready),
            stream.stall,
            stream.burst,
            stream.beats if isinstance(stream, Source) else 0,
            None if not_before is None else not_before.ctypes.data,
        )
        kept: list[object] = [not_before]
        for name in stream.fields:
            port = self._find(stream.prefix, name)
            data = None
            if isinstance(stream, Source):
                packed = np.ascontiguousarray(port.pack(stream.fields[name]))
                kept.append(packed)
                data = packed.ctypes.data
            self._lib.pump_field(pump, port.address, port.bytes, port.width, data)
        return kept

    def _fetch(self, pump: int, index: int, stream: Source | Sink) -> None:
        count = self._lib.pump_count(pump, index)
        stream.clocks = _copy(self._lib.pump_clocks(pump, index), 8 * count).view(np.int64)
        if isinstance(stream, Source):
            return
        for number, name in enumerate(stream.fields):
            port = self._find(stream.prefix, name)
            data = _copy(self._lib.pump_received(pump, index, number), port.bytes * count)
            stream._received[name] = port.unpack(data)

    def _handshake(self, prefix: str, name: str | None) -> int | None:
        return None if name is None else self._find(prefix, name).address

    def _find(self, prefix: str, name: str) -> _Port:
        port = self._ports.get(f"{prefix}_{name}") or self._ports.get(name)
        if port is None:
            raise ValueError(
                f"port: expected one of {', '.join(self._ports)}; found {prefix}_{name}"
            )
        return port

    def _read_ports(self) -> Iterator[_Port]:
        for index, (name, width) in enumerate(self.sim.inputs):
            yield _Port(name, self._lib.address(self.sim.model, index), width, is_input=True)
        for index, (name, width) in enumerate(self.sim.outputs, len(self.sim.inputs)):
            yield _Port(name, self._lib.address(self.sim.model, index), width, is_input=False)


def write_coverage() -> None:
    """Write what the models of this process ran, a file for each, into `build/coverage/`."""
    COVERAGE.mkdir(parents=True, exist_ok=True)
    for folder, instances in _covered.items():
        file = COVERAGE / f"{folder.name}-{os.getpid()}.dat"
        instances[0]._lib.pump_coverage(str(file).encode())


def build(
    module: str,
    *,
    parameters: Mapping[str, int | str] | None = None,
    extra: tuple[Path, ...] = (),
    waves: bool = False,
) -> Path:
    """The folder with the library of a module, from the cache or built now."""
    require_verilator()
    files = sources(module, extra=extra)
    coverage = ("--coverage-line",) if _measures_coverage() else ()
    options = (
        "--assert",
        *_RANDOM_X,
        *coverage,
        *(_parameter(name, value) for name, value in sorted((parameters or {}).items())),
    )

    def verilate(folder: Path) -> None:
        print(f"building {module} {dict(parameters or {}) or ''}")
        with _adapted(files, options, waves=waves):
            library.PyVerilator.build(f"{module}.v", build_dir=str(folder), gen_only=True)
        of_model = () if module in _RUN_LONG else (f"--eval=V{module}__ALL.o: override OPT_FAST=",)
        key = (PUMP, _CFLAGS, *coverage, str(waves))
        sim.make(folder, module, options=_OPTIMIZE, of_model=of_model, key=key)

    key = (*files, PUMP, Path(__file__), *options, str(waves))
    return sim.cached(module, key=key, build=verilate)


@contextmanager
def _adapted(files: Sequence[Path], options: Sequence[str], *, waves: bool) -> Iterator[None]:
    """PyVerilator with Verilator 5, SystemVerilog, packages, parameters and the pump."""
    write_wrapper = library.template_cpp.template_cpp

    def template(top: str, inputs: Any, outputs: Any, internals: Any, data: Any) -> str:
        # Verilator 5 declares VL_IN8(&clk,0,0) where 4 had VL_IN8(clk,0,0).
        ports = [(name.lstrip("&"), width) for name, width in (*inputs, *outputs)]
        code = write_wrapper(top, ports[: len(inputs)], ports[len(inputs) :], internals, data)
        if not waves:
            # What a model built without --trace lacks.
            code = code.replace("top->trace(tfp, 99);", "")
            code = code.replace('#include "verilated_vcd_c.h"', _NO_VCD)
        return code + _addresses(top, [name for name, _ in ports])

    def call(arguments: Sequence[str], quiet: bool = False) -> None:
        # The name ending in .v stands for the files, and --std=c++11 is too old for Verilator 5.
        wrapper = arguments[-1]
        folder = arguments[arguments.index("-Mdir") + 1]
        top = Path(arguments[-3]).stem
        command = ["perl", str(sim.verilator()), "-Mdir", folder, "--cc", "--exe"]
        command += ["--top-module", top, "-Wno-fatal", "-CFLAGS", _CFLAGS]
        command += ["--trace"] if waves else []
        sim.run([*command, *options, *map(str, files), wrapper, str(PUMP)])

    path = f"{sim.verilator().parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with (
        mock.patch.dict(os.environ, PATH=path),
        mock.patch.object(library, "call_process", call),
        mock.patch.object(library.template_cpp, "template_cpp", template),
    ):
        yield


def _addresses(top: str, names: Sequence[str]) -> str:
    """C++ that tells where the model keeps a port, by its number, inputs first."""
    cases = "\n".join(f"    case {i}: return &top->{name};" for i, name in enumerate(names))
    return f"""
extern "C" void* address(V{top}* top, int port) {{
  switch (port) {{
{cases}
  }}
  return nullptr;
}}
"""


def _measures_coverage() -> bool:
    return bool(os.environ.get("COVERAGE"))


def _seed(seed: int) -> int:
    """`seed`, moved by SEED in the environment; Verilator takes 1 to 2^31 - 1."""
    return (seed + 7919 * int(os.environ.get("SEED") or 0)) % 0x7FFFFFFF or 1


def _parameter(name: str, value: int | str) -> str:
    return f'-G{name}="{value}"' if isinstance(value, str) else f"-G{name}={value}"


def _copy(address: int | None, size: int) -> NDArray[np.uint8]:
    data = ctypes.string_at(address, size) if size and address else b""
    return np.frombuffer(data, np.uint8)


def _declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the types of the functions in pump.cpp and of `address`."""
    pointer, integer, text = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
    number, flag, real = ctypes.c_int, ctypes.c_bool, ctypes.c_double
    word = ctypes.c_uint32
    functions: dict[str, tuple[Any, list[Any]]] = {
        "address": (pointer, [pointer, number]),
        "add_to_vcd_trace": (number, [pointer, number]),
        "pump_coverage": (None, [text]),
        "pump_failure": (text, []),
        "pump_forget_failure": (None, []),
        "pump_new": (pointer, [pointer, pointer, ctypes.c_uint64, integer, pointer]),
        "pump_delete": (None, [pointer]),
        "pump_stream": (
            None,
            [pointer, text, flag, pointer, pointer, real, word, integer, pointer],
        ),
        "pump_field": (None, [pointer, pointer, word, word, pointer]),
        "pump_run": (number, [pointer, integer, integer, integer]),
        "pump_clock": (integer, [pointer]),
        "pump_error": (text, [pointer]),
        "pump_count": (integer, [pointer, number]),
        "pump_clocks": (pointer, [pointer, number]),
        "pump_received": (pointer, [pointer, number, number]),
    }
    for name, (result, arguments) in functions.items():
        function: Callable[..., Any] = getattr(lib, name)
        function.restype = result  # type: ignore[attr-defined]
        function.argtypes = arguments  # type: ignore[attr-defined]
