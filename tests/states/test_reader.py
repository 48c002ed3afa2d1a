# SPDX-License-Identifier: Apache-2.0
"""Files of optimizer states as a reader without this library finds them. $WRITE_STATES writes them."""
import os
import subprocess
import tempfile
import unittest

from state_file import StateFile, crc32c

GRADIENTS = [float(i + 1) for i in range(12)]


class Reader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        subprocess.run([os.environ["WRITE_STATES"], cls.holder.name], check=True, timeout=30)

    def file(self, name):
        return StateFile(os.path.join(self.holder.name, name + ".states"))

    def assertNear(self, got, want):
        """Up to adam's 1 - beta2, which is taken in float32 and so 1.3e-5 off."""
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertAlmostEqual(a, b, delta=2e-5 * abs(b))

    def test_the_checksum_is_crc_32c(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_states_alone(self):
        file = self.file("sgd")
        self.assertEqual(list(file.tensors), ["mom/-3", "mom/10"])  # 11 was never pushed
        self.assertEqual(file.tensors["mom/-3"][:2], ("F32", [3, 4]))
        self.assertEqual(file.values("mom/-3"), [-1.5 * g for g in GRADIENTS])
        self.assertEqual(file.tensors["mom/10"][:2], ("F64", []))
        self.assertEqual(file.values("mom/10"), [-12.0])
        self.assertEqual(set(file.notes), {"format_version", "checksum", "checksums", "key_type",
                                           "optimizer", "keys"})
        self.assertEqual(file.notes["format_version"], 1)
        self.assertEqual(file.notes["key_type"], "integer")
        self.assertEqual(file.notes["optimizer"], "sgd")
        self.assertEqual(file.notes["keys"], {"-3": {"dtype": "float32", "shape": [3, 4]},
                                              "10": {"dtype": "float64", "shape": []}})

    def test_with_the_optimizer(self):
        file = self.file("adam")
        bias = 'b "\u00fc"'
        self.assertEqual(list(file.tensors),
                         ["master_weight/half", f"mean/{bias}", "mean/fc/weight", "mean/half",
                          f"var/{bias}", "var/fc/weight", "var/half"])
        self.assertEqual(file.tensors["mean/half"][:2], ("F32", [2, 2]))
        self.assertEqual(file.tensors["master_weight/half"][:2], ("F32", [2, 2]))
        self.assertNear(file.values("mean/fc/weight"), [0.1 * g for g in GRADIENTS])
        self.assertNear(file.values("var/fc/weight"), [0.001 * g * g for g in GRADIENTS])
        self.assertNear(file.values(f"mean/{bias}"), [0.1 * g for g in GRADIENTS[:5]])
        notes = file.notes
        self.assertEqual(notes["key_type"], "string")
        self.assertEqual(notes["hyper_parameters"],
                         {"learning_rate": 0.001, "wd": 0.125, "rescale_grad": 1.0,
                          "clip_gradient": None, "multi_precision": True, "begin_num_update": 0,
                          "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lazy_update": False})
        self.assertEqual(notes["lr_mult"], [["fc/weight", 2.0]])
        self.assertEqual((notes["wd_mult"], notes["names"]), ([], []))
        self.assertEqual(notes["counts"], {"fc/weight": 1, bias: 1, "half": 1})
        self.assertEqual(notes["num_update"], 1)
        self.assertEqual(notes["product"], 1.0)
        schedule = notes["schedule"]
        self.assertEqual(schedule["name"], "cosine")
        self.assertEqual(schedule["parameters"],
                         {"base_lr": 0.01, "warmup_steps": 0, "warmup_begin_lr": 0.0,
                          "warmup_mode": "linear", "max_update": 100, "final_lr": 0.0})
        self.assertTrue(0 < schedule["rate"] < 0.01)

    def test_of_the_worker(self):
        file = self.file("worker")
        self.assertEqual(file.tensors["history/w"][:2], ("F32", [3, 1]))
        rows = [GRADIENTS[4 * r:4 * r + 4] for r in range(3)]
        self.assertNear(file.values("history/w"), [sum(g * g for g in row) / 4 for row in rows])

    def test_of_no_key(self):
        file = self.file("empty")
        self.assertEqual(file.tensors, {})
        self.assertEqual((file.notes["keys"], file.notes["key_type"]), ({}, None))


if __name__ == "__main__":
    unittest.main()
