# SPDX-License-Identifier: Apache-2.0
"""Devices: ``cpu(0)``, ``gpu(3)``, and labels that say on which one an array counts.

Arrays that know their device (DLPack) keep it. Host memory counts as ``cpu(0)`` unless ``on`` says
otherwise; several CPU ids mean several values on one host.

>>> import kvstore
>>> kvstore.cpu(2)
cpu(2)
>>> kvstore.cpu(2) == kvstore.Context("cpu", 2)
True
"""

from ctypes import byref, c_int, sizeof
from typing import Any, Optional, Tuple

from ._library import Device, DeviceInfo, lib
from .errors import KVStoreTypeError, KVStoreValueError, Status, check

_TYPES = {"cpu": 1, "gpu": 2, "cuda": 2}


class Context:
    """A device: its kind, ``"cpu"`` or ``"gpu"``, and its number."""

    __slots__ = ("device_type", "device_id")

    def __init__(self, device_type: str, device_id: int = 0) -> None:
        if device_type not in _TYPES:
            raise KVStoreValueError(f"no kind of device {device_type!r}: there are cpu and gpu")
        if not isinstance(device_id, int) or not 0 <= device_id < 2**31:
            raise KVStoreValueError(f"the number of a device is 0 or more, not {device_id!r}")
        self.device_type = "gpu" if device_type == "cuda" else device_type
        self.device_id = device_id

    @property
    def code(self) -> int:
        """DLPack's number for this kind of device."""
        return _TYPES[self.device_type]

    def __repr__(self) -> str:
        return f"{self.device_type}({self.device_id})"

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Context) and self.device_type == other.device_type
                and self.device_id == other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))


def cpu(device_id: int = 0) -> Context:
    """The host's memory; several numbers mean several values on one host."""
    return Context("cpu", device_id)


def gpu(device_id: int = 0) -> Context:
    """A GPU."""
    return Context("gpu", device_id)


def num_gpus() -> int:
    """How many GPUs this process sees; 0 also where the plugin for them or the driver is missing."""
    number = c_int()
    return number.value if lib.kvs_device_count(_TYPES["gpu"], byref(number)) == 0 else 0


def gpu_memory_info(device_id: int = 0) -> Tuple[int, int]:
    """Free and total bytes of a GPU's memory. RuntimeError: no plugin for GPUs, or no driver; ValueError: no such
    GPU."""
    info = DeviceInfo(sizeof(DeviceInfo))
    check(lib.kvs_device_info(Device(_TYPES["gpu"], gpu(device_id).device_id), byref(info)))
    return info.free_bytes, info.total_bytes


class OnDevice:
    """An array with a label: made by :func:`on`."""

    __slots__ = ("context", "array", "stream")

    def __init__(self, context: Context, array: Any, stream: Optional[int]) -> None:
        self.context = context
        self.array = array
        self.stream = stream


def on(context: Context, array: Any, stream: Optional[int] = None) -> OnDevice:
    """Say on which device an array counts; nothing is copied.

    `stream`: for an array on a GPU, the stream that its users work on, in DLPack's coding (1 the
    default stream, 2 the per-thread default one, else a stream's handle).

    >>> import kvstore, numpy as np
    >>> kv = kvstore.create()
    >>> kv.init("w", np.zeros(2, "f4"))
    >>> kv.push("w", [kvstore.on(kvstore.cpu(n), np.ones(2, "f4")) for n in range(3)])
    >>> out = np.empty(2, "f4")
    >>> kv.pull("w", out=out)
    >>> out
    array([3., 3.], dtype=float32)
    """
    if not isinstance(context, Context):
        raise KVStoreTypeError(f"on takes a device, such as kvstore.cpu(1), not "
                               f"{type(context).__name__}", Status.ERR_ARGUMENT)
    return OnDevice(context, array, stream)
