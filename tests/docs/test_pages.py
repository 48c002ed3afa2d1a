# SPDX-License-Identifier: Apache-2.0
"""Runs each ```sh block of the pages for operators and plugin authors, in order, as one script a page.

The scratch system is that of tests/packages: `dpkg` means its root there, `kvstore` the command in it,
and `build` the build tree. Nothing else is changed about the commands."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../packages"))

from root import DEBS, Case, run  # noqa: E402

BUILD, SOURCE = os.environ["KVS_BUILD"], os.environ["KVS_SOURCE"]

DPKG = """#!/bin/sh
case $1 in
    -i | -r | -P) exec /usr/bin/dpkg --root={root} --log=/dev/null --force-unsafe-io "$@" ;;
    *) exec /usr/bin/dpkg "$@" ;;
esac
"""


def blocks(page):
    with open(f"{SOURCE}/sdk/docs/{page}", encoding="utf-8") as file:
        return re.findall(r"^```sh\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)


class Pages(Case):
    def run_page(self, page):
        """Run a page's commands; return what they printed."""
        home, tools = f"{self.dir}/home", f"{self.dir}/tools"
        os.makedirs(home)
        os.makedirs(tools)
        os.symlink(BUILD, f"{home}/build")
        with open(f"{tools}/dpkg", "w", encoding="utf-8") as file:
            file.write(DPKG.format(root=self.root))
        os.chmod(f"{tools}/dpkg", 0o755)
        env = self.environment()
        env.pop("XDG_CONFIG_HOME")
        env.pop("XDG_DATA_HOME")
        env.update(HOME=home, CMAKE_PREFIX_PATH=f"{self.root}/usr",
                   PATH=f"{tools}:{env['PATH']}")
        self.assertGreater(len(blocks(page)), 3)
        done = run("sh", "-eux", "-c", "".join(blocks(page)), check=False, cwd=home, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_operators(self):
        before = self.files()
        out = self.run_page("operators.md")
        self.assertRegex(out, r"device +.* ok ")
        self.assertRegex(out, r"default +device .*kvstore\.conf:1")
        self.assertEqual(self.files(), before)

    def test_plugin_authors(self):
        self.install(*DEBS)
        before = self.files()
        out = self.run_page("plugin-authors.md")
        self.assertEqual(len(re.findall(r"^conformance acme: .* 0 failed", out, re.MULTILINE)), 2)
        self.assertEqual(self.files(), before)

    def test_the_readme_points_to_them(self):
        with open(f"{SOURCE}/README.md", encoding="utf-8") as file:
            text = file.read()
        for page in ("operators.md", "plugin-authors.md"):
            self.assertTrue(f"sdk/docs/{page}" in text, page)


if __name__ == "__main__":
    unittest.main()
