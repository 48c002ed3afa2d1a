# SPDX-License-Identifier: Apache-2.0
"""The operations of a store, as users of MXNet write them."""
import os
import tempfile
import threading

import kvstore
from kvstore import Status
from support import Case, array, main, np


class Basics(Case):
    def test_a_push_replaces_what_was_stored(self):
        kv = self.create()
        kv.init(3, array(1, 2))
        kv.push(3, array(5, 6))
        self.assert_same(self.pulled(kv, 3, 2), [5, 6])

    def test_values_of_a_list_are_summed(self):
        kv = self.create()
        kv.init("w", np.zeros((2, 2), "f4"))
        kv.push("w", [np.full((2, 2), n, "f4") for n in (1, 2, 4)])
        self.assert_same(self.pulled(kv, "w", (2, 2)), np.full((2, 2), 7))

    def test_lists_of_keys_take_lists_of_values_and_devices(self):
        kv = self.create()
        keys = ["5", "7", "9"]
        kv.init(keys, [np.ones(2, "f4")] * 3)
        kv.push(keys, [[array(1, 1), array(1, 2)], (array(3, 3),), array(4, 4)])
        outs = [[np.empty(2, "f4"), np.empty(2, "f4")], [np.empty(2, "f4")], np.empty(2, "f4")]
        kv.pull(keys, out=outs)
        self.assert_same(outs[0][0], [2, 3])
        self.assert_same(outs[0][1], [2, 3])
        self.assert_same(outs[1][0], [3, 3])
        self.assert_same(outs[2], [4, 4])

    def test_a_key_that_stands_twice_gets_the_sum(self):
        kv = self.create()
        kv.init("3", np.zeros(2, "f4"))
        kv.push(["3", "3", "3"], [np.ones(2, "f4")] * 3)
        self.assert_same(self.pulled(kv, "3", 2), [3, 3])

    def test_keys_are_what_has_an_index(self):
        kv = self.create()
        kv.init(np.int64(-7), array(1))
        kv.push(-7, array(4))
        self.assert_same(self.pulled(kv, np.int8(-7), 1), [4])

    def test_large_integers_and_the_empty_string_are_keys(self):
        kv = self.create()
        kv.init(2**62, array(1))
        self.assert_same(self.pulled(kv, 2**62, 1), [1])
        named = self.create()
        named.init("", array(2))
        self.assert_same(self.pulled(named, "", 1), [2])

    def test_pushpull_without_outs_writes_into_the_values(self):
        kv = self.create()
        kv.init("w", np.zeros(2, "f4"))
        a, b = array(1, 2), array(10, 20)
        kv.pushpull("w", [a, b])
        self.assert_same(a, [11, 22])
        self.assert_same(b, [11, 22])

    def test_pushpull_with_outs_leaves_the_values(self):
        kv = self.create()
        kv.init("w", np.zeros(2, "f4"))
        a, out = array(1, 2), np.empty(2, "f4")
        kv.pushpull("w", a, out=out, priority=-1)
        self.assert_same(a, [1, 2])
        self.assert_same(out, [1, 2])

    def test_broadcast_is_init_and_pull(self):
        kv = self.create()
        outs = [np.empty(2, "f4"), np.empty(2, "f4")]
        kv.broadcast("w", array(1, 2), outs)
        self.assert_same(outs[1], [1, 2])
        self.assert_fails(ValueError, "'w'", Status.ERR_EXISTS, kv.broadcast, "w", array(1, 2), outs)

    def test_the_store_owns_its_value(self):
        kv = self.create()
        value = array(1, 2)
        kv.init(1, value)
        value[:] = 9
        pushed = array(3, 4)
        self.assert_same(self.pulled(kv, 1, 2), [1, 2])
        kv.push(1, pushed)
        pushed[:] = 9
        self.assert_same(self.pulled(kv, 1, 2), [3, 4])

    def test_outs_of_another_floating_dtype_are_converted_to(self):
        kv = self.create()
        kv.init(1, array(1.5, 2))
        self.assert_same(self.pulled(kv, 1, 2, "f8"), [1.5, 2])
        self.assert_same(self.pulled(kv, 1, 2, "f2"), [1.5, 2])

    def test_all_dtypes_and_shapes_are_taken(self):
        kv = self.create()
        for i, dtype in enumerate(("f4", "f8", "f2", "i1", "u1", "i4", "i8")):
            for j, shape in enumerate(((), (0,), (3,), (2, 0, 3), (2, 3, 4))):
                key = 10 * i + j
                value = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
                kv.init(key, np.zeros(shape, dtype))
                kv.push(key, [value, value])
                self.assert_same(self.pulled(kv, key, shape, dtype), value + value)

    def test_bfloat16_arrays_of_numpy(self):
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            self.skipTest("ml_dtypes not found")
        kv = self.create()
        for key, shape in enumerate(((3,), (), (0, 2))):
            value = np.full(shape, 1.5, bfloat16)
            value.flags.writeable = False
            kv.init(key, value)
            kv.push(key, [value, value])
            self.assert_same(self.pulled(kv, key, shape, bfloat16), np.full(shape, 3))
        self.assert_same(self.pulled(kv, 0, 3), [3, 3, 3])
        seen = []
        kv.set_updater(lambda key, value, stored: (seen.append(stored.dtype), np.copyto(stored, value + value)))
        kv.push(0, value=np.full(3, 2, bfloat16))
        self.assertEqual(seen, [bfloat16])
        self.assert_same(self.pulled(kv, 0, 3), [4, 4, 4])

    def test_empty_lists_of_keys_do_nothing(self):
        kv = self.create()
        kv.init([], [])
        kv.push([], [])
        kv.pull([], out=[])
        self.assertEqual(kv.stats()["n_pushes"], 0)

    def test_what_a_store_is(self):
        kv = self.create("LOCAL")
        self.assertEqual((kv.type, kv.rank, kv.num_workers, kv.local_rank), ("local", 0, 1, 0))
        self.assertFalse(kv.is_recovery)
        self.assertTrue(kv.is_capable("optimizer"))
        self.assertFalse(kv.is_capable("async"))
        self.assertIn("'local'", repr(kv))
        self.assertEqual(kv.num_dead_nodes(), 0)
        kv.barrier()
        kv._barrier()
        kv.send_command_to_servers(0, "x")
        kv._send_command_to_servers(7, b"")
        kv.wait_all()

    def test_options_go_to_the_backend(self):
        self.create("dist_sync", timeout=5, heartbeat=2.5)
        self.assert_fails(ValueError, "tmeout", Status.ERR_ARGUMENT, kvstore.create, "local", tmeout=5)
        self.assert_fails(TypeError, "timeout", Status.ERR_ARGUMENT, kvstore.create, "local", timeout=[])

    def test_stores_are_context_managers_and_close_twice(self):
        with kvstore.create() as kv:
            kv.init(1, array(1))
        kv.close()
        self.assertIn("closed", repr(kv))
        for call in (lambda: kv.push(1, array(1)), lambda: kv.rank, kv.wait_all, kv.barrier):
            self.assert_fails(RuntimeError, "closed", Status.ERR_STATE, call)

    def test_a_body_that_raises_is_not_hidden_by_the_end(self):
        with self.assertRaises(ZeroDivisionError):
            with kvstore.create():
                raise ZeroDivisionError

    def test_several_threads_push_to_one_store(self):
        kv = self.create()
        n_threads, n_pushes = 4, 50
        kv.init(list(range(n_threads)), [np.zeros(1000, "f4")] * n_threads)
        kv.set_updater(lambda key, value, stored: np.add(stored, value, out=stored))

        def work(key):
            for _ in range(n_pushes):
                kv.push(key, np.ones(1000, "f4"))

        threads = [threading.Thread(target=work, args=(key,)) for key in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for key in range(n_threads):
            self.assert_same(self.pulled(kv, key, 1000), np.full(1000, n_pushes))

    def test_compression_on_device(self):
        kv = self.create("device")
        kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        kv.init("w", np.zeros(4, "f4"))
        kv.push("w", array(0.6, -0.7, 0.3, 0))
        self.assert_same(self.pulled(kv, "w", 4), array(0.5, -0.5, 0, 0))
        kv.push("w", array(0.4, 0, 0.3, 0))
        self.assert_same(self.pulled(kv, "w", 4), array(0.5, 0, 0.5, 0))

    def test_plugins_and_doctor_tell_what_is_installed(self):
        found = {plugin["name"]: plugin for plugin in kvstore.plugins()}
        self.assertEqual(found["local"]["state"], "ok")
        self.assertTrue(os.path.isabs(found["local"]["library"]))
        self.assertIn("local", str(kvstore.doctor()))

    def test_the_library_says_its_version(self):
        self.assertEqual(kvstore.library_version(), kvstore.__version__)


class Updating(Case):
    def test_an_optimizer_updates_at_each_push(self):
        kv = self.create()
        kv.init(3, np.zeros(2, "f4"))
        kv.set_optimizer(kvstore.optimizer.SGD())
        kv.push(3, np.ones(2, "f4"))
        self.assert_same(self.pulled(kv, 3, 2), array(-0.01, -0.01))

    def test_an_attribute_changes_the_pushes_after_it(self):
        kv = self.create()
        kv.init(3, np.zeros(1, "f4"))
        kv.set_optimizer(kvstore.optimizer.create("sgd", learning_rate=1))
        kv.push(3, np.ones(1, "f4"))
        kv.set_optimizer_attr("learning_rate", 0.5)
        kv.push(3, np.ones(1, "f4"))
        self.assert_same(self.pulled(kv, 3, 1), [-1.5])

    def test_states_are_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            kv = self.create()
            kv.init("w", np.zeros(2, "f4"))
            kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1, momentum=0.5))
            kv.push("w", np.ones(2, "f4"))
            kv.save_optimizer_states(path, dump_optimizer=True)
            other = self.create()
            other.init("w", np.zeros(2, "f4"))
            other.set_optimizer(kvstore.optimizer.SGD(momentum=0.5))
            other.load_optimizer_states(path)
            other.push("w", np.ones(2, "f4"))
            self.assert_same(self.pulled(other, "w", 2), [-1.5, -1.5])  # m = 0.5 * -1 - 1

    def test_states_open_in_any_reader_of_safetensors(self):
        try:
            from safetensors.numpy import load_file
        except ImportError:
            self.skipTest("safetensors not found")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            kv = self.create()
            kv.init("w", np.zeros(2, "f4"))
            kv.set_optimizer(kvstore.optimizer.Adam())
            kv.push("w", np.ones(2, "f4"))
            kv.save_optimizer_states(path)
            states = load_file(path)
            self.assertEqual(sorted(states), ["mean/w", "var/w"])
            np.testing.assert_allclose(states["mean/w"], 0.1, rtol=1e-6)


