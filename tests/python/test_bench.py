# SPDX-License-Identifier: Apache-2.0
"""`kvstore bench --python`: its rows, in a short run."""
import json
import os
import subprocess
import sys

from kvstore import _library
from support import Case, main

COMMAND = [os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore"), "bench", "--python"]


def run(*arguments, **environment):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=50, check=False,
                          env=dict(os.environ, KVSTORE_BENCH_QUICK="1", **environment))


class Bench(Case):
    def test_rows_of_c_of_the_extension_and_of_ctypes(self):
        done = run("--json", KVSTORE_PYTHON=sys.executable)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        with_extension = "python" if _library.fast is not None else "ctypes"
        self.assertEqual([row["workload"] for row in rows],
                         [f"{way}_{verb}" for way in ("c", with_extension, "ctypes")
                          for verb in ("push", "pull", "pushpull")])
        for row in rows:
            self.assertEqual((row["peer"], row["backend"], row["size_bytes"]), ("kvstore", "local", 16))
            self.assertLessEqual(row["min_s"], row["median_s"])
            self.assertEqual(row.keys(), rows[0].keys())

    def test_a_table_and_other_workloads_beside(self):
        done = run("W2", KVSTORE_PYTHON=sys.executable)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertIn("W2_listcall", done.stdout)

    def test_a_python_that_lacks_something_is_named(self):
        done = run(KVSTORE_PYTHON="/nowhere/python")
        self.assertEqual(done.returncode, 1)
        self.assertIn("KVSTORE_PYTHON", done.stderr)
        done = run(KVSTORE_PYTHON=sys.executable, PYTHONPATH="")
        self.assertEqual(done.returncode, 1)
        self.assertIn("python3-kvstore", done.stderr)


if __name__ == "__main__":
    main()
