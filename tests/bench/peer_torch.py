# SPDX-License-Identifier: Apache-2.0
"""peer_torch.py THREADS: W7 with torch.optim on the CPU, over the 161 tensors of ResNet-50."""
import sys

import torch

from rows import emit, measure, resnet50


def optimizers(params, way):
    """(workload, optimizer, arrays that pass through memory) of each; `way` is fused or foreach."""
    yield "W7_sgdmom", torch.optim.SGD(params, lr=0.01, momentum=0.9, **{way: True}), 5
    yield "W7_adam", torch.optim.Adam(params, lr=0.001, **{way: True}), 7


def main():
    n_threads = int(sys.argv[1])
    torch.set_num_threads(n_threads)
    params = [torch.nn.Parameter(torch.ones(shape)) for shape in resnet50()]
    for param in params:
        param.grad = torch.ones_like(param)
    n_bytes = 4 * sum(param.numel() for param in params)
    for way in ("fused", "foreach"):
        for workload, optimizer, n_streams in optimizers(params, way):
            emit("torch-" + way, workload, n_bytes, len(params), n_threads, measure(optimizer.step, 1.0),
                 n_streams * n_bytes)


if __name__ == "__main__":
    main()
