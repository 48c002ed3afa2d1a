# SPDX-License-Identifier: Apache-2.0
"""Ten thousand calls of every kind, good and bad, leave nothing behind: references, objects, memory."""
import copy
import gc
import os
import pickle
import sys

import kvstore
from kvstore import Status
from support import Case, array, main, np

ROUNDS = 400


class Foreign:
    """An array that is known by DLPack only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **_options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


class Leaks(Case):
    def calls(self, kv):
        """The objects that calls use, and a function that makes about 28 calls with them."""
        key, value, out = "a key of some length", np.ones(8, "f4"), np.ones(8, "f4")
        values, outs, foreign = [value, value], [out, out], Foreign(value)
        rows = kvstore.RowSparse(np.ones((2, 3), "f4"), np.array([0, 2]), (4, 3))
        rows_out = kvstore.RowSparse(np.zeros((0, 3), "f4"), np.zeros(0, "i8"), (4, 3))
        ids, read_only = np.array([0, 2]), np.ones(8, "f4")
        read_only.flags.writeable = False
        kv.init([key, "two"], [value, value])
        kv.init("rows", rows)

        def fails(call, *arguments):
            self.assertRaises(kvstore.KVStoreError, call, *arguments)

        def run():
            kv.push(key, value)
            kv.push([key, "two"], [value, values], 5)
            kv.pull(key, out)
            kv.pull([key, "two"], [out, outs])
            kv.pushpull(key, value, out)
            kv.pushpull(key, foreign, foreign)
            kv.push(key, kvstore.on(kvstore.cpu(1), value))
            kv.push(key, np.ones(16, "f4")[::2])
            kv.push(key, value, async_=True).result()
            kv.pull(key, out, async_=True)
            kv.push("rows", rows)
            kv.row_sparse_pull("rows", rows_out, 0, ids)
            fails(kv.push, "no such key", value)
            fails(kv.push, key, array(1))
            fails(kv.push, key, [value, "x"])
            fails(kv.push, 1, value)
            fails(kv.push, key, value, 2**40)
            fails(kv.push, key, value, "x")
            fails(kv.push, [key, "two"], [value])
            fails(kv.push, key, np.ones(8, "c8"))
            fails(kv.pushpull, key, foreign, read_only)
            fails(kv.pull, key, read_only)
            fails(kv.pull, key, out[::2])
            fails(kv.row_sparse_pull, "rows", rows_out, 0, [9])
            fails(kv.set_optimizer_attr, "wd", object())
            kv.wait_all()

        return [kv, key, value, out, values, outs, foreign, rows, rows_out, ids, read_only], run

    def check(self, kv):
        objects, run = self.calls(kv)
        for _ in range(ROUNDS // 4):  # what is kept for later calls
            run()
        gc.collect()
        before = [sys.getrefcount(one) for one in objects]
        n_objects, n_kib = len(gc.get_objects()), resident_kib()
        for _ in range(ROUNDS):
            run()
        gc.collect()
        self.assertEqual([sys.getrefcount(one) for one in objects], before)
        self.assertLess(len(gc.get_objects()), n_objects + 50)
        self.assertLess(resident_kib(), n_kib + 2048)

    def test_in_a_local_store(self):
        self.check(self.create())

    def test_in_a_store_on_devices(self):
        self.check(self.create("device"))

    def test_in_a_job_of_one(self):
        if not any(plugin["name"] == "dist" for plugin in kvstore.plugins()):
            self.skipTest("dist is not built")
        self.check(self.create("dist_sync"))


class Copies(Case):
    def test_what_holds_a_handle_is_not_copied(self):
        kv = self.create()
        kv.init(1, array(1))
        updater = kvstore.optimizer.get_updater(kvstore.optimizer.SGD())
        for one in (kv, kv.push(1, array(1), async_=True), updater):
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                self.assert_fails(TypeError, "can't be copied or pickled", Status.ERR_ARGUMENT, call, one)
        kv.push(1, array(3))
        self.assert_same(self.pulled(kv, 1, 1), [3])

    def test_values_and_descriptions_are(self):
        rows = kvstore.RowSparse(np.ones((2, 3), "f4"), np.array([0, 2]), (4, 3))
        sgd = kvstore.optimizer.SGD(learning_rate=0.5, momentum=0.25)
        error = kvstore.KVStoreError("text", Status.ERR_SHAPE, 3)
        for copied in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
            self.assert_same(copied(rows).data, rows.data)
            self.assertEqual(copied(kvstore.cpu(2)), kvstore.cpu(2))
            self.assertEqual((str(copied(error)), copied(error).code, copied(error).rank), ("text", Status.ERR_SHAPE, 3))
            weight = array(1)
            kvstore.optimizer.get_updater(copied(sgd))("w", array(1), weight)
            self.assert_same(weight, [0.5])


if __name__ == "__main__":
    main()
