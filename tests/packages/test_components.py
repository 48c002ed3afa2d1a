# SPDX-License-Identifier: Apache-2.0
"""For those who don't use packages: `cmake --install --component`, and the tar.gz."""
import glob
import json
import os
import tarfile
import tempfile
import unittest

from root import ARCH, DEBS, PACKAGES, broken, field, run, succeed

BUILD, CMAKE = os.environ["KVS_BUILD"], os.environ["KVS_CMAKE"]


def files(directory):
    """Paths of the files below, relative."""
    found = set()
    for folder, _, names in os.walk(directory):
        found.update(os.path.relpath(os.path.join(folder, name), directory) for name in names)
    return found


def plugins(prefix, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("KVS", "DMLC_"))}
    env.update(XDG_CONFIG_HOME=f"{prefix}/none", XDG_DATA_HOME=f"{prefix}/none", **variables)
    listed = json.loads(succeed(f"{prefix}/bin/kvstore", "list", "--json", env=env))["plugins"]
    return {plugin["name"]: plugin["state"] for plugin in listed}


class Components(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = holder.name

    def install(self, prefix, *components):
        for name in components:
            succeed(CMAKE, "--install", BUILD, "--component", name, "--prefix", prefix)

    def test_a_component_brings_its_plugin(self):
        prefix = f"{self.dir}/one"
        self.install(prefix, "runtime", "tools")
        basic = {"local": "ok", "optimizers": "ok", "compressors": "ok"}
        self.assertEqual(plugins(prefix), basic)
        self.assertFalse(os.path.exists(f"{prefix}/include"))
        self.install(prefix, "device")
        self.assertEqual(plugins(prefix), dict(basic, device="ok"))

    def test_what_is_packaged_is_the_whole(self):
        succeed(CMAKE, "--install", BUILD, "--prefix", f"{self.dir}/whole")
        names = [field(path, "Package") for path in DEBS]
        backends = [name.removeprefix("kvstore-backend-") for name in names
                    if name.startswith("kvstore-backend-")]
        self.install(f"{self.dir}/parts", "runtime", "dev", "tools", "doc", "clojure", "python", *backends)
        self.assertEqual(files(f"{self.dir}/parts"), files(f"{self.dir}/whole"))

    def test_a_component_that_is_none_brings_nothing(self):
        self.install(f"{self.dir}/none", "nothing")
        self.assertEqual(files(f"{self.dir}/none"), set())

    def test_the_archive_holds_what_the_packages_hold_and_works_where_it_is(self):
        archive, = glob.glob(f"{PACKAGES}/*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(self.dir)
        top, = glob.glob(f"{self.dir}/kvstore-*")
        for deb in DEBS:
            succeed("dpkg-deb", "-x", deb, f"{self.dir}/debs")
        self.assertEqual(files(top), files(f"{self.dir}/debs"))
        states = plugins(f"{top}/usr", LD_LIBRARY_PATH=f"{top}/usr/lib/{ARCH}")
        self.assertLessEqual({"local", "device", "teststore"}, set(states))
        self.assertEqual(broken(states), {})
        done = run(f"{top}/usr/bin/kvstore", "conformance", "device", check=False,
                   env=dict(os.environ, LD_LIBRARY_PATH=f"{top}/usr/lib/{ARCH}"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
