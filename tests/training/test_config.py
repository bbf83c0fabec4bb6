# SPDX-License-Identifier: Apache-2.0
"""Presets: what is accepted, what is refused, and what the message says."""

from pathlib import Path

import pytest

from training.config import RunConfig, load, override, preset_names, to_toml
from training.errors import ConfigError


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_presets_of_the_package() -> None:
    names = {"tiny", "tiny-rtl", "demo-zero2", "demo-zero3", "corpus", "corpus-relu"}
    assert names == set(preset_names())
    for name in preset_names():
        assert load(name).name == name


def test_demo_presets_differ_in_strategy_alone() -> None:
    zero2, zero3 = load("demo-zero2"), load("demo-zero3")
    assert (zero2.strategy, zero3.strategy) == ("zero2", "zero3")
    assert zero2.world_size == 4
    same = override(zero2, strategy="zero3")
    for section in ("world_size", "steps", "seed", "model", "data", "optimizer", "network"):
        assert getattr(same, section) == getattr(zero3, section)


def test_the_resolved_file_gives_the_same_configuration(tmp_path: Path) -> None:
    config = override(load("tiny"), strategy="zero3", engine="null", steps=3, seed=7, world_size=4)
    assert load(write(tmp_path, to_toml(config))) == config


def test_lists_survive(tmp_path: Path) -> None:
    config = load("corpus")
    assert config.dump_tensors == (5, 6, 500, 501, 998, 999, 1010, 1011)
    assert load(write(tmp_path, to_toml(config))) == config


def test_text_with_quotes_survives(tmp_path: Path) -> None:
    config = load(write(tmp_path, "[data]\ntext = 'a\\b\"c'"))
    assert config.data.text == 'a\\b"c'
    assert load(write(tmp_path, to_toml(config))) == config


def test_everything_has_a_default(tmp_path: Path) -> None:
    assert load(write(tmp_path, "")) == RunConfig(name="mine")


def test_an_integer_serves_as_a_float(tmp_path: Path) -> None:
    value = load(write(tmp_path, "[optimizer]\nclip_norm = 1")).optimizer.clip_norm
    assert isinstance(value, float)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stratgy = 'zero2'", r"mine\.toml: stratgy: expected one of name, .*unknown key"),
        ("[model]\ndepth = 3", r"mine\.toml: model\.depth: expected one of layers, .*unknown key"),
        ("steps = 'many'", r"mine\.toml: steps: expected int; found 'many'"),
        ("steps = true", r"steps: expected int; found True"),
        ("steps = 1.0", r"steps: expected int; found 1\.0"),
        ("model = 3", r"model: expected a table; found 3"),
        ("strategy = 'zero4'", r"mine\.toml: strategy: expected one of ddp, .*; found 'zero4'"),
        ("strategy = 'p=1x1,g=1x1,os=2x1'", r"strategy: os: expected RANKSxNODES that divide 1x4"),
        ("[network]\nengine = 'gzip'", r"network\.engine: expected one of null, .*; found 'gzip'"),
        ("[network]\nfaults = 'loss=2'", r"mine\.toml: network\.faults: .*loss: .*found '2'"),
        ("[network]\nmtu = 1500", r"network\.mtu: expected one of \(1024, 4096\); found 1500"),
        ("steps = 0", r"steps: expected at least 1; found 0"),
        ("seed = -1", r"seed: expected at least 0; found -1"),
        ("[model]\nwidth = 30", r"model\.width: expected a multiple of 4 heads; found 30"),
        ("[model]\nlayers = 0", r"model\.layers: expected at least 1; found 0"),
        ("[data]\nbatch_size = 6", r"batch_size: expected a multiple of the 4 ranks; found 6"),
        ("[data]\nmicro_batches = 3", r"micro_batches: expected a divisor of the 4 seq.*; found 3"),
        ("[data]\nmicro_batches = 0", r"data\.micro_batches: expected at least 1; found 0"),
        ("checkpoint_every = -1", r"checkpoint_every: expected at least 0; found -1"),
        ("recompute = 1", r"recompute: expected bool; found 1"),
        (
            "world_size = 1\nrecompute = true\ndump_tensors = [5]",
            r"dump_tensors: expected one micro-batch and no recompute",
        ),
        ("[data]\nmax_bytes = 128", r"max_bytes: expected more than the context of 128; found 128"),
        ("[optimizer]\npeak_lr = nan", r"optimizer\.peak_lr: expected at least 0 and finite"),
        ("[model]\nvocabulary = 255", r"model\.vocabulary: expected at least the 256 byte values"),
        ("[model]\nvocabulary = 65537", r"model\.vocabulary: expected at most 65536; found 65537"),
        ("[model]\nactivation = 'tanh'", r"model\.activation: expected one of gelu, relu; found"),
        ("dump_tensors = 5", r"dump_tensors: expected a list; found 5"),
        ("dump_tensors = ['5']", r"dump_tensors: expected int; found '5'"),
        ("world_size = 1\ndump_tensors = [100]", r"dump_tensors: expected steps below 100"),
        ("dump_tensors = [5]", r"dump_tensors: expected a world_size of 1.*; found 4"),
        ("[optimizer]\ntail_steps = 100", r"optimizer\.tail_steps: expected 0 to 99; found 100"),
        ("[optimizer]\neps = inf", r"optimizer\.eps: expected at least 0 and finite; found inf"),
        ("[optimizer]\nbeta2 = 1.0", r"optimizer\.beta2: expected at least 0 and below 1"),
        ("steps = ", r"mine\.toml: expected TOML; Invalid value"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(write(tmp_path, text))


def test_unknown_preset() -> None:
    with pytest.raises(ConfigError, match=r"preset: expected .*demo-zero2.*; found 'tinny'"):
        load("tinny")


def test_impossible_override() -> None:
    with pytest.raises(ConfigError, match=r"options: data\.batch_size: .*3 ranks; found 8"):
        override(load("tiny"), world_size=3)
