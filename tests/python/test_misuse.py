# SPDX-License-Identifier: Apache-2.0
"""Wrong use: the class, the code and words of each error, and the store still usable after it."""
import array as arrays
import ctypes
import os
import pickle
import tempfile

import kvstore
from kvstore import RowSparse, Status
from support import Case, array, main, np, run_python


class Creating(Case):
    def test_an_unknown_name_lists_what_exists(self):
        error = self.assert_fails(ValueError, "foo", Status.ERR_NOT_FOUND, kvstore.create, "foo")
        self.assertIn("local", str(error))
        self.assertIsNone(error.rank)

    def test_an_empty_name(self):
        self.assert_fails(ValueError, "empty", Status.ERR_ARGUMENT, kvstore.create, "")

    def test_a_name_that_is_no_text(self):
        self.assert_fails(TypeError, "int", Status.ERR_ARGUMENT, kvstore.create, 3)

    def test_a_backend_that_is_not_installed_names_its_package(self):
        for name in ("horovod", "byteps"):
            try:
                kvstore.create(name).close()
                continue  # it is installed here
            except kvstore.KVStoreError as error:
                self.assertIsInstance(error, RuntimeError)
                self.assertIn(name, str(error))


    def test_words_of_a_name_are_taken_as_flexibly_as_users_are_used_to(self):
        for name in ("LOCAL", "local_update_cpu", "local_allreduce_cpu", "local_device", "device"):
            self.assertEqual(self.create(name).type, name.lower())

    def test_a_job_described_in_part_says_what_is_missing(self):
        done = run_python("import kvstore; kvstore.create('dist_sync')", DMLC_ROLE="worker")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "KVStoreValueError.*KVSTORE_NUM_WORKERS")
        done = run_python("import kvstore; print(kvstore.create('dist_sync').num_workers)")
        self.assertEqual(done.stdout, "1\n", done.stderr)


class Keys(Case):
    def setUp(self):
        self.kv = self.create()
        self.kv.init(1, array(1, 2))

    def tearDown(self):
        self.assert_same(self.pulled(self.kv, 1, 2), [1, 2])

    def test_a_key_never_initialised_is_a_key_error_with_its_words(self):
        out = np.empty(2, "f4")
        for call in (lambda: self.kv.push(5, array(1, 2)), lambda: self.kv.pull(5, out=out),
                     lambda: self.kv.push(5, [array(1, 2), array(1, 2)]),
                     lambda: self.kv.pushpull(5, array(1, 2)),
                     lambda: self.kv.row_sparse_pull(5, out=RowSparse.zeros((2, 2)), row_ids=[0])):
            error = self.assert_fails(KeyError, "5", Status.ERR_NOT_FOUND, call)
            self.assertEqual(error.rank, 0)
            self.assertFalse(str(error).startswith(("'", '"')))  # as KeyError would show it

    def test_duplicate_init_changes_nothing(self):
        self.assert_fails(ValueError, "1", Status.ERR_EXISTS, self.kv.init, 1, array(7, 7))
        self.assert_fails(ValueError, "2", Status.ERR_EXISTS, self.kv.init, [2, 2], [array(1), array(1)])
        self.assert_fails(KeyError, "2", Status.ERR_NOT_FOUND, self.kv.push, 2, array(1))

    def test_mixed_and_wrong_types_of_keys(self):
        self.assert_fails(TypeError, "key", Status.ERR_KEY_TYPE, self.kv.init, "a", array(1))
        self.assert_fails(TypeError, "key", Status.ERR_KEY_TYPE, self.kv.push, [1, "a"], [array(1, 2)] * 2)
        for key in (1.0, None, b"1", array(1.0), {}):
            self.assert_fails(TypeError, "keys are int or str", Status.ERR_KEY_TYPE, self.kv.push, key, array(1, 2))
        self.assert_fails(ValueError, "64 bits", Status.ERR_ARGUMENT, self.kv.push, 2**63, array(1, 2))

    def test_text_that_is_no_key(self):
        kv = self.create()
        self.assert_fails(ValueError, "NUL", Status.ERR_ARGUMENT, kv.init, "a\0b", array(1))
        self.assert_fails(ValueError, "UTF-8", Status.ERR_ARGUMENT, kv.init, "\ud800", array(1))
        self.assert_fails(ValueError, "1024", Status.ERR_ARGUMENT, kv.init, "k" * 1025, array(1))

    def test_lists_of_different_length(self):
        self.assert_fails(ValueError, "3", Status.ERR_ARGUMENT, self.kv.init, [3, 4, 5], [array(1)] * 2)
        self.assert_fails(ValueError, "", Status.ERR_ARGUMENT, self.kv.push, [1], [array(1, 2)] * 2)
        self.assert_fails(ValueError, "", Status.ERR_ARGUMENT, self.kv.push, 1, [])
        self.assert_fails(ValueError, "", Status.ERR_ARGUMENT, self.kv.push, [1], [[]])
        self.assert_fails(TypeError, "list of values", Status.ERR_ARGUMENT, self.kv.push, [1], array(1, 2))


