# SPDX-License-Identifier: Apache-2.0
"""Arrays of other frameworks, through DLPack: capsules in, and the stream by its rule.

The producer makes its data ready for the stream it is given; the tensor then says the same stream, so
that the library orders its work after it.
"""

import ctypes
from ctypes import byref, c_char_p, c_int, c_void_p, py_object
from typing import Any, Optional, Tuple

from ._library import Tensor, lib
from .errors import KVStoreTypeError, Status, check

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_DEFAULT_STREAM = 1  # CUDA's legacy default stream, in DLPack's coding

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [py_object, c_char_p], c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [py_object, c_char_p], c_void_p
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes, _rename.restype = [py_object, c_char_p], c_int

# Capsules keep a pointer to their name.
_USED = {False: c_char_p(b"used_dltensor"), True: c_char_p(b"used_dltensor_versioned")}


def _ask(array: Any, **stream: Any) -> Any:
    """The producer's capsule; versioned where it knows of versions, as only those say "read-only"."""
    try:
        return array.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:
        return array.__dlpack__(**stream)


def _capsule(array: Any, stream: Optional[int]) -> Tuple[Any, int]:
    device_type = int(array.__dlpack_device__()[0])
    if device_type not in (_CUDA, _CUDA_MANAGED):
        return _ask(array), 0
    stream = _DEFAULT_STREAM if stream is None else stream
    return _ask(array, stream=stream), stream


def take(array: Any, tensor: Tensor, stream: Optional[int] = None) -> "Taken":
    """Fill `tensor` from an object with ``__dlpack__``. What is returned keeps its memory."""
    try:
        capsule, used_stream = _capsule(array, stream)
    except Exception as error:
        raise KVStoreTypeError(f"{type(array).__name__}.__dlpack__: {error}", Status.ERR_ARGUMENT) from error
    for versioned, name in ((True, b"dltensor_versioned"), (False, b"dltensor")):
        if _is_valid(capsule, name):
            check(lib.kvs_dlpack_take(_pointer(capsule, name), int(versioned), byref(tensor)))
            _rename(capsule, _USED[versioned])
            if used_stream > 0:
                tensor.stream = used_stream
            return Taken(tensor)
    raise KVStoreTypeError(f"{type(array).__name__}.__dlpack__ gave no capsule that is new", Status.ERR_ARGUMENT)


class Taken:
    """One's own hold on a taken tensor's memory: given up when this goes. Operations have theirs."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = Tensor()
        ctypes.memmove(byref(self._tensor), byref(tensor), ctypes.sizeof(Tensor))

    def __del__(self) -> None:
        lib.kvs_dlpack_release(byref(self._tensor))
