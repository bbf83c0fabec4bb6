# SPDX-License-Identifier: Apache-2.0
"""The benchmark: what its rows hold, that lossless is checked, and what a dying codec leaves."""

import io
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import codec
from codec import baselines, bench
from codec.elements import ElementType
from codec.entropy import block_bound_bytes, tensor_bound_bytes
from codec.errors import InvalidInput
from tests.tools import require_module

ROW_KEYS = [
    "file",
    "tensor",
    "dtype",
    "codec",
    "block_bytes",
    "threads",
    "original_bytes",
    "compressed_bytes",
    "bound_tensor_bytes",
    "bound_block_bytes",
    "encode_gb_per_s",
    "decode_gb_per_s",
    "lossless",
]
WEIGHTS = 0.02 * np.random.default_rng(8).standard_normal((60, 100)).astype(np.float32)
BIAS = np.linspace(-1, 1, 100, dtype=np.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "model.safetensors"
    save_file({"weights": WEIGHTS, "bias": BIAS, "ids": np.arange(9), "none": WEIGHTS[:0]}, path)
    return path


def cast(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).reshape(-1).view(np.uint8)


def test_rows(checkpoint: Path) -> None:
    require_module("zipnn")
    require_module("blosc2")
    report = bench.measure([checkpoint], bench.Options(cast="bf16"))
    assert report.failures == ()
    assert [(row.dtype, row.codec, row.block_bytes) for row in report.rows] == [
        ("bf16", "wirezip", 4096),
        ("bf16", "wirezip", 1024),
        ("bf16", "zipnn", None),
        ("bf16", "grouped-zstd-1", None),
        ("bf16", "zstd-1", None),
        ("bf16", "zstd-3", None),
        ("bf16", "bitshuffle", None),
        ("bf16", "lz4", None),
        ("bf16", "copy", None),
        ("i64", "wirezip", 4096),
        ("i64", "wirezip", 1024),
        ("i64", "grouped-zstd-1", None),
        ("i64", "zstd-1", None),
        ("i64", "zstd-3", None),
        ("i64", "bitshuffle", None),
        ("i64", "lz4", None),
        ("i64", "copy", None),
    ]
    data = np.concatenate([cast(BIAS), cast(WEIGHTS)])
    bounds = [tensor_bound_bytes(cast(x), ElementType.BF16) for x in (BIAS, WEIGHTS)]
    for row in report.rows:
        assert list(asdict(row)) == ROW_KEYS
        assert (row.file, row.tensor, row.threads) == (str(checkpoint), "*", 1)
        assert row.lossless
        assert row.encode_gb_per_s is not None
        assert row.decode_gb_per_s is not None
        assert min(row.encode_gb_per_s, row.decode_gb_per_s) > 0
        if row.dtype != "bf16":
            assert row.original_bytes == row.bound_tensor_bytes == row.bound_block_bytes == 72
            continue
        assert row.original_bytes == data.size
        assert row.bound_tensor_bytes == pytest.approx(sum(bounds))
        expected = block_bound_bytes(data, ElementType.BF16, row.block_bytes or 4096)
        assert row.bound_block_bytes == pytest.approx(expected)
        if row.codec == "copy":
            assert row.compressed_bytes == data.size
        if row.codec == "wirezip":
            assert row.block_bytes is not None
            # The file holds the tensors in the order of their names.
            stream = codec.compress(data, "bf16", block_bytes=row.block_bytes)
            assert row.compressed_bytes == len(stream)
    assert report.environment["cast"] == "bf16"
    assert json.loads(json.dumps(report.environment)) == report.environment


def test_rows_per_tensor_and_without_a_cast(checkpoint: Path) -> None:
    report = bench.measure([checkpoint], bench.Options(("copy",), per_tensor=True))
    assert [(row.dtype, row.tensor, row.original_bytes) for row in report.rows] == [
        ("f32", "*", WEIGHTS.nbytes + BIAS.nbytes),
        ("f32", "bias", BIAS.nbytes),
        ("f32", "weights", WEIGHTS.nbytes),
        ("i64", "*", 72),
        ("i64", "ids", 72),
    ]


def test_groups_patterns_and_sizes_alone(tmp_path: Path) -> None:
    path = tmp_path / "dump.safetensors"
    tensors = {"a/x/1": WEIGHTS, "a/y/1": BIAS, "a/y/2": BIAS, "b/x/1": BIAS, "c": WEIGHTS}
    save_file(tensors, path)
    options = bench.Options(("copy",), repeats=0, groups=True, tensors=("a/*", "c"))
    report = bench.measure([path], options)
    assert {(row.tensor, row.original_bytes) for row in report.rows} == {
        ("*", 2 * WEIGHTS.nbytes + 2 * BIAS.nbytes),
        ("a/*", WEIGHTS.nbytes + 2 * BIAS.nbytes),
        ("a/x/*", WEIGHTS.nbytes),
        ("a/y/*", 2 * BIAS.nbytes),
    }
    assert all(row.encode_gb_per_s is row.decode_gb_per_s is None for row in report.rows)
    assert all(row.compressed_bytes == row.original_bytes for row in report.rows)


def test_an_older_copy(tmp_path: Path) -> None:
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    step = np.where(np.arange(WEIGHTS.size).reshape(WEIGHTS.shape) % 5, 1, 1.01)
    save_file({"w": WEIGHTS}, old)
    save_file({"w": (WEIGHTS * step).astype(np.float32)}, new)
    codecs = ("wirezip", "wirezip-ref", "xor-zstd-1")
    report = bench.measure(
        [new], bench.Options(codecs, cast="bf16", repeats=0, reference=old, per_tensor=True)
    )
    sizes = {(r.tensor, r.codec, r.block_bytes): r.compressed_bytes for r in report.rows}
    assert all(row.lossless for row in report.rows)
    assert set(sizes) == {
        (tensor, codec, block)
        for tensor in ("*", "w")
        for codec, blocks in (("wirezip", (4096, 1024)), ("wirezip-ref", (4096, 1024)),
                              ("xor-zstd-1", (None,)))
        for block in blocks
    }  # fmt: skip
    assert 2 * sizes["*", "wirezip-ref", 4096] < sizes["*", "wirezip", 4096]
    assert report.environment["reference"] == str(old)


@pytest.mark.parametrize("older", [{}, {"w": WEIGHTS[:1]}, {"w": WEIGHTS.astype(np.float16)}])
def test_an_older_copy_of_something_else(tmp_path: Path, older: dict[str, np.ndarray]) -> None:
    new, old = tmp_path / "new.safetensors", tmp_path / "old.safetensors"
    save_file({"w": WEIGHTS}, new)
    save_file({"other": BIAS} | older, old)
    options = bench.Options(("xor-zstd-1",), repeats=0, reference=old)
    with pytest.raises(InvalidInput, match=r"expected 'w' as F32 \(60, 100\); found"):
        bench.measure([new], options)


def test_threads_give_rows_of_their_own(tmp_path: Path) -> None:
    # Long enough for two ranges.
    weights = np.tile(WEIGHTS, (50, 2))
    save_file({"weights": weights}, tmp_path / "model.safetensors")
    options = bench.Options(("wirezip", "copy"), threads=2)
    report = bench.measure([tmp_path / "model.safetensors"], options)
    assert report.failures == ()
    assert [(row.codec, row.block_bytes, row.threads) for row in report.rows] == [
        ("wirezip", 4096, 1),
        ("wirezip", 4096, 2),
        ("wirezip", 1024, 1),
        ("wirezip", 1024, 2),
        ("copy", None, 1),
    ]
    assert all(row.lossless and row.encode_gb_per_s for row in report.rows)
    assert report.rows[0].compressed_bytes == report.rows[1].compressed_bytes
    assert (report.environment["threads"], report.environment["clock"]) == (2, "wall")
    assert bench.environment(bench.Options())["clock"] == "processor"


def test_the_build_of_the_kernel_is_not_recorded() -> None:
    recorded = bench.environment(bench.Options())["platform"]
    assert platform.system() in str(recorded)
    assert platform.release() not in str(recorded)


@pytest.mark.parametrize("program", ["import os; os.abort()", "input(); print('{}')", ""])
def test_a_codec_that_dies_leaves_a_row_without_figures(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    true_command = baselines.command

    def command(name: str, *options: int | None) -> list[str]:
        return [sys.executable, "-c", program] if name == "lz4" else true_command(name, *options)

    monkeypatch.setattr(baselines, "command", command)
    if program.startswith("input"):
        # One that lives through the check and dies while it is timed.
        answer = json.dumps({"compressed_bytes": 5, "lossless": True})
        program = f"input(); print({answer!r}, flush=True); input(); import os; os.abort()"
    report = bench.measure([checkpoint], bench.Options(("lz4", "copy")))
    rows = {(row.codec, row.dtype): row for row in report.rows}
    for dtype in ("f32", "i64"):
        dead = rows["lz4", dtype]
        assert (dead.compressed_bytes, dead.encode_gb_per_s, dead.lossless) == (None, None, False)
        assert rows["copy", dtype].lossless
    assert [(f.codec, "the process died" in f.reason) for f in report.failures] == [
        ("lz4", True)
    ] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (bench.Options(()), "codecs: expected at least one"),
        (bench.Options(("gzip",)), "found 'gzip'"),
        (bench.Options(cast="fp64"), "cast: expected bf16, fp16, e4m3, e5m2; found 'fp64'"),
        (bench.Options(repeats=4), "repeats: expected 5 or more"),
        (bench.Options(("wirezip-ref",)), "reference: expected an older checkpoint"),
        (bench.Options(threads=0), "threads: expected 1 or more"),
    ],
)
def test_options_are_checked(options: bench.Options, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bench.measure([], options)


def test_a_checkpoint_without_bytes(tmp_path: Path) -> None:
    save_file({"none": WEIGHTS[:0]}, tmp_path / "m.safetensors")
    with pytest.raises(InvalidInput, match="none that holds a byte"):
        bench.measure([tmp_path], bench.Options(("copy",)))


# The codecs


@pytest.mark.parametrize("element", list(ElementType))
@pytest.mark.parametrize("size", [1, 7, 4096, 10_001])
@pytest.mark.parametrize("name", [name for name in baselines.CODECS if name != "zipnn"])
def test_codecs_return_every_byte(name: str, element: ElementType, size: int) -> None:
    if name == "bitshuffle":
        require_module("blosc2")
    data, resident = np.random.default_rng(9).integers(0, 3, (2, size), np.uint8)
    before = data.tobytes()
    coder = baselines.make(name, 512, data, element, resident)
    for _ in range(2):
        coder.prepare()
        assert coder.encode() > 0
        assert bytes(coder.decode()) == before  # type: ignore[call-overload]
        assert data.tobytes() == before


def test_codecs_that_do_not_fit() -> None:
    data = np.zeros(8, np.uint8)
    with pytest.raises(InvalidInput, match="zipnn: expected a floating-point type; found RAW"):
        baselines.make("zipnn", None, data, ElementType.RAW)
    with pytest.raises(InvalidInput, match="found 'gzip'"):
        baselines.make("gzip", None, data, ElementType.RAW)
    with pytest.raises(InvalidInput, match="expected block bytes"):
        baselines.make("wirezip", None, data, ElementType.RAW)
    with pytest.raises(InvalidInput, match="xor-zstd-1: expected an older copy; found none"):
        baselines.make("xor-zstd-1", None, data, ElementType.RAW)
    with pytest.raises(InvalidInput, match="wirezip-ref: expected 8 older bytes; found 7"):
        baselines.make("wirezip-ref", 4096, data, ElementType.RAW, data[:7])
    with pytest.raises(InvalidInput, match="copy: expected one thread; found 2"):
        baselines.make("copy", None, data, ElementType.RAW, threads=2)


def ask(monkeypatch: pytest.MonkeyPatch, coder: object, *requests: object) -> list[dict]:
    monkeypatch.setattr(baselines, "make", lambda *_, **__: coder)
    lines = "\n".join(json.dumps(request) for request in requests)
    answers = io.StringIO()
    baselines.serve(baselines.Server("copy", None), io.StringIO(lines), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


class Lossy:
    """Returns the last byte wrong."""

    def prepare(self) -> None:
        return

    def encode(self) -> int:
        return 1

    def decode(self) -> object:
        return b"abd"


class Failing(Lossy):
    def decode(self) -> object:
        raise RuntimeError("no")


def test_lossless_is_checked_by_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"abc")
    request = {"file": str(file), "element": "RAW"}
    assert ask(monkeypatch, Lossy(), request) == [{"compressed_bytes": 1, "lossless": False}]
    file.write_bytes(b"abd")
    checked, timed = ask(monkeypatch, Lossy(), request, {"loops": 3, "clock": "wall"})
    assert checked == {"compressed_bytes": 1, "lossless": True}
    assert set(timed) == {"encode_seconds", "decode_seconds"}


def test_what_a_codec_raises_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"abc")
    request = {"file": str(file), "element": "RAW"}
    answers = ask(
        monkeypatch,
        Failing(),
        request,
        {"loops": 1, "clock": "wall"},
        {"file": "none", "element": "RAW"},
    )
    assert answers[0] == {"error": "RuntimeError: no"}
    assert "expected a file first" in answers[1]["error"]
    assert "FileNotFoundError" in answers[2]["error"]
