# SPDX-License-Identifier: Apache-2.0
"""The codec's commands, called as the command line calls them."""

import csv
import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from safetensors.numpy import save_file

import codec
from codec import baselines, cli
from codec.elements import ElementType
from codec.errors import InvalidInput
from training.cli import main

VALUES = (0.02 * np.random.default_rng(2).standard_normal(3000)).astype(np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    path.write_bytes(VALUES.tobytes())
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_compress_and_decompress(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", str(source), "--dtype", "fp32"]) == 0
    stream = source.with_name("weights.bin.wz")
    assert stream.read_bytes() == codec.compress(VALUES)
    assert "12,000 ->" in capsys.readouterr().out
    source.unlink()
    assert main(["decompress", str(stream)]) == 0
    assert source.read_bytes() == VALUES.tobytes()
    assert names(source.parent) == ["weights.bin", "weights.bin.wz"]


def test_output_and_block_size(source: Path) -> None:
    out = source.with_name("out")
    arguments = ["--dtype", "fp32", "-o", str(out), "--block-bytes", "1000"]
    assert main(["compress", str(source), *arguments]) == 0
    assert out.read_bytes() == codec.compress(VALUES, block_bytes=1000)
    assert main(["decompress", str(out), "-o", str(out) + "2"]) == 0
    assert Path(str(out) + "2").read_bytes() == VALUES.tobytes()


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert main(["compress", str(tmp_path / "empty"), "--dtype", "bf16"]) == 0
    assert main(["decompress", str(tmp_path / "empty.wz"), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_bytes() == b""


@pytest.mark.parametrize("command", ["compress", "decompress", "inspect"])
def test_json_is_all_that_standard_output_gets(
    source: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    stream = source.with_name("stream.wz")
    stream.write_bytes(codec.compress(VALUES))
    rest = {
        "compress": [str(source), "--dtype", "fp32"],
        "decompress": [str(stream)],
        "inspect": [str(stream)],
    }[command]
    assert main([command, *rest, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["original_bytes"] == VALUES.nbytes
    assert found["compressed_bytes"] == stream.stat().st_size
    if command == "inspect":
        assert (
            found
            == {"file": str(stream), "ratio": found["ratio"]}
            | codec.inspect(stream.read_bytes()).as_dict()
        )


def test_inspect_prints_sections(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = source.with_name("stream.wz")
    stream.write_bytes(codec.compress(VALUES))
    assert main(["inspect", str(stream)]) == 0
    printed = capsys.readouterr().out
    assert "frames: coded" in printed
    assert "bytes: remainders" in printed


# Files that must not change or remain


def test_outputs_are_not_replaced_unless_asked(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = source.with_name("out")
    out.write_bytes(b"precious")
    arguments = ["compress", str(source), "--dtype", "fp32", "-o", str(out)]
    assert main(arguments) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_bytes() == b"precious"
    assert main([*arguments, "--force"]) == 0
    assert out.read_bytes() == codec.compress(VALUES)


@pytest.mark.parametrize("alias", ["same", "dotted", "link"])
def test_the_input_is_never_the_output(source: Path, alias: str) -> None:
    link = source.with_name("link")
    link.symlink_to(source)
    out = {"same": source, "dotted": source.parent / "." / source.name, "link": link}[alias]
    before = source.read_bytes()
    with pytest.raises(InvalidInput, match="other than the input"):
        cli.Compress(source, "fp32", out=out, force=True).run()
    with pytest.raises(InvalidInput, match="other than the input"):
        cli.Decompress(source, out=out, force=True).run()
    assert source.read_bytes() == before


def test_nothing_remains_of_a_stream_that_is_damaged(tmp_path: Path) -> None:
    stream = tmp_path / "damaged.wz"
    stream.write_bytes(codec.compress(VALUES)[:-1])
    assert main(["decompress", str(stream)]) == 2
    assert names(tmp_path) == ["damaged.wz"]


def test_nothing_remains_when_writing_fails(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError("disk is gone")

    monkeypatch.setattr(Path, "replace", fail)
    assert main(["compress", str(source), "--dtype", "fp32"]) == 1
    assert names(source.parent) == ["weights.bin"]


def test_a_device_is_written_to_and_stays_one(source: Path) -> None:
    null = Path("/dev/null")
    assert main(["compress", str(source), "--dtype", "fp32", "-o", str(null)]) == 0
    assert null.is_char_device()


@pytest.mark.parametrize(
    "arguments",
    [
        ["compress", "missing", "--dtype", "bf16"],
        ["compress", "{source}", "--dtype", "fp32", "-o", "missing/out"],
        ["compress", "{source}", "--dtype", "fp32", "--block-bytes", "0"],
        ["compress", ".", "--dtype", "fp32"],
        ["decompress", "{source}"],
        ["inspect", "{source}"],
        ["bench"],
        ["bench", "{source}"],
    ],
)
def test_errors_are_one_line(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(source.parent)
    assert main([argument.format(source=source.name) for argument in arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip().splitlines()[-1].startswith("wirezip: error: ")
    assert names(source.parent) == [source.name]


# The benchmark


def test_bench_writes_json_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file({"a": VALUES}, tmp_path / "m.safetensors")
    table = tmp_path / "rows.csv"
    codecs = ["--codecs", "wirezip", "copy"]
    arguments = [str(tmp_path), "--cast", "bf16", *codecs, "--json", "-", "--csv", str(table)]
    assert main(["bench", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"environment", "rows"}
    assert [row["codec"] for row in found["rows"]] == ["wirezip", "wirezip", "copy"]
    assert all(row["lossless"] and row["dtype"] == "bf16" for row in found["rows"])
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["compressed_bytes"] for row in rows] == [
        str(row["compressed_bytes"]) for row in found["rows"]
    ]
    assert list(rows[0]) == list(found["rows"][0])


def test_bench_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"a": VALUES}, path)
    assert main(["bench", str(path), "--codecs", "copy", "--json", str(tmp_path / "b.json")]) == 0
    assert "1.000" in capsys.readouterr().out
    assert json.loads((tmp_path / "b.json").read_text())["rows"][0]["codec"] == "copy"


def test_the_options_name_what_there_is() -> None:
    assert get_args(cli.CodecName) == baselines.CODECS
    assert {ElementType.parse(name) for name in get_args(cli.DtypeName)} == set(ElementType)
