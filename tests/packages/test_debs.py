# SPDX-License-Identifier: Apache-2.0
"""Our own packages: installed, removed, upgraded, purged, and half there."""
import os
import re
import subprocess
import sys
import unittest

from root import ARCH, DEBS, Case, broken, deb, field, succeed


class Debs(Case):
    def start_holder(self, backend):
        """A process that has a store open; it goes on when it is sent a line."""
        process = subprocess.Popen([os.environ["KVS_HOLDER"], backend], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=self.environment())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "sum: 11 22\n")
        self.assertEqual(process.stdout.readline(), "open\n")
        return process

    def older(self, path):
        """The same package as an earlier version of it, with a file that is gone by now."""
        tree = f"{self.dir}/older"
        version = field(path, "Version")
        succeed("dpkg-deb", "-R", path, tree)
        with open(f"{tree}/DEBIAN/control", encoding="utf-8") as file:
            control = file.read().replace(version, "0.0.9")
        with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as file:
            file.write(control)
        name = field(path, "Package")
        with open(f"{tree}/usr/share/doc/{name}/gone", "w", encoding="utf-8") as file:
            file.write("of the older version\n")
        return self.build(tree, f"older-{name}")

    def test_all_are_there_and_say_what_they_need(self):
        names = {field(path, "Package") for path in DEBS}
        self.assertLessEqual({"libkvstore0", "libkvstore-dev", "kvstore-tools",
                              "kvstore-backend-device", "kvstore-backend-teststore"}, names)
        self.assertEqual(field(deb("libkvstore0"), "Provides"), "kvstore-plugin-abi-1")
        for path in DEBS:
            name = field(path, "Package")
            depends = field(path, "Depends")
            listing = succeed("dpkg-deb", "-c", path)
            self.assertNotIn("conffiles", succeed("dpkg-deb", "-I", path))
            self.assertIn(f"./usr/share/doc/{name}/copyright", listing)
            self.assertIn(f"./usr/share/doc/{name}/changelog.gz", listing)
            if name.startswith("kvstore-backend-"):
                self.assertIn("kvstore-plugin-abi-1", depends)
                self.assertNotIn("libkvstore0", depends)
            if name in ("libkvstore-dev", "kvstore-tools"):
                self.assertRegex(depends, r"libkvstore0 \(= ")
        self.assertRegex(field(deb("kvstore-backend-dist"), "Depends"), r"libzmq5\b")
        if "kvstore-backend-nccl" in names:  # NCCL itself is in NVIDIA's archive, not in Debian's
            self.assertEqual(field(deb("kvstore-backend-nccl"), "Recommends"), "kvstore-backend-cuda")
            self.assertEqual(field(deb("kvstore-backend-nccl"), "Suggests"), "libnccl2")
        self.assertRegex(field(deb("python3-kvstore"), "Depends"), r"libkvstore0 .*, python3 \(>= 3.9\)")
        self.assertRegex(field(deb("libkvstore-clojure"), "Depends"), r"libkvstore0 .*, clojure, libjna-java")
        self.assertIn("/kvstore/clojure/org/apache/clojure_mxnet/kvstore.clj",
                      succeed("dpkg-deb", "-c", deb("libkvstore-clojure")))

    def test_the_python_package_works_as_installed(self):
        self.install(deb("libkvstore0"), deb("python3-kvstore"))
        program = ("import array, kvstore; kv = kvstore.create(); kv.init(1, array.array('f', [1])); "
                   "kv.push(1, array.array('f', [5])); out = array.array('f', [0]); kv.pull(1, out=out); "
                   "print(out[0], kvstore.__file__)")
        said = succeed(sys.executable, "-B", "-c", program,
                       env=dict(self.environment(), PYTHONPATH=f"{self.root}/usr/lib/python3/dist-packages",
                                KVSTORE_LIBRARY=f"{self.root}/usr/lib/{ARCH}/libkvstore.so.0"))
        self.assertEqual(said, f"5.0 {self.root}/usr/lib/python3/dist-packages/kvstore/__init__.py\n")

    def test_removing_a_package_removes_its_plugin_and_nothing_else(self):
        self.install(*DEBS)
        before = self.list()
        self.assertLessEqual({"local", "optimizers", "compressors", "device", "teststore"},
                             set(before))
        self.assertEqual(broken({name: plugin["state"] for name, plugin in before.items()}), {})
        self.remove("kvstore-backend-device")
        after = self.list()
        device = before.pop("device")
        self.assertEqual(device["package"], "kvstore-backend-device")
        self.assertEqual(after, before)
        self.install(deb("kvstore-backend-device"))
        self.assertEqual(self.list(), dict(before, device=device))

    def test_manual_pages_and_completion_are_installed(self):
        self.install(*DEBS)
        for name in re.findall(r"^([a-z-]+) ", self.cli("--words").stdout, re.MULTILINE):
            self.assertTrue(os.path.exists(
                f"{self.root}/usr/share/man/man1/kvstore-{name}.1.gz"), name)
        self.assertTrue(os.path.exists(f"{self.root}/usr/share/bash-completion/completions/kvstore"))

    def test_an_upgrade_keeps_the_configuration_and_drops_old_files(self):
        self.install(*[self.older(path) for path in DEBS])
        config = f"{self.root}/etc/kvstore/kvstore.conf"
        os.makedirs(os.path.dirname(config))
        with open(config, "w", encoding="utf-8") as file:
            file.write("default = teststore\n")
        self.assertIn("usr/share/doc/libkvstore0/gone", self.files())
        self.install(*DEBS)
        self.assertFalse([path for path in self.files() if path.endswith("/gone")])
        with open(config, encoding="utf-8") as file:
            self.assertEqual(file.read(), "default = teststore\n")
        self.assertRegex(self.cli("config").stdout, r"default +teststore .*kvstore\.conf:1")
        self.assertEqual(broken(self.states()), {})

    def test_nothing_is_left_after_a_purge(self):
        before = self.files()
        self.install(*DEBS)
        self.assertGreater(len(self.files()), len(before) + 50)
        self.remove(*[field(path, "Package") for path in DEBS], how="-P")
        self.assertEqual(self.files(), before)

    def test_the_library_is_not_removed_from_under_what_needs_it(self):
        self.install(*DEBS)
        done = self.dpkg("-r", "libkvstore0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("kvstore-plugin-abi-1", done.stderr)

    def test_a_backend_removed_while_it_is_open_works_on_and_is_not_created_again(self):
        self.install(*DEBS)
        process = self.start_holder("device")
        self.remove("kvstore-backend-device")
        out, _ = process.communicate("go on\n", timeout=30)
        self.assertTrue(out.startswith("sum: 11 22\n"), out)
        self.assertIn("refused: ", out)
        self.assertIn("package kvstore-backend-device", out)
        self.assertEqual(process.returncode, 0)

    def test_a_backend_removed_before_a_process_creates_one_is_told_by_package(self):
        self.install(*DEBS)
        self.remove("kvstore-backend-teststore")
        process = subprocess.run([os.environ["KVS_HOLDER"], "teststore"], capture_output=True,
                                 text=True, env=self.environment(), check=False, timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertIn("kvstore-backend-teststore", process.stdout)

    def test_a_manifest_without_its_library_is_told_and_mended_by_its_package(self):
        self.install(*DEBS)
        os.remove(f"{self.plugins}/kvs_device.so")
        plugin = self.list()["device"]
        self.assertEqual(plugin["state"], "library-missing")
        self.assertIn("kvs_device.so", plugin["reason"])
        self.assertIn("kvstore-backend-device", plugin["fix"])
        self.assertEqual(self.cli("doctor", check=False).returncode, 1)
        self.install(deb("kvstore-backend-device"))
        self.assertEqual(self.states()["device"], "ok")

    def test_a_library_without_its_manifest_is_not_there(self):
        self.install(*DEBS)
        os.remove(f"{self.manifests}/device.json")
        self.assertTrue(os.path.exists(f"{self.plugins}/kvs_device.so"))
        self.assertNotIn("device", self.list())
        done = self.cli("conformance", "device", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("kvstore-backend-device", done.stderr)
        self.assertEqual(self.cli("doctor", check=False).returncode, 0)

    def test_programs_of_the_root_use_its_library(self):
        self.install(*DEBS)
        env = self.environment()
        loaded = succeed("ldd", self.kvstore, env=env)
        self.assertIn(f"{self.root}/usr/lib/{ARCH}/libkvstore.so.0", loaded)
        loaded = succeed("ldd", os.environ["KVS_HOLDER"], env=env)
        self.assertIn(f"{self.root}/usr/lib/{ARCH}/libkvstore.so.0", loaded)


if __name__ == "__main__":
    unittest.main()