class Arrays(Case):
    def setUp(self):
        self.kv = self.create()
        self.kv.init("w", np.ones((2, 3), "f4"))

    def tearDown(self):
        self.assert_same(self.pulled(self.kv, "w", (2, 3)), np.ones((2, 3)))

    def test_other_shapes_give_both(self):
        for shape in ((3, 2), (2, 2), (6,)):
            error = self.assert_fails(ValueError, "w", Status.ERR_SHAPE, self.kv.push, "w", np.zeros(shape, "f4"))
            self.assertIn("2, 3", str(error).replace("x", ", "))
            self.assert_fails(ValueError, "", Status.ERR_SHAPE, self.kv.pull, "w", out=np.zeros(shape, "f4"))
        self.assert_fails(ValueError, "", Status.ERR_SHAPE, self.kv.push, "w",
                          [np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4")])

    def test_other_dtypes(self):
        for dtype in ("f8", "f2", "i4"):
            self.assert_fails(TypeError, "float32", Status.ERR_DTYPE, self.kv.push, "w", np.zeros((2, 3), dtype))
        self.assert_fails(TypeError, "", Status.ERR_DTYPE, self.kv.pull, "w", out=np.zeros((2, 3), "i4"))
        for dtype in ("?", "c8", "u4", "i2", "M8[s]", "S3", "O"):
            self.assert_fails(TypeError, "not accepted", Status.ERR_DTYPE, self.kv.push, "w", np.zeros((2, 3), dtype))

    def test_big_endian_arrays_are_refused_with_what_mends_it(self):
        self.assert_fails(TypeError, "byte order", Status.ERR_DTYPE, self.kv.push, "w", np.zeros((2, 3), ">f4"))

    def test_object_arrays_and_no_arrays(self):
        self.assert_fails(TypeError, "object", Status.ERR_DTYPE, self.kv.push, "w", np.array([[None] * 3] * 2))
        for value in (3, "text", None, object(), {1: 2}):
            self.assert_fails(TypeError, "not an array", Status.ERR_ARGUMENT, self.kv.push, "w", value)
        self.assert_fails(TypeError, "array 1", Status.ERR_ARGUMENT, self.kv.push, "w", [np.zeros((2, 3), "f4"), 1.5])

    def test_read_only_arrays_are_values_but_no_outs(self):
        value = np.ones((2, 3), "f4")
        value.flags.writeable = False
        self.kv.push("w", value)
        self.assert_fails(ValueError, "read-only", Status.ERR_ARGUMENT, self.kv.pull, "w", out=value)
        self.assert_fails(ValueError, "read-only", Status.ERR_ARGUMENT, self.kv.pushpull, "w", value)
        self.assert_fails(ValueError, "read-only", Status.ERR_ARGUMENT, self.kv.pull, "w", out=bytes(24))

    def test_values_that_are_not_contiguous_are_copied_and_outs_refused(self):
        wide = np.ones((2, 6), "f4")
        self.kv.push("w", wide[:, ::2])
        self.kv.push("w", np.ones((3, 2), "f4").T)
        self.assert_fails(ValueError, "not contiguous", Status.ERR_ARGUMENT, self.kv.pull, "w", out=wide[:, ::2])
        self.assert_fails(ValueError, "not contiguous", Status.ERR_ARGUMENT, self.kv.pushpull, "w", wide[:, ::2])
        self.assert_same(wide, np.ones((2, 6)))

    def test_buffers_of_other_kinds(self):
        kv = self.create()
        kv.init(1, arrays.array("f", [1, 2]))
        kv.push(1, memoryview(arrays.array("f", [3, 4])))
        out = arrays.array("f", [0, 0])
        kv.pull(1, out=out)
        self.assertEqual(list(out), [3, 4])
        kv.init(2, b"\1\2\3")
        self.assert_same(self.pulled(kv, 2, 3, "u1"), [1, 2, 3])
        kv.init(3, (ctypes.c_long * 2)(5, -6))
        self.assert_same(self.pulled(kv, 3, 2, f"i{ctypes.sizeof(ctypes.c_long)}"), [5, -6])
        kv.push(1, (ctypes.c_float * 2)(7, 8))
        self.assert_same(self.pulled(kv, 1, 2), [7, 8])
        for wrong in (arrays.array("H", [1, 2]), arrays.array("L", [1, 2]), (ctypes.c_float.__ctype_be__ * 2)(1, 2),
                      memoryview(b"ab").cast("c"), (ctypes.c_bool * 2)()):
            self.assert_fails(TypeError, "format", Status.ERR_DTYPE, kv.push, 1, wrong)

    def test_outs_that_are_missing(self):
        self.assert_fails(ValueError, "out is None", Status.ERR_ARGUMENT, self.kv.pull, "w")
        self.assert_fails(ValueError, "out is None", Status.ERR_ARGUMENT, self.kv.broadcast, "x", array(1), None)
        self.assert_fails(ValueError, "out is None", Status.ERR_ARGUMENT, self.kv.row_sparse_pull, "w", row_ids=[1])
        self.assert_fails(ValueError, "row_ids is None", Status.ERR_ARGUMENT, self.kv.row_sparse_pull, "w",
                          out=RowSparse.zeros((2, 3)))

    def test_priorities_that_are_none(self):
        value = np.ones((2, 3), "f4")
        self.assert_fails(TypeError, "priority", Status.ERR_ARGUMENT, self.kv.push, "w", value, "high")
        self.assert_fails(ValueError, "32 bits", Status.ERR_ARGUMENT, self.kv.push, "w", value, 2**31)

    def test_pushed_arrays_never_change(self):
        kv = self.create()
        kv.init(1, np.ones(3, "f4"))
        kv.set_optimizer(kvstore.optimizer.AdaDelta())
        gradient = array(1, 2, 3)
        kv.push(1, gradient)
        self.assert_same(gradient, [1, 2, 3])


class Optimizers(Case):
    def test_what_is_no_optimizer(self):
        kv = self.create()
        for wrong in (None, "sgd", 3, kvstore.optimizer.SGD):
            self.assert_fails(TypeError, "set_optimizer", Status.ERR_ARGUMENT, kv.set_optimizer, wrong)
        self.assert_fails(TypeError, "function", Status.ERR_ARGUMENT, kv.set_updater, 3)

    def test_unknown_names_and_parameters(self):
        create = kvstore.optimizer.create
        self.assert_fails(ValueError, "sgdd", Status.ERR_NOT_FOUND, create, "sgdd")
        self.assert_fails(ValueError, "momentun", Status.ERR_ARGUMENT, create, "sgd", momentun=0.9)
        self.assert_fails(ValueError, "learning_rate", Status.ERR_ARGUMENT, create, "sgd", learning_rate=-1)
        self.assert_fails(ValueError, "momentum", Status.ERR_ARGUMENT, create, "sgd", momentum="much")
        self.assert_fails(TypeError, "momentum", Status.ERR_ARGUMENT, create, "sgd", momentum=object())
        self.assert_fails(TypeError, "lr_scheduler", Status.ERR_ARGUMENT, create, "sgd", lr_scheduler=0.1)

    def test_gradients_of_zero_and_clipping_by_zero(self):
        for optimizer in (kvstore.optimizer.Adamax(), kvstore.optimizer.SGD(clip_gradient=0)):
            kv = self.create()
            kv.init(1, array(1, 2))
            kv.set_optimizer(optimizer)
            kv.push(1, array(0, 0))
            self.assert_same(self.pulled(kv, 1, 2), [1, 2])
            kv.push(1, array(1, 1))
            self.assertLess(self.pulled(kv, 1, 2)[0], 1)

    def test_a_second_optimizer_begins_with_empty_states(self):
        kv = self.create()
        kv.init(1, array(0))
        for _ in range(2):
            kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=1, momentum=0.5))
            kv.push(1, array(1))
        self.assert_same(self.pulled(kv, 1, 1), [-2])

    def test_integer_weights_can_not_be_updated(self):
        kv = self.create()
        kv.init(1, array(1, 2, dtype="i4"))
        kv.set_optimizer(kvstore.optimizer.SGD())
        self.assert_fails(TypeError, "int32", Status.ERR_DTYPE, kv.push, 1, array(1, 2, dtype="i4"))

    def test_states_without_an_optimizer(self):
        kv = self.create()
        self.assert_fails(RuntimeError, "optimizer", Status.ERR_STATE, kv.save_optimizer_states, "x")
        self.assert_fails(RuntimeError, "optimizer", Status.ERR_STATE, kv.set_optimizer_attr, "wd", 1)

    def test_files_of_states(self):
        kv = self.create()
        kv.init(1, array(1, 2))
        kv.set_optimizer(kvstore.optimizer.SGD(momentum=0.9))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states")
            self.assert_fails(FileNotFoundError, path, Status.ERR_NOT_FOUND, kv.load_optimizer_states, path)
            self.assert_fails(OSError, "nowhere", Status.ERR_IO, kv.save_optimizer_states,
                              os.path.join(folder, "nowhere", "x"))
            kv.push(1, array(1, 2))
            kv.save_optimizer_states(path)
            with open(path, "rb") as file:
                data = file.read()
            with open(path, "wb") as file:
                file.write(data[:-3])
            self.assert_fails(ValueError, path, Status.ERR_FORMAT, kv.load_optimizer_states, path)
            with open(path, "wb") as file:
                file.write(data)
            other = self.create()
            other.set_optimizer(kvstore.optimizer.SGD(momentum=0.9))
            self.assert_fails(KeyError, "1", Status.ERR_NOT_FOUND, other.load_optimizer_states, path)
            other.init(1, array(1, 2))
            other.set_optimizer(kvstore.optimizer.Adam())
            self.assert_fails(ValueError, "adam", Status.ERR_FORMAT, other.load_optimizer_states, path)

    def test_the_rate_while_a_schedule_is_set(self):
        kv = self.create()
        schedule = kvstore.lr_scheduler.FactorScheduler(step=1, factor=0.5)
        optimizer = kvstore.optimizer.SGD(lr_scheduler=schedule)
        kv.set_optimizer(optimizer)
        self.assert_fails(RuntimeError, "factor", Status.ERR_STATE, kv.set_optimizer_attr, "learning_rate", 1)
        self.assert_fails(RuntimeError, "factor", Status.ERR_STATE, optimizer.set_learning_rate, 1)

    def test_schedules_that_are_none(self):
        schedules = kvstore.lr_scheduler
        for make in (lambda: schedules.FactorScheduler(step=0), lambda: schedules.FactorScheduler(step=1, factor=2),
                     lambda: schedules.MultiFactorScheduler(step=[3, 3]),
                     lambda: schedules.PolyScheduler(max_update=5, warmup_steps=5),
                     lambda: schedules.CosineScheduler(max_update=5, base_lr=0.1, warmup_begin_lr=0.2, warmup_steps=1),
                     lambda: schedules.CosineScheduler(max_update=9, warmup_steps=1, warmup_mode="other")):
            self.assert_fails(ValueError, "schedule", Status.ERR_ARGUMENT, make)


