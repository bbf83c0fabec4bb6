# SPDX-License-Identifier: Apache-2.0
"""`wirezip infer`: sizes are those of single packets, and wrong guesses are counted as such."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from codec.elements import ElementType
from codec.engine import get_engine
from codec.errors import InvalidInput
from nic_emul.inference import infer
from nic_emul.inference_study import Row, Study, measure, total
from training.cli import main

PACKET = 1024


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    tensors = {
        "gradient/a": (0.02 * torch.randn(5000)).bfloat16(),
        "gradient/b": torch.randint(-(2**15), 2**15, (3000,)).to(torch.int16).view(torch.bfloat16),
        "master/a": 0.02 * torch.randn(2000),
        "short": torch.zeros(3),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def coded(data: np.ndarray, element: ElementType, phase: int) -> int:
    """Payload bytes of one packet."""
    packets = get_engine("reference").encode(data, element, PACKET, phase=phase, bare=True)
    return packets.payload.size


def test_sizes_are_those_of_the_packets(checkpoint: Path) -> None:
    study = Study(packet_bytes=PACKET, packets=3, tensors=("gradient/a",))
    rows = measure([checkpoint], study)
    assert [(row.group, row.dtype, row.phase) for row in rows] == [
        ("gradient", "bf16", 0),
        ("gradient", "bf16", 1),
    ]
    torch.manual_seed(1)
    data = (0.02 * torch.randn(5000)).bfloat16().view(torch.uint8).numpy()
    # The first place, the last that holds a packet at either phase, and the one between.
    last = 5000 - PACKET // 2 - 1
    for row in rows:
        starts = [2 * place + row.phase for place in (0, last // 2, last)]
        packets = [np.ascontiguousarray(data[at : at + PACKET]) for at in starts]
        assert (row.packets, row.original_bytes) == (3, 3 * PACKET)
        assert row.tagged_bytes == sum(coded(p, ElementType.BF16, row.phase) for p in packets)
        assert row.inferred_bytes == sum(coded(p, *infer(p)) for p in packets)
        assert row.off_bytes == sum(coded(p, ElementType.RAW, 0) for p in packets)
        assert (row.wrong, row.found) == (0, {})


def test_wrong_guesses_are_counted(checkpoint: Path) -> None:
    """Noise that is tagged as BF16 looks like bytes of no type."""
    rows = measure([checkpoint], Study(packet_bytes=PACKET, packets=4, tensors=("gradient/b",)))
    for row in rows:
        assert (row.packets, row.wrong, row.found) == (4, 4, {"raw+0": 4})
        assert row.tagged_bytes == row.inferred_bytes == row.off_bytes == row.original_bytes


def test_groups_add_up(checkpoint: Path) -> None:
    rows = measure([checkpoint], Study(packet_bytes=PACKET, packets=2))
    assert {(row.group, row.dtype) for row in rows} == {("gradient", "bf16"), ("master", "f32")}
    assert [row.phase for row in rows if row.dtype == "f32"] == [0, 1, 2, 3]
    first, second = (row for row in rows if row.dtype == "bf16")
    both = total([first, second])
    for name in ("packets", "original_bytes", "tagged_bytes", "inferred_bytes", "wrong"):
        assert getattr(both, name) == getattr(first, name) + getattr(second, name)
    assert both.found == {"raw+0": 4}


def test_command(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    arguments = ["infer", str(checkpoint), "--mtu", "1024", "--packets", "2", "--json", str(out)]
    assert main([*arguments, "--cast", "bf16"]) == 0
    rows = [Row(**fields) for fields in json.loads(out.read_text())]
    assert {row.dtype for row in rows} == {"bf16"}
    assert "taken for" in capsys.readouterr().out


def test_what_holds_no_packet_is_refused(checkpoint: Path) -> None:
    with pytest.raises(InvalidInput, match="expected a tensor of 1024 bytes"):
        measure([checkpoint], Study(packet_bytes=1024, tensors=("short",)))
    assert main(["infer"]) == 2
    assert main(["infer", str(checkpoint), "--packets", "0"]) == 2
