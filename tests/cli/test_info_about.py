# SPDX-License-Identifier: Apache-2.0
"""`kvstore info`: whether a plugin can work on this machine, and what it found here."""
import json
import os
import re
import unittest

from kvstore import Case, fake

INSTALLED = os.environ["KVSTORE_PLUGIN_PATH"]
DOUBLES = os.environ["KVS_DOUBLES"]


class Fakes(Case):
    def machine(self, variant):
        self.write(fake(variant))
        return json.loads(self.succeed("info", "fake", "--json"))["machine"]

    def test_a_plugin_that_tells_nothing_is_usable(self):
        self.assertEqual(self.machine("good"), {"state": "ok", "reason": "", "found": []})
        self.assertRegex(self.succeed("info", "fake"), r"\non this machine\n  usable  yes\n")

    def test_one_that_crashes_is_told_so_and_hurts_nothing(self):
        machine = self.machine("constructor_aborts")
        self.assertEqual((machine["state"], machine["found"]), ("crashed", []))
        self.assertIn("usable  no: crashed while it was loaded: killed by signal 6",
                      self.succeed("info", "fake"))

    def test_one_that_is_off_is_not_loaded(self):
        self.write(fake("constructor_aborts"))
        out = self.succeed("info", "fake", "--json", KVSTORE_PLUGINS="-fake")
        self.assertIs(json.loads(out)["machine"], None)
        self.assertNotIn("on this machine", self.succeed("info", "fake", KVSTORE_PLUGINS="-fake"))


class Installed(Case):
    def machine(self, name, **variables):
        """State, reason, and what was found, by label."""
        out = self.succeed("info", name, "--json", path=INSTALLED, **variables)
        machine = json.loads(out)["machine"]
        return (machine["state"], machine["reason"],
                {line["label"]: line["text"] for line in machine["found"]})


@unittest.skipUnless(os.path.exists(os.path.join(INSTALLED, "dist.json")), "no ZeroMQ here")
class Peers(Installed):
    def test_zeromq_and_security(self):
        for name in ("dist", "byteps", "horovod"):
            state, _, found = self.machine(name)
            self.assertEqual(state, "ok")
            self.assertRegex(found["ZeroMQ"], r"^4\.\d+\.\d+, /.*/libzmq\.so\.5")
            self.assertIn("within this host only", found["security"])
            self.assertRegex(self.machine(name, KVSTORE_INSECURE="1")[2]["security"], "^off: ")

    def test_mpi_or_why_there_is_none(self):
        found = self.machine("horovod", KVSTORE_MPI_LIBRARY="/nonexistent/libmpi.so")[2]
        self.assertIn("no Open MPI (/nonexistent/libmpi.so: cannot open", found["MPI"])
        self.assertEqual(found["engine"], "auto")

    def test_a_malformed_setting_is_the_reason(self):
        state, reason, found = self.machine("dist", KVSTORE_TIMEOUT="soon")
        self.assertEqual((state, found), ("unavailable", {}))
        self.assertIn("KVSTORE_TIMEOUT", reason)


@unittest.skipUnless(os.path.exists(os.path.join(INSTALLED, "nccl.json")), "built without NCCL")
class Devices(Installed):
    CUDA = os.path.join(DOUBLES, "libcuda.so.1")
    NCCL = os.path.join(DOUBLES, "libnccl.so.2")

    def nccl(self, **variables):
        values = dict(KVSTORE_CUDA_DRIVER=self.CUDA, KVSTORE_NCCL_LIBRARY=self.NCCL)
        return self.machine("nccl", **dict(values, **variables))

    def test_versions_files_and_devices(self):
        state, reason, found = self.nccl(KVSTORE_DOUBLE_DEVICES="3")
        self.assertEqual((state, reason), ("ok", ""))
        version, file = found["NCCL"].split(", ")
        self.assertTrue(re.fullmatch(r"2\.\d+\.\d+", version))
        self.assertEqual(os.path.realpath(file), os.path.realpath(self.NCCL))
        self.assertEqual(found["NCCL needed"], "2.18.0, or a later one of version 2")
        self.assertEqual(found["devices"], "3, CUDA driver 13.0")

    def test_an_nccl_that_does_not_fit_is_told_with_both_versions(self):
        for version, shown in (("21703", "2.17.3"), ("30000", "3.0.0")):
            state, reason, found = self.nccl(KVSTORE_DOUBLE_NCCL_FAULT="version=" + version)
            self.assertEqual(state, "unavailable")
            for text in (reason, found["NCCL"]):
                self.assertIn(f"is NCCL {shown}, this plugin needs 2.18.0", text)
            self.assertEqual(found["devices"], "1, CUDA driver 13.0")

    def test_without_nccl_the_rest_is_told(self):
        state, reason, found = self.nccl(KVSTORE_NCCL_LIBRARY="/nonexistent/libnccl.so.2")
        self.assertEqual(state, "unavailable")
        self.assertIn("libnccl.so.2 not found", reason)
        self.assertIn("no NCCL: /nonexistent/libnccl.so.2: cannot open", found["NCCL"])
        self.assertEqual(found["devices"], "1, CUDA driver 13.0")
        fix = json.loads(self.succeed("info", "nccl", "--json", path=INSTALLED,
                                      KVSTORE_CUDA_DRIVER=self.CUDA,
                                      KVSTORE_NCCL_LIBRARY="/nonexistent/libnccl.so.2"))["fix"]
        self.assertEqual(fix, "install package libnccl2, or let KVSTORE_NCCL_LIBRARY name the library")

    def test_without_a_driver_that_is_told_in_place_of_devices(self):
        state, _, found = self.nccl(KVSTORE_CUDA_DRIVER="/nonexistent/libcuda.so.1",
                                    KVSTORE_NCCL_LIBRARY="/nonexistent/libnccl.so.2")
        self.assertEqual(state, "unavailable")
        self.assertIn("no CUDA driver", found["devices"])
        self.assertIn("no NCCL", found["NCCL"])

    def test_cuda_tells_driver_and_kernels(self):
        state, _, found = self.machine("cuda", KVSTORE_CUDA_DRIVER=self.CUDA)
        self.assertEqual(state, "ok")
        self.assertRegex(found["driver"], r"^for CUDA 13\.0, /.*/libcuda\.so")
        self.assertRegex(found["kernels for"], r"sm_\d+.*PTX of compute_\d+")

    def test_a_driver_that_does_not_fit_is_told(self):
        for fault, text in (("driver=12020", "offers CUDA 12.2, this plugin was built for 13.0"),
                            ("nodevice", "finds no device")):
            state, reason, found = self.machine("cuda", KVSTORE_CUDA_DRIVER=self.CUDA,
                                                KVSTORE_DOUBLE_FAULT=fault)
            self.assertEqual(state, "unavailable")
            self.assertIn(text, reason)
            self.assertIn(text, found["driver"])

    def test_without_a_driver_the_fix_says_what_to_install(self):
        plugin = json.loads(self.succeed("info", "cuda", "--json", path=INSTALLED,
                                         KVSTORE_CUDA_DRIVER="/nonexistent/libcuda.so.1"))
        self.assertEqual(plugin["fix"], "install what brings libcuda.so.1 (the NVIDIA driver), or "
                                        "let KVSTORE_CUDA_DRIVER name the library")


if __name__ == "__main__":
    unittest.main()
