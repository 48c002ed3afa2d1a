# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: each in a process of its own."""
import os
import subprocess
import sys
import tempfile

import kvstore
from support import PRELUDE, Case, main, run_python

# Of two workers, rank 0 waits for what rank 1 never does, until rank 0 has written the file.
DIST = PRELUDE + """
flag = sys.argv[1]
kv = kvstore.create("dist_sync")
kv.init("w", np.zeros(4, "f4"))
if kv.rank == 1:
    while not os.path.exists(flag):
        time.sleep(0.01)
    os._exit(0)
def wait():
%s
interrupt_when(lambda: kv._inside)
began = time.monotonic()
try:
    wait()
except KeyboardInterrupt:
    print("heard", time.monotonic() - began < 20)
kv.close()
print("closed", time.monotonic() - began < 20)
open(flag, "w").close()
os._exit(0)
"""


class CtrlC(Case):
    def interrupt(self, body):
        if not any(plugin["name"] == "dist" for plugin in kvstore.plugins()):
            self.skipTest("dist is not built")
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.py")
            with open(script, "w", encoding="utf-8") as file:
                file.write(DIST % "\n".join("    " + line for line in body.splitlines()))
            command = [os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore"), "run", "-w", "2", "-s", "1",
                       "--backend", "dist_sync", "--", sys.executable, "-B", script, os.path.join(folder, "flag")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False,
                                  env=dict(os.environ, KVSTORE_DEAD_AFTER="3", KVSTORE_HEARTBEAT="0.5"))
            self.assertIn("heard True", done.stdout, done.stderr)
            self.assertIn("closed True", done.stdout, done.stderr)

    def test_a_pull_that_waits_for_others_is_interrupted(self):
        self.interrupt('kv.push("w", np.ones(4, "f4"))\nkv.pull("w", out=np.empty(4, "f4"))')

    def test_a_barrier_is_interrupted(self):
        self.interrupt("kv.barrier()")

    def test_waiting_for_a_future_or_for_all_is_interrupted(self):
        self.interrupt('kv.push("w", np.ones(4, "f4"))\nkv.pull("w", out=np.empty(4, "f4"), async_=True)\n'
                       "kv.wait_all()")

    def test_a_call_that_waits_for_an_updater_is_interrupted(self):
        done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(1, np.zeros(4, "f4"))
leave = threading.Event()
entered = threading.Event()
def update(key, value, stored):
    entered.set()
    leave.wait(60)
kv.set_updater(update)
threading.Thread(target=kv.push, args=(1, np.ones(4, "f4")), daemon=True).start()
entered.wait()
interrupt_when(lambda: len(kv._inside) > 1)
try:
    kv.push(1, np.ones(4, "f4"))
except KeyboardInterrupt:
    print("heard")
leave.set()
kv.wait_all()
kv.set_updater(None)
kv.push(1, np.full(4, 3, "f4"))
out = np.empty(4, "f4")
kv.pull(1, out=out)
print(out)
""")
        self.assertEqual(done.stdout.split("\n")[:2], ["heard", "[3. 3. 3. 3.]"], done.stderr)

    def test_a_create_that_waits_for_others_is_interrupted(self):
        done = run_python(PRELUDE + """
interrupt_when(lambda: kvstore.store._creating)
try:
    kvstore.create("dist_sync")
except KeyboardInterrupt:
    print("heard")
    kvstore.create("local").close()
""", KVSTORE_ROLE="worker", KVSTORE_NUM_WORKERS="2", KVSTORE_NUM_SERVERS="1", KVSTORE_SCHEDULER="127.0.0.1:9")
        self.assertEqual(done.stdout, "heard\n", done.stderr)

    def test_an_updater_is_interrupted(self):
        done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(1, np.zeros(4, "f4"))
running = []
def update(key, value, stored):
    running.append(1)
    while True:
        pass
kv.set_updater(update)
interrupt_when(lambda: running)
try:
    kv.push(1, np.ones(4, "f4"))
except KeyboardInterrupt:
    print("heard")
""")
        self.assertEqual((done.stdout, done.returncode), ("heard\n", 0), done.stderr)


if __name__ == "__main__":
    main()