class KeysThatGo(Case):
    def test_a_deleted_key_is_as_if_never_initialised(self):
        kv = self.create()
        kv.init(["a", "b"], [array(1), array(2)])
        kv.delete("a")
        self.assert_fails(KeyError, "'a'", Status.ERR_NOT_FOUND, kv.push, "a", array(1))
        kv.init("a", array(1, 2, 3))
        kv.delete(["a", "b"])
        self.assert_fails(KeyError, "'b'", Status.ERR_NOT_FOUND, kv.delete, ["b"])
        kv.delete([])

    def test_a_reset_key_begins_afresh(self):
        kv = self.create()
        kv.init("w", array(0))
        kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1, momentum=0.5))
        kv.push("w", array(1))
        kv.push("w", array(1))
        self.assert_same(self.pulled(kv, "w", 1), [-2.5])
        kv.reset("w", array(0))
        kv.push("w", array(1))
        self.assert_same(self.pulled(kv, "w", 1), [-1])
        kv.reset(["w"], [array(7)])
        self.assert_same(self.pulled(kv, "w", 1), [7])
        self.assert_fails(ValueError, "shape", Status.ERR_SHAPE, kv.reset, "w", array(1, 2))
        self.assert_fails(KeyError, "'x'", Status.ERR_NOT_FOUND, kv.reset, "x", array(1))
        self.assert_same(self.pulled(kv, "w", 1), [7])


