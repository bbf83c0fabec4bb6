# SPDX-License-Identifier: Apache-2.0
"""The codec's commands, called as the command line calls them."""

import csv
import errno
import io
import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from safetensors.numpy import save_file

import codec
from codec import baselines, cli
from codec import table as t
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


# Checkpoints


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint, alone in a folder."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"a": VALUES, "b/c": VALUES[:7], "ids": np.arange(9)}, folder / "m.safetensors")
    return folder / "m.safetensors"


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_a_checkpoint_and_back(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = model.read_bytes()
    assert run("compress", model, "--threads", 2) == 0
    packed = model.with_name("m.safetensors.wz")
    assert f"{len(original):,} -> {packed.stat().st_size:,} bytes" in capsys.readouterr().out
    model.unlink()
    assert run("decompress", packed, "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["original_bytes"] == len(original)
    assert "\x1b" not in captured.err, "no progress where there is no terminal"
    assert model.read_bytes() == original
    assert names(model.parent) == ["m.safetensors", "m.safetensors.wz"]


def test_one_tensor(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compress", model) == 0
    packed, out = model.with_name("m.safetensors.wz"), model.with_name("out")
    capsys.readouterr()
    assert run("decompress", packed, "--tensor", "b/c", "-o", out, "--json", "-") == 0
    assert out.read_bytes() == VALUES[:7].tobytes()
    found = json.loads(capsys.readouterr().out)
    assert (found["tensor"], found["dtype"], found["shape"]) == ("b/c", "F32", [7])
    assert run("decompress", packed, "--tensor", "b/c", "-o", out) == 2
    assert run("decompress", packed, "--tensor", "other", "-o", out, "--force") == 2
    assert run("decompress", packed, "--tensor", "b/c") == 2
    assert out.read_bytes() == VALUES[:7].tobytes()


def test_inspect_a_container(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compress", model) == 0
    packed = model.with_name("m.safetensors.wz")
    capsys.readouterr()
    assert run("inspect", packed) == 0
    printed = capsys.readouterr().out
    assert "b/c" in printed
    assert "bytes: table" in printed
    assert run("inspect", packed, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    with codec.open_container(packed) as container:
        inspection = container.inspect()
    expected = {"file": str(packed), "ratio": inspection.ratio} | inspection.as_dict()
    assert found == json.loads(json.dumps(expected))


def test_a_reference(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later, packed, out = (model.with_name(name) for name in ("later", "later.wz", "out"))
    moved = VALUES.copy()
    moved[::50] *= 1.001
    save_file({"a": moved, "b/c": VALUES[:7], "ids": np.arange(9)}, later)
    assert run("compress", later, "--reference", model) == 0
    assert f"3 of 3 tensors need {model}" in capsys.readouterr().out
    for reference in ([], ["--reference", later], ["--reference", model.with_name("none")]):
        assert run("decompress", packed, "-o", out, *reference) in (1, 2)
        assert not out.exists()
    assert run("decompress", packed, "-o", out, "--reference", model) == 0
    assert out.read_bytes() == later.read_bytes()


def test_a_reference_of_a_plain_file(source: Path) -> None:
    later, out = source.with_name("later"), source.with_name("out")
    later.write_bytes((VALUES * np.float32(1.0001)).tobytes())
    assert run("compress", later, "--dtype", "fp32", "--reference", source) == 0
    packed = source.with_name("later.wz")
    assert packed.read_bytes() == codec.compress(
        later.read_bytes(), "fp32", reference=source.read_bytes()
    )
    assert run("decompress", packed, "-o", out) == 2
    assert not out.exists()
    assert run("decompress", packed, "-o", out, "--reference", source, "--threads", 2) == 0
    assert out.read_bytes() == later.read_bytes()


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    save_file({"a": VALUES}, folder / "m-1.safetensors")
    save_file({"b": VALUES[:99], "c": VALUES[:5]}, folder / "m-2.safetensors")
    places = {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-2.safetensors"}
    index = folder / "m.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text("{}")
    return folder


@pytest.mark.parametrize("by", ["folder", "index"])
def test_shards(shards: Path, by: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = shards if by == "folder" else shards / "m.safetensors.index.json"
    assert run("compress", source) == 0
    packed = shards.with_name("shards.wz") if by == "folder" else shards / "m.safetensors.wz"
    files = ["m-1.safetensors", "m-2.safetensors", "m.safetensors.index.json"]
    assert names(packed) == [f"{name}.wz" for name in files[:2]] + files[2:]
    out = shards.with_name("again")
    capsys.readouterr()
    assert run("decompress", packed, "-o", out, "--json", "-") == 0
    total = sum((shards / name).stat().st_size for name in files)
    assert json.loads(capsys.readouterr().out)["original_bytes"] == total
    assert names(out) == files
    assert all((out / name).read_bytes() == (shards / name).read_bytes() for name in files)
    one = shards.with_name("one")
    assert run("decompress", packed, "--tensor", "c", "-o", one) == 0
    assert one.read_bytes() == VALUES[:5].tobytes()
    capsys.readouterr()
    assert run("decompress", packed, "--tensor", "d", "-o", one, "--force") == 2
    assert f"{packed}: expected a tensor of its containers; found 'd'" in capsys.readouterr().err
    capsys.readouterr()
    assert run("inspect", packed, "--json", "-") == 0
    captured = json.loads(capsys.readouterr().out)
    assert [len(found["tensors"]) for found in captured["containers"]] == [1, 2]


def test_shards_against_earlier_ones_cut_elsewhere(shards: Path, tmp_path: Path) -> None:
    whole, packed, out = tmp_path / "whole", tmp_path / "packed", tmp_path / "out"
    save_file({"a": VALUES, "b": VALUES[:99], "c": VALUES[1:6]}, whole)
    assert run("compress", shards, "-o", packed, "--reference", whole) == 0
    assert run("decompress", packed, "-o", out) == 2
    assert not out.exists()
    assert run("decompress", packed, "-o", out, "--reference", whole) == 0
    name = "m-1.safetensors"
    assert (out / name).read_bytes() == (shards / name).read_bytes()
    assert (packed / f"{name}.wz").stat().st_size < 1000


def test_a_folder_is_replaced_only_if_asked(shards: Path) -> None:
    out = shards.with_name("out")
    out.mkdir()
    (out / "precious").touch()
    assert run("compress", shards, "-o", out) == 2
    assert run("compress", shards, "-o", shards, "--force") == 2
    assert run("compress", shards, "-o", shards.parent, "--force") == 2
    assert names(out) == ["precious"]
    assert run("compress", shards, "-o", out, "--force") == 0
    assert {"precious", "m-1.safetensors.wz"} <= set(names(out))
    assert names(shards.parent) == ["out", "shards"]


def test_a_folder_keeps_what_was_left_out(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, weights = shards.with_name("shards.wz"), shards / "m-1.safetensors"
    original = weights.read_bytes()
    before = names(shards)
    assert run("compress", shards) == 0
    assert f"{shards}: no part of {packed}: config.json\n" in capsys.readouterr().out
    weights.write_bytes(b"damaged")
    assert run("decompress", packed, "--force") == 0
    assert weights.read_bytes() == original
    assert names(shards) == before
    assert (shards / "config.json").read_text() == "{}"


def test_a_folder_in_the_place_of_a_file(shards: Path) -> None:
    packed, out = shards.with_name("packed"), shards.with_name("out")
    assert run("compress", shards, "-o", packed) == 0
    (out / "m-2.safetensors").mkdir(parents=True)
    assert run("decompress", packed, "-o", out, "--force") == 2
    assert names(out) == ["m-2.safetensors"]
    assert names(shards.parent) == ["out", "packed", "shards"]


@pytest.mark.parametrize("name", ["m-3.safetensors.wz", "other.index.json"])
def test_parts_of_another_checkpoint_are_not_mixed_in(shards: Path, name: str) -> None:
    packed = shards.with_name("packed")
    packed.mkdir()
    (packed / name).touch()
    assert run("compress", shards, "-o", packed, "--force") == 2
    assert names(packed) == [name]


def test_a_file_in_the_place_of_what_is_restored(
    shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed, out = shards.with_name("packed"), shards.with_name("out")
    assert run("compress", shards, "-o", packed) == 0
    (packed / "m-2.safetensors").write_bytes(b"stale")
    assert run("decompress", packed, "-o", out) == 2
    assert "expected no such file beside m-2.safetensors.wz" in capsys.readouterr().err
    assert not out.exists()


def test_names_do_not_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "[red]m[" / "x]"
    path.parent.mkdir()
    save_file({"a\x1b[31m[/bold]": np.zeros(3, np.float32)}, path)
    assert run("compress", path) == 0
    packed = path.with_name("x].wz")
    content = packed.read_bytes()
    table = t.parse(*_table_of(content))
    forged = replace(table, tensors=(replace(table.tensors[0], dtype="[/green]"),))
    front = content[: table.segments[-1].chunks[-1].offset]
    front += content[len(front) :][: table.segments[-1].chunks[-1].compressed_bytes]
    packed.write_bytes(front + t.pack(forged))
    assert run("inspect", packed) == 0
    shown = "".join(capsys.readouterr().out.split())
    assert "\x1b" not in shown
    for text in ("[/green]", "\\x1b[31m[/bold]", "[red]m[/x].wz"):
        assert text in shown


def _table_of(container: bytes) -> tuple[np.ndarray, int, int]:
    """The arguments of `table.parse`."""
    size, check = t.parse_trailer(container[-t.TRAILER_BYTES :], len(container))
    begin = len(container) - t.TRAILER_BYTES - size
    body = np.frombuffer(container[begin : begin + size], np.uint8)
    return body, check, begin - t.HEADER_BYTES


def test_nothing_remains_of_shards_when_one_is_damaged(shards: Path, tmp_path: Path) -> None:
    packed, out = tmp_path / "packed", tmp_path / "out"
    assert run("compress", shards, "-o", packed) == 0
    damaged = packed / "m-2.safetensors.wz"
    content = bytearray(damaged.read_bytes())
    content[200] ^= 1
    damaged.write_bytes(content)
    assert run("decompress", packed, "-o", out) == 2
    (shards / "m-2.safetensors").write_bytes(b"damaged")
    assert run("compress", shards, "-o", out) == 2
    assert names(tmp_path) == ["packed", "shards"]


def test_progress_is_shown_on_a_terminal(model: Path) -> None:
    # Of a child, whose standard error is one.
    master, slave = pty.openpty()
    command = "import sys; from training.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["compress", str(model), "-o", str(model.with_name("out")), "--threads", "2"]
    done = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        stderr=slave,
        stdout=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "PYTHONPATH": str(Path(codec.__file__).parents[1])},
        check=False,
    )
    os.close(slave)
    shown = os.read(master, 1 << 16)
    os.close(master)
    assert done.returncode == 0
    assert b"\x1b[" in shown
    assert b"\x1b[" not in done.stdout


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


def test_nothing_that_is_read_is_written_over(
    model: Path, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, packed, shard = (
        model.with_name("old"),
        model.with_name("packed"),
        shards / "m-2.safetensors",
    )
    save_file({"a": VALUES + 1}, old)
    assert run("compress", model, "--reference", old, "-o", packed) == 0
    index = shards / "m.safetensors.index.json"
    contents = {path: path.read_bytes() for path in (model, old, packed, shard)}
    for command in (
        ["compress", model, "--reference", old, "-o", old],
        ["compress", model, "--dtype", "raw", "--reference", old, "-o", old],
        ["compress", model, "--reference", old, "-o", "new", "--json", old],
        ["compress", model, "-o", "new", "--json", model],
        ["compress", model, "--reference", shards, "-o", shard],
        ["compress", model, "--reference", index, "-o", shard],
        ["compress", index, "-o", "new", "--json", shard],
        ["compress", shards, "--reference", old, "-o", model.parent],
        ["decompress", packed, "--reference", old, "-o", old],
        ["decompress", packed, "--reference", old, "-o", "new", "--json", old],
    ):
        assert run(*command, "--force") == 2, command
    for command in (
        ["inspect", packed, "--json", packed],
        ["bench", model, "--repeats", 0, "--json", model],
        ["bench", model, "--repeats", 0, "--reference", old, "--csv", old],
        ["netzip", model, "--previous", old, "--json", old],
    ):
        assert run(*command) == 2, command
    assert capsys.readouterr().err.count("other than the input") == 14
    assert contents == {path: path.read_bytes() for path in contents}


def test_outputs_are_not_each_other(
    model: Path, shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.with_name("out")
    assert run("compress", model, "-o", out, "--json", model.parent / "." / "out") == 2
    assert run("compress", shards, "-o", out, "--json", out / "m-1.safetensors.wz") == 2
    assert run("bench", model, "--repeats", 0, "--json", out, "--csv", out) == 2
    assert capsys.readouterr().err.count("expected an output other than") == 3
    assert not out.exists()


def test_a_file_does_not_replace_a_folder(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert run("compress", model, "-o", out, "--force") == 2
    assert "expected a file to write, or nothing yet; found a folder" in capsys.readouterr().err


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


@pytest.mark.parametrize("command", ["compress", "decompress"])
def test_nothing_remains_when_the_disk_is_full(
    model: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    packed = model.with_name("packed")
    assert run("compress", model, "-o", packed) == 0
    before = names(model.parent)
    opened = Path.open

    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            if self.tell() > 1000:
                raise OSError(errno.ENOSPC, "no space left")
            return super().write(data)  # type: ignore[arg-type]

    def open_full(self: Path, mode: str = "r", *arguments: object) -> object:
        if mode == "xb":
            opened(self, mode).close()
            return Full()
        return opened(self, mode, *arguments)

    monkeypatch.setattr(Path, "open", open_full)
    source = {"compress": model, "decompress": packed}[command]
    assert run(command, source, "-o", model.with_name("new")) == 1
    assert names(model.parent) == before


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
        ["compress", "."],
        ["compress", "{source}"],
        ["compress", "{source}", "--dtype", "fp32", "--threads", "0"],
        ["compress", "{source}", "--dtype", "fp32", "--reference", "missing"],
        ["decompress", "{source}", "--tensor", "a", "-o", "out"],
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
