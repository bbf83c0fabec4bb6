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


def row_of(measurement: str, codec: str, size: int, **changed: Any) -> results.Measurement:
    return results.Measurement(measurement, ENVIRONMENT, [bench_row(codec, size, **changed)])


def goal(measurements: list[results.Measurement], what: str) -> list[str]:
    lines = [x for x in results.goals_table(measurements).splitlines() if x.startswith(f"| {what}")]
    assert len(lines) == 1
    return [cell.strip() for cell in lines[0].strip("|").split("|")][1:]


def test_a_goal_is_met_missed_or_not_measured() -> None:
    model = {"file": "cache/MiniLM/model.safetensors"}
    met = row_of("checkpoints-bf16", "wirezip", 1_336_000, **model)
    assert goal([met], "MiniLM, BF16") == ["<= 0.668", "0.6680", "yes", ""]
    missed = row_of("checkpoints-fp32", "wirezip", 1_660_000, **model)
    *cells, reason = goal([met, missed], "MiniLM, FP32")
    assert cells == ["<= 0.823", "0.8300", "**no**"]
    assert "mantissa" in reason
    unmeasured = ["not measured", "not measured", ""]
    assert goal([met], "MiniLM, FP32") == ["<= 0.823", *unmeasured]
    for changed in ({"lossless": False}, {"block_bytes": 1024}, {"original_bytes": 2_000}):
        wrong = row_of("checkpoints-bf16", "wirezip", 1_336, **model, **changed)
        assert goal([wrong], "MiniLM, BF16")[1:] == unmeasured


def test_a_goal_of_several_figures() -> None:
    what, tensor = "head gradients", {"tensor": "gradient/head/*"}
    first = row_of("corpus-1-warm-up", "wirezip", 1_320_000, **tensor)
    middle = row_of("corpus-2-middle", "wirezip", 1_330_000, **tensor)
    late = row_of("corpus-3-late", "wirezip", 1_340_000, **tensor)
    shown = "0.0100 / 0.0150 / not measured"
    assert goal([first, middle], what)[1:] == [shown, "not measured", ""]
    assert goal([first, middle, late], what)[1:3] == ["0.0100 / 0.0150 / 0.0200", "**no**"]


def test_goals_of_speed() -> None:
    model = {"file": "MiniLM"}
    rows = [
        bench_row("wirezip", 1_320_000, **model, encode_gb_per_s=1.5),
        bench_row("zipnn", 1_320_000, **model, encode_gb_per_s=1.0),
    ]
    measured = [results.Measurement("checkpoints-bf16", ENVIRONMENT, rows)]
    assert goal(measured, "encode speed, times that of zipnn") == [">= 1.5", "1.50", "yes", ""]
    assert goal(measured, "encode speed, times that of grouped")[1] == "not measured"


def test_threads_stand_beside_one(docs: Path) -> None:
    rows = [
        bench_row("wirezip", 1_320_000),
        bench_row("wirezip", 1_320_000, threads=2, encode_gb_per_s=3.8, decode_gb_per_s=5.1),
    ]
    environment = ENVIRONMENT | {"clock": "wall", "python": "3.12.1"}
    content = {"environment": environment, "rows": rows}
    (docs / "results/threads.json").write_text(json.dumps(content))
    results.write_pages(docs)
    page = (docs / "results.md").read_text()
    assert "By wall time." in page
    assert "| `model`, bf16 | 4096 | 1 | 2.00 | 1.00 | 3.00 | 1.00 |" in page
    assert "| `model`, bf16 | 4096 | 2 | 3.80 | 1.90 | 5.10 | 1.70 |" in page
    assert goal(results.read_measurements(docs / "results"), "two threads")[1] == "1.90 / 1.70"
    assert "Python 3.11.7 and Python 3.12.1" in page
    assert page.count("A processor") == 1


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
