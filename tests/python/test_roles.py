# SPDX-License-Identifier: Apache-2.0
"""Jobs whose processes all run one script, servers and scheduler too."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

from support import main

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
