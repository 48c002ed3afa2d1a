# SPDX-License-Identifier: Apache-2.0
"""The same files as the safetensors library of PyPI finds them."""
import os
import subprocess
import tempfile
import unittest

import safetensors

from state_file import StateFile


class Safetensors(unittest.TestCase):
    def test_it_finds_what_our_reader_finds(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([os.environ["WRITE_STATES"], directory], check=True, timeout=30)
            names = sorted(os.listdir(directory))
            self.assertEqual(len(names), 4)
            for name in names:
                path = os.path.join(directory, name)
                ours = StateFile(path)
                with open(path, "rb") as file:
                    theirs = dict(safetensors.deserialize(file.read()))
                self.assertEqual(set(theirs), set(ours.tensors))
                for tensor, (dtype, shape, data) in ours.tensors.items():
                    self.assertEqual(theirs[tensor]["dtype"], dtype)
                    self.assertEqual(list(theirs[tensor]["shape"]), shape)
                    self.assertEqual(bytes(theirs[tensor]["data"]), data)


if __name__ == "__main__":
    print("safetensors", safetensors.__version__)
    unittest.main()
