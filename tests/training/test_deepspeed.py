# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed, unchanged, over emulated NICs: the same bits with compression on and off.

`make deepspeed` installs it; it compiles an operator of its own when it first runs.
"""

import json
import os
from pathlib import Path

import pytest

from tests.tools import require_package
from tests.training.runs import ROOT, wirezip

pytestmark = [pytest.mark.ranks, pytest.mark.full, pytest.mark.timeout(1800)]

PROGRAM = r"""
import hashlib, sys
import deepspeed, torch, torch.distributed as dist
from torch import nn
deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(7)
model = nn.Sequential(
    nn.Embedding(97, 64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.Linear(64, 97)
)
config = {
    "train_micro_batch_size_per_gpu": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": int(sys.argv[1])},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    "gradient_clipping": 1.0,
}
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=config
)
losses = []
for step in range(4):
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    tokens = torch.randint(0, 97, (4, 33), generator=generator)
    logits = engine(tokens[:, :-1]).flatten(0, 1).float()
    loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
    engine.backward(loss)
    engine.step()
    losses.append(loss.item().hex())
parameters = list(engine.module.parameters())
digest = hashlib.sha256()
with deepspeed.zero.GatheredParameters(parameters):
    for parameter in parameters:
        digest.update(parameter.detach().contiguous().view(torch.uint8).numpy().tobytes())
# In one piece: ranks share the pipe.
sys.stdout.write(f"RESULT {dist.get_rank()} {losses} {digest.hexdigest()}\n")
"""


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_stages_of_zero(stage: int, tmp_path: Path) -> None:
    require_package("deepspeed")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment = {"DS_ACCELERATOR": "cpu", "PYTHONPATH": path}
    results, summaries = [], []
    for engine in ("null", "numba"):
        out = tmp_path / f"{engine}.json"
        arguments = ["--engine", engine, "--json", str(out), str(script), str(stage)]
        result = wirezip("run", *arguments, env=environment, timeout=800)
        assert result.returncode == 0, result.stderr
        results.append(sorted(line for line in result.stdout.splitlines() if "RESULT" in line))
        summaries.append(json.loads(out.read_text()))
    assert len(results[0]) == 2
    assert results[0] == results[1]
    # Ranks have losses of their own, and one set of parameters.
    assert len({line.split()[-1] for line in results[0]}) == 1
    for role in ("gradient", "parameter"):
        off, on = (summary["by_role"][role] for summary in summaries)
        assert on["logical_bytes"] == off["logical_bytes"] == off["payload_bytes"]
        assert on["payload_bytes"] < off["payload_bytes"]
