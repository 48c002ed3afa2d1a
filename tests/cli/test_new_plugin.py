# SPDX-License-Identifier: Apache-2.0
"""`kvstore new-plugin`: what it writes, and what it refuses. That the project builds and works is
tested in tests/install/new_plugin.sh."""
import os
import unittest

from kvstore import Case, fake


class NewPlugin(Case):
    def new(self, *arguments, **variables):
        return self.run_cli("new-plugin", *arguments, cwd=self.dir, **variables)

    def test_a_project_is_written(self):
        status, out, err = self.new("acme_2")
        self.assertEqual((status, err), (0, ""))
        files = ["CMakeLists.txt", "README.md", "acme_2.c", "acme_2.json.in", "test_acme_2.c"]
        self.assertEqual(sorted(os.listdir(f"{self.dir}/acme_2")), files)
        for name in files:
            self.assertIn(f"acme_2/{name}\n", out)
            with open(f"{self.dir}/acme_2/{name}", encoding="utf-8") as file:
                text = file.read()
            self.assertIn("acme_2", text)
            for mark in ("@name@", "@NAME@", "teststore", "TESTSTORE", "template"):
                self.assertNotIn(mark, text)
        self.assertIn("build it: cmake -S acme_2 -B acme_2/build", out)
        with open(f"{self.dir}/acme_2/acme_2.json.in", encoding="utf-8") as file:
            self.assertIn("@KVS_LIBRARY@", file.read())

    def test_names_that_are_none_are_refused(self):
        for name in ("Acme", "2acme", "ac-me", "", "a/b", "..", "a" * 33, "\u00e4"):
            with self.subTest(name=name):
                status, out, err = self.new(name)
                self.assertEqual((status, out), (1, ""))
                self.assertIn("can't be a plugin's name: that is a letter, then", err)
        self.assertEqual(os.listdir(self.dir), [])

    def test_names_that_are_taken_are_refused(self):
        self.assertIn('"horovod" is the name of a backend of kvstore', self.new("horovod")[2])
        path = self.write(fake("good"))
        self.assertIn(f'a plugin "fake" is installed: {path}', self.new("fake")[2])
        os.mkdir(f"{self.dir}/acme")
        status, out, err = self.new("acme")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("acme: File exists", err)

    def test_a_place_that_cannot_be_written_is_told(self):
        status, _, err = self.run_cli("new-plugin", "acme", cwd="/proc")
        self.assertEqual(status, 1)
        self.assertIn("kvstore new-plugin: acme: ", err)

    def test_wrong_usage(self):
        for arguments in ([], ["a", "b"], ["--json", "a"], ["--"]):
            with self.subTest(arguments=arguments):
                status, out, err = self.new(*arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertIn("usage: kvstore new-plugin NAME", err)


if __name__ == "__main__":
    unittest.main()
