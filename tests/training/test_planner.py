# SPDX-License-Identifier: Apache-2.0
"""The planner: what it reproduces, that the search is exact, and what a ratio does to a choice."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

from tests.training.runs import wirezip
from training.errors import ConfigError, PlanError
from training.mesh import Group, Mesh
from training.plan_inputs import MeasuredBandwidth, PlannedCluster, load_cluster, load_model
from training.planner import TIE, Transfer, amsp_transfers, plan
from training.strategy import PRESETS, parse_strategy
from training.volumes import sent_bytes

SMALL = PlannedCluster(
    name="small",
    nodes=4,
    ranks_per_node=4,
    memory_gb=4,
    intra_gb_per_s=100,
    node_gb_per_s=10,
    intra_latency_us=0,
    inter_latency_us=0,
)
MODEL = dataclasses.replace(
    load_model("7b"), name="model", parameters=320e6, layers=20, reserved_gb=1
)


def test_the_published_choice_for_7b() -> None:
    """Table IV: parameters and gradients on every rank, the optimizer over the eight of a node."""
    ranking = plan(load_model("7b"), load_cluster("a800-1024"), formulas="amsp")
    assert str(ranking[0].strategy) == "p=1x1,g=1x1,os=8x1"
    # It ties: a broadcast of all parameters inside a node takes as long over two ranks.
    tied = [str(each.strategy) for each in ranking if each.place == 1]
    assert tied == [f"p=1x1,g=1x1,os={ranks}x1" for ranks in (8, 4, 2)]


def test_the_other_rows_need_what_is_not_published() -> None:
    """What `docs/planner.md` says of them."""
    cluster = load_cluster("a800-1024")
    for name, published in (("13b", "p=4x1,g=4x1,os=8x1"), ("30b", "p=8x1,g=8x1,os=8x4")):
        ranking = plan(load_model(name), cluster, formulas="amsp")
        assert str(ranking[0].strategy) != published
        assert published in [str(each.strategy) for each in ranking]
    tied = plan(load_model("30b", reserved_gb=48), cluster, formulas="amsp")
    assert "p=8x1,g=8x1,os=8x4" in [str(each.strategy) for each in tied if each.place == 1]
    close = plan(load_model("13b", reserved_gb=36), cluster, formulas="amsp")
    (published_13b,) = [each for each in close if str(each.strategy) == "p=4x1,g=4x1,os=8x1"]
    assert str(close[0].strategy) == "p=2x1,g=8x1,os=8x1"
    assert published_13b.seconds / close[0].seconds == pytest.approx(1.066, abs=5e-4)


def test_the_presets_are_in_the_space() -> None:
    cluster = dataclasses.replace(SMALL, memory_gb=1000, host_memory_gb=1000)
    found = {each.strategy for each in plan(MODEL, cluster)}
    assert {parse_strategy(name, cluster.shape) for name in PRESETS} <= found
    assert len(found) == len(plan(MODEL, cluster))


def test_everything_that_fits_is_ranked_and_nothing_else() -> None:
    everywhere = plan(MODEL, dataclasses.replace(SMALL, memory_gb=1e6))
    roomy = {each.strategy: each for each in everywhere}
    ranking = plan(MODEL, SMALL)
    fitting = {s for s, each in roomy.items() if each.memory_bytes <= SMALL.memory_gb * 1e9}
    assert {each.strategy for each in ranking} == fitting
    assert 0 < len(fitting) < len(roomy)
    assert [each.place for each in ranking] == sorted(each.place for each in ranking)
    for a, b in itertools.pairwise(ranking):
        if a.place == b.place:
            assert (a.between_bytes, a.memory_bytes) <= (b.between_bytes, b.memory_bytes)
        else:
            assert a.seconds < b.seconds
    best = min(each.seconds for each in ranking)
    assert ranking[0].seconds <= best * (1 + TIE)


def test_bytes_between_nodes_are_those_of_the_loop() -> None:
    ranking = plan(MODEL, dataclasses.replace(SMALL, memory_gb=1000, host_memory_gb=1000))
    # The padding of a layer: to a multiple of eight elements a rank.
    layer = -(-int(MODEL.parameters / MODEL.layers) // 128) * 128
    for each in ranking:
        sent = sent_bytes(
            each.strategy,
            layer * MODEL.layers,
            gradient_bytes=2,
            micro_batches=MODEL.micro_batches,
        )
        assert each.between_bytes == pytest.approx(sum(v.between for v in sent.values()))


def test_times_by_hand() -> None:
    cluster = dataclasses.replace(SMALL, memory_gb=1000)
    model = dataclasses.replace(MODEL, micro_batches=1)
    found = {str(each.strategy): each for each in plan(model, cluster)}
    gigabytes = 2 * model.parameters / 1e9
    # A ring of sixteen leaves a node once, at the node's speed.
    ddp = found["p=1x1,g=1x1,os=1x1"]
    assert ddp.seconds == pytest.approx(2 * gigabytes * 15 / 16 / 10)
    # Two gathers and a reduction in the node; then a ring for each rank of a node, which share it.
    mics = found["p=4x1,g=4x1,os=4x1"]
    inside = 3 * gigabytes * 3 / 4 / 100
    assert mics.seconds == pytest.approx(inside + 2 * gigabytes / 4 * 3 / 4 / (10 / 4))
    assert mics.seconds_by_role["parameter"] == pytest.approx(2 * inside / 3)


def test_host_memory_costs_its_way() -> None:
    cluster = dataclasses.replace(SMALL, host_memory_gb=100, host_gb_per_s=20)
    found = {str(each.strategy): each for each in plan(MODEL, cluster)}
    device = found["p=4x1,g=4x4,os=4x4"]
    host = found["p=4x1,g=4x4,os=4x4,host"]
    shards = 2 * MODEL.parameters / 4
    assert device.memory_bytes - host.memory_bytes == pytest.approx(shards)
    assert host.host_bytes == pytest.approx(4 * shards)
    # Two micro-batches of two gathers, and an update.
    assert host.seconds - device.seconds == pytest.approx(5 * shards / 20e9)
    tight = dataclasses.replace(cluster, host_memory_gb=4 * shards / 1e9 - 0.1)
    assert host.strategy not in {each.strategy for each in plan(MODEL, tight)}


def test_compression_pays_between_nodes_alone() -> None:
    cluster = dataclasses.replace(SMALL, memory_gb=1000)
    plain = {each.strategy: each for each in plan(MODEL, cluster)}
    ratios = {"gradient": 1.5, "parameter": 2.0}
    for each in plan(MODEL, cluster, ratios=ratios):
        before = plain[each.strategy]
        assert each.between_bytes == before.between_bytes
        if each.between_bytes == 0:
            assert each.seconds == before.seconds
        else:
            assert before.seconds / 2 <= each.seconds < before.seconds


def test_compression_changes_a_choice() -> None:
    # Gathering parameters in nodes spares gradients between them; those are cheaper when coded.
    model = dataclasses.replace(load_model("30b"), micro_batches=8)
    cluster = load_cluster("a800-1024")
    plain = plan(model, cluster)
    coded = plan(model, cluster, ratios={"gradient": 1.494, "parameter": 1.5})
    assert str(plain[0].strategy) == "p=2x1,g=2x1,os=8x16"
    assert str(coded[0].strategy) == "p=1x1,g=8x16,os=8x16"
    by_strategy = {each.strategy: each for each in coded}
    assert coded[0].seconds < by_strategy[plain[0].strategy].seconds


def test_measured_bandwidths_take_the_place_of_links() -> None:
    rows = (
        MeasuredBandwidth("all_reduce", ranks=4, nodes=4, megabytes=1, gb_per_s=1),
        MeasuredBandwidth("all_reduce", ranks=4, nodes=4, megabytes=100, gb_per_s=3),
    )
    cluster = dataclasses.replace(SMALL, memory_gb=1000, bandwidth=rows)
    found = {str(each.strategy): each for each in plan(MODEL, cluster)}
    layer = 2 * MODEL.parameters / MODEL.layers
    # 32 MB are three quarters of the way from 1 to 100 on a logarithmic scale.
    assert layer == 32e6
    speed = (1 + 2 * 0.75257) * 1e9
    expected = 20 * layer / speed
    assert found["p=1x1,g=1x1,os=1x1"].seconds == pytest.approx(expected, rel=1e-4)


def test_formulas_of_amsp() -> None:
    model = dataclasses.replace(load_model("7b"), micro_batches=4)
    cluster = load_cluster("a800-1024").shape
    found = list(amsp_transfers(parse_strategy("p=2x1,g=8x1,os=8x1", cluster), model))
    phi = model.parameters
    parts, ring = Group(1, 2), Group(2, 8)
    tensor, buckets = 2 * phi / 32 / 7, 2 * phi / 256e6 / 2
    assert found == [
        Transfer("parameter", "all_gather", parts, tensor, 2 * 4 * 32 * 7),
        Transfer("gradient", "reduce_scatter", parts, tensor, 4 * 32 * 7),
        Transfer("gradient", "all_reduce", ring, 256e6, 3 * buckets),
        Transfer("gradient", "all_reduce", Group(2, 1024), 256e6, buckets),
        Transfer("parameter", "broadcast", ring, 2 * phi / 8, 4),
    ]


def test_nothing_fits() -> None:
    with pytest.raises(PlanError, match="model on small: expected a strategy that fits into 1 GB"):
        plan(MODEL, dataclasses.replace(SMALL, memory_gb=1))


def test_inputs(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("parameters = 1e9\nlayers = 4\n")
    assert load_model(str(path)).name == "mine"
    path.write_text("parameters = nan\nlayers = 4\n")
    with pytest.raises(ConfigError, match="parameters: expected above 0 and finite; found nan"):
        load_model(str(path))
    with pytest.raises(ConfigError, match="reserved_gb: expected at least 0 and finite; found -1"):
        load_model("7b", reserved_gb=-1)
    with pytest.raises(ConfigError, match="micro_batches: expected above 0 and finite; found 0"):
        load_model("7b", micro_batches=0)
    path.write_text("[[bandwidth]]\ncollective = 'all_sum'\n")
    with pytest.raises(ConfigError, match=r"bandwidth\.collective: expected one of all_gather"):
        load_cluster(str(path))
    with pytest.raises(ConfigError, match=r"model: expected .* one of 13b, 30b, 7b; found '8b'"):
        load_model("8b")
    assert load_cluster("a800-1024").shape.world_size == 1024
    assert Mesh(8, 128).fits(load_cluster("a800-1024").shape)


def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    options = ["--gradient-ratio", "1.5", "--parameter-ratio", "2", "--top", "3"]
    result = wirezip(
        "plan", "--model", "13b", "--cluster", "ethernet-64", *options, "--json", str(out)
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(out.read_text())
    assert report["ratios"] == {"gradient": 1.5, "parameter": 2.0}
    assert len(report["off"]) == len(report["on"]) == 3
    assert report["changed"] is (report["off"][0]["strategy"] != report["on"][0]["strategy"])
    assert report["off"][0]["strategy"] in result.stdout
    assert (
        "expected above 0"
        in wirezip(
            "plan", "--model", "7b", "--cluster", "ethernet-64", "--gradient-ratio", "-1"
        ).stderr
    )
    failed = wirezip("plan", "--model", "7b", "--cluster", "ethernet-64", "--top", "-1")
    assert failed.returncode == 2
    assert "top: expected at least 1; found -1" in failed.stderr
    failed = wirezip("plan", "--model", "8b", "--cluster", "ethernet-64")
    assert failed.returncode == 2
    assert "model: expected" in failed.stderr
