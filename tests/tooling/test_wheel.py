# SPDX-License-Identifier: Apache-2.0
"""The wheel alone, in a folder of its own, is the whole product."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("codec", "hw", "nic_emul", "training")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the wheel, built without network."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the installed wheel and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    run("-m", "pip", "install", "-qq", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


def run(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    """Standard output of this interpreter, which must succeed."""
    result = subprocess.run(
        [sys.executable, *(str(argument) for argument in arguments)],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def use(installed: Path, cwd: Path, *arguments: str) -> str:
    """Run Python where only the wheel and its dependencies can be imported.

    Without `site` (-S) the path of an editable installation stays out.
    """
    path = os.pathsep.join((str(installed), sysconfig.get_path("purelib")))
    return run("-S", *arguments, cwd=cwd, PYTHONPATH=path).strip()


def test_it_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == expected


def test_its_metadata(wheel: Path) -> None:
    assert wheel.name == "wirezip-0.1.0-py3-none-any.whl"
    archive = zipfile.ZipFile(wheel)
    metadata = Parser().parsestr(archive.read("wirezip-0.1.0.dist-info/METADATA").decode())
    assert metadata["Name"] == "wirezip"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "torch<2.14,>=2.13" in metadata.get_all("Requires-Dist")
    entries = archive.read("wirezip-0.1.0.dist-info/entry_points.txt").decode().split("\n")
    assert "wirezip = training.cli:main" in entries
    assert "wirezip = nic_emul.autoload:load" in entries


def test_it_is_what_is_imported(installed: Path, tmp_path: Path) -> None:
    program = "import codec, nic_emul, training; print(codec.__file__, nic_emul.__file__)"
    files = use(installed, tmp_path, "-c", program).split()
    assert [Path(file).parents[1] for file in files] == [installed, installed]


def test_the_codec_works(installed: Path, tmp_path: Path) -> None:
    # The reference engine shows that the package is whole. Numba would compile its kernels anew for
    # this path, for many seconds, and show nothing about the wheel that the list of files does not.
    program = (
        "import codec, numpy; data = numpy.arange(4096, dtype='float32');"
        "stream = codec.compress(data, engine='reference'); print(len(stream) < data.nbytes,"
        " codec.decompress(stream, engine='reference').tobytes() == data.tobytes())"
    )
    assert use(installed, tmp_path, "-c", program) == "True True"


def test_the_hardware_sources_are_found(installed: Path, tmp_path: Path) -> None:
    program = (
        "from importlib.resources import files\n"
        "for name in ('rtl/autogen/wz_format_pkg.sv', 'hls/autogen/wz_format.hpp', 'tools.txt'):\n"
        "    print(files('hw') / name, (files('hw') / name).is_file())"
    )
    for line in use(installed, tmp_path, "-c", program).splitlines():
        path, found = line.split()
        assert Path(path).is_relative_to(installed)
        assert found == "True"


def test_the_command_tells_its_version(installed: Path, tmp_path: Path) -> None:
    assert use(installed, tmp_path, "-m", "training.cli", "--version") == "wirezip 0.1.0"