class Questions(Case):
    def test_dtypes_and_devices_that_are_supported(self):
        kv = self.create()
        for dtype in ("float32", np.float16, np.dtype("i8"), "bfloat16", "f8"):
            self.assertTrue(kv.supports(dtype), dtype)
        for dtype in ("complex64", np.int16, "no dtype", None.__class__):
            self.assertFalse(kv.supports(dtype), dtype)
        self.assertFalse(kv.supports("float32", kvstore.gpu(0)))
        self.assertGreaterEqual(kvstore.num_gpus(), 0)
        if kvstore.num_gpus() == 0:
            with self.assertRaises(kvstore.KVStoreError):
                kvstore.gpu_memory_info()

    def test_a_store_of_one_process_joins_at_once(self):
        self.assertEqual(self.create().join(), 0)

    def test_what_only_allreduce_backends_have(self):
        kv = self.create()
        self.assert_fails(NotImplementedError, "allreduce", Status.ERR_NOT_IMPLEMENTED, kv.allgather, 1, array(1), array(1))
        kv.init(1, array(1))
        self.assert_fails(NotImplementedError, "reduction", Status.ERR_NOT_IMPLEMENTED, kv.pushpull, 1, array(1),
                          reduce="average")
        self.assert_fails(ValueError, "'mean'", Status.ERR_ARGUMENT, kv.pushpull, 1, array(1), reduce="mean")

    def test_a_cancelled_store_can_only_be_closed(self):
        kv = self.create()
        kv.init(1, array(1))
        kv.cancel()
        self.assert_fails(RuntimeError, "cancelled", Status.ERR_CANCELLED, kv.push, 1, array(1))
        self.assert_fails(RuntimeError, "cancelled", Status.ERR_CANCELLED, kv.wait_all)
        kv.close()
        kv.cancel()

    def test_a_path_of_plugins_is_searched(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mine.json"), "w", encoding="utf-8") as file:
                file.write('{"manifest": 1, "name": "mine"}')
            kvstore.add_plugin_path(folder)
            found = [plugin for plugin in kvstore.plugins() if plugin["manifest"].startswith(folder)]
        self.assertEqual(len(found), 1)
        self.assertNotEqual(found[0]["state"], "ok")
        self.assertRaises(TypeError, kvstore.add_plugin_path, 3)


if __name__ == "__main__":
    main()
