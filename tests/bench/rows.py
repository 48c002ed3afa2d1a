# SPDX-License-Identifier: Apache-2.0
"""What the peers' Python programs share: sampling, shapes and rows as `kvstore bench --json` has them."""
import json
import math
import os
import statistics
import sys
import time

QUICK = os.environ.get("KVSTORE_BENCH_QUICK", "0") not in ("", "0")
KIB = 1024
SIZES = (4 * KIB, 256 * KIB) if QUICK else (4 * KIB, 256 * KIB, 4 * KIB * KIB, 64 * KIB * KIB)
N_WARM_UPS = 3
SAMPLE_SECONDS = 100e-6
MIN_SAMPLES = 15
MAX_SAMPLES = 4096


def resnet50():
    """The shapes of ResNet-50's 161 parameters, layer by layer."""
    shapes = []

    def convolution(n_out, n_in, side):
        shapes.extend([(n_out, n_in, side, side), (n_out,), (n_out,)])

    convolution(64, 3, 7)
    n_in = 64
    for width, n_blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(n_blocks):
            convolution(width, n_in, 1)
            convolution(width, width, 3)
            convolution(4 * width, width, 1)
            if block == 0:
                convolution(4 * width, n_in, 1)
            n_in = 4 * width
    shapes.extend([(1000, n_in), (1000,)])
    assert len(shapes) == 161 and sum(map(math.prod, shapes)) == 25557032
    return shapes


def _time(call, n_calls):
    begun = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - begun) / n_calls


def _is_enough(n, elapsed, seconds):
    if QUICK:
        return n >= 3
    if n < MIN_SAMPLES:
        return n >= MIN_SAMPLES // 3 and elapsed >= 5 * seconds
    return elapsed >= seconds or n == MAX_SAMPLES


def measure(call, seconds, n_calls=0, n_samples=0):
    """Seconds per call, a list: three calls to warm up, then samples of as many calls as last 100 us.

    With `n_calls` and `n_samples` exactly as many, where several processes have to make the same calls."""
    _time(call, N_WARM_UPS)
    if n_calls:
        return [_time(call, n_calls) for _ in range(n_samples)]
    one = _time(call, 1)
    n_calls = 1 if one >= SAMPLE_SECONDS else int(SAMPLE_SECONDS / one) + 1
    samples = []
    begun = time.perf_counter()
    while not _is_enough(len(samples), time.perf_counter() - begun, seconds):
        samples.append(_time(call, n_calls))
    return samples


def allreduce_rows(peer, rank, n_procs, full, reduce_all):
    """W5: `reduce_all` sums arrays of all processes in place; `full(shape, value)` makes one."""
    check = full((3,), 1.0)
    reduce_all([check])
    if float(check[2]) != n_procs:
        raise RuntimeError("%s: the sum of %d ones is %s" % (peer, n_procs, check[2]))

    def row(workload, shapes):
        arrays = [full(shape, 0.0) for shape in shapes]
        n_bytes = 4 * sum(map(math.prod, shapes))
        n_calls = 20 if n_bytes <= 64 * KIB else 5 if n_bytes <= KIB * KIB else 1
        samples = measure(lambda: reduce_all(arrays), 0, n_calls, 3 if QUICK else MIN_SAMPLES)
        if rank == 0:
            emit(peer, workload, n_bytes, len(shapes), n_procs, samples, n_bytes)

    row("W5_latency", [(1,)])
    for size in SIZES:
        row("W5_allreduce", [(size // 4,)])
    if not QUICK:
        row("W5_resnet50", resnet50())


def emit(peer, workload, size_bytes, keys, procs, samples, n_bytes=0, **more):
    """Print a row; `n_bytes` is what GBps is computed from."""
    median = statistics.median(samples)
    row = {"peer": peer, "workload": workload, "size_bytes": size_bytes, "keys": keys, "procs": procs,
           "median_s": median, "min_s": min(samples), "max_s": max(samples),
           "GBps": n_bytes / median * 1e-9 if n_bytes else None, "samples": len(samples), **more}
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
