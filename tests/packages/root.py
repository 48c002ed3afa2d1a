# SPDX-License-Identifier: Apache-2.0
"""A scratch system that packages are installed into, by dpkg and without changing this machine."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGES = os.environ["KVS_PACKAGES"]
ARCH = os.environ["KVS_ARCH"]
DEBS = sorted(glob.glob(f"{PACKAGES}/*.deb"))

# In front of the scratch root on the search path, so that they would be seen in it.
for place in ("/etc/kvstore/plugins.d", "/usr/local/share/kvstore/plugins.d"):
    if os.path.isdir(place):
        print(f"skipped: plugins in {place} come before those of a scratch root")
        sys.exit(77)
if not DEBS:
    print("skipped: no packages; make them: cmake --build BUILD --target packages")
    sys.exit(77)
if shutil.which("dpkg-deb") is None or os.getuid() != 0:
    print("skipped: needs dpkg, and to be root, as which dpkg owns what it installs")
    sys.exit(77)

# What the packages need of Debian, as one package that only says it is there.
DEBIAN = """Package: debian
Version: 12
Architecture: all
Maintainer: nobody <nobody@kvstore.invalid>
Provides: libc6 (= 2.36), libcjson1 (= 1.7.15), libltdl7 (= 2.4.7), libzmq5 (= 4.3.4),
 clojure (= 1.11.1), libjna-java (= 5.13.0), python3 (= 3.11)
Description: stand-in
"""


def run(*command, **options):
    """Run a command; return what it did, with its output as text."""
    return subprocess.run(command, capture_output=True, text=True, timeout=50, **options)


def succeed(*command, **options):
    """Run a command that must work; return its standard output."""
    done = run(*command, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def deb(name):
    """The package file of that name."""
    return next(path for path in DEBS if os.path.basename(path).startswith(name + "_"))


def field(path, name):
    return succeed("dpkg-deb", "-f", path, name).strip()


def broken(states):
    """Which plugins of {name: state} can't be used; what needs a driver may be so where there is none."""
    return {name: state for name, state in states.items()
            if state != "ok" and (state != "unavailable" or name not in ("cuda", "nccl"))}


class Case(unittest.TestCase):
    """A test with a scratch root of its own, in which only Debian's libraries are known."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = holder.name
        self.root = f"{self.dir}/root"
        self.kvstore = f"{self.root}/usr/bin/kvstore"
        self.manifests = f"{self.root}/usr/share/kvstore/plugins.d"
        self.plugins = f"{self.root}/usr/lib/{ARCH}/kvstore/plugins"
        os.makedirs(f"{self.root}/var/lib/dpkg")
        with open(f"{self.root}/var/lib/dpkg/status", "w", encoding="utf-8"):
            pass
        self.install(self.pack("debian", DEBIAN))

    def pack(self, name, control, files=None):
        """Make a package of a control file and a directory of files."""
        tree = f"{self.dir}/{name}.tree"
        if files is not None:
            shutil.copytree(files, tree, symlinks=True)
        os.makedirs(f"{tree}/DEBIAN")
        with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as file:
            file.write(control)
        return self.build(tree, name)

    def build(self, tree, name):
        succeed("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, f"{self.dir}/{name}.deb")
        shutil.rmtree(tree)
        return f"{self.dir}/{name}.deb"

    def dpkg(self, *arguments):
        return run("dpkg", f"--root={self.root}", "--log=/dev/null", "--force-unsafe-io", *arguments,
                   check=False)

    def install(self, *debs):
        done = self.dpkg("-i", *debs)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def remove(self, *names, how="-r"):
        done = self.dpkg(how, *names)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def files(self):
        """Every file and directory of the root but what dpkg notes for itself."""
        found = set()
        for directory, folders, names in os.walk(self.root):
            for name in folders + names:
                found.add(os.path.relpath(os.path.join(directory, name), self.root))
        return {path for path in found if not path.startswith("var/lib/dpkg/")}

    def environment(self):
        """That of a program in the root. The files of /etc cannot be moved; those of users can."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KVS", "DMLC_", "MXNET_"))}
        env.update(LD_LIBRARY_PATH=f"{self.root}/usr/lib/{ARCH}", LC_ALL="C.UTF-8",
                   XDG_CONFIG_HOME=f"{self.root}/etc", XDG_DATA_HOME=f"{self.dir}/data",
                   PATH=f"{self.root}/usr/bin:" + os.environ["PATH"])
        return env

    def cli(self, *arguments, check=True):
        done = run(self.kvstore, *arguments, check=False, env=self.environment())
        if check:
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done

    def list(self):
        """What `kvstore list --json` says, by the plugins' names."""
        plugins = json.loads(self.cli("list", "--json").stdout)["plugins"]
        for plugin in plugins:
            self.assertTrue(plugin["manifest"].startswith(self.root), plugin["manifest"])
        return {plugin["name"]: plugin for plugin in plugins}

    def states(self):
        return {name: plugin["state"] for name, plugin in self.list().items()}
