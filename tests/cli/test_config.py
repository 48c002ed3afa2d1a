# SPDX-License-Identifier: Apache-2.0
"""`kvstore config`: every setting, its value, and where it came from."""
import json
import os
import unittest

from kvstore import Case, fake, manifest


class Config(Case):
    def conf(self, text):
        directory = f"{self.dir}/config/kvstore"
        os.makedirs(directory, exist_ok=True)
        with open(f"{directory}/kvstore.conf", "w", encoding="utf-8") as file:
            file.write(text)
        return f"{directory}/kvstore.conf"

    def test_defaults(self):
        self.write(manifest())
        out = self.succeed("config")
        self.assertEqual(out.splitlines()[0].split(), ["OWNER", "NAME", "VALUE", "FROM", "MEANING"])
        self.assertRegex(out, r"\ncore +default +local +default +the store that create makes")
        self.assertRegex(out, r"\ncore +timeout +60 +default ")
        self.assertRegex(out, r"\nlocal +bound +1000 +default +where to cut")

    def test_origins(self):
        self.write(manifest())
        path = self.conf("# ours\ntimeout = 5\nbound = 7\n")
        status, out, _ = self.run_cli("config", KVSTORE_BOUND="9")
        self.assertEqual(status, 0)
        self.assertRegex(out, rf"timeout +5 +{path}:2 ")
        self.assertRegex(out, r"bound +9 +variable KVSTORE_BOUND ")

    def test_json_tells_the_same_and_is_documented(self):
        self.write(manifest())
        listed = json.loads(self.succeed("config", "--json"))
        self.assertEqual(list(listed), ["settings"])
        bound, = (s for s in listed["settings"] if s["name"] == "bound")
        self.assertEqual(bound, {"owner": "local", "name": "bound", "type": "size", "value": "1000",
                                 "origin": "default", "default": "1000", "doc": "where to cut",
                                 "error": ""})
        help_text = self.succeed("config", "--help")
        for member in [*listed, *bound]:
            self.assertIn(member, help_text)

    def test_values_that_create_would_refuse_are_problems(self):
        self.write(manifest())
        status, out, err = self.run_cli("config", "--json", KVSTORE_TIMEOUT="soon")
        self.assertEqual(status, 1)
        timeout, = (s for s in json.loads(out)["settings"] if s["name"] == "timeout")
        self.assertIn('timeout is "soon"', timeout["error"])
        self.assertIn("kvstore config: variable KVSTORE_TIMEOUT: timeout", err)

    def test_values_that_create_would_try_are_tried(self):
        self.write(fake("good"))
        trace = f"{self.dir}/trace.json"
        for name, value, text in (("DEFAULT", "fkae", 'did you mean "fake"?'),
                                  ("REQUIRED", "fake,horovod", "kvstore-backend-horovod"),
                                  ("TRACE", "/no/such/trace", "No such file or directory"),
                                  ("THREADS", "1025", "a whole number from 0 to 1024")):
            for json_option in ([], ["--json"]):
                status, out, err = self.run_cli("config", *json_option,
                                                **{f"KVSTORE_{name}": value})
                self.assertEqual(status, 1)
                self.assertIn(f'variable KVSTORE_{name}: {name.lower()} is "{value}"', err)
                self.assertIn(text, err)
            setting, = (s for s in json.loads(out)["settings"] if s["name"] == name.lower())
            self.assertIn(text, setting["error"])
        status, _, err = self.run_cli("config", KVSTORE_DEFAULT="fake", KVSTORE_REQUIRED="fake",
                                      KVSTORE_TRACE=trace, KVSTORE_THREADS="1024")
        self.assertEqual((status, err), (0, ""))
        self.assertFalse(os.path.exists(trace))

    def test_a_malformed_file_is_a_problem(self):
        path = self.conf("timeout\n")
        status, out, err = self.run_cli("config")
        self.assertEqual((status, out), (1, ""))
        self.assertIn(f'kvstore config: {path}:1: expected "key = value"', err)

    def test_options_of_what_is_off_are_left_out(self):
        self.write(manifest())
        status, out, _ = self.run_cli("config", KVSTORE_PLUGINS="-local")
        self.assertEqual(status, 0)
        self.assertNotIn("bound", out)

    def test_wrong_usage(self):
        for arguments in (["x"], ["--jsno"]):
            status, out, err = self.run_cli("config", *arguments)
            self.assertEqual((status, out), (2, ""))
            self.assertIn("usage: kvstore config [--json]", err)


if __name__ == "__main__":
    unittest.main()
