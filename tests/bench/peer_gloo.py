# SPDX-License-Identifier: Apache-2.0
"""peer_gloo.py PROCESSES: W5 by torch.distributed's all_reduce over gloo, in place, on this host."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from rows import allreduce_rows


def reduce_all(tensors):
    for started in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
        started.wait()


def work(rank, n_procs, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=n_procs)
    allreduce_rows("gloo", rank, n_procs, torch.full, reduce_all)
    dist.barrier()
    dist.destroy_process_group()


def main():
    n_procs = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        mp.spawn(work, (n_procs, os.path.join(directory, "meeting")), n_procs)


if __name__ == "__main__":
    main()
