# SPDX-License-Identifier: Apache-2.0
"""Dumps: names, types, shapes and bytes of what a step worked on; and that losses do not change."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.training.runs import run, wirezip
from training.config import RunConfig, load, override
from training.records import Run

STEPS = (1, 2)
LAYERS, WIDTH, CONTEXT, BATCH = 2, 32, 16, 4
VALUES = 256


def config(*, dump: tuple[int, ...], activation: str = "gelu", dtype: str = "bf16") -> RunConfig:
    base = override(load("tiny"), world_size=1, engine="null", steps=3, dump_tensors=dump)
    model = dataclasses.replace(
        base.model, layers=LAYERS, width=WIDTH, context=CONTEXT, activation=activation
    )
    data = dataclasses.replace(base.data, batch_size=BATCH, max_bytes=50_000)
    network = dataclasses.replace(base.network, reduce_dtype=dtype)
    return dataclasses.replace(base, model=model, data=data, network=network)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(config(dump=STEPS), tmp_path_factory.mktemp("dumped"))


@pytest.fixture(scope="module")
def dumps(dumped: Run) -> list[dict[str, Tensor]]:
    paths = sorted((dumped.folder / "tensors").iterdir())
    assert [path.name for path in paths] == [f"step-{step:06}.safetensors" for step in STEPS]
    return [load_file(path) for path in paths]


def parameter_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "embedding/token.weight": (VALUES, WIDTH),
        "embedding/position.weight": (CONTEXT, WIDTH),
        "head/output.weight": (VALUES, WIDTH),
        "norm/head.norm.weight": (WIDTH,),
        "norm/head.norm.bias": (WIDTH,),
    }
    for block in (f"block{layer}" for layer in range(LAYERS)):
        matrices = {
            "attention/{}.query_key_value": (3 * WIDTH, WIDTH),
            "attention/{}.project": (WIDTH, WIDTH),
            "feed_forward/{}.expand": (4 * WIDTH, WIDTH),
            "feed_forward/{}.project": (WIDTH, 4 * WIDTH),
        }
        for name, shape in matrices.items():
            shapes[f"{name.format(block)}.weight"] = shape
            shapes[f"{name.format(block)}.bias"] = shape[:1]
        for norm in ("attention_norm", "feed_forward_norm"):
            for kind in ("weight", "bias"):
                shapes[f"norm/{block}.{norm}.{kind}"] = (WIDTH,)
    return shapes


def expected() -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    roles = {
        "gradient": torch.bfloat16,
        "gradient_fp32": torch.float32,
        "parameter": torch.bfloat16,
        "master": torch.float32,
        "exp_avg": torch.float32,
        "exp_avg_sq": torch.float32,
    }
    tensors = {
        f"{role}/{name}": (dtype, shape)
        for role, dtype in roles.items()
        for name, shape in parameter_shapes().items()
    }
    stream = (BATCH, CONTEXT, WIDTH)
    blocks = [f"block{layer}" for layer in range(LAYERS)]
    for role in ("activation", "activation_gradient"):
        for place in ("embedding", *blocks):
            tensors[f"{role}/residual/{place}"] = (torch.bfloat16, stream)
        for place in blocks:
            tensors[f"{role}/attention/{place}"] = (torch.bfloat16, stream)
            hidden = (BATCH, CONTEXT, 4 * WIDTH)
            tensors[f"{role}/feed_forward/{place}"] = (torch.bfloat16, hidden)
    return tensors


def test_names_types_and_shapes(dumps: list[dict[str, Tensor]]) -> None:
    for dump in dumps:
        assert {n: (t.dtype, tuple(t.shape)) for n, t in dump.items()} == expected()


def test_what_the_tensors_hold(dumps: list[dict[str, Tensor]]) -> None:
    first, second = dumps
    changed = 0
    for name in parameter_shapes():
        gradient = first[f"gradient/{name}"]
        assert torch.equal(first[f"gradient_fp32/{name}"], gradient.float())
        for dump in dumps:
            master = dump[f"master/{name}"]
            assert torch.equal(dump[f"parameter/{name}"], master.to(torch.bfloat16))
            assert torch.all(dump[f"exp_avg_sq/{name}"] >= 0)
        changed += int(not torch.equal(first[f"master/{name}"], second[f"master/{name}"]))
    assert changed == len(parameter_shapes())


def test_the_dump_is_of_the_step_before_its_update(
    dumped: Run, dumps: list[dict[str, Tensor]]
) -> None:
    first, second = dumps
    record = dumped.steps[STEPS[0]]
    beta1 = load("tiny").optimizer.beta1
    scale = min(1.0, 1.0 / record.grad_norm)
    for name in parameter_shapes():
        update = first[f"gradient_fp32/{name}"] * scale
        moment = first[f"exp_avg/{name}"].lerp(update, 1 - beta1)
        torch.testing.assert_close(second[f"exp_avg/{name}"], moment, rtol=1e-5, atol=1e-9)
    squares = sum(
        float(tensor.double().square().sum())
        for name, tensor in first.items()
        if name.startswith("gradient/")
    )
    assert squares**0.5 == pytest.approx(record.grad_norm, rel=1e-5)


def test_activation_gradients_agree_with_parameter_gradients(
    dumps: list[dict[str, Tensor]],
) -> None:
    # The bias of an output projection is added to the residual stream itself.
    for dump in dumps:
        stream = dump[f"activation_gradient/residual/block{LAYERS - 1}"].float().sum(dim=(0, 1))
        bias = dump[f"gradient/feed_forward/block{LAYERS - 1}.project.bias"].float()
        torch.testing.assert_close(stream, bias, rtol=0.05, atol=2e-3)


def test_losses_and_parameters_are_those_of_a_run_without(dumped: Run, tmp_path: Path) -> None:
    plain = run(config(dump=()), tmp_path)
    assert not (tmp_path / "tensors").exists()
    assert plain.losses == dumped.losses
    assert plain.summary.param_hash == dumped.summary.param_hash


def test_relu_and_gradients_reduced_in_fp32(tmp_path: Path) -> None:
    run(config(dump=(2,), activation="relu", dtype="fp32"), tmp_path)
    dump = load_file(tmp_path / "tensors/step-000002.safetensors")
    hidden = dump["activation/feed_forward/block0"]
    assert torch.all(hidden >= 0)
    assert 0.2 < (hidden == 0).float().mean() < 0.8
    gradient = dump["gradient/attention/block0.project.weight"]
    assert gradient.dtype == torch.float32
    assert torch.equal(gradient, gradient.bfloat16().float())


def test_the_command(tmp_path: Path) -> None:
    preset = tmp_path / "small.toml"
    preset.write_text(
        "world_size = 1\nsteps = 2\n[model]\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\n"
        "[data]\nmax_bytes = 20000\nbatch_size = 2\n[network]\nengine = 'null'\n"
    )
    result = wirezip(
        "train", str(preset), "--dump-tensors", "0,1", "--out", str(tmp_path / "run"), "--json", "-"
    )
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["losses"]) == 2
    names = sorted(path.name for path in (tmp_path / "run/tensors").iterdir())
    assert names == ["step-000000.safetensors", "step-000001.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dump-tensors", "1,x"), "dump-tensors: expected steps such as 5,6,500; found '1,x'"),
        (("--dump-tensors", "6"), "dump_tensors: expected steps below 6; found 6"),
        (("--dump-tensors", "1"), "dump_tensors: expected a world_size of 1"),
    ],
)
def test_steps_that_cannot_be_dumped(arguments: tuple[str, ...], message: str) -> None:
    result = wirezip("train", "tiny", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