class Compression(Case):
    def test_parameters_and_backends(self):
        kv = self.create("device")
        fails = self.assert_fails
        fails(ValueError, "3bit", Status.ERR_NOT_FOUND, kv.set_gradient_compression, {"type": "3bit"})
        fails(ValueError, "type", Status.ERR_ARGUMENT, kv.set_gradient_compression, {"threshold": 1})
        fails(ValueError, "threshold", Status.ERR_ARGUMENT, kv.set_gradient_compression,
              {"type": "2bit", "threshold": 0})
        fails(ValueError, "treshold", Status.ERR_ARGUMENT, kv.set_gradient_compression,
              {"type": "2bit", "treshold": 1})
        fails(TypeError, "dict", Status.ERR_ARGUMENT, kv.set_gradient_compression, "2bit")
        fails(NotImplementedError, "local", Status.ERR_NOT_IMPLEMENTED,
              self.create().set_gradient_compression, {"type": "2bit"})

    def test_what_can_not_be_represented(self):
        kv = self.create("device")
        kv.set_gradient_compression({"type": "2bit"})
        kv.init(1, array(0, 0))
        self.assert_fails(ValueError, "1", Status.ERR_NON_FINITE, kv.push, 1, array(np.nan, 0))
        kv.push(1, array(0.5, 0))
        self.assert_same(self.pulled(kv, 1, 2), [0.5, 0])


