# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs, through DLPack, with the provider as it ships on the stand-in for the driver."""
import ctypes
import os
import sys

import kvstore
from kvstore import _arrays
from kvstore._library import Tensor, lib
from support import Case, array, main, np

DRIVER = os.environ.get("KVSTORE_CUDA_DRIVER", "")
if not os.path.exists(DRIVER):
    print("skipped: KVSTORE_CUDA_DRIVER names no stand-in")
    sys.exit(77)
driver = ctypes.CDLL(DRIVER)
P, U64 = ctypes.c_void_p, ctypes.c_uint64
driver.cuMemAlloc_v2.argtypes = [ctypes.POINTER(U64), ctypes.c_size_t]
driver.cuMemcpyHtoDAsync_v2.argtypes = [U64, P, ctypes.c_size_t, P]
driver.cuMemcpyDtoHAsync_v2.argtypes = [P, U64, ctypes.c_size_t, P]
driver.cuStreamSynchronize.argtypes = [P]
driver.cuda_double_hold.argtypes = [P, ctypes.c_int]
NON_BLOCKING = 1
driver.cuInit(0)

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.argtypes, new_capsule.restype = [P, ctypes.c_char_p, P], ctypes.py_object


def succeed(result):
    assert result == 0, f"the driver says {result}"


class Device:
    """The calls of a block are made in a device's context."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        context = P()
        succeed(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.number))
        succeed(driver.cuCtxPushCurrent_v2(context))

    def __exit__(self, *_):
        succeed(driver.cuCtxPopCurrent_v2(ctypes.byref(P())))

    def stream(self):
        stream = P()
        with self:
            succeed(driver.cuStreamCreate(ctypes.byref(stream), NON_BLOCKING))
        return stream.value


class GpuArray:
    """An array of a framework: memory of a device, and the stream that its work goes to."""

    def __init__(self, values, device=0, stream=None):
        self.host = np.ascontiguousarray(values)
        self.device = Device(device)
        self.stream = self.device.stream() if stream is None else stream
        self.data = U64()
        self.asked = []
        with self.device:
            succeed(driver.cuMemAlloc_v2(ctypes.byref(self.data), self.host.nbytes))
            succeed(driver.cuMemcpyHtoDAsync_v2(self.data, self.host.ctypes.data, self.host.nbytes, self.stream))

    def __dlpack_device__(self):
        return (2, self.device.number)

    def __dlpack__(self, stream=None, max_version=None):
        # A framework would have `stream` wait for its own here; the tests name the array's own stream.
        self.asked.append(stream)
        tensor, managed = Tensor(), P()
        _arrays.fill(tensor, self.host, False, [])
        tensor.data, tensor.device_type, tensor.device_id = self.data.value, 2, self.device.number
        assert lib.kvs_dlpack_give(tensor, 1, None, None, ctypes.byref(managed)) == 0
        return new_capsule(managed, b"dltensor_versioned", None)

    def on(self):
        return kvstore.on(kvstore.gpu(self.device.number), self, stream=self.stream)

    def numpy(self):
        values = np.empty_like(self.host)
        with self.device:
            succeed(driver.cuMemcpyDtoHAsync_v2(values.ctypes.data, self.data, values.nbytes, self.stream))
            succeed(driver.cuStreamSynchronize(self.stream))
        return values


class Gpus(Case):
    def test_arrays_on_gpus_are_summed_where_they_lie(self):
        kv = self.create("device")
        values = [GpuArray(array(1, 2), 0), GpuArray(array(10, 20), 1)]
        outs = [GpuArray(array(0, 0), 0), GpuArray(array(0, 0), 1)]
        kv.init("w", values[0].on())
        kv.push("w", [value.on() for value in values])
        kv.pull("w", out=[out.on() for out in outs])
        for out in outs:
            self.assert_same(out.numpy(), [11, 22])
        self.assert_same(self.pulled(kv, "w", 2), [11, 22])
        self.assertEqual(outs[1].asked, [outs[1].stream])
        self.assertEqual(kv.stats()["bytes_pushed"], 16)

    def test_an_optimizer_updates_there(self):
        kv = self.create("device")
        weight = GpuArray(array(1, 1))
        kv.init(3, weight.on())
        kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=0.5))
        kv.pushpull(3, GpuArray(array(1, 2)).on(), out=weight.on())
        self.assert_same(weight.numpy(), [0.5, 0])

    def test_work_is_ordered_by_the_streams_and_the_host_waits_for_nothing(self):
        kv = self.create("device")
        kv.init("w", GpuArray(array(0, 0)).on())
        stream = Device(0).stream()
        driver.cuda_double_hold(stream, 1)
        value = GpuArray(array(3, 4), stream=stream)  # its copy waits as well
        out = GpuArray(array(0, 0), stream=stream)
        kv.push("w", value.on())
        kv.pull("w", out=out.on())
        driver.cuda_double_hold(stream, 0)
        self.assert_same(out.numpy(), [3, 4])

    def test_without_a_label_the_default_stream_is_asked_for(self):
        kv = self.create("device")
        value = GpuArray(array(5, 6))
        succeed(driver.cuStreamSynchronize(value.stream))
        kv.init("w", value)
        self.assertEqual(value.asked, [1])
        self.assert_same(self.pulled(kv, "w", 2), [5, 6])

    def test_futures_and_gpus(self):
        kv = self.create("device")
        value = GpuArray(array(5, 6))
        kv.init("w", value.on(), async_=True).result(30)
        kv.push("w", [value.on(), value.on()], async_=True).result(30)
        self.assert_same(self.pulled(kv, "w", 2), [10, 12])

    def test_a_device_that_is_not_there(self):
        kv = self.create("device")
        kv.init("w", array(1, 2))
        value = GpuArray(array(1, 1))
        value.device.number = 77
        with self.assertRaisesRegex(kvstore.KVStoreError, "77"):
            kv.push("w", value)
        value.device.number = 0


if __name__ == "__main__":
    main()
