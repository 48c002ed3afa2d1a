# SPDX-License-Identifier: Apache-2.0
"""peer_horovod.py PEER: W5 by Horovod's allreduce for PyTorch, in place. Run by mpirun; the first process
writes the rows. PEER is their name: HOROVOD_CYCLE_TIME makes variants."""
import sys

import horovod.torch as hvd
import torch

from rows import allreduce_rows


def reduce_all(tensors):
    # The same names again: Horovod remembers what was agreed for a name.
    for started in [hvd.allreduce_async_(tensor, name="%d of %d, %d" % (i, len(tensors), tensor.numel()), op=hvd.Sum)
                    for i, tensor in enumerate(tensors)]:
        hvd.synchronize(started)


def main():
    torch.set_num_threads(1)
    hvd.init()
    allreduce_rows(sys.argv[1], hvd.rank(), hvd.size(), torch.full, reduce_all)
    hvd.shutdown()


if __name__ == "__main__":
    main()
