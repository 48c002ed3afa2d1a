# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes, as `kvstore run` starts them."""
import os
import subprocess
import sys

import kvstore
from support import Case, main

KVSTORE = os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore")
EXAMPLE = os.path.join(os.environ["KVS_SOURCE"], "sdk", "python", "examples", "train.py")


def job(*command, workers=2, servers=1, backend="dist_sync", **environment):
    return subprocess.run([KVSTORE, "run", "-w", str(workers), "-s", str(servers), "--backend", backend, "--",
                           sys.executable, "-B", *command], capture_output=True, text=True, timeout=50, check=False,
                          env=dict(os.environ, **environment))


class Jobs(Case):
    def test_the_example_runs_as_a_job_and_alone(self):
        done = job(EXAMPLE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("bias [1.]"), 2, done.stdout)
        alone = subprocess.run([sys.executable, "-B", EXAMPLE], capture_output=True, text=True, timeout=50, check=True)
        self.assertIn("worker 0 of 1", alone.stdout)

    def test_futures_and_several_threads_of_a_worker(self):
        done = job("-c", """
import asyncio, threading
import numpy as np
import kvstore
kv = kvstore.create("dist_sync")
kv.init([1, 2, 3], [np.zeros(1000, "f4")] * 3)
outs = [np.empty(1000, "f4") for _ in range(3)]
async def train():
    for _ in range(5):
        await asyncio.gather(*(kv.push(k, np.ones(1000, "f4"), async_=True) for k in (1, 2)))
        await asyncio.gather(*(kv.pull(k, out=outs[k], async_=True) for k in (1, 2)))
asyncio.run(train())
assert (outs[1] == kv.num_workers).all() and (outs[2] == kv.num_workers).all()
def work():
    kv.push(3, np.ones(1000, "f4"))
    kv.pull(3, out=outs[0])
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert (outs[0] == kv.num_workers).all()
kv.wait_all()
""")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_job_ends_well_without_close(self):
        done = job("-c", 'import kvstore, numpy as np\nkv = kvstore.create("dist_sync")\nkv.init(1, np.ones(3, "f4"))')
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_lost_worker_is_a_connection_error(self):
        done = job("-c", """
import os
import numpy as np
import kvstore
kv = kvstore.create("dist_sync")
kv.init(1, np.zeros(3, "f4"))
kv.barrier()
if kv.rank == 1:
    os._exit(0)
try:
    kv.push(1, np.ones(3, "f4"))
    kv.pull(1, out=np.zeros(3, "f4"))
except ConnectionError as error:
    print(error.code.name, error.rank)
""", KVSTORE_DEAD_AFTER="2", KVSTORE_HEARTBEAT="0.5")
        self.assertIn("ERR_PEER 0", done.stdout, done.stderr)


class Allreduce(Case):
    def test_averages_gathers_and_joins(self):
        if not any(plugin["name"] == "horovod" for plugin in kvstore.plugins()):
            self.skipTest("horovod is not built")
        done = job("-c", """
import numpy as np
import kvstore
kv = kvstore.create("horovod")
rank = kv.rank
a = np.full(3, rank + 1, "f4")
for reduce, want in (("average", 1.5), ("min", 1), ("max", 2), ("sum", 3)):
    out = np.empty(3, "f4")
    kv.pushpull("a", a, out=out, reduce=reduce)
    assert (out == want).all(), (reduce, out)
out = np.empty((3, 2), "i4")
kv.allgather("g", np.full((rank + 1, 2), rank, "i4"), out)
assert out.tolist() == [[0, 0], [1, 1], [1, 1]], out
try:
    kv.allgather("g", np.full((rank + 1, 2), rank, "i4"), np.empty((3, 3), "i4"))
except ValueError as error:
    print(error.code.name)
if rank == 1:
    kv.pushpull("a", a)
assert kv.join() in (0, 1)
kv.close()
print("done")
""", servers=0, backend="horovod")
        self.assertEqual((done.returncode, done.stdout.count("ERR_SHAPE"), done.stdout.count("done")), (0, 2, 2),
                         done.stdout + done.stderr)


if __name__ == "__main__":
    main()
