# SPDX-License-Identifier: Apache-2.0
"""The results page is made of JSON files and of nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from codec import results
from codec.errors import InvalidInput

ENVIRONMENT = {
    "time": "2026-01-02T03:04:05+00:00",
    "cpu": "A processor",
    "logical_cpus": 2,
    "load_average": 1.5,
    "platform": "an OS",
    "python": "3.11.7",
    "versions": {"wirezip": "0.1.0", "zipnn": None},
    "cast": None,
    "command": "wirezip bench file",
}


def bench_row(codec: str, size: int | None, **changed: Any) -> dict[str, Any]:
    return {
        "file": ".cache/model.safetensors",
        "tensor": "*",
        "dtype": "bf16",
        "codec": codec,
        "block_bytes": 4096 if codec == "wirezip" else None,
        "threads": 1,
        "original_bytes": 2_000_000,
        "compressed_bytes": size,
        "bound_tensor_bytes": 1_310_000.0,
        "bound_block_bytes": 1_300_000.0,
        "encode_gb_per_s": 2.0 if size else None,
        "decode_gb_per_s": 3.0 if size else None,
        "lossless": size is not None,
    } | changed


def netzip_row(delta: str, mismatches: int, **changed: Any) -> dict[str, Any]:
    return {
        "file": "f",
        "role": "gradient",
        "unit": "packet",
        "delta": delta,
        "grouping": "bit",
        "base": "minimum" if delta == "base" else None,
        "compressor": "lz4",
        "original_bytes": 1000,
        "compressed_bytes": 650,
        "values": 500,
        "mismatches": mismatches,
        "lossless": mismatches == 0,
    } | changed


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    files = {
        "checkpoints-bf16": [
            bench_row("wirezip", 1_320_000),
            bench_row("wirezip", 1_340_000, block_bytes=1024),
            bench_row("zipnn", None),
            bench_row("copy", 36, dtype="i64", original_bytes=36),
        ],
        "corpus-1": [
            bench_row("wirezip", 1_320_000, tensor="gradient/head/*", encode_gb_per_s=None),
            bench_row("wirezip", 1_340_000, tensor="gradient/head/*", block_bytes=1024),
            bench_row("zstd-1", 1_500_000, tensor="gradient/head/*", lossless=False),
        ],
        "netzip-1": [
            netzip_row("none", 0, grouping="none", compressed_bytes=900),
            netzip_row("none", 0),
            netzip_row("base", 400),
            netzip_row("none", 0, grouping="none", compressor="wirezip", compressed_bytes=620),
        ],
    }
    folder = tmp_path / "docs"
    (folder / "results").mkdir(parents=True)
    for name, rows in files.items():
        content = {"environment": ENVIRONMENT, "rows": rows}
        (folder / "results" / f"{name}.json").write_text(json.dumps(content))
    text = f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n"
    (folder / "netzip.md").write_text(text)
    return folder


def test_the_page(docs: Path) -> None:
    assert results.main([str(docs)]) == 0
    page = (docs / "results.md").read_text()
    assert "A processor" in page
    assert "The machine was shared: its load average was 1.5 to 1.5" in page
    assert "wirezip 0.1.0" in page
    assert "zipnn None" not in page
    assert page.count("```\nwirezip bench file\n```") == 3
    assert (
        "| wirezip, 4096 B blocks | 1.515 | 34.0 | 0.6600 | 2.00 | 3.00 | yes |\n"
        "| wirezip, 1024 B blocks | 1.493 | 33.0 | 0.6700 | 2.00 | 3.00 | yes |\n"
        "| zipnn |  |  | failed |  |  | no |"
    ) in page
    assert "i64" not in page
    expected = "| `model` gradient/head | bf16 | 2.00 | 0.650 | 0.6600 | 0.7500 (lossy) |"
    assert expected in page
    assert (
        "| minimum | gradient | packet | 10.0 (lz4) | 35.0 (none, bit, lz4: +25.0) "
        "| 35.0 (base, bit, lz4: +25.0) | 80.0 % | 38.0 (+28.0) |"
    ) in page
    assert "## Reference mode" not in page
    assert {path.name for path in (docs / "figures").iterdir()} == {
        "bench-speed.png",
        "bench-bound.png",
    }


def test_it_is_the_same_each_time(docs: Path) -> None:
    pages = []
    for _ in range(2):
        results.write_pages(docs)
        pages.append([(docs / name).read_text() for name in ("results.md", "netzip.md")])
    assert pages[0] == pages[1]


def test_only_what_is_between_the_marks_is_replaced(docs: Path) -> None:
    results.write_pages(docs)
    text = (docs / "netzip.md").read_text()
    assert text.startswith(f"before\n{results.BEGIN}\n")
    assert text.endswith(f"{results.END}\nafter\n")
    assert "\nold\n" not in text
    assert "| base | bit | 0.6500 |  | **lossy**, 80.0 % |" in text
    assert "| none | bit | 0.6500 |  | lossless |" in text
    assert "35.0 (none, bit, lz4: +25.0)" in text


def test_what_is_wrong_is_named(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (docs / "netzip.md").write_text("no marks")
    with pytest.raises(InvalidInput, match=r"netzip\.md: expected the marks"):
        results.write_pages(docs)
    (docs / "results/corpus-1.json").write_text("{}")
    assert results.main([str(docs)]) == 2
    assert "corpus-1.json: expected the JSON of a benchmark" in capsys.readouterr().err
    for path in (docs / "results").iterdir():
        path.unlink()
    with pytest.raises(InvalidInput, match="found none"):
        results.read_measurements(docs / "results")


def test_the_readme_gets_its_table(docs: Path) -> None:
    def row(codec: str, block_bytes: int | None, compressed: int) -> dict[str, object]:
        return {
            "file": "cache/MiniLM/model.safetensors",
            "tensor": "*",
            "dtype": "bf16",
            "codec": codec,
            "block_bytes": block_bytes,
            "original_bytes": 1_000_000,
            "compressed_bytes": compressed,
            "bound_block_bytes": 640_000,
        }

    rows = [row("wirezip", 4096, 650_000), row("wirezip", 1024, 1), row("zipnn", None, 800_000)]
    table = results.highlights([results.Measurement("checkpoints-bf16", {}, rows)])
    assert table.splitlines()[2:] == ["| MiniLM weights, BF16 cast | 1.538 | 1.250 |  | 1.562 |"]

    readme = docs.parent / "README.md"
    readme.write_text(f"first\n{results.BEGIN}\nold\n{results.END}\nlast\n")
    results.write_pages(docs)
    text = readme.read_text()
    assert text.startswith(f"first\n{results.BEGIN}\n")
    assert text.endswith(f"{results.END}\nlast\n")
    assert "old" not in text
