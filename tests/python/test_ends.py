# SPDX-License-Identifier: Apache-2.0
"""Forks, and the end of the interpreter: each in a process of its own."""
import unittest

from support import PRELUDE, main, run_python


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

    def test_a_store_dropped_by_the_end_of_its_last_operation(self):
        self.check("""
import concurrent.futures
pending = [kv.push(key, np.ones(1 << 18, "f4"), async_=True) for key in range(20)]
del kv
concurrent.futures.wait(pending)
assert all(future.exception() is None for future in pending)
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
