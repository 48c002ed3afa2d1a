# SPDX-License-Identifier: Apache-2.0
"""list, info, --help and wrong usage of the `kvstore` command, as a user or a script meets them."""
import json
import re
import unittest

from kvstore import MANIFEST, Case, manifest


class List(Case):
    def test_a_line_for_each_plugin_in_aligned_columns(self):
        local = self.write(manifest())
        self.write(manifest(name="much_longer_name", abi="2.0"))
        lines = self.succeed("list").splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[0].split(), ["NAME", "KINDS", "STATE", "VERSION", "ABI", "PRIORITY",
                                            "DEVICES", "FROM", "REASON"])
        self.assertEqual(lines[1].split(), ["local", "backend", "ok", "1.2.3", "1.0", "20", "cpu",
                                            local, "-"])
        self.assertIn("abi-mismatch", lines[2])
        self.assertTrue(lines[2].endswith("needs ABI 2.0, this library offers 1.0 to 1.0"))
        for head in ("STATE", "FROM", "REASON"):
            column = lines[0].index(head)
            for line in lines:
                self.assertEqual(line[column - 1], " ")
                self.assertNotEqual(line[column], " ")

    def test_a_row_is_one_line_whatever_it_tells(self):
        self.write(manifest(), subdir="a\nb\x1b[2J")
        _, out, _ = self.run_cli("list", path=f"{self.dir}/a\nb\x1b[2J", KVSTORE_PLUGINS="-local,\x07")
        self.assertEqual(len(out.splitlines()), 2)
        self.assertIn("/a\\nb\\x1b[2J/local.json", out)
        self.assertIn("KVSTORE_PLUGINS=-local,\\x07", out)

    def test_nothing_installed_is_no_error_and_names_the_paths(self):
        out = self.succeed("list", path="/nonexistent:/neither/this")
        self.assertIn("no plugins found; searched:\n  /nonexistent\n  /neither/this\n", out)

    def test_json_holds_all_that_the_manifest_says(self):
        path = self.write(manifest())
        listed = json.loads(self.succeed("list", "--json"))
        self.assertEqual(list(listed), ["version", "paths", "plugins", "notes"])
        self.assertEqual(listed["paths"], [self.dir])
        plugin = listed["plugins"][0]
        self.assertEqual(plugin["manifest"], path)
        self.assertEqual((plugin["state"], plugin["reason"], plugin["fix"]), ("ok", "", ""))
        for name in ("name", "version", "summary", "package", "license", "arch", "abi", "provides"):
            self.assertEqual(plugin[name], MANIFEST[name])
        self.assertEqual(plugin["options"], [{"name": "bound", "type": "size", "default": "1000",
                                              "variable": "", "doc": "where to cut"}])
        found = [library.pop("found") for library in plugin["requires"]["libraries"]]
        self.assertEqual(found, [True, False])
        self.assertEqual(plugin["requires"], MANIFEST["requires"])

    def test_json_is_valid_whatever_a_manifest_holds(self):
        self.write(manifest(summary="\"quoted\" \\ \u00e4\u4e2d\U0001F600"))
        self.write("{\n  \"name\": oops}", name="broken")
        plugins = json.loads(self.succeed("list", "--json"))["plugins"]
        self.assertEqual([p["name"] for p in plugins], ["broken", "local"])
        self.assertEqual(plugins[0]["state"], "bad-manifest")
        self.assertIn("broken.json:2:11: ", plugins[0]["reason"])
        self.assertEqual(plugins[0]["provides"], [])
        self.assertEqual(plugins[1]["summary"], "\"quoted\" \\ \u00e4\u4e2d\U0001F600")

    def test_notes_are_listed(self):
        self.write(manifest(sumary="x"))
        status, out, err = self.run_cli("list", "--json", KVSTORE_PLUGINS="lcoal,*")
        listed = json.loads(out)
        self.assertEqual(status, 0)
        self.assertEqual(listed["notes"], [
            'KVSTORE_PLUGINS: "lcoal" matches no plugin; did you mean "local"?'])
        self.assertIn(listed["notes"][0], err)
        note, = listed["plugins"][0]["notes"]
        self.assertIn('unknown key "sumary"; did you mean "summary"?', note)
        self.assertIn(note, self.succeed("info", "local"))

    def test_losers_are_listed(self):
        first = self.write(manifest(), subdir="a")
        self.write(manifest(), subdir="b")
        out = self.succeed("list", path=f"{self.dir}/a:{self.dir}/b")
        self.assertIn("shadowed", out)
        self.assertIn(f"{first} comes first", out)


