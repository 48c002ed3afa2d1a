# SPDX-License-Identifier: Apache-2.0
"""`kvstore doctor`: whatever a plugin does when it is loaded is told, and hurts nothing else."""
import json
import os
import subprocess
import unittest

from kvstore import Case, fake


def damaged(directory, name, limit=None, at=None, value=0):
    """A copy of good.so, cut or with a byte changed; its path."""
    with open(os.path.join(os.environ["KVS_FAKE_DIR"], "good.so"), "rb") as file:
        content = bytearray(file.read()[:limit])
    if at is not None:
        content[at] = value
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


class Matrix(Case):
    """Each fake beside a good plugin, which stays good."""

    def doctor(self, manifest):
        self.write(fake("clash_a", name="clash_a"))
        self.write(manifest)
        status, out, err = self.run_cli("doctor", "--json", "--timeout", "20")
        self.assertNotIn("kvstore", err)
        plugins = {p["name"]: p for p in json.loads(out)["plugins"]}
        self.assertEqual(plugins["clash_a"]["state"], "ok")
        return status, plugins["fake"]

    def test_good_ones_are_ok(self):
        for variant in ("good", "older_minor", "short_table", "tls_destructor", "atexit_handler"):
            with self.subTest(variant=variant):
                status, plugin = self.doctor(fake(variant))
                self.assertEqual((status, plugin["state"], plugin["reason"], plugin["fix"]),
                                 (0, "ok", "", ""))

    def test_each_fault_has_its_own_code_text_and_fix(self):
        again = "install the plugin again"
        disable = "install the plugin again, or run: kvstore disable fake"
        rows = [
            ("newer_minor", "abi-mismatch", "was built for ABI 1.1, this library offers 1.0 to 1.0",
             again),
            ("other_major", "abi-mismatch", "was built for ABI 2.0", again),
            ("no_entry", "entry-missing", "has no symbol kvs_plugin_entry_v1", "KVS_PLUGIN macro"),
            ("wrong_name", "manifest-mismatch", "the manifest says fake, ", again),
            ("tiny_table", "abi-mismatch", "breaks the ABI: ", "author"),
            ("no_open", "abi-mismatch", "has no function open", "author"),
            ("undefined", "unresolved-symbol", "fake_symbol_that_nobody_has", again),
            ("missing_dependency", "missing-dependency", "libfake_dependency.so: cannot open",
             "install the package that brings libfake_dependency.so"),
            ("constructor_aborts", "crashed",
             "crashed while it was loaded: killed by signal 6 (Aborted)", disable),
            ("constructor_exits", "crashed",
             "crashed while it was loaded: it ended the process with exit status 3", disable),
            ("atexit_aborts", "crashed",
             "crashed when the process ended: killed by signal 6 (Aborted)", disable),
            (damaged(self.dir, "half.so", limit=6000), "not-elf", "is truncated", again),
            (damaged(self.dir, "head.so", limit=40), "not-elf", "ends within its ELF header", again),
            (damaged(self.dir, "empty.so", limit=0), "not-elf", "is empty", again),
            (damaged(self.dir, "text.so", at=0, value=64), "not-elf", "is not an ELF file", again),
            (damaged(self.dir, "class.so", at=4, value=1), "arch-mismatch",
             "is 32-bit, this process is 64-bit", again),
            (damaged(self.dir, "machine.so", at=18, value=22), "arch-mismatch", "is for S/390",
             again),
            ("/no/such.so", "library-missing", "/no/such.so: No such file", again),
        ]
        for variant, state, reason, fix in rows:
            with self.subTest(variant=variant):
                status, plugin = self.doctor(fake(variant))
                self.assertEqual((status, plugin["state"]), (1, state))
                self.assertIn(reason, plugin["reason"])
                self.assertIn(fix, plugin["fix"])

    def test_a_constructor_that_hangs_is_ended(self):
        self.write(fake("constructor_hangs"))
        self.write(fake("clash_a", name="clash_a"))
        status, out, _ = self.run_cli("doctor", "--timeout", "6")  # enough for the good one
        self.assertEqual(status, 1)
        self.assertRegex(out, r"ok +clash_a +ok ")
        self.assertRegex(out, r"FAIL +fake +timeout ")
        self.assertIn("it did not finish loading within 6 s", out)
        self.assertIn("fix: install the plugin again, or run: kvstore disable fake", out)
        self.assertIn("1 ok, 1 failed, ", out)

    def test_what_cannot_work_here_is_a_warning(self):
        for variant, reason in (("probe_fails", "no flux capacitor"),
                                ("probe_silent", "gives no reason"),
                                ("refuses", "there is no moon today")):
            with self.subTest(variant=variant):
                status, plugin = self.doctor(fake(variant))
                self.assertEqual((status, plugin["state"]), (0, "unavailable"))
                self.assertIn(reason, plugin["reason"])

    def test_the_package_of_what_crashes_is_named(self):
        _, plugin = self.doctor(fake("constructor_aborts", package="kvstore-backend-fake"))
        self.assertIn("install package kvstore-backend-fake again", plugin["fix"])

    def test_a_parent_that_ignores_children_changes_nothing(self):
        self.write(fake("constructor_aborts"))
        done = subprocess.run(["sh", "-c", 'trap "" CHLD; exec "$0" doctor', os.environ["KVSTORE_CLI"]],
                              env=dict(os.environ, KVSTORE_PLUGIN_PATH=self.dir), text=True,
                              stdout=subprocess.PIPE, check=False, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("killed by signal 6 (Aborted)", done.stdout)


class Report(Case):
    def test_all_is_well(self):
        self.write(fake("good"))
        out = self.succeed("doctor")
        self.assertRegex(out, rf"KVSTORE_PLUGIN_PATH +{self.dir}\n")
        self.assertRegex(out, r"KVSTORE_PLUGINS +\(unset\)\n")
        self.assertRegex(out, r"secure execution +no\n")
        self.assertRegex(out, rf"search path\n +{self.dir} +1 plugin\n")
        self.assertRegex(out, rf"plugins\n +ok +fake +ok +{self.dir}/fake.json\n")
        self.assertTrue(out.endswith(
            "1 ok, 0 failed, 0 unavailable, 0 off; 0 wrong settings, 0 notes\n"), out)

    def test_places_that_do_not_exist_are_told(self):
        self.write(fake("good"), subdir="a")
        out = self.succeed("doctor", path=f"/no/such/place:{self.dir}/a")
        self.assertRegex(out, r"/no/such/place +absent\n")

    def test_nothing_usable_is_a_problem(self):
        status, out, _ = self.run_cli("doctor", path="/nonexistent")
        self.assertEqual(status, 1)
        self.assertIn("FAIL  no plugin can be used: install package libkvstore0", out)

    def test_what_is_off_is_not_opened(self):
        self.write(fake("good"))
        self.write(fake("constructor_aborts", name="bad"))
        status, out, _ = self.run_cli("doctor", KVSTORE_PLUGINS="-bad")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"off +bad +disabled ")
        self.assertIn("removed by KVSTORE_PLUGINS=-bad", out)
        self.assertIn("fix: change or unset KVSTORE_PLUGINS", out)

    def test_unknown_keys_of_manifests_are_noted(self):
        self.write(fake("good", sumary="x"))
        out = self.succeed("doctor")
        self.assertIn('unknown key "sumary"; did you mean "summary"?', out)

    def test_unknown_keys_and_variables_are_noted(self):
        self.write(fake("good"))
        self.write("timeot = 3\n", name="x", subdir="config/kvstore")
        os.rename(f"{self.dir}/config/kvstore/x.json", f"{self.dir}/config/kvstore/kvstore.conf")
        status, out, _ = self.run_cli("doctor", KVSTORE_TREADS="2")
        self.assertEqual(status, 0)
        self.assertIn(f'WARN  {self.dir}/config/kvstore/kvstore.conf:1: unknown key "timeot"; did '
                      'you mean "timeout"?\n', out)
        self.assertIn('variable KVSTORE_TREADS: there is no setting "treads"; did you mean '
                      '"threads"?', out)
        self.assertIn("0 wrong settings, 2 notes\n", out)

    def test_globs_that_match_nothing_are_noted(self):
        self.write(fake("good"))
        status, out, err = self.run_cli("doctor", KVSTORE_PLUGINS="fkae,fake")
        self.assertEqual(status, 0)
        want = 'KVSTORE_PLUGINS: "fkae" matches no plugin; did you mean "fake"?\n'
        self.assertIn("WARN  " + want, out)
        self.assertEqual(err, "kvstore warn policy: " + want)

    def test_malformed_settings_are_problems(self):
        self.write(fake("good"))
        status, out, _ = self.run_cli("doctor", KVSTORE_TIMEOUT="soon")
        self.assertEqual(status, 1)
        self.assertIn('FAIL  variable KVSTORE_TIMEOUT: timeout is "soon"; accepted is', out)
        self.write("timeout\n", name="x", subdir="config/kvstore")
        os.rename(f"{self.dir}/config/kvstore/x.json", f"{self.dir}/config/kvstore/kvstore.conf")
        status, out, _ = self.run_cli("doctor")
        self.assertEqual(status, 1)
        self.assertIn('kvstore.conf:1: expected "key = value"', out)

    def test_what_settings_name_must_be_there_and_work(self):
        self.write(fake("probe_fails"))
        self.write(fake("clash_a", name="clash_a"))
        for variables, part in (
                ({"KVSTORE_REQUIRED": "clash_a"}, None),
                ({"KVSTORE_REQUIRED": "clash_a, fake"}, "plugin 'fake' is unavailable"),
                ({"KVSTORE_REQUIRED": "horovod"}, "install package kvstore-backend-horovod"),
                ({"KVSTORE_DEFAULT": "clash_b"}, 'did you mean "clash_a"?'),
                ({"KVSTORE_DEFAULT": "fake"}, "plugin 'fake' is unavailable")):
            with self.subTest(variables=variables):
                status, out, _ = self.run_cli("doctor", **variables)
                self.assertEqual(status, 0 if part is None else 1)
                if part is not None:
                    name, = variables
                    self.assertIn(f'FAIL  setting "{name[8:].lower()}" (variable {name}): ', out)
                    self.assertIn(part, out)

    def test_untrusted_plugins_fail_and_the_rest_is_noted(self):
        path = self.write(fake("good"), subdir="a/b")
        os.chmod(path, 0o666)
        status, out, _ = self.run_cli("doctor", path=f"{self.dir}/a/b")
        self.assertEqual(status, 1)
        self.assertIn(f"everybody may write {path}, which has mode 0666", out)
        self.assertIn(f"fix: run: chmod o-w '{path}'", out)
        os.chmod(path, 0o644)
        os.chmod(f"{self.dir}/a", 0o777)
        status, out, _ = self.run_cli("doctor", path=f"{self.dir}/a/b")
        self.assertEqual(status, 0)
        self.assertIn(f"note: everybody may write {self.dir}/a\n", out)

    def test_json_tells_the_same_and_is_documented(self):
        self.write(fake("undefined"))
        self.write(fake("clash_a", name="clash_a"))
        self.write(fake("clash_b", name="clash_b", abi="9.0"))
        self.write("", name="clash_c")
        status, out, _ = self.run_cli("doctor", "--json", KVSTORE_PLUGINS="*,-clash_a,-nothing")
        report = json.loads(out)
        self.assertEqual(status, 1)
        self.assertEqual({p["name"]: p["state"] for p in report["plugins"]},
                         {"fake": "unresolved-symbol", "clash_a": "disabled",
                          "clash_b": "abi-mismatch"})
        self.assertEqual(report["paths"], [{"path": self.dir, "exists": True, "plugins": 3}])
        self.assertEqual(report["environment"]["KVSTORE_PLUGINS"], "*,-clash_a,-nothing")
        self.assertIsNone(report["environment"]["LD_LIBRARY_PATH"])
        self.assertFalse(report["secure_execution"])
        self.assertEqual([report[n] for n in ("ok", "failed", "unavailable", "off")], [0, 2, 0, 1])
        self.assertEqual(len(report["problems"]), 1)
        self.assertEqual(len(report["notes"]), 1)
        help_text = self.succeed("doctor", "--help")
        for member in [*report, *report["paths"][0], *report["plugins"][0]]:
            self.assertIn(member, help_text)

    def test_wrong_usage(self):
        for arguments in (["fake"], ["--jsno"], ["--timeout"], ["--timeout", "0"],
                          ["--timeout", "1x"], ["--timeout", "3601"], ["--timeout", "4294967297"]):
            with self.subTest(arguments=arguments):
                status, out, err = self.run_cli("doctor", *arguments)
                self.assertEqual((status, out), (2, ""))
                self.assertIn("usage: kvstore doctor", err)


if __name__ == "__main__":
    unittest.main()
