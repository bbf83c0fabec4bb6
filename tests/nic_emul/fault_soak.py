# SPDX-License-Identifier: Apache-2.0
"""Collectives over wires with faults, for as many packets as asked: `make fault-soak`.

Every result is compared with that of a run without faults, and every packet is accounted for.
"""

import argparse
import hashlib
import json
import sys
import time

import torch
import torch.distributed as dist

import nic_emul
from nic_emul.link_counters import LinkCounters, add_up
from tests.nic_emul import checks
from tests.nic_emul.ranks import run_ranks

RANKS = 3
MTU = 1024
FAULTS = "loss=1e-3,corrupt=1e-3,duplicate=1e-3,reorder=1e-3,delay=1e-3:2ms,seed={}"
# Elements of BF16 that each operation of a round is about.
COUNT = 150_000
_WAIT_S = 3600.0


def work(rounds: int) -> tuple[str, dict[str, int], list[dict[str, object]]]:
    """The hash of all results, and what links and NIC counted."""
    rank, size = dist.get_rank(), dist.get_world_size()
    seen = hashlib.sha256()
    for number in range(rounds):
        data = checks.make_input(rank, COUNT, torch.bfloat16, seed=number)
        dist.all_reduce(data)
        gathered = torch.empty(size * COUNT, dtype=data.dtype)
        dist.all_gather_single(gathered, data * rank)
        scattered = torch.empty(COUNT, dtype=data.dtype)
        dist.reduce_scatter_single(scattered, gathered)
        piece = torch.empty(1000 + number, dtype=data.dtype)
        sent = dist.isend(data[: piece.numel()], (rank + 1) % size)
        dist.recv(piece, (rank - 1) % size)
        sent.wait()
        for result in (data, gathered, scattered, piece):
            seen.update(result.view(torch.uint8).numpy())
    # Links are counted once they are closed: by then nothing is under way.
    nic = nic_emul.local_nic()
    dist.destroy_process_group()
    found = (
        seen.hexdigest(),
        nic.links.total().as_dict(),
        [r.as_dict() for r in nic.counters.rows()],
    )
    dist.init_process_group("wirezip", store=dist.HashStore(), rank=0, world_size=1)
    return found


def check_books(total: LinkCounters, rows: list[dict[str, object]]) -> None:
    """Every packet is accounted for; nothing is missing; the headline knows nothing of it."""
    assert total.arrived == total.transmitted - total.lost + total.duplicated, total
    assert total.damaged == total.corrupted, total
    assert total.accepted == total.packets + total.control_packets, total
    assert total.packets == sum(int(str(row["packets"])) for row in rows), total
    assert total.wire_bytes == sum(int(str(row["wire_bytes"])) for row in rows), total


def soak(packets: int, *, seed: int = 1, engine: str = "null") -> LinkCounters:
    """Send at least `packets` packets of messages over wires with faults; what happened to them.

    Raises:
        AssertionError: a result differs from that without faults, or a packet is unaccounted for.
    """
    environment = {"WIREZIP_ENGINE": engine, "WIREZIP_MTU": str(MTU), "WIREZIP_TIMEOUT_S": "120"}
    faulty = environment | {"WIREZIP_FAULTS": FAULTS.format(seed)}
    # All-gather and reduce-scatter move (n - 1) parts a rank, all-reduce 2 (n - 1) / n.
    per_round = 2 * (RANKS - 1) * (RANKS + 1) * (2 * COUNT // MTU)
    rounds = -(-packets // per_round)
    ranks = run_ranks(work, RANKS, rounds, environment=faulty, end_s=_WAIT_S)
    plain = run_ranks(work, RANKS, rounds, environment=environment, end_s=_WAIT_S)
    assert [found[0] for found in ranks] == [found[0] for found in plain], "other results"
    total = add_up(LinkCounters(**links) for _, links, _ in ranks)
    check_books(total, [row for _, _, rows in ranks for row in rows])
    assert total.packets >= packets, f"expected {packets} packets; sent {total.packets}"
    bytes_of = [
        [sum(int(str(row["wire_bytes"])) for row in rows) for _, _, rows in run]
        for run in (ranks, plain)
    ]
    assert bytes_of[0] == bytes_of[1], "other bytes in the headline"
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.monotonic()
    total = soak(options.packets, seed=options.seed)
    sys.stdout.write(json.dumps(total.as_dict(), indent=1) + "\n")
    sys.stdout.write(
        f"{total.packets:,} packets of messages, {total.transmitted:,} packets of all kinds on the "
        f"wire, in {time.monotonic() - started:.0f} s: results bit-identical to those without "
        "faults, every packet accounted for\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
