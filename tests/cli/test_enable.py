# SPDX-License-Identifier: Apache-2.0
"""`kvstore enable` and `kvstore disable`, as an operator uses them. What they do to masks is tested in
tests/core/test_mask.c."""
import os
import unittest

from kvstore import Case, fake


class Enable(Case):
    def setUp(self):
        super().setUp()
        self.user = f"{self.dir}/data/kvstore/plugins.d"
        self.path = f"{self.user}:{self.dir}/installed"
        self.write(fake("good", provides=[dict(fake("good")["provides"][0], aliases=["sham"])]),
                   subdir="installed")

    def cli(self, *arguments, **variables):
        return self.run_cli(*arguments, path=self.path, **variables)

    def test_off_and_on(self):
        mask = f"{self.user}/fake.json"
        self.assertEqual(self.cli("disable", "fake", "--user"),
                         (0, f"fake: disabled, masked by {mask}\n", ""))
        self.assertEqual(os.path.getsize(mask), 0)
        status, out, _ = self.cli("info", "fake")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"state +disabled\n")
        self.assertRegex(out, rf"reason +masked by {mask}\n")
        self.assertRegex(out, r"to change it +run: kvstore enable fake --user\n")
        status, _, err = self.cli("conformance", "sham")
        self.assertEqual(status, 1)
        self.assertIn("run: kvstore enable fake --user", err)
        self.assertEqual(self.cli("enable", "--user", "sham"), (0, "fake: ok\n", ""))
        self.assertFalse(os.path.exists(mask))

    def test_info_tells_how_to_turn_it_off(self):
        _, out, _ = self.cli("info", "fake")
        self.assertRegex(out, r"to turn it off +kvstore disable fake, or KVSTORE_PLUGINS=-fake")

    def test_a_mask_without_effect_is_a_problem(self):
        status, out, err = self.run_cli("disable", "fake", "--user", path=f"{self.dir}/installed")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("that directory is not searched", err)

    def test_what_stays_off_is_told(self):
        status, out, err = self.cli("enable", "fake", KVSTORE_PLUGINS="-fake")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("plugin 'fake' stays disabled: removed by KVSTORE_PLUGINS=-fake", err)

    def test_unknown_names(self):
        status, out, err = self.cli("disable", "fkae")
        self.assertEqual((status, out), (1, ""))
        self.assertIn('kvstore disable: no plugin named "fkae"; did you mean "fake"?', err)

    def test_wrong_usage(self):
        for command in ("enable", "disable"):
            for arguments in ([], ["a", "b"], ["--usre", "a"], ["--json", "a"]):
                with self.subTest(command=command, arguments=arguments):
                    status, out, err = self.cli(command, *arguments)
                    self.assertEqual((status, out), (2, ""))
                    self.assertIn(f"usage: kvstore {command} NAME [--user]", err)


if __name__ == "__main__":
    unittest.main()
