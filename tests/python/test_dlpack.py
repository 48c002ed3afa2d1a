# SPDX-License-Identifier: Apache-2.0
"""Arrays of other frameworks: capsules of both kinds, each deleter once, and streams by DLPack's rule."""
import ctypes
import gc

import kvstore
from kvstore import Status, _arrays
from kvstore._library import Tensor, lib
from support import Case, array, main, np

RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
new_capsule.restype = ctypes.py_object
READ_ONLY = 1
FLAGS_OFFSET = 24  # of DLManagedTensorVersioned: version, context, deleter, flags


class Foreign:
    """An array of a framework that knows DLPack only, over a NumPy array."""

    def __init__(self, values, versioned=True, device=(1, 0), read_only=False):
        self.values = values
        self.versioned = versioned
        self.device = device
        self.read_only = read_only
        self.asked = []
        self.released = 0
        self.release = RELEASE(self._released)

    def _released(self, _arg):
        self.released += 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("unexpected keyword argument max_version")
        self.asked.append(options)
        tensor, managed = Tensor(), ctypes.c_void_p()
        keep = []
        _arrays.fill(tensor, self.values, False, keep)
        tensor.device_type, tensor.device_id = self.device
        assert lib.kvs_dlpack_give(tensor, int(self.versioned), ctypes.cast(self.release, ctypes.c_void_p), None,
                                   ctypes.byref(managed)) == 0
        if self.read_only:
            ctypes.c_uint64.from_address(managed.value + FLAGS_OFFSET).value = READ_ONLY
        return new_capsule(managed, b"dltensor_versioned" if self.versioned else b"dltensor", None)


class Capsules(Case):
    def test_both_kinds_are_values_and_outs(self):
        for versioned in (True, False):
            kv = self.create()
            value, out = Foreign(array(3, 4), versioned), Foreign(array(0, 0), versioned)
            kv.init(1, array(1, 2))
            kv.push(1, [value, array(1, 1)])
            kv.pull(1, out=out)
            self.assert_same(out.values, [4, 5])
            gc.collect()
            self.assertEqual((value.released, out.released), (1, 1))

    def test_a_deleter_runs_once_after_the_operation(self):
        kv = self.create()
        values = [Foreign(np.ones(1 << 20, "f4")) for _ in range(4)]
        kv.init(1, np.zeros(1 << 20, "f4"))
        kv.push(1, values, async_=True).result(30)
        kv.wait_all()
        gc.collect()
        self.assertEqual([value.released for value in values], [1] * 4)

    def test_a_deleter_runs_once_after_a_failure(self):
        kv = self.create()
        kv.init(1, array(1, 2))
        value = Foreign(array(1))
        self.assert_fails(ValueError, "", Status.ERR_SHAPE, kv.push, 1, value)
        self.assert_fails(TypeError, "not an array", Status.ERR_ARGUMENT, kv.push, 1, [value, 3])
        gc.collect()
        self.assertEqual(value.released, 2)

    def test_what_is_read_only_is_no_out(self):
        kv = self.create()
        kv.init(1, array(1, 2))
        out = Foreign(array(0, 0), read_only=True)
        kv.push(1, out)
        self.assert_fails(ValueError, "read-only", Status.ERR_ARGUMENT, kv.pull, 1, out=out)
        gc.collect()
        self.assertEqual(out.released, 2)

    def test_labels_name_the_device_of_host_memory_only(self):
        kv = self.create()
        kv.init(1, array(1, 2))
        kv.push(1, [kvstore.on(kvstore.cpu(3), Foreign(array(1, 1))), kvstore.on(kvstore.cpu(1), array(2, 2))])
        self.assert_same(self.pulled(kv, 1, 2), [3, 3])
        self.assert_fails(TypeError, "gpu(0)", Status.ERR_ARGUMENT, kv.push, 1,
                          kvstore.on(kvstore.gpu(0), Foreign(array(1, 1))))

    def test_a_producer_that_fails_is_named(self):
        class Broken:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **_options):
                raise BufferError("requires grad")

        class Empty(Broken):
            def __dlpack__(self, **_options):
                return new_capsule(1, b"used_dltensor", None)

        kv = self.create()
        kv.init(1, array(1))
        error = self.assert_fails(TypeError, "Broken.__dlpack__: requires grad", Status.ERR_ARGUMENT, kv.push, 1,
                                  Broken())
        self.assertIsInstance(error.__cause__, BufferError)
        self.assert_fails(TypeError, "no capsule", Status.ERR_ARGUMENT, kv.push, 1, Empty())


