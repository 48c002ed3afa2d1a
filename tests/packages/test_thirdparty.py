# SPDX-License-Identifier: Apache-2.0
"""Packages of others: a plugin begun by `kvstore new-plugin`, and one made for another ABI."""
import os
import shutil
import unittest

from root import ARCH, DEBS, Case, broken, succeed

CMAKE = os.environ["KVS_CMAKE"]

CONTROL = """Package: kvstore-backend-acme
Version: 1.0
Architecture: {architecture}
Maintainer: Acme <nobody@acme.invalid>
Depends: {abi}
Description: backend of Acme
"""


class ThirdParty(Case):
    def setUp(self):
        super().setUp()
        self.install(*DEBS)

    def staged(self):
        """A new project, built against the packages in the root and installed as for a package."""
        project, stage = f"{self.dir}/acme", f"{self.dir}/stage"
        env = self.environment()
        succeed(self.kvstore, "new-plugin", "acme", env=env, cwd=self.dir)
        succeed(CMAKE, "-S", project, "-B", f"{project}/build", f"-DCMAKE_PREFIX_PATH={self.root}/usr",
                "-DCMAKE_INSTALL_PREFIX=/usr", f"-DCMAKE_INSTALL_LIBDIR=lib/{ARCH}", env=env)
        succeed(CMAKE, "--build", f"{project}/build", env=env)
        succeed(CMAKE, "--install", f"{project}/build", env=dict(env, DESTDIR=stage))
        return stage

    def package(self, stage, abi):
        architecture = succeed("dpkg", "--print-architecture").strip()
        return self.pack(abi, CONTROL.format(architecture=architecture, abi=abi), stage)

    def test_it_installs_beside_ours_and_goes_again(self):
        before = self.list()
        self.install(self.package(self.staged(), "kvstore-plugin-abi-1"))
        after = self.list()
        self.assertEqual(after.pop("acme")["state"], "ok")
        self.assertEqual(after, before)
        self.assertIn(" 0 failed", self.cli("conformance", "acme").stdout.splitlines()[-1])
        self.remove("kvstore-backend-acme")
        self.assertEqual(self.list(), before)

    def test_one_for_another_abi_is_refused_by_dpkg_and_if_forced_by_the_loader(self):
        stage = self.staged()
        manifest = f"{stage}/usr/share/kvstore/plugins.d/acme.json"
        with open(manifest, encoding="utf-8") as file:
            text = file.read()
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(text.replace('"abi": "1.0"', '"abi": "2.0"'))
        package = self.package(stage, "kvstore-plugin-abi-2")
        shutil.rmtree(stage)
        done = self.dpkg("-i", package)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("kvstore-plugin-abi-2", done.stderr)
        done = self.dpkg("--force-depends", "-i", package)
        self.assertEqual(done.returncode, 0, done.stderr)
        plugin = self.list()["acme"]
        self.assertEqual(plugin["state"], "abi-mismatch")
        self.assertIn("2.0", plugin["reason"])
        done = self.cli("conformance", "acme", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2.0", done.stderr)
        states = self.states()
        states.pop("acme")
        self.assertEqual(broken(states), {})


if __name__ == "__main__":
    unittest.main()
