# SPDX-License-Identifier: Apache-2.0
"""What `make rtl-soak` runs: it compares, and it notices."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from codec.engine import Engine, Packets, get_engine
from codec.errors import TruncatedFrame
from codec.numba_engine import NumbaEngine
from tests.sim import soak


class Wrong(NumbaEngine):
    """Differs from Numba in one thing."""

    def __init__(self, change: Callable[[Packets], Packets] | None = None) -> None:
        self._change = change

    def encode(self, *arguments: object, **options: object) -> Packets:
        packets = super().encode(*arguments, **options)
        return self._change(packets) if self._change else packets


class Lenient(Wrong):
    def decode(self, packets: Packets, *arguments: object, **options: object) -> None:
        try:
            super().decode(packets, *arguments, **options)
        except TruncatedFrame:
            return


class Lossy(Wrong):
    def decode(
        self,
        packets: Packets,
        element: object,
        block_bytes: int,
        out: np.ndarray,
        **options: object,
    ) -> None:
        super().decode(packets, element, block_bytes, out, **options)
        out[-1] ^= 1


def other_payload(packets: Packets) -> Packets:
    payload = packets.payload.copy()
    payload[-1] ^= 1
    return replace(packets, payload=payload)


def other_mode(packets: Packets) -> Packets:
    return replace(packets, modes=packets.modes ^ 1)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    values = np.random.default_rng(5).standard_normal(50_000).astype(np.float32)
    (tmp_path / "tensors").mkdir()
    save_file({"weights": values}, tmp_path / "tensors" / "step.safetensors")
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    monkeypatch.setattr(soak, "get_engine", lambda n: engine if n == "rtl" else get_engine(n))


def test_equal_engines(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, NumbaEngine())
    assert soak.soak(run, 2000, 1, show=False) >= 2000
    found = re.fullmatch(
        r"(\d+) real and (\d+) drawn blocks: no difference\n", capsys.readouterr().out
    )
    assert found
    assert min(int(found[1]), int(found[2])) > 500


@pytest.mark.parametrize(
    ("engine", "difference"),
    [
        (Wrong(other_payload), r"block \d+: byte \d+ of its payload differs"),
        (Wrong(other_mode), r"block 0: mode \d by numba, \d by rtl"),
        (Lossy(), r"block \d+ is decoded to other bytes"),
        (Lenient(), r"block \d+, damaged to .*: TruncatedFrame by numba, a block .* by rtl"),
    ],
    ids=["payload", "mode", "lossy", "lenient"],
)
def test_every_difference_is_found(
    run: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, difference: str
) -> None:
    use(monkeypatch, engine)
    with pytest.raises(soak.Difference, match=rf"seed 1, after \d+ blocks: .*: {difference}"):
        soak.soak(run, 5000, 1, show=False)