class Others(Case):
    def test_what_a_backend_does_not_offer(self):
        kv = self.create("teststore")
        for call in (lambda: kv.init(1, array(1)), lambda: kv.push(1, array(1)),
                     lambda: kv.pull(1, out=array(1)), lambda: kv.set_optimizer(kvstore.optimizer.SGD()),
                     lambda: kv.set_updater(lambda *_: None)):
            self.assert_fails(NotImplementedError, "teststore", Status.ERR_NOT_IMPLEMENTED, call)
        a = array(2)
        kv.pushpull(1, a)
        self.assert_same(a, [2])

    def test_capabilities_and_roles_that_are_none(self):
        kv = self.create()
        self.assert_fails(ValueError, "flying", Status.ERR_ARGUMENT, kv.is_capable, "flying")
        self.assert_fails(TypeError, "capability", Status.ERR_ARGUMENT, kv.is_capable, 3)
        self.assert_fails(ValueError, "driver", Status.ERR_ARGUMENT, kv.num_dead_nodes, "driver")

    def test_labels_that_fit_no_array(self):
        self.assert_fails(ValueError, "tpu", Status.ERR_ARGUMENT, kvstore.Context, "tpu")
        self.assert_fails(ValueError, "-1", Status.ERR_ARGUMENT, kvstore.cpu, -1)
        self.assert_fails(TypeError, "on takes", Status.ERR_ARGUMENT, kvstore.on, 1, array(1))
        kv = self.create()
        kv.init(1, array(1))
        self.assert_fails(TypeError, "gpu(0)", Status.ERR_ARGUMENT, kv.push, 1, kvstore.on(kvstore.gpu(0), array(1)))

    def test_errors_can_be_pickled(self):
        error = self.assert_fails(KeyError, "5", Status.ERR_NOT_FOUND, self.create().push, 5, array(1))
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), str(copy), copy.code, copy.rank), (type(error), str(error), error.code, 0))

    def test_a_server_needs_a_store_of_that_role(self):
        kv = self.create()
        self.assertRaises(TypeError, kvstore.KVStoreServer, 3)
        with self.assertRaises(kvstore.KVStoreError):
            kvstore.KVStoreServer(kv).run()