class Streams(Case):
    def fill(self, given):
        tensor, keep = Tensor(), []
        _arrays.fill(tensor, given, False, keep)
        self.addCleanup(keep.clear)
        return tensor

    def test_host_memory_is_asked_for_without_a_stream(self):
        value = Foreign(array(1))
        self.assertEqual(self.fill(value).stream, 0)
        self.assertEqual(value.asked, [{"max_version": (1, 0)}])

    def test_a_gpu_array_is_made_ready_for_the_default_stream(self):
        for versioned in (True, False):
            value = Foreign(array(1), versioned, device=(2, 3))
            tensor = self.fill(value)
            self.assertEqual((tensor.device_type, tensor.device_id, tensor.stream), (2, 3, 1))
            self.assertEqual(value.asked[-1]["stream"], 1)

    def test_a_label_names_another_stream(self):
        value = Foreign(array(1), device=(2, 0))
        tensor = self.fill(kvstore.on(kvstore.gpu(0), value, stream=0x7F001234))
        self.assertEqual((tensor.stream, value.asked[-1]["stream"]), (0x7F001234, 0x7F001234))
        self.assert_fails(TypeError, "gpu(1)", Status.ERR_ARGUMENT, self.fill, kvstore.on(kvstore.gpu(1), value))

    def test_a_store_without_that_device_says_so(self):
        kv = self.create()
        kv.init(1, array(1))
        value = Foreign(array(1), device=(8, 0))
        with self.assertRaises(kvstore.KVStoreError):
            kv.push(1, value)
        gc.collect()
        self.assertEqual(value.released, 1)


class NoCopies(Case):
    def test_contiguous_arrays_are_used_where_they_lie(self):
        before = _arrays.copied_bytes
        kv = self.create()
        value, out = np.ones((100, 100), "f4"), np.empty((100, 100), "f4")
        frozen = value.copy()
        frozen.flags.writeable = False
        kv.init(1, value)
        kv.push(1, [value, frozen, Foreign(value), kvstore.on(kvstore.cpu(1), value), memoryview(value)])
        kv.pull(1, out=out)
        for given in (value, frozen, memoryview(value), Foreign(value)):
            tensor, keep = Tensor(), []
            _arrays.fill(tensor, given, False, keep)
            self.assertIn(tensor.data, (value.ctypes.data, frozen.ctypes.data))
        self.assertEqual(_arrays.copied_bytes, before)
        kv.push(1, value.T)
        self.assertEqual(_arrays.copied_bytes, before + value.nbytes)


class Torch(Case):
    def setUp(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch not found")
        self.torch = torch

    def test_tensors_are_values_and_outs(self):
        torch = self.torch
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64):
            kv = self.create()
            weight = torch.zeros(3, dtype=dtype)
            kv.init("w", weight)
            kv.push("w", [torch.ones(3, dtype=dtype), torch.full((3,), 2, dtype=dtype)])
            kv.pull("w", out=weight)
            self.assertEqual(weight.tolist(), [3, 3, 3])

    def test_a_tensor_that_requires_grad_is_refused_by_its_own_words(self):
        kv = self.create()
        kv.init("w", self.torch.zeros(1))
        self.assert_fails(TypeError, "Tensor.__dlpack__", Status.ERR_ARGUMENT, kv.push, "w",
                          self.torch.zeros(1, requires_grad=True))


if __name__ == "__main__":
    main()
