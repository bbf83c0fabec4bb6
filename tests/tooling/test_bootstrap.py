# SPDX-License-Identifier: Apache-2.0
"""`.ci/bootstrap` on machines that lack something, acted out with a PATH of stand-ins."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).parents[2] / ".ci/bootstrap"
ORDINARY = ("bash", "cat", "chmod", "env", "mkdir", "mktemp", "rm", "touch")
PYTHON = f'exec {sys.executable} "$@"'
# Stands for an interpreter without headers or ensurepip, or one that is too old: it runs nothing.
USELESS = "exit 1"


@dataclass(frozen=True)
class Machine:
    """A folder with the only programs that the script can find."""

    root: Path

    def add(self, name: str, script: str = "exit 0") -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def bootstrap(self, level: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BOOTSTRAP, self.venv, level],
            env={"PATH": str(self.root / "bin"), "TMPDIR": str(self.root), **environment},
            capture_output=True,
            text=True,
        )

    @property
    def venv(self) -> Path:
        return self.root / "venv"

    @property
    def apt_calls(self) -> str:
        calls = self.root / "apt.log"
        return calls.read_text() if calls.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Debian machine with everything, as an ordinary user, and a virtual environment."""
    machine = Machine(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ORDINARY:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    machine.add("python3", f'case "$*" in *Python.h*) exit 0;; esac\n{PYTHON}')
    (machine.venv / "bin").mkdir(parents=True)
    (machine.venv / "bin/python").symlink_to(tmp_path / "bin/python3")
    machine.add("g++")
    machine.add("perl")
    machine.add("tshark")
    machine.add("tc")
    machine.add("id", "echo 1000")
    machine.add("apt-get", f'echo "$@" >> {tmp_path}/apt.log\nexit 100')
    return machine


def become_root(machine: Machine) -> None:
    """apt-get now succeeds, and brings g++."""
    machine.add("id", "echo 0")
    compiler = machine.root / "bin/g++"
    machine.add(
        "apt-get",
        f'echo "$@" >> {machine.root}/apt.log\n'
        f"printf '#!/bin/bash\\n' > {compiler}\nchmod 755 {compiler}",
    )


@pytest.mark.parametrize("level", ["base", "test"])
def test_silent_when_nothing_is_missing(machine: Machine, level: str) -> None:
    result = machine.bootstrap(level)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert machine.apt_calls == ""


def test_a_user_is_told_the_packages_and_the_command(machine: Machine) -> None:
    (machine.root / "bin/g++").unlink()
    machine.add("perl", "exit 2")
    result = machine.bootstrap("test")
    assert result.returncode == 1
    assert result.stderr.endswith(
        "missing system packages; install with: sudo apt-get install g++ perl\n"
    )
    assert machine.apt_calls == ""


def test_the_demo_needs_no_compiler(machine: Machine) -> None:
    (machine.root / "bin/g++").unlink()
    assert machine.bootstrap("base").returncode == 0


def test_root_installs_what_is_missing_and_no_more(machine: Machine) -> None:
    (machine.root / "bin/g++").unlink()
    become_root(machine)
    result = machine.bootstrap("test")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "installing system packages (g++) ...\n"
    assert machine.apt_calls == "update\ninstall -y --no-install-recommends g++\n"
    assert machine.bootstrap("test").stdout == ""


def test_a_failed_installation_shows_why(machine: Machine) -> None:
    (machine.root / "bin/g++").unlink()
    machine.add("id", "echo 0")
    machine.add("apt-get", "echo E: no network; exit 100")
    result = machine.bootstrap("test")
    assert result.returncode == 1
    assert result.stderr == "E: no network\nerror: apt-get could not install: g++\n"


@pytest.mark.parametrize(("tool", "package"), [("tshark", "tshark"), ("tc", "iproute2")])
def test_what_is_optional_is_installed_where_it_can_be(
    machine: Machine, tool: str, package: str
) -> None:
    (machine.root / "bin" / tool).unlink()
    result = machine.bootstrap("test")
    assert (result.returncode, result.stdout, machine.apt_calls) == (0, "", "")
    machine.add("id", "echo 0")
    result = machine.bootstrap("test")
    assert result.returncode == 0
    assert result.stdout == f"installing system packages ({package}) ...\n"
    assert result.stderr.endswith(f"going on without {package}\n")
    machine.bootstrap("base")
    become_root(machine)
    assert machine.bootstrap("test").stderr == ""
    installs = [line for line in machine.apt_calls.splitlines() if "install" in line]
    assert installs == [f"install -y --no-install-recommends {package}"]


def test_without_apt_the_packages_are_named(machine: Machine) -> None:
    (machine.root / "bin/g++").unlink()
    (machine.root / "bin/apt-get").unlink()
    result = machine.bootstrap("test")
    assert result.returncode == 1
    assert "missing on this system" in result.stderr
    assert result.stderr.endswith(": g++\n")


def without_python(machine: Machine, *, python3: str, apt: dict[str, str]) -> None:
    """`python3` is of that version, there is no other, and apt offers these versions."""
    shutil.rmtree(machine.venv)
    is_version = f'[ "$1" != --version ] || {{ echo Python {python3}; exit 0; }}'
    machine.add("python3", f"{is_version}\nexit 1")
    offers = "\n".join(f"{name}) candidate='{version}';;" for name, version in apt.items())
    machine.add(
        "apt-cache",
        f'candidate="(none)"\ncase "$2" in\n{offers}\nesac\n'
        'printf "%s:\\n  Installed: (none)\\n  Candidate: %s\\n" "$2" "$candidate"',
    )


@pytest.mark.parametrize(
    ("apt", "packages"),
    [
        ({"python3": "3.13.5-1"}, "python3 python3-venv"),
        ({"python3": "3.10.6-1~22.04", "python3.11": "3.11.0~rc1"}, "python3.11 python3.11-venv"),
        (
            {"python3": "3.10.6-1~22.04", "python3.11": "3.11.0~rc1", "python3.12": "3.12.7-1"},
            "python3.12 python3.12-venv",
        ),
    ],
)
def test_a_user_is_told_of_a_package_that_is_new_enough(
    machine: Machine, apt: dict[str, str], packages: str
) -> None:
    without_python(machine, python3="3.10.12", apt=apt)
    result = machine.bootstrap("base")
    assert result.returncode == 1
    assert result.stderr == (
        f"error: expected Python 3.11 or newer; found Python 3.10.12 ({machine.root}/bin/python3); "
        f"install with: sudo apt-get install {packages}\n"
    )


@pytest.mark.parametrize("user", [0, 1000])
def test_without_a_package_the_way_is_python(machine: Machine, user: int) -> None:
    without_python(machine, python3="3.8.10", apt={"python3": "3.8.2-0ubuntu2"})
    machine.add("id", f"echo {user}")
    result = machine.bootstrap("base")
    assert result.returncode == 1
    assert "found Python 3.8.10" in result.stderr
    assert result.stderr.endswith("install one, and name it with PYTHON=/path/to/python\n")
    assert "install" not in machine.apt_calls


def test_root_installs_a_python_that_is_new_enough(machine: Machine) -> None:
    without_python(
        machine, python3="3.10.12", apt={"python3": "3.10.6", "python3.11": "3.11.0~rc1"}
    )
    machine.add("id", "echo 0")
    made = f'echo "$@" >> {machine.root}/apt.log; [ "$1" = update ] || cp "$0.new" {machine.root}'
    machine.add("apt-get", f"{made}/bin/python3.11")
    copy = 'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"'
    machine.add("apt-get.new", f'[ "$2" != venv ] || {{ {copy}; exit; }}\n{PYTHON}')
    (machine.root / "bin/cp").symlink_to(shutil.which("cp"))
    result = machine.bootstrap("base")
    assert result.returncode == 0, result.stderr
    assert machine.apt_calls.endswith(
        "update\ninstall -y --no-install-recommends python3.11 python3.11-venv\n"
    )
    assert (machine.venv / "bin/python").exists()


def test_a_chosen_interpreter_must_be_new_enough(machine: Machine) -> None:
    shutil.rmtree(machine.venv)
    machine.add("python3.9", '[ "$1" = --version ] && echo Python 3.9.18')
    result = machine.bootstrap("base", PYTHON="python3.9")
    assert result.returncode == 1
    assert result.stderr == (
        "error: PYTHON=python3.9: expected Python 3.11 or newer; "
        f"found Python 3.9.18 ({machine.root}/bin/python3.9)\n"
    )


def test_a_chosen_interpreter_must_exist(machine: Machine) -> None:
    shutil.rmtree(machine.venv)
    result = machine.bootstrap("base", PYTHON="python3.13")
    assert result.returncode == 1
    assert result.stderr == "error: PYTHON=python3.13: not found\n"


def test_packages_are_those_of_the_chosen_interpreter(machine: Machine) -> None:
    shutil.rmtree(machine.venv)
    machine.add("python3", USELESS)
    machine.add("python3.12", 'case "$*" in *ensurepip*) exit 1;; *print*) echo python3.12;; esac')
    result = machine.bootstrap("base", PYTHON="python3.12")
    assert result.stderr.endswith("sudo apt-get install python3.12-venv\n")


def test_headers_are_needed_to_build_the_baseline(machine: Machine) -> None:
    machine.add("python3", f'case "$*" in *Python.h*) exit 1;; esac\n{PYTHON}')
    assert machine.bootstrap("test").stderr.endswith("sudo apt-get install python3-dev\n")
    assert machine.bootstrap("base").returncode == 0


def test_the_environment_is_made_once_and_marked_as_made(machine: Machine) -> None:
    shutil.rmtree(machine.venv)
    copy = f'mkdir -p "$3/bin"; cp {machine.root}/bin/python3 "$3/bin/python"'
    machine.add("python3", f'[ "$2" != venv ] || {{ {copy}; exit; }}\n{PYTHON}')
    (machine.root / "bin/cp").symlink_to(shutil.which("cp"))
    first = machine.bootstrap("base")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith(f"creating {machine.venv} with Python 3.")
    assert (machine.venv / ".make/created").exists()
    assert machine.bootstrap("base").stdout == ""
