# SPDX-License-Identifier: Apache-2.0
"""What the tests of the `kvstore` command share: running it over directories of manifests."""
import copy
import json
import os
import subprocess
import tempfile
import unittest

CLI = os.environ["KVSTORE_CLI"]

# Its library is there, which is all that listing asks for.
MANIFEST = {
    "manifest_version": "1.0",
    "name": "local",
    "version": "1.2.3",
    "summary": "Sums here",
    "library": CLI,
    "arch": os.environ["KVS_ARCH"],
    "abi": "1.0",
    "package": "libkvstore0",
    "license": "Apache-2.0",
    "provides": [
        {
            "kind": "backend", "name": "local", "aliases": ["here"],
            "word": "local", "with": ["cpu"], "priority": 20,
            "capabilities": {
                "optimizer": True, "sparse": False, "async": False, "multi_worker": False,
                "keeps_weights": True, "gradient_compression": ["2bit"],
                "devices": ["cpu"], "dtypes": ["float32", "int8"],
            },
        }
    ],
    "requires": {
        "libraries": [
            {"name": "libc.so.6", "package": "libc6", "why": "everything"},
            {"name": "libno_such_thing.so.3", "package": "no-such-thing", "why": "the test"},
        ],
        "devices": ["cuda"],
        "core": ">=0.1",
    },
    "options": [{"name": "bound", "type": "size", "default": 1000, "doc": "where to cut"}],
}


def manifest(**changes):
    """The manifest above with some members changed; None removes one."""
    result = copy.deepcopy(MANIFEST)
    for name, value in changes.items():
        if value is None:
            result.pop(name)
        else:
            result[name] = value
    return result


# A manifest that fits a variant of tests/plugins/fake.c, which is named "fake".
FAKE_CAPABILITIES = {"keeps_weights": True, "devices": ["cpu"], "dtypes": ["float32"]}


def fake(variant, name="fake", **changes):
    """The manifest of a fake plugin; its library is KVS_FAKE_DIR/VARIANT.so, or a path."""
    library = variant if "/" in variant else os.path.join(os.environ["KVS_FAKE_DIR"],
                                                          variant + ".so")
    return dict({"manifest_version": "1.0", "name": name, "version": "1.0.0", "library": library,
                 "arch": os.environ["KVS_ARCH"], "abi": "1.0",
                 "provides": [{"kind": "backend", "name": name,
                               "capabilities": FAKE_CAPABILITIES}]}, **changes)


class Case(unittest.TestCase):
    """A test with a directory of manifests of its own."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = holder.name

    def write(self, content, name=None, subdir=""):
        """Write a manifest, given as dict or text; return its path."""
        if isinstance(content, dict):
            name = name or content["name"]
            content = json.dumps(content)
        os.makedirs(os.path.join(self.dir, subdir), exist_ok=True)
        path = os.path.join(self.dir, subdir, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def run_cli(self, *arguments, path=None, stdout=subprocess.PIPE, cwd=None, **variables):
        """Run the command, with no variable of kvstore set but these; return (exit status, stdout,
        stderr)."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("KVSTORE_", "KVS_"))}
        env.update(KVSTORE_PLUGIN_PATH=self.dir if path is None else path,
                   XDG_CONFIG_HOME=os.path.join(self.dir, "config"),
                   XDG_DATA_HOME=os.path.join(self.dir, "data"))
        env.update(variables)
        done = subprocess.run([CLI, *arguments], env=env, stdout=stdout, text=True, cwd=cwd,
                              stderr=subprocess.PIPE, check=False, timeout=30)
        return done.returncode, done.stdout, done.stderr

    def succeed(self, *arguments, **options):
        """Run the command, which must do what it is told and complain about nothing."""
        status, out, err = self.run_cli(*arguments, **options)
        self.assertEqual((status, err), (0, ""))
        return out
