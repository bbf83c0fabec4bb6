# SPDX-License-Identifier: Apache-2.0
"""An ordinary program that uses gloo: prints a digest of what its collectives gave.

Arguments: rank, world size, address of rank 0.
"""

import hashlib
import os
import sys

import torch
import torch.distributed as dist


def main() -> None:
    """Reduce and gather random numbers a few times."""
    rank, size, master = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    interface = "lo" if master.startswith("127.") else "eth0"
    os.environ.update(GLOO_SOCKET_IFNAME=interface, MASTER_ADDR=master, MASTER_PORT="29511")
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    digest = hashlib.sha256()
    for dtype in (torch.float32, torch.bfloat16):
        for _ in range(3):
            data = torch.randn(100_003).to(dtype)
            dist.all_reduce(data)
            gathered = [torch.empty_like(data) for _ in range(size)]
            dist.all_gather(gathered, torch.randn(data.shape).to(dtype))
            for tensor in (data, *gathered):
                digest.update(tensor.view(torch.uint8).numpy().tobytes())
    dist.destroy_process_group()
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
