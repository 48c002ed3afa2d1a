# SPDX-License-Identifier: Apache-2.0
"""The wheel: built and installed without a network, into an environment without NumPy."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = os.path.join(os.environ["KVS_SOURCE"], "sdk", "python")

WITHOUT_NUMPY = """
import array, os, sys
import kvstore
assert "site-packages" in kvstore.__file__, kvstore.__file__
assert "numpy" not in sys.modules
kv = kvstore.create()
kv.init(3, array.array("f", [0, 0]))
kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=0.5))
kv.push(3, [array.array("f", [1, 2]), memoryview(array.array("f", [1, 2]))])
out = array.array("f", [0, 0])
kv.pull(3, out=out)
assert list(out) == [-1, -2], out
kv.push(3, out, async_=True).result(10)
for call in (lambda: kvstore.RowSparse.zeros((2, 2)),
             lambda: kv.row_sparse_pull(3, out=out, row_ids=[1])):
    try:
        call()
    except kvstore.KVStoreError as error:
        assert "NumPy" in str(error), error
    else:
        raise AssertionError("row-sparse values without NumPy")
print("fine")
"""


def python(*command, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=55, check=False,
                          env=dict(clean, PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1", **environment))
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    def test_it_builds_installs_and_runs_without_numpy(self):
        with tempfile.TemporaryDirectory() as folder:
            pip = (sys.executable, "-m", "pip")
            interpreter = f"{folder}/venv/bin/python3"
            try:
                python(*pip, "--version")
                python(sys.executable, "-m", "venv", "--without-pip", f"{folder}/venv")
            except AssertionError as error:
                self.skipTest(f"no pip, or no virtual environment: {error}")
            python(*pip, "wheel", "--quiet", "--no-deps", "-w", folder, SOURCE)
            wheel, = glob.glob(f"{folder}/kvstore-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                self.assertIsNone(archive.testzip())
            self.assertIn("kvstore/py.typed", names)
            self.assertEqual(sorted(name for name in names if name.startswith("kvstore/")),
                             sorted("kvstore/" + name for name in os.listdir(os.path.join(SOURCE, "kvstore"))
                                    if name.endswith((".py", ".typed"))))
            python(*pip, "--python", interpreter, "install", "--quiet", wheel)
            self.assertEqual(python(interpreter, "-B", "-c", WITHOUT_NUMPY), "fine\n")

    def test_the_same_source_gives_the_same_bytes(self):
        sys.path.insert(0, SOURCE)
        import backend
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            name = backend.build_wheel(one)
            self.assertEqual(name, backend.build_wheel(two))
            with open(os.path.join(one, name), "rb") as first, open(os.path.join(two, name), "rb") as second:
                self.assertEqual(first.read(), second.read())
            self.assertTrue(os.path.exists(os.path.join(one, backend.build_sdist(one))))


if __name__ == "__main__":
    unittest.main()
