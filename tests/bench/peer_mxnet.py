# SPDX-License-Identifier: Apache-2.0
"""peer_mxnet.py PEER WORKLOAD...: W1, W2, W3, W4, W7, W8 on MXNet 1.9 as its users write them.

Variants are the caller's: MXNET_CPU_WORKER_NTHREADS=2 is the best setting for large arrays (default
1), OMP_NUM_THREADS counts in W7. W8 starts this program again, with "--started SECONDS"; W4 as the
processes of a job, with DMLC_ROLE."""
import math
import os
import socket
import subprocess
import sys
import time

from rows import KIB, MIN_SAMPLES, QUICK, SIZES, emit, measure, resnet50

N_PROCESSES = 3
N_STORED, N_ELEMS = 25, 1000000  # 100 MB


def exchange_and_wait(mx, kv, pairs):
    """Push and pull of each (key, values, outs, priority), then one wait."""
    def call():
        for key, values, outs, priority in pairs:
            kv.push(key, values, priority=priority)
            kv.pull(key, out=outs, priority=priority)
        mx.nd.waitall()
    return call


def w1(mx, peer):
    for k in (2, 4):
        for size in SIZES:
            shape = (size // 4,)
            kv = mx.kv.create("local")
            kv.init("x", mx.nd.zeros(shape))
            values = [mx.nd.ones(shape) for _ in range(k)]
            outs = [mx.nd.zeros(shape) for _ in range(k)]
            samples = measure(exchange_and_wait(mx, kv, [("x", values, outs, 0)]), 0.6)
            assert outs[-1][-1].asscalar() == k
            emit(peer, "W1_k%d" % k, size, 1, 1, samples, size)


def w2(mx, peer):
    keys = ["k%d" % i for i in range(1000)]
    for k in (1, 2):
        kv = mx.kv.create("local")
        kv.init(keys, [mx.nd.zeros((256,)) for _ in keys])
        values = [[mx.nd.ones((256,)) for _ in range(k)] if k > 1 else mx.nd.ones((256,)) for _ in keys]
        outs = [mx.nd.zeros((256,)) for _ in keys]
        by_list = exchange_and_wait(mx, kv, [(keys, values, outs, 0)])
        by_key = exchange_and_wait(mx, kv, list(zip(keys, values, outs, [0] * len(keys))))
        suffix = "_k2" if k == 2 else ""
        for name, call in (("W2_listcall", by_list), ("W2_percall", by_key)):
            samples = measure(call, 0.6)
            assert outs[-1][-1].asscalar() == k
            emit(peer, name + suffix, 1024, len(keys), 1, samples, 1024e3)


def w3(mx, peer):
    shapes = resnet50()
    n_bytes = 4 * 25557032
    for optimizer in (None, mx.optimizer.SGD(learning_rate=0.01, momentum=0.9, wd=0.0)):
        kv = mx.kv.create("local")
        pairs = []
        for i, shape in enumerate(shapes):
            kv.init("p%d" % i, mx.nd.zeros(shape))
            pairs.append(("p%d" % i, [mx.nd.ones(shape) for _ in range(2)],
                          [mx.nd.zeros(shape) for _ in range(2)], -i))
        if optimizer is not None:
            kv.set_optimizer(optimizer)
        mx.nd.waitall()
        samples = measure(exchange_and_wait(mx, kv, pairs), 1.5)
        if optimizer is None:
            assert all(outs[1].reshape(-1)[-1].asscalar() == 2 for _, _, outs, _ in pairs)
        emit(peer, "W3_k2" if optimizer is None else "W3_k2_sgdmom", n_bytes, len(shapes), 1, samples, n_bytes)


def w4_worker(mx, peer):
    """All workers make the same calls: their number is fixed by size, as in kvstore's bench_w4.c."""
    kv = mx.kv.create("dist_sync")

    def row(workload, shapes):
        n_bytes = 4 * sum(math.prod(shape) for shape in shapes)
        pairs = []
        for i, shape in enumerate(shapes):
            name = "%s_%d_%d" % (workload, n_bytes, i)
            kv.init(name, mx.nd.zeros(shape))
            pairs.append((name, mx.nd.ones(shape), mx.nd.zeros(shape), -i))
        mx.nd.waitall()
        n_calls = 20 if n_bytes <= 64 * KIB else 5 if n_bytes <= KIB * KIB else 1
        samples = measure(exchange_and_wait(mx, kv, pairs), 1.0, n_calls, MIN_SAMPLES)
        # Not equal to 2: a pull of MXNet's dist store writes to the array that was pushed, too.
        assert all(out.reshape(-1)[-1].asscalar() > 1 for _, _, out, _ in pairs)
        if kv.rank == 0:
            emit(peer, workload, n_bytes, len(shapes), kv.num_workers, samples, n_bytes)

    row("W4_latency_s1", [(1,)])
    for size in SIZES:
        row("W4_pushpull_s1", [(size // 4,)])
    if not QUICK:
        row("W4_resnet50_s1", resnet50())


def w4(peer):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(port), "DMLC_NODE_HOST": "127.0.0.1",
           "DMLC_INTERFACE": "lo", "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "2"}
    processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), peer, "W4"],
                                  env={**os.environ, **job, "DMLC_ROLE": role})
                 for role in ("scheduler", "server", "worker", "worker")]
    try:
        if any(process.wait(300) for process in processes):
            raise SystemExit("peer_mxnet.py: a process of the job has failed")
    finally:
        for process in processes:
            process.kill()