class Info(Case):
    def test_everything_is_told(self):
        path = self.write(manifest())
        out = self.succeed("info", "local")
        for text in ("Sums here", "1.2.3", "libkvstore0", "Apache-2.0", path, MANIFEST["library"],
                     "provides backend local", "here", "float32, int8", "2bit",
                     "optimizer, keeps_weights", "where to cut", "KVSTORE_PLUGINS=-local"):
            self.assertIn(text, out)
        self.assertRegex(out, r"libc\.so\.6 +found +libc6 +everything")
        self.assertRegex(out, r"libno_such_thing\.so\.3 +not found +no-such-thing +the test")
        self.assertRegex(out, r"libkvstore +found +>=0\.1")
        self.assertRegex(out, r"cuda +not found +- +device")
        self.write(manifest(name="gpu", provides=[{"kind": "device", "name": "cuda"}]))
        self.assertRegex(self.succeed("info", "local"), r"cuda +found +- +device")

    def test_a_name_alias_or_word_of_what_is_provided_will_do(self):
        self.write(manifest())
        want = self.succeed("info", "local")
        for name in ("here", "LOCAL", "local_cpu"):
            self.assertEqual(self.succeed("info", name), want)

    def test_json_is_one_plugin_as_in_list(self):
        self.write(manifest())
        listed = json.loads(self.succeed("list", "--json"))["plugins"][0]
        for arguments in (("--json", "local"), ("local", "--json")):
            shown = json.loads(self.succeed("info", *arguments))
            self.assertEqual(shown.pop("machine")["state"], "not-elf") # it is a program
            self.assertEqual(shown, listed)

    def test_why_and_how_to_change_it(self):
        self.write(manifest(requires={"core": ">=7"}))
        out = self.succeed("info", "local")
        self.assertIn("core-too-old", out)
        self.assertIn("the plugin needs libkvstore >=7, this is ", out)
        self.assertIn("install a newer libkvstore0", out)

    def test_a_mistyped_name_is_a_problem_that_names_the_near_one(self):
        self.write(manifest())
        status, out, err = self.run_cli("info", "locla")
        self.assertEqual((status, out), (1, ""))
        self.assertTrue(err.startswith(
            'kvstore info: no plugin named "locla"; did you mean "local"? Installed: local; '))

    def test_what_is_not_installed_names_its_package(self):
        status, out, err = self.run_cli("info", "horovod")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("install package kvstore-backend-horovod", err)

    def test_an_empty_search_path_names_backend_and_path(self):
        status, _, err = self.run_cli("info", "local", path="/nonexistent")
        self.assertEqual(status, 1)
        self.assertIn('"local"', err)
        self.assertIn("searched: /nonexistent", err)


class Usage(Case):
    def wrong(self, *arguments):
        """Wrong usage: exit 2, nothing on stdout; returns stderr."""
        status, out, err = self.run_cli(*arguments)
        self.assertEqual((status, out), (2, ""))
        self.assertIn("usage: kvstore", err)
        return err

    def test_wrong_usage_is_told_on_stderr(self):
        self.wrong()
        self.assertIn('unknown command "lst"', self.wrong("lst"))
        self.assertIn('unknown option "--lst"', self.wrong("--lst"))
        self.assertIn('kvstore list: unknown option "--jsn"', self.wrong("list", "--jsn"))
        self.assertIn('"local" is one argument too many', self.wrong("list", "local"))
        self.assertIn("usage: kvstore list [--json]", self.wrong("list", "local"))
        self.assertIn("kvstore info: NAME is missing", self.wrong("info"))
        self.assertIn('"b" is one argument too many', self.wrong("info", "a", "b"))

    def test_what_follows_two_dashes_is_a_name(self):
        status, _, err = self.run_cli("info", "--", "--json")
        self.assertEqual(status, 1)
        self.assertIn('no plugin named "--json"', err)

    def test_every_command_has_help_in_the_same_form(self):
        overview = self.succeed("--help")
        commands = re.findall(r"^  (\w\S*)", overview, re.MULTILINE)
        self.assertTrue({"list", "info", "conformance"} <= set(commands))
        for command in commands:
            text = self.succeed(command, "--help")
            self.assertTrue(text.startswith(f"usage: kvstore {command} "))
            self.assertEqual(self.succeed(command, "-h"), text)
            self.assertGreater(len(text.splitlines()), 3)
            self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_the_members_of_json_are_in_the_help(self):
        self.write(manifest())
        text = self.succeed("list", "--help")
        listed = json.loads(self.succeed("list", "--json"))
        plugin = listed["plugins"][0]
        members = [*listed, *plugin, *plugin["provides"][0], *plugin["requires"],
                   *plugin["provides"][0]["capabilities"], *plugin["requires"]["libraries"][0],
                   *plugin["options"][0]]
        for member in members:
            self.assertIn(member, text)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"^kvstore \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written_is_a_problem(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            status, _, err = self.run_cli("list", stdout=full)
        self.assertEqual(status, 1)
        self.assertIn("cannot write to standard output: No space left on device", err)


if __name__ == "__main__":
    unittest.main()
