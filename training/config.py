# SPDX-License-Identifier: Apache-2.0
"""What a run is: frozen dataclasses, read from TOML presets and checked before anything starts.

`load` reads a preset by name or a file by path; `override` replaces single fields (command line);
`to_toml` writes the resolved configuration back, so that a run folder reproduces its run.
"""

import dataclasses
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from codec.engine import EngineName
from codec.packet import MTUS
from training.errors import ConfigError, StrategyError
from training.mesh import Cluster
from training.strategy import Strategy, parse_strategy

ReduceDtype = Literal["bf16", "fp32"]
Activation = Literal["gelu", "relu"]
# Those of `nic_emul.config`; the launcher loads nothing of the NIC's.
Algorithm = Literal["ring", "hierarchical", "switch"]
ElementSource = Literal["tagged", "inferred", "off"]

BYTE_VALUES = 256
# Tokens are kept in 16 bits.
VOCABULARY_MAX = 1 << 16

# NVLink 4 of an NVIDIA H100 SXM, each direction.
INTRA_GB_PER_S = 450.0

PRESETS = Path(__file__).parent / "presets"


@dataclass(frozen=True)
class ModelConfig:
    """Shape of the GPT."""

    layers: int = 4
    """Transformer blocks."""
    width: int = 256
    """Channels of the residual stream; a multiple of `heads`."""
    heads: int = 4
    """Attention heads in each block."""
    context: int = 128
    """Tokens in a sequence."""
    vocabulary: int = BYTE_VALUES
    """256: tokens are bytes. More: entries of a byte-level BPE that is fitted to the text, which
    needs the package `tokenizers` (extra `bench`)."""
    activation: Activation = "gelu"
    """Between the two layers of a feed-forward; `gelu` is its tanh approximation."""


@dataclass(frozen=True)
class DataConfig:
    """The text and the batches."""

    text: str = "stdlib"
    """`stdlib` (the sources of Python's standard library), or a path to a text file or a folder."""
    max_bytes: int = 8_000_000
    """Text read at most, in bytes: the first files in sorted order."""
    batch_size: int = 16
    """Sequences in a step, over all ranks; a multiple of the world size times `micro_batches`."""
    micro_batches: int = 1
    """Parts in which a rank works off its sequences of a step; their gradients are added up."""


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW, linear warm-up, a cosine, and at the end a constant rate if that is wanted."""

    peak_lr: float = 1e-3
    """Learning rate at the end of the warm-up."""
    final_lr: float = 1e-4
    """Learning rate at the last step of the cosine."""
    warmup_steps: int = 10
    """Steps from zero to `peak_lr`."""
    beta1: float = 0.9
    """Decay of the first moment."""
    beta2: float = 0.95
    """Decay of the second moment."""
    eps: float = 1e-8
    """Added to the root of the second moment."""
    weight_decay: float = 0.1
    """Decoupled decay of matrices; gains and biases are not decayed."""
    clip_norm: float = 1.0
    """Largest global gradient norm; 0 switches clipping off."""
    tail_steps: int = 0
    """The last so many steps, behind the cosine, run at `tail_lr`, as a fine-tuning would."""
    tail_lr: float = 0.0
    """Learning rate of those."""


@dataclass(frozen=True)
class NetworkConfig:
    """The emulated NICs."""

    engine: EngineName = "numba"
    """What codes the packets; `null` is the uncompressed baseline."""
    mtu: int = 4096
    """Payload of a full RoCEv2 packet in bytes, one of `codec.packet.MTUS`."""
    reduce_dtype: ReduceDtype = "bf16"
    """Type in which gradients cross the network and are summed."""
    clock_mhz: float = 250.0
    """Clock of an engine that is simulated hardware, for the time that is modelled."""
    ranks_per_node: int = 1
    """Ranks that share a node, and so reach each other without a NIC; divides the world size."""
    algorithm: Algorithm = "ring"
    """How collectives go: in one ring, within nodes and then between them, or through a sum in the
    switch."""
    switch: bool = False
    """Whether the nodes are connected by a switch; where it sums, they always are."""
    element: ElementSource = "tagged"
    """How NICs learn element types: tagged by the program, inferred from each packet, or off."""
    faults: str = ""
    """What happens to packets between nodes, as `nic_emul/faults.py` reads it; nothing if empty."""
    intra_gb_per_s: float = INTRA_GB_PER_S
    """Speed of a rank's way to the others of its node, each direction, in 10^9 bytes a second, for
    the time that is modelled."""

    @property
    def switched(self) -> bool:
        """Whether there is a switch."""
        return self.switch or self.algorithm == "switch"


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides the bits of a run."""

    name: str
    """Name of the preset."""
    strategy: str = "zero2"
    """What is sharded, by name or spelled: see `training/strategy.py`."""
    world_size: int = 4
    """Ranks. `torchrun` decides it instead where it starts the ranks."""
    steps: int = 100
    """Optimizer steps."""
    seed: int = 1
    """Seed of the initial parameters and of the batches."""
    prefetch: bool = False
    """Gather the parameters of the next unit while one computes; holds one more unit."""
    recompute: bool = False
    """Keep only the inputs of units for the backward, and run their forward again there."""
    checkpoint_every: int = 0
    """Steps from one checkpoint to the next; 0 makes none."""
    dump_tensors: tuple[int, ...] = ()
    """Steps, from 0, whose tensors are written to `tensors/` in the run folder; one rank only."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Shape of the GPT."""
    data: DataConfig = field(default_factory=DataConfig)
    """Text and batch."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """AdamW and its schedule."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The emulated NICs."""


