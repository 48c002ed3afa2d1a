# SPDX-License-Identifier: Apache-2.0
"""Optimizers and schedules: names, defaults, golden rates, and optimizers in the worker."""
import inspect
import json
import os
import subprocess
import tempfile

from kvstore import Status, lr_scheduler, optimizer
from support import Case, array, main, np

NAMES = ("SGD", "NAG", "Signum", "Adam", "AdamW", "AdaBelief", "Adamax", "Nadam", "LAMB", "LANS", "LARS", "AdaGrad",
         "GroupAdaGrad", "AdaDelta", "RMSProp", "Ftrl", "FTML", "DCASGD", "Test")
VECTORS = os.path.join(os.environ["KVS_SOURCE"], "tests", "vectors")


def described(name):
    """Parameters and defaults, as `kvstore info` tells them."""
    command = os.path.join(os.environ["KVS_BUILD"], "bin", "kvstore")
    text = subprocess.run([command, "info", name], capture_output=True, check=True, text=True).stdout
    lines = text[text.index(f"parameters of {name}:"):].split("\n\n")[0].splitlines()[1:]
    values = {"null": None, "true": True, "false": False}
    return {words[0]: values[words[2]] if words[2] in values else float(words[2])
            for words in (line.split() for line in lines)}


class Names(Case):
    def test_there_is_a_class_for_each_and_names_in_any_case(self):
        for name in NAMES:
            self.assertIs(type(optimizer.create(name.upper())), getattr(optimizer, name))
            self.assertEqual(optimizer.create(name.lower()).name, name.lower())

    def test_defaults_are_those_of_the_library(self):
        common = {"learning_rate", "wd", "rescale_grad", "clip_gradient", "multi_precision", "begin_num_update"}
        for name in NAMES:
            told = described(name.lower())
            signature = inspect.signature(getattr(optimizer, name).__init__).parameters
            own = {key: value.default for key, value in signature.items()
                   if key not in ("self", "params", "learning_rate")}
            self.assertEqual(own, {key: value for key, value in told.items() if key not in common}, name)

    def test_arrangements_of_the_arithmetic_are_ignored(self):
        optimizer.SGD(aggregate_num=4, use_fused_step=True)


class Golden(Case):
    def test_schedules_show_the_rates_of_the_vectors(self):
        with open(os.path.join(VECTORS, "lr_schedulers.json"), encoding="utf-8") as file:
            vectors = json.load(file)
        n = 0
        for case in vectors["cases"]:
            schedule = getattr(lr_scheduler, case["class"])(**case["args"])
            if "optimizer_learning_rate" in case:
                optimizer.SGD(learning_rate=case["optimizer_learning_rate"], lr_scheduler=schedule)
            for row in case["table"]:
                self.assertAlmostEqual(schedule(row["num_update"]), row["lr"], delta=1e-12, msg=case["case"])
            n += 1
        self.assertEqual(n, len(vectors["cases"]))

    def test_a_schedule_runs_where_pushes_are_issued(self):
        kv = self.create()
        kv.init(0, array(0))
        schedule = lr_scheduler.MultiFactorScheduler(step=[1, 2], factor=0.5, base_lr=1)
        kv.set_optimizer(optimizer.SGD(lr_scheduler=schedule))
        for _ in range(3):
            kv.push(0, array(1))
        self.assert_same(self.pulled(kv, 0, 1), [-(1 + 0.5 + 0.25)])

    def test_multipliers_by_key_and_by_name(self):
        kv = self.create()
        kv.init([0, 1, 2], [array(0)] * 3)
        sgd = optimizer.SGD(learning_rate=1, param_idx2name={1: "bias"})
        sgd.set_lr_mult({0: 2, "bias": 3})
        sgd.set_wd_mult({2: 0})
        kv.set_optimizer(sgd)
        kv.push([0, 1, 2], [array(1)] * 3)
        self.assert_same([self.pulled(kv, key, 1)[0] for key in range(3)], [-2, -3, -1])


class Worker(Case):
    def test_weights_of_ones_own_get_the_bits_of_a_store(self):
        rng = np.random.default_rng(7)
        for name in NAMES:
            weight = rng.standard_normal(50).astype("f4").reshape(10, 5)
            kv = self.create()
            kv.init("w", weight)
            kv.set_optimizer(optimizer.create(name))
            updater = optimizer.get_updater(optimizer.create(name))
            for _ in range(3):
                grad = rng.standard_normal((10, 5)).astype("f4")
                kv.push("w", grad)
                updater("w", grad, weight)
            self.assert_same(self.pulled(kv, "w", (10, 5)), weight)

    def test_states_are_files_and_bytes(self):
        sgd = optimizer.SGD(learning_rate=1, momentum=0.5)
        first, second, third = (optimizer.get_updater(sgd) for _ in range(3))
        weight = array(0)
        first(3, array(1), weight)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            first.save_states(path)
            second.load_states(path)
            self.assert_fails(FileNotFoundError, "no", Status.ERR_NOT_FOUND, second.load_states, path + "no")
        third.set_states(first.get_states(dump_optimizer=True))
        for updater in (first, second, third):
            again = array(0)
            updater(3, array(1), again)
            self.assert_same(again, [-1.5])
        self.assert_fails(ValueError, "", Status.ERR_FORMAT, third.set_states, b"no states")

    def test_lists_of_keys(self):
        updater = optimizer.get_updater(optimizer.SGD(learning_rate=1))
        weights = [array(1), array(2)]
        updater([0, 1], [array(1), array(1)], weights)
        self.assert_same(weights, [[0], [1]])
        self.assertRaises(ValueError, updater, [0, 1], [array(1)], weights)
        updater.set_attr("learning_rate", 2)
        updater(0, array(1), weights[0])
        self.assert_same(weights[0], [-2])

    def test_wrong_arrays(self):
        updater = optimizer.get_updater(optimizer.SGD())
        self.assert_fails(ValueError, "", Status.ERR_SHAPE, updater, 0, array(1, 2), array(1))
        self.assert_fails(TypeError, "", Status.ERR_DTYPE, updater, 0, array(1, dtype="f8"), array(1))
        self.assert_fails(TypeError, "not an array", Status.ERR_ARGUMENT, updater, 0, 3, array(1))
        self.assertRaises(TypeError, optimizer.get_updater, "sgd")


if __name__ == "__main__":
    main()
