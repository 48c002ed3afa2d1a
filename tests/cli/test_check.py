# SPDX-License-Identifier: Apache-2.0
"""`kvstore check`: manifests and shared objects held against the rules for plugins."""
import glob
import os
import shutil
import struct
import subprocess
import unittest

from kvstore import CLI, Case, fake

PREFIX = os.path.dirname(os.path.dirname(CLI))
OWN = sorted(glob.glob(os.path.join(PREFIX, "lib", "kvstore", "plugins", "*.so")))
SANITIZED = b"__asan_init" in open(CLI, "rb").read() or b"__tsan_init" in open(CLI, "rb").read()


class Binary(Case):
    def check(self, *files):
        return self.run_cli("check", *files)

    def lib(self, variant):
        return os.path.join(os.environ["KVS_FAKE_DIR"], variant + ".so")

    @unittest.skipIf(SANITIZED, "a sanitizer's build exports more")
    def test_the_projects_own_plugins_keep_the_rules(self):
        self.assertGreater(len(OWN), 2)
        self.assertEqual(self.check(*OWN), (0, "".join(f"{path}: ok\n" for path in OWN), ""))

    def faults(self, path):
        status, out, err = self.check(path)
        self.assertEqual((status, out), (1, ""))
        for line in err.splitlines():
            self.assertTrue(line.startswith(path + ": "), line)
        return err

    def test_other_exports_are_told(self):
        self.assertIn("exports fake_answer; only kvs_plugin_entry_v1 may be",
                      self.faults(self.lib("good")))
        self.assertNotIn("has no symbol", self.faults(self.lib("good")))

    def test_a_missing_entry_is_told(self):
        self.assertIn("has no symbol kvs_plugin_entry_v1: write KVS_PLUGIN(name",
                      self.faults(self.lib("no_entry")))

    def test_static_tls_is_told(self):
        self.assertIn("uses static TLS", self.faults(self.lib("static_tls")))

    def built(self, name, source, *flags):
        """A shared object made of that source; skips without a compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            self.skipTest("no C compiler")
        path = os.path.join(self.dir, name)
        subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path,
                        *flags],
                       input=source, text=True, check=True)
        return path

    GOOD = "void kvs_plugin_entry_v1(void) {}\n"

    def test_how_it_was_linked_is_told(self):
        now = "-Wl,-z,now"
        self.assertEqual(self.check(self.built("ok.so", self.GOOD, now))[0], 0)
        self.assertIn("binds symbols at their first use",
                      self.faults(self.built("lazy.so", self.GOOD, "-Wl,-z,lazy")))
        for tags in ("--enable-new-dtags", "--disable-new-dtags"):
            path = self.built("rpath.so", self.GOOD, now, "-Wl,-rpath,/odd/place", "-Wl," + tags)
            self.assertIn("has the run path /odd/place", self.faults(path))

    def test_symbols_of_libkvstore_are_told(self):
        source = "int kvs_version(void);" + self.GOOD.replace("{}", "{ kvs_version(); }")
        path = self.built("needs.so", source, "-Wl,-z,now")
        self.assertIn("needs kvs_version of libkvstore", self.faults(path))
        path = self.built("linked.so", source, "-Wl,-z,now",
                          os.path.join(PREFIX, "lib", "libkvstore.so"))
        self.assertIn("is linked to libkvstore", self.faults(path))

    def test_what_is_no_shared_object_is_told(self):
        path = os.path.join(self.dir, "half.so")
        with open(self.lib("good"), "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(content[:6000])
        self.assertIn("is truncated", self.faults(path))
        with open(path, "wb") as file:
            file.write(content[:4] + b"\x01" + content[5:])
        self.assertIn("is 32-bit", self.faults(path))

    def test_no_damage_to_the_section_headers_hurts(self):
        path = os.path.join(self.dir, "x.so")
        with open(self.lib("good"), "rb") as file:
            content = file.read()
        start, = struct.unpack_from("<Q", content, 40)
        count, = struct.unpack_from("<H", content, 60)
        for at in [40, 47, 58, 60, 61, *range(start, start + 64 * count, 43)]:
            with open(path, "wb") as file:
                file.write(content[:at] + b"\xff" + content[at + 1:])
            status, _, _ = self.check(path)
            self.assertIn(status, (0, 1), f"byte {at}")


class Manifest(Case):
    def test_a_manifest_and_its_library_are_checked(self):
        path = self.write(fake("good"))
        status, out, err = self.run_cli("check", path)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("/good.so: exports fake_answer", err)
        self.assertNotIn("manifest-mismatch", err)

    @unittest.skipIf(SANITIZED, "a sanitizer's build exports more")
    def test_a_good_one_is_ok(self):
        path = os.path.join(PREFIX, "share", "kvstore", "plugins.d", "teststore.json")
        self.assertEqual(self.run_cli("check", path), (0, f"{path}: ok\n", ""))

    def test_manifest_and_library_must_agree(self):
        path = self.write(fake("good", version="9"))
        _, _, err = self.run_cli("check", path)
        self.assertIn(f'{path}: manifest-mismatch: "version": the manifest says 9, ', err)

    def test_a_library_that_crashes_is_told(self):
        path = self.write(fake("constructor_aborts"))
        status, _, err = self.run_cli("check", path)
        self.assertEqual(status, 1)
        self.assertIn(f"{path}: crashed: crashed while it was loaded: killed by signal 6", err)

    def test_faults_of_the_manifest_are_told_with_their_place(self):
        path = self.write("{\n  oops}", name="broken")
        status, out, err = self.run_cli("check", path)
        self.assertEqual((status, out), (1, ""))
        self.assertTrue(err.startswith(f"{path}:2:3: "), err)
        path = self.write(fake("good", sumary=""))
        self.assertIn(f'{path}:1:', self.run_cli("check", path)[2])
        self.assertIn('unknown key "sumary"; did you mean "summary"?',
                      self.run_cli("check", path)[2])
        path = self.write(fake("good", abi="7.0"))
        self.assertIn("abi-mismatch: the plugin needs ABI 7.0", self.run_cli("check", path)[2])
        path = self.write(fake("/no/such.so"))
        self.assertIn("library-missing: /no/such.so: No such file", self.run_cli("check", path)[2])

    def test_policy_does_not_matter(self):
        path = self.write(fake("good"))
        _, _, err = self.run_cli("check", path, path="/nonexistent", KVSTORE_PLUGINS="-fake")
        self.assertNotIn("disabled", err)

    def test_each_file_is_checked(self):
        good, missing = self.write(fake("good")), os.path.join(self.dir, "gone.json")
        status, _, err = self.run_cli("check", missing, good)
        self.assertEqual(status, 1)
        self.assertIn(f"{missing}: No such file or directory", err)
        self.assertIn("exports fake_answer", err)

    def test_what_is_no_file_is_told(self):
        status, _, err = self.run_cli("check", self.dir)
        self.assertEqual(status, 1)
        self.assertIn("not a regular file", err)
        fifo = os.path.join(self.dir, "fifo.json")
        os.mkfifo(fifo)
        self.assertEqual(self.run_cli("check", fifo)[0], 1)

    def test_wrong_usage(self):
        for arguments in ([], ["--json", "x"], ["--"]):
            with self.subTest(arguments=arguments):
                status, out, err = self.run_cli("check", *arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertIn("usage: kvstore check FILE...", err)


if __name__ == "__main__":
    unittest.main()
