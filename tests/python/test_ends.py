# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, forks, and the end of the interpreter: each in a process of its own."""
import os
import subprocess
import sys
import tempfile
import unittest

import kvstore
from support import Case, main, run_python

PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import kvstore

def interrupt_when(ready):
    # Ctrl-C as soon as the main thread waits.
    def run():
        while not ready():
            time.sleep(0.005)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=run, daemon=True).start()
"""

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


class Fork(unittest.TestCase):
    def test_a_child_is_told_and_the_parent_goes_on(self):
        done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(1, np.zeros(1 << 20, "f4"))
pending = kv.push(1, np.ones(1 << 20, "f4"), async_=True)
child = os.fork()
if child == 0:
    for call in (lambda: kv.push(1, np.ones(1 << 20, "f4")), lambda: kv.push(1, np.ones(1 << 20, "f4"), async_=True),
                 lambda: kv.barrier(), lambda: kv.wait_all()):
        try:
            call()
        except RuntimeError as error:
            if "fork" not in str(error) or error.code != kvstore.Status.ERR_STATE:
                os._exit(4)
        else:
            os._exit(3)
    kv.close()
    own = kvstore.create()
    own.init(1, np.zeros(4, "f4"))
    own.push(1, np.ones(4, "f4"))
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(os.WEXITSTATUS(status))
pending.result(20)
kv.push(1, np.ones(1 << 20, "f4"))
print("parent")
""")
        self.assertEqual(done.stdout, "7\nparent\n", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


class Exit(unittest.TestCase):
    def check(self, body, returncode=0):
        done = run_python(PRELUDE + """
kv = kvstore.create()
kv.init(list(range(20)), [np.zeros(1 << 18, "f4")] * 20)
""" + body)
        self.assertEqual(done.returncode, returncode, done.stderr)
        return done

    def test_with_operations_pending(self):
        self.check("""
for key in range(20):
    kv.push(key, [np.ones(1 << 18, "f4")] * 4, async_=True)
""")

    def test_with_an_updater_pending(self):
        self.check("""
def update(key, value, stored):
    time.sleep(0.01)
    stored += value
kv.set_updater(update)
for key in range(20):
    kv.push(key, np.ones(1 << 18, "f4"), async_=True)
""")

    def test_with_an_updater_that_never_returns(self):
        self.check("""
started = threading.Event()
def update(key, value, stored):
    started.set()
    while True:
        time.sleep(0.01)
kv.set_updater(update)
kv.push(0, np.ones(1 << 18, "f4"), async_=True)
started.wait()
""")

    def test_by_an_exception_while_work_is_pending(self):
        done = self.check("""
started = threading.Event()
def update(key, value, stored):
    started.set()
    time.sleep(0.5)
kv.set_updater(update)
for key in range(20):
    kv.push(key, np.ones(1 << 18, "f4"), async_=True)
started.wait()
raise ZeroDivisionError("the end")
""", 1)
        self.assertIn("ZeroDivisionError: the end", done.stderr)

    def test_with_stores_in_cycles_and_futures_that_nobody_asked(self):
        self.check("""
class Trainer: pass
trainer = Trainer()
trainer.kv, trainer.me = kv, trainer
trainer.future = kv.push(0, np.ones(1 << 18, "f4"), async_=True)
del kv, trainer
import gc
gc.collect()
""")

    def test_stores_that_are_dropped_are_closed(self):
        self.check("""
import weakref
gone = weakref.ref(kv)
del kv
assert gone() is None
""")


if __name__ == "__main__":
    main()