class PlainArguments(Case):
    """Texts, numbers, seconds and paths: what is none is refused in words, before anything is done."""

    def setUp(self):
        self.kv = self.create()
        self.kv.init(1, array(1))

    def refused(self, kind, text, call, *arguments, **options):
        self.assert_fails(kind, text, Status.ERR_ARGUMENT, call, *arguments, **options)

    def test_priorities(self):
        for value in (1.5, None, "3"):
            self.refused(TypeError, "priority is an int", self.kv.push, 1, array(1), value)
        self.refused(ValueError, "2147483648 does not fit", self.kv.push, 1, array(1), 2**31)

    def test_seconds(self):
        for value in ("1", None, [1]):
            self.refused(TypeError, "number of seconds", self.kv.num_dead_nodes, "worker", value)
        for value in (float("nan"), -1, float("-inf")):
            self.refused(ValueError, "0 s or more", self.kv.num_dead_nodes, "worker", value)
            self.refused(ValueError, "0 s or more", self.kv.wait_all, value)
        self.kv.wait_all(float("inf"))
        self.kv.wait_all(1e300)
        self.kv.wait_all(np.float32(1))

    def test_texts(self):
        for value in (None, 3, b"worker"):
            self.refused(TypeError, "is a str", self.kv.num_dead_nodes, value)
            self.refused(TypeError, "is a str", self.kv.is_capable, value)
        for value in ("\ud800", "a\0b"):
            self.refused(ValueError, "", self.kv.num_dead_nodes, value)
            self.refused(ValueError, "", self.kv.is_capable, value)
            self.refused(ValueError, "", kvstore.create, value)
            self.refused(ValueError, "option log", kvstore.create, "local", log=value)
            self.refused(ValueError, "name of an option", kvstore.create, "local", **{value: "1"})

    def test_paths(self):
        for call in (self.kv.save_optimizer_states, self.kv.load_optimizer_states, kvstore.add_plugin_path):
            for value in (None, 3):
                self.refused(TypeError, "is a str or path", call, value)
            for value in ("\ud800", "a\0b", b"a\0b"):
                self.refused(ValueError, "", call, value)

    def test_commands(self):
        for value in (None, 1.5, "0"):
            self.refused(TypeError, "head of a command is an int", self.kv.send_command_to_servers, value, "")
        self.refused(ValueError, "does not fit", self.kv.send_command_to_servers, 2**40, "")
        for value in (None, 3, [1]):
            self.refused(TypeError, "str or bytes", self.kv.send_command_to_servers, 0, value)
        for value in ("", b"", bytearray(3), memoryview(b"abc"), "\0", "\ud800"):
            self.kv.send_command_to_servers(99, value)

    def test_devices(self):
        for value in (None, "cpu", 3):
            self.refused(TypeError, "supports takes a device", self.kv.supports, "float32", value)


if __name__ == "__main__":
    main()
