# SPDX-License-Identifier: Apache-2.0
"""`kvstore info` on the name of an optimizer: its parameters, defaults and states."""
import json
import os
import unittest

from kvstore import Case, manifest

INSTALLED = os.environ["KVSTORE_PLUGIN_PATH"]


class InfoOptimizer(Case):
    def info(self, name):
        return json.loads(self.succeed("info", name, "--json", path=INSTALLED))["optimizer"]

    def test_adam_as_text(self):
        out = self.succeed("info", "adam", path=INSTALLED)
        part = out[out.index("\nparameters of adam: "):]
        rows = [line.split() for line in part.splitlines() if line.startswith("  ")]
        self.assertEqual([row[0] for row in rows],
                         ["learning_rate", "wd", "rescale_grad", "clip_gradient", "multi_precision",
                          "begin_num_update", "beta1", "beta2", "epsilon", "lazy_update",
                          "mean", "var"])
        self.assertEqual(rows[0][:6], ["learning_rate", "float", "0.001", "0", "or", "more"])
        self.assertEqual(rows[3][2], "null")
        self.assertEqual(rows[8][2], "1e-08")
        self.assertIn("\nstates of adam\n", part)
        self.assertIn("begins as zeros", part)

    def test_adam_as_json(self):
        adam = self.info("adam")
        self.assertEqual(list(adam), ["name", "summary", "parameters", "states"])
        params = {param["name"]: param for param in adam["parameters"]}
        self.assertEqual(params["learning_rate"]["default"], 0.001)
        self.assertEqual(params["beta2"]["default"], 0.999)
        self.assertEqual(params["beta2"]["accepts"], "from 0 to below 1")
        self.assertIs(params["clip_gradient"]["default"], None)
        self.assertIs(params["multi_precision"]["default"], False)
        self.assertEqual(params["begin_num_update"]["default"], 0)
        self.assertEqual(params["begin_num_update"]["type"], "int")
        for param in adam["parameters"]:
            self.assertEqual(list(param), ["name", "type", "default", "accepts", "doc"])
            self.assertTrue(param["doc"])
        self.assertEqual(adam["states"],
                         [{"name": name, "by_default": True, "from_weight": False, "per_row": False}
                          for name in ("mean", "var")])

    def test_every_optimizer_is_described(self):
        plugin = json.loads(self.succeed("info", "optimizers", "--json", path=INSTALLED))
        self.assertNotIn("optimizer", plugin)
        names = [provide["name"] for provide in plugin["provides"]]
        self.assertEqual(len(names), 20)
        for name in names:
            self.assertEqual(self.info(name)["name"], name)
            self.assertTrue(self.info(name)["summary"])

    def test_states_tell_when_they_are_kept_and_how_they_begin(self):
        self.assertEqual([(s["name"], s["by_default"]) for s in self.info("sgd")["states"]],
                         [("mom", False)])
        self.assertEqual([s["by_default"] for s in self.info("nag")["states"]], [True])
        self.assertEqual([(s["name"], s["from_weight"]) for s in self.info("dcasgd")["states"]],
                         [("mom", False), ("previous_weight", True)])
        self.assertEqual([s["per_row"] for s in self.info("groupadagrad")["states"]], [True])
        self.assertEqual(self.info("test")["parameters"][0]["accepts"], "")  # any rate

    def test_case_does_not_matter(self):
        self.assertEqual(self.info("AdaM")["name"], "adam")

    def test_an_optimizer_that_is_off_is_not_loaded(self):
        off = {"KVSTORE_PLUGINS": "-optimizers"}
        out = self.succeed("info", "adam", path=INSTALLED, **off)
        self.assertIn("\nparameters and states of adam can't be told: the plugin is disabled\n", out)
        plugin = json.loads(self.succeed("info", "adam", "--json", path=INSTALLED, **off))
        self.assertIs(plugin["optimizer"], None)

    def test_a_library_that_can_not_be_loaded_is_told(self):
        self.write(manifest(name="broken", provides=[{"kind": "optimizer", "name": "steps"}]))
        out = self.succeed("info", "steps")
        self.assertIn("\nparameters and states of steps can't be told: ", out)
        self.assertIn('plugin "broken"', out)


if __name__ == "__main__":
    unittest.main()
