# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes: the example, and one script that serves all roles."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

import kvstore
from support import Case, main

KVSTORE = os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore")
EXAMPLE = os.path.join(os.environ["KVS_SOURCE"], "sdk", "python", "examples", "train.py")

ROLES = """
import os, sys
import numpy as np
import kvstore
role = os.environ["KVSTORE_ROLE"]
%s
kv.init(3, np.zeros((2, 2), "f4"))
kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1))
kv.push(3, np.ones((2, 2), "f4"))
out = np.empty((2, 2), "f4")
kv.pull(3, out=out)
assert (out == -kv.num_workers).all(), out
kv.barrier()
assert kv.num_dead_nodes("server") == 0
try:
    kv.pull(7, out=out)
except KeyError as error:
    assert error.rank == kv.rank
else:
    raise AssertionError
kv.close()
print("trained")
"""


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


class Roles(unittest.TestCase):
    """All processes run the same script; the scheduler says where it is in a file."""

    def run_roles(self, create):
        with tempfile.TemporaryDirectory() as folder:
            address = os.path.join(folder, "address")
            environment = dict(os.environ, KVSTORE_NUM_WORKERS="2", KVSTORE_NUM_SERVERS="1",
                               KVSTORE_JOB_ID=folder, KVSTORE_SCHEDULER="127.0.0.1:0", KVSTORE_ANNOUNCE=address)
            script = ROLES % create

            def start(role):
                return subprocess.Popen([sys.executable, "-B", "-c", script], env=dict(environment, KVSTORE_ROLE=role),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

            processes = [start("scheduler")]
            try:
                end = time.monotonic() + 30
                while not os.path.exists(address) or not os.path.getsize(address):
                    self.assertLess(time.monotonic(), end)
                    self.assertIsNone(processes[0].poll())
                    time.sleep(0.01)
                with open(address, encoding="utf-8") as file:
                    environment["KVSTORE_SCHEDULER"] = file.read().strip()
                del environment["KVSTORE_ANNOUNCE"]
                processes += [start(role) for role in ("server", "worker", "worker")]
                said = [process.communicate(timeout=45)[0] for process in processes]
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
                    process.stdout.close()
            return [process.returncode for process in processes], said

    def test_create_serves_and_exits_where_the_role_says_so(self):
        codes, said = self.run_roles('kv = kvstore.create("dist_sync")\nassert role == "worker"')
        self.assertEqual((codes, said), ([0] * 4, ["", "", "trained\n", "trained\n"]))

    def test_serving_can_be_left_to_the_script(self):
        codes, said = self.run_roles("""
kv = kvstore.create("dist_sync", serve=False)
if role != "worker":
    try:
        kv.init(1, np.ones(1, "f4"))
    except RuntimeError as error:
        assert role in str(error), error
    kvstore.KVStoreServer(kv).run()
    print("served")
    sys.exit(0)
""")
        self.assertEqual((codes, said), ([0] * 4, ["served\n", "served\n", "trained\n", "trained\n"]))

    def test_commands_go_to_the_controller_of_a_server(self):
        codes, said = self.run_roles("""
kv = kvstore.create("dist_sync", serve=False)
def control(head, body):
    if head == 100:
        raise ZeroDivisionError(body.decode())
    print(head, body)
if role != "worker":
    kvstore.KVStoreServer(kv, control).run()
    sys.exit(0)
kv.init(1, np.zeros(1, "f4"))
if kv.rank == 0:
    kv.send_command_to_servers(99, "learn \\u00fc")
    try:
        kv.send_command_to_servers(100, b"oh")
    except kvstore.KVStoreError as error:
        assert "ZeroDivisionError: oh" in str(error), error
    else:
        raise AssertionError
kv.barrier()
""".replace("kv.init(1", "kv.init(1"))
        self.assertEqual((codes, said), ([0] * 4, ["", "99 b'learn \\xc3\\xbc'\n", "trained\n", "trained\n"]))


if __name__ == "__main__":
    main()
