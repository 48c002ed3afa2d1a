# SPDX-License-Identifier: Apache-2.0
"""The manual pages that the command writes of itself, and the completion of bash."""
import os
import re
import shutil
import subprocess
import unittest

from kvstore import CLI, Case, fake

COMPLETION = os.environ["KVS_COMPLETION"]


class Manual(Case):
    def commands(self):
        overview = self.succeed("--help")
        return re.findall(r"^  ([a-z-]+)  +\S", overview, re.MULTILINE)

    def pages(self):
        yield "kvstore", self.succeed("--man")
        for name in self.commands():
            yield f"kvstore-{name}", self.succeed(f"--man={name}")

    def test_every_command_has_a_page_that_names_it(self):
        self.assertIn("list", self.commands())
        overview = self.succeed("--man")
        for name in self.commands():
            page = self.succeed(f"--man={name}")
            troff = name.replace("-", r"\-")
            self.assertTrue(page.startswith(f".TH KVSTORE\\-{name.upper()} 1 "), page[:60])
            self.assertIn(f"\n.SH NAME\nkvstore\\-{troff} \\- ", page)
            self.assertIn(f".BR kvstore\\-{troff} (1)", overview)

    def test_nothing_begins_like_a_request_that_is_none(self):
        known = {".TH", ".SH", ".PP", ".TP", ".B", ".BR", ".br", ".nh", ".ad"}
        for name, page in self.pages():
            for line in page.splitlines():
                if line[:1] in (".", "'"):
                    self.assertIn(line.split(" ")[0], known, name)

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_pages_are_typeset_without_a_complaint_and_lose_no_word(self):
        for name, page in self.pages():
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-cbou"],
                                  input=page, capture_output=True, text=True, check=False,
                                  timeout=30, env=dict(os.environ, LC_ALL="C.UTF-8"))
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            if name != "kvstore":
                help_text = self.succeed(name[len("kvstore-"):], "--help").split("\n\n", 1)[1]
                shown = done.stdout.replace("\u2010", "-").split()
                for word in set(help_text.split()):
                    self.assertIn(word, shown, name)

    def test_a_page_of_no_command_is_wrong_usage(self):
        status, out, err = self.run_cli("--man=nothing")
        self.assertEqual((status, out), (2, ""))
        self.assertIn('unknown option "--man=nothing"', err)


@unittest.skipUnless(shutil.which("bash"), "needs bash")
class Completion(Case):
    def complete(self, *words):
        """What bash would offer for the last of the words."""
        script = ('. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvstore "$1"; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", COMPLETION, CLI, *words],
                              capture_output=True, text=True, check=True, timeout=30,
                              env=dict(os.environ, KVSTORE_PLUGIN_PATH=self.dir))
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete("in"), ["info"])
        self.assertIn("new-plugin", self.complete(""))
        self.assertEqual(self.complete("--v"), ["--version"])

    def test_options_of_a_command(self):
        self.assertEqual(self.complete("list", "--"), ["--json", "--help"])
        self.assertEqual(sorted(self.complete("run", "--")),
                         ["--backend", "--grace", "--help", "--servers", "--workers"])

    def test_names_of_plugins(self):
        self.write(fake("good"))
        self.write(fake("good", name="other"))
        self.assertEqual(self.complete("info", "f"), ["fake"])
        self.assertEqual(self.complete("run", "--backend", ""), ["fake", "other"])

    def test_workloads_are_those_of_the_help(self):
        self.assertIn("W2", self.complete("bench", "W"))

    def test_what_follows_two_dashes_is_a_command(self):
        self.assertIn("printf", self.complete("run", "-w", "2", "--", "print"))


if __name__ == "__main__":
    unittest.main()
