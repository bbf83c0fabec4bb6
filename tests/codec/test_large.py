# SPDX-License-Identifier: Apache-2.0
"""Files of hundreds of megabytes in bounded memory, and buffers of more than 2^31 bytes.

Each runs in a child whose data segment cannot grow past what a small file took and an allowance
that is far smaller than the file.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import codec

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

ROOT = Path(codec.__file__).parents[1]
MIB = 1 << 20
ALLOWANCE = 192 * MIB

PROLOGUE = """
import resource, sys
from pathlib import Path
import numpy as np
import codec
from training.cli import main

def status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])

def run(*arguments):
    assert main([str(argument) for argument in arguments]) == 0, arguments

def limit():
    most = status("VmData") + ALLOWANCE
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")
"""


def child(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"ALLOWANCE = {ALLOWANCE}\n{PROLOGUE}{program}",
            *map(str, arguments),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return done.stdout.splitlines()[-1]


def write_model(path: Path, tensors: int, *, seed: int = 0) -> None:
    """A safetensors file of BF16 weights, 64 MiB a tensor."""
    part = np.random.default_rng(seed).standard_normal(8 * MIB).astype(np.float32)
    block = (0.02 * part).astype(ml_dtypes.bfloat16).tobytes()
    repeats = 64 * MIB // len(block)
    size = repeats * len(block)
    header = {
        f"w{i}": {
            "dtype": "BF16",
            "shape": [size // 2],
            "data_offsets": [i * size, (i + 1) * size],
        }
        for i in range(tensors)
    }
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(tensors * repeats):
            file.write(block)


@pytest.mark.parametrize("with_reference", [False, True])
def test_a_checkpoint_takes_no_more_memory_than_a_few_chunks(
    tmp_path: Path, with_reference: bool
) -> None:
    small, large, old = tmp_path / "small", tmp_path / "large", tmp_path / "old"
    write_model(small, 1)
    write_model(large, 9)
    write_model(old, 9, seed=0)
    assert large.stat().st_size > 3 * ALLOWANCE
    rss = child(
        """
folder, *reference = map(Path, sys.argv[1:])
options = ["--threads", "2", *(["--reference", reference[0]] if reference else [])]
def there_and_back(name):
    run("compress", folder / name, *options)
    run("decompress", folder / f"{name}.wz", "-o", folder / "back", "--force", *options)
there_and_back("small")
before = limit()
there_and_back("large")
print(status("VmHWM") - before)
""",
        tmp_path,
        *([old] if with_reference else []),
    )
    assert int(rss) < ALLOWANCE
    assert subprocess.run(["cmp", large, tmp_path / "back"], check=False).returncode == 0
    assert (tmp_path / "large.wz").stat().st_size < 0.7 * large.stat().st_size


def test_more_than_2_to_the_31_bytes(tmp_path: Path) -> None:
    size = (1 << 31) + 200 * MIB + 3
    source, back = tmp_path / "zeros", tmp_path / "back"
    with source.open("wb") as file:
        file.truncate(size)
        file.seek(size - 5)
        file.write(b"\1\2\3\4\5")
    # Mapped pages of files are the system's to take back, and are not counted here.
    written = child(
        """
source, back = map(Path, sys.argv[1:])
small = source.with_name("small")
small.write_bytes(bytes(1 << 22))
def there_and_back(path):
    packed = path.with_name("packed.wz")
    run("compress", path, "--dtype", "bf16", "-o", packed, "--force", "--threads", "2")
    run("decompress", packed, "-o", back, "--force", "--threads", "2")
there_and_back(small)
limit()
there_and_back(source)
data = np.memmap(source, np.uint8, mode="r")
stream = source.with_name("packed.wz").read_bytes()
out = np.memmap(source.with_name("mapped"), np.uint8, mode="w+", shape=data.size)
for threads in (1, 2):
    out[-4096:] = 7
    assert codec.decompress(stream, out=out, threads=threads) is out
    assert bytes(out[-5:]) == bytes([1, 2, 3, 4, 5]) and not out[-4096:-5].any()
print(codec.inspect(stream).frames)
""",
        source,
        back,
    )
    assert int(written) == -(-size // 4096)
    assert back.stat().st_size == size
    assert subprocess.run(["cmp", source, back], check=False).returncode == 0


def test_one_call_for_more_than_2_to_the_31_bytes() -> None:
    size = (1 << 31) + 4096 + 3
    zeros = np.zeros(size, np.uint8)
    zeros[-1] = 9
    stream = codec.compress(zeros, "fp32", block_bytes=4095)
    assert codec.compress(zeros, "fp32", block_bytes=4095, threads=2) == stream
    out = np.full(size, 1, np.uint8)
    codec.decompress(stream, out=out)
    assert out[-1] == 9
    assert not out[:-1].any()