def preset_names() -> list[str]:
    """Names of the presets that come with the package, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def load(preset: str) -> RunConfig:
    """The configuration called `preset`, or the one in the TOML file at that path.

    Raises:
        ConfigError: no such preset or file, or something in it is unknown, mistyped or impossible.
    """
    path = Path(preset) if preset.endswith(".toml") else PRESETS / f"{preset}.toml"
    if not path.is_file():
        raise ConfigError(
            f"preset: expected a .toml file or one of {', '.join(preset_names())}; found {preset!r}"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected TOML; {error}") from None
    table.setdefault("name", path.stem)
    return check(from_table(RunConfig, table, source=str(path)), source=str(path))


def override(
    config: RunConfig,
    *,
    strategy: str | None = None,
    engine: EngineName | None = None,
    steps: int | None = None,
    world_size: int | None = None,
    seed: int | None = None,
    dump_tensors: tuple[int, ...] | None = None,
    clock_mhz: float | None = None,
    ranks_per_node: int | None = None,
    algorithm: Algorithm | None = None,
    switch: bool | None = None,
    element: ElementSource | None = None,
    checkpoint_every: int | None = None,
    faults: str | None = None,
) -> RunConfig:
    """`config` with every given field replaced.

    Raises:
        ConfigError: the result is impossible.
    """
    fields = {
        "strategy": strategy,
        "steps": steps,
        "world_size": world_size,
        "seed": seed,
        "dump_tensors": dump_tensors,
        "checkpoint_every": checkpoint_every,
    }
    given: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
    network: dict[str, Any] = {
        "engine": engine,
        "clock_mhz": clock_mhz,
        "ranks_per_node": ranks_per_node,
        "algorithm": algorithm,
        "switch": switch,
        "element": element,
        "faults": faults,
    }
    network = {key: value for key, value in network.items() if value is not None}
    given["network"] = dataclasses.replace(config.network, **network)
    return check(dataclasses.replace(config, **given), source="options")


Table = TypeVar("Table")


def from_table(cls: type[Table], table: dict[str, Any], *, source: str, prefix: str = "") -> Table:
    """Build the dataclass `cls` from a parsed TOML table; every key must be known and well typed.

    Args:
        source: file that the table came from, for messages.
        prefix: dotted path of the table inside the file, for messages.

    Raises:
        ConfigError: an unknown or missing key, or a value of the wrong type.
    """
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{source}: {prefix}{key}"
        if key not in hints:
            raise ConfigError(f"{where}: expected one of {', '.join(hints)}; found an unknown key")
        values[key] = _typed(hints[key], value, source=source, key=f"{prefix}{key}")
    try:
        return cls(**values)
    except TypeError:
        missing = [f for f in hints if f not in values]
        raise ConfigError(f"{source}: {prefix}{missing[0]}: expected a value; found none") from None


def _typed(hint: Any, value: Any, *, source: str, key: str) -> Any:
    """`value` if it is of type `hint`; integers also serve as floats."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise ConfigError(f"{source}: {key}: expected a table; found {value!r}")
        return from_table(hint, value, source=source, prefix=f"{key}.")
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            raise ConfigError(
                f"{source}: {key}: expected one of {', '.join(choices)}; found {value!r}"
            )
        return value
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        if not isinstance(value, list):
            raise ConfigError(f"{source}: {key}: expected a list; found {value!r}")
        return tuple(_typed(item, each, source=source, key=key) for each in value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise ConfigError(f"{source}: {key}: expected {hint.__name__}; found {value!r}")
    return value


def _check_faults(text: str, source: str) -> None:
    # Here, so that only runs with faults load anything of the NIC's.
    from nic_emul.errors import ConfigError as NicConfigError
    from nic_emul.faults import Faults

    try:
        Faults.parse(text)
    except NicConfigError as error:
        raise ConfigError(f"{source}: network.faults: {error}") from None


def check(config: RunConfig, *, source: str) -> RunConfig:
    """`config` itself, if a run can be made of it.

    Raises:
        ConfigError: naming the key, what it must be, and what it is.
    """
    model, data, optimizer, network = config.model, config.data, config.optimizer, config.network

    def expect(holds: bool, key: str, expected: str, found: object) -> None:
        if not holds:
            raise ConfigError(f"{source}: {key}: expected {expected}; found {found!r}")

    for section, values in (("", config), ("model.", model), ("data.", data)):
        for key in ("world_size", "steps", "layers", "width", "heads", "context", "batch_size",
                    "micro_batches"):  # fmt: skip
            value = getattr(values, key, 1)
            expect(value >= 1, section + key, "at least 1", value)
    expect(config.seed >= 0, "seed", "at least 0", config.seed)
    expect(model.width % model.heads == 0, "model.width", f"a multiple of {model.heads} heads",
           model.width)  # fmt: skip
    expect(data.batch_size % config.world_size == 0, "data.batch_size",
           f"a multiple of the {config.world_size} ranks", data.batch_size)  # fmt: skip
    share = data.batch_size // config.world_size
    expect(share % data.micro_batches == 0, "data.micro_batches",
           f"a divisor of the {share} sequences of a rank", data.micro_batches)  # fmt: skip
    expect(config.checkpoint_every >= 0, "checkpoint_every", "at least 0", config.checkpoint_every)
    expect(data.max_bytes > model.context, "data.max_bytes",
           f"more than the context of {model.context}", data.max_bytes)  # fmt: skip
    expect(model.vocabulary >= BYTE_VALUES, "model.vocabulary",
           f"at least the {BYTE_VALUES} byte values", model.vocabulary)  # fmt: skip
    expect(model.vocabulary <= VOCABULARY_MAX, "model.vocabulary",
           f"at most {VOCABULARY_MAX}", model.vocabulary)  # fmt: skip
    for step in config.dump_tensors:
        expect(0 <= step < config.steps, "dump_tensors", f"steps below {config.steps}", step)
    expect(not config.dump_tensors or config.world_size == 1, "dump_tensors",
           "a world_size of 1, which holds whole tensors", config.world_size)  # fmt: skip
    expect(not config.dump_tensors or (data.micro_batches == 1 and not config.recompute),
           "dump_tensors", "one micro-batch and no recompute, which have each activation once",
           config.dump_tensors)  # fmt: skip
    expect(0 <= optimizer.tail_steps < config.steps, "optimizer.tail_steps",
           f"0 to {config.steps - 1}", optimizer.tail_steps)  # fmt: skip
    for key in ("peak_lr", "final_lr", "tail_lr", "eps", "weight_decay", "clip_norm",
                "warmup_steps"):  # fmt: skip
        value = getattr(optimizer, key)
        # Written so that NaN and infinity fail.
        expect(0 <= value < float("inf"), f"optimizer.{key}", "at least 0 and finite", value)
    for key in ("beta1", "beta2"):
        value = getattr(optimizer, key)
        expect(0 <= value < 1, f"optimizer.{key}", "at least 0 and below 1", value)
    expect(network.mtu in MTUS, "network.mtu", f"one of {MTUS}", network.mtu)
    for key in ("clock_mhz", "intra_gb_per_s"):
        value = getattr(network, key)
        expect(0 < value < float("inf"), f"network.{key}", "above 0 and finite", value)
    expect(network.ranks_per_node >= 1 and config.world_size % network.ranks_per_node == 0,
           "network.ranks_per_node", f"at least 1 and a divisor of the {config.world_size} ranks",
           network.ranks_per_node)  # fmt: skip
    if network.faults:
        _check_faults(network.faults, source)
        expect(not network.switched, "network.faults", "none with a switch", network.faults)
    try:
        strategy_of(config)
    except StrategyError as error:
        raise StrategyError(f"{source}: strategy: {error}") from None
    return config


def strategy_of(config: RunConfig) -> Strategy:
    """The strategy of a run on its cluster.

    Raises:
        StrategyError: there is no such strategy, or it is impossible there.
    """
    cluster = Cluster.of(config.world_size, config.network.ranks_per_node)
    return parse_strategy(config.strategy, cluster)


def to_toml(config: RunConfig) -> str:
    """`config` as TOML, with every field written out; `load` of it gives an equal one."""
    top: list[str] = []
    tables: list[str] = []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            lines = (
                f"{f.name} = {_toml(getattr(value, f.name))}" for f in dataclasses.fields(value)
            )
            tables.append("\n".join([f"\n[{item.name}]", *lines]))
        else:
            top.append(f"{item.name} = {_toml(value)}")
    return "\n".join([*top, *tables]) + "\n"


def _toml(value: str | int | float | tuple[int, ...]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
