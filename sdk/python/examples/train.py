# SPDX-License-Identifier: Apache-2.0
"""Fit a straight line by several workers, each with a share of the data; the optimizer runs in the store.

    python3 train.py                                                      by itself
    kvstore run -w 2 -s 1 --backend dist_sync -- python3 train.py         as a job of two workers and a server
"""
import numpy as np

import kvstore


def main() -> None:
    with kvstore.create(None) as kv:  # "local", or what `kvstore run` says
        rng = np.random.default_rng(1)
        x = rng.uniform(-1, 1, (512, 3)).astype("f4")[kv.rank::kv.num_workers]
        y = x @ np.array([3, -2, 0.5], "f4") + 1

        weight, bias = np.zeros(3, "f4"), np.zeros(1, "f4")
        kv.init(["weight", "bias"], [weight, bias])
        kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=0.1, momentum=0.9,
                                               rescale_grad=1 / (len(y) * kv.num_workers)))
        for step in range(100):
            error = x @ weight + bias - y
            kv.push(["weight", "bias"], [x.T @ error, error.sum(keepdims=True)])
            kv.pull(["weight", "bias"], out=[weight, bias])
            if step % 25 == 24 and kv.rank == 0:
                print(f"step {step + 1}: squared error {np.square(error).mean():.6f}")
        kv.barrier()
        print(f"worker {kv.rank} of {kv.num_workers}: weight {np.round(weight, 2)}, bias {np.round(bias, 2)}")


if __name__ == "__main__":
    main()