def w7(mx, peer):
    n = 25600000
    n_threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))
    weight, grad, mean, var = (mx.nd.ones((n,)) for _ in range(4))

    def sgd():
        mx.nd.sgd_mom_update(weight, grad, mean, lr=0.01, momentum=0.9, wd=0.0, out=weight)
        mx.nd.waitall()

    def adam():
        mx.nd.adam_update(weight, grad, mean, var, lr=0.001, wd=0.0, out=weight)
        mx.nd.waitall()

    emit(peer, "W7_sgdmom", 4 * n, 1, n_threads, measure(sgd, 1.0), 5 * 4 * n)
    mean[:] = 0
    var[:] = 0
    emit(peer, "W7_adam", 4 * n, 1, n_threads, measure(adam, 1.0), 7 * 4 * n)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def w8_process(peer, started):
    import mxnet as mx
    kv = mx.kv.create("local")
    kv.init("first", mx.nd.zeros((1024,)))
    out = mx.nd.zeros((1024,))
    kv.push("first", [mx.nd.ones((1024,)), mx.nd.ones((1024,))])
    kv.pull("first", out=out)
    out.wait_to_read()
    first = time.monotonic() - started
    base = resident_bytes()

    values = [mx.nd.ones((N_ELEMS,)) for _ in range(2)]
    out = mx.nd.zeros((N_ELEMS,))
    mx.nd.waitall()
    before = resident_bytes()
    for i in range(N_STORED):
        kv.init("k%d" % i, values[0])
    mx.nd.waitall()
    stored = resident_bytes() - before
    for i in range(N_STORED):
        kv.push("k%d" % i, values)
        kv.pull("k%d" % i, out=out)
    mx.nd.waitall()
    exchanged = resident_bytes() - before

    n_bytes = 4 * N_ELEMS * N_STORED
    emit(peer, "W8_startup_first_pushpull", 4096, 1, 1, [first])
    emit(peer, "W8_rss_base", base, 0, 1, [0])
    emit(peer, "W8_rss_100MB_init", n_bytes, N_STORED, 1, [0], rss_ratio=stored / n_bytes)
    emit(peer, "W8_rss_100MB_after_k2", n_bytes, N_STORED, 1, [0], rss_ratio=exchanged / n_bytes)


def w8(peer):
    for _ in range(N_PROCESSES):
        subprocess.run([sys.executable, os.path.abspath(__file__), peer, "--started", repr(time.monotonic())],
                       check=True)


def main():
    peer, workloads = sys.argv[1], sys.argv[2:]
    if workloads[0] == "--started":
        w8_process(peer, float(workloads[1]))
        return
    if "W8" in workloads:
        w8(peer)
    if "W4" in workloads and "DMLC_ROLE" not in os.environ:
        w4(peer)
        workloads.remove("W4")
    in_process = [(name, run) for name, run in (("W1", w1), ("W2", w2), ("W3", w3), ("W4", w4_worker), ("W7", w7))
                  if name in workloads]
    if in_process:
        import mxnet as mx
        for _, run in in_process:
            run(mx, peer)


if __name__ == "__main__":
    main()
