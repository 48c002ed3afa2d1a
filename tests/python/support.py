# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: NumPy or a skip, stores that are closed, child processes."""
import os
import subprocess
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print(f"skipped: NumPy not found by {sys.executable}; tests/run.sh sets up an environment that has it")
    sys.exit(77)

import kvstore


# What programs of their own begin with: interrupt_when(ready) is a signal as soon as the main thread waits.
# What they print is out at once, since some end by os._exit.
PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
import kvstore
sys.stdout.reconfigure(line_buffering=True)

def interrupt_when(ready, number=signal.SIGINT):
    def run():
        while not ready():
            time.sleep(0.005)
        time.sleep(0.05)
        os.kill(os.getpid(), number)
    threading.Thread(target=run, daemon=True).start()
"""


def array(*numbers, dtype="f4"):
    return np.array(numbers, dtype)


def run_python(code, *arguments, timeout=50, **environment):
    """Run a program of its own; return what it did, with its output as text."""
    return subprocess.run([sys.executable, "-B", "-c", code, *arguments], capture_output=True, text=True,
                          timeout=timeout, check=False, env=dict(os.environ, **environment))


class Case(unittest.TestCase):
    """A test whose stores are closed after it."""

    def create(self, name="local", **options):
        store = kvstore.create(name, **options)
        self.addCleanup(store.close)
        return store

    def pulled(self, store, key, shape, dtype="f4"):
        out = np.full(shape, 77, dtype)
        store.pull(key, out=out)
        return out

    def assert_same(self, got, want):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))

    def assert_fails(self, kind, text, code, call, *arguments, **options):
        """The call raises a KVStoreError that is also of the built-in class `kind`."""
        with self.assertRaises(kvstore.KVStoreError) as caught:
            call(*arguments, **options)
        error = caught.exception
        self.assertIsInstance(error, kind)
        self.assertIn(text, str(error))
        self.assertEqual(error.code, code)
        self.assertIsInstance(error.code, kvstore.Status)
        return error


def main():
    unittest.main(verbosity=1)
