# SPDX-License-Identifier: Apache-2.0
"""peer_gloo.py PROCESSES: W5 by torch.distributed's all_reduce over gloo, in place, on this host."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from rows import MIN_SAMPLES, QUICK, SIZES, emit, measure, resnet50

N_SAMPLES = 3 if QUICK else MIN_SAMPLES


def work(rank, n_procs, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=n_procs)

    def row(workload, tensors):
        def reduce_all():
            for one in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                one.wait()

        n_bytes = 4 * sum(tensor.numel() for tensor in tensors)
        samples = measure(reduce_all, 0, 20 if n_bytes <= 65536 else 5 if n_bytes <= 1 << 20 else 1, N_SAMPLES)
        if rank == 0:
            emit("gloo", workload, n_bytes, len(tensors), n_procs, samples, n_bytes)

    row("W5_latency", [torch.zeros(1)])
    for size in SIZES:
        row("W5_allreduce", [torch.zeros(size // 4)])
    if not QUICK:
        row("W5_resnet50", [torch.zeros(shape) for shape in resnet50()])
    dist.barrier()
    dist.destroy_process_group()


def main():
    n_procs = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as directory:
        mp.spawn(work, (n_procs, os.path.join(directory, "meeting")), n_procs)


if __name__ == "__main__":
    main()
