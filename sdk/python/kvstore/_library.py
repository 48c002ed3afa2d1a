# SPDX-License-Identifier: Apache-2.0
"""libkvstore by ctypes: where it is found, its structs, and the functions this package calls.

KVSTORE_LIBRARY names the shared object; without it the system's is used. Structs mirror kvstore.h;
a test holds their sizes and offsets against it.
"""

import ctypes
import importlib.machinery
import importlib.util
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from types import ModuleType
from typing import Optional


class Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Rows(Structure):
    _fields_ = [("ids", c_void_p), ("n_rows", c_int64), ("capacity", c_int64)]


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
        ("stream", c_int64),
        ("rows", c_void_p),
        ("owner", c_void_p),
    ]


class Key(Structure):
    _fields_ = [("str", c_char_p), ("num", c_int64)]


class Arrays(Structure):
    _fields_ = [
        ("tensors", c_void_p),
        ("n", c_size_t),
        ("per_key", c_void_p),
        ("n_per_key", c_size_t),
    ]


class Call(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("priority", c_int32),
        ("flags", c_uint32),
        ("reduce", c_uint32),
        ("ret_event", c_void_p),
    ]


class Option(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class ParamValue(Union):
    _fields_ = [
        ("integer", c_int64),
        ("real", c_double),
        ("text", c_char_p),
        ("integers", POINTER(c_int64)),
    ]


class Param(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_uint32),
        ("reserved", c_uint32),
        ("value", ParamValue),
        ("n_integers", c_size_t),
    ]


PARAM_NULL, PARAM_BOOL, PARAM_INT, PARAM_FLOAT, PARAM_TEXT, PARAM_INTS = range(6)


class Multiplier(Structure):
    _fields_ = [("key", Key), ("value", c_double)]


class ParamName(Structure):
    _fields_ = [("key", Key), ("name", c_char_p)]


class OptimizerSpec(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char_p),
        ("params", POINTER(Param)),
        ("n_params", c_size_t),
        ("lr_mult", POINTER(Multiplier)),
        ("n_lr_mult", c_size_t),
        ("wd_mult", POINTER(Multiplier)),
        ("n_wd_mult", c_size_t),
        ("names", POINTER(ParamName)),
        ("n_names", c_size_t),
        ("schedule", c_char_p),
        ("schedule_params", POINTER(Param)),
        ("n_schedule_params", c_size_t),
    ]


class Stats(Structure):
    _fields_ = [("size", c_uint32), ("reserved", c_uint32)] + [
        (name, c_uint64)
        for name in (
            "n_inits",
            "n_pushes",
            "n_pulls",
            "n_pushpulls",
            "bytes_pushed",
            "bytes_pulled",
        )
    ]


class DeviceInfo(Structure):
    _fields_ = [
        ("size", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char * 128),
        ("driver", c_char * 64),
        ("detail", c_char * 128),
        ("total_bytes", c_uint64),
        ("free_bytes", c_uint64),
    ]


class AllreduceOps(Structure):
    """The extension "allreduce" of kvstore/allreduce.h."""

    _fields_ = [("size", c_uint32), ("reserved", c_uint32), ("allgather", c_void_p)]


class PluginInfo(Structure):
    """The members of kvs_plugin_info_t that this package shows, up to `fix`."""

    _fields_ = [
        ("name", c_char_p),
        ("version", c_char_p),
        ("summary", c_char_p),
        ("package", c_char_p),
        ("license", c_char_p),
        ("arch", c_char_p),
        ("abi", c_char_p),
        ("core", c_char_p),
        ("manifest", c_char_p),
        ("library", c_char_p),
        ("state", c_int),
        ("reason", c_char_p),
        ("fix", c_char_p),
    ]


Updater = CFUNCTYPE(c_int32, POINTER(Key), POINTER(Tensor), POINTER(Tensor), c_void_p)
Controller = CFUNCTYPE(c_int32, c_int, c_void_p, c_size_t, c_void_p)
Allgather = CFUNCTYPE(c_int32, c_void_p, POINTER(Key), POINTER(Tensor), POINTER(Tensor))
EventCallback = CFUNCTYPE(None, c_int32, c_void_p, c_void_p)

_STORE = c_void_p
_OPERATION = [_STORE, c_void_p, c_size_t, c_void_p]

# Functions that return a status, and what they take.
_CALLS = {
    "kvs_store_create": [c_char_p, POINTER(Option), c_size_t, POINTER(c_void_p)],
    "kvs_store_close": [_STORE],
    "kvs_store_init": _OPERATION + [c_void_p],
    "kvs_store_push": _OPERATION + [c_void_p],
    "kvs_store_pull": _OPERATION + [c_void_p],
    "kvs_store_pushpull": _OPERATION + [c_void_p, c_void_p],
    "kvs_store_broadcast": _OPERATION + [c_void_p, c_void_p],
    "kvs_store_row_sparse_pull": _OPERATION + [c_void_p, c_void_p],
    "kvs_store_delete": [_STORE, c_void_p, c_size_t],
    "kvs_store_reset": _OPERATION + [c_void_p],
    "kvs_store_wait_all": [_STORE, c_int64],
    "kvs_store_set_updater": [_STORE, c_void_p, c_void_p],
    "kvs_store_set_optimizer": [_STORE, POINTER(OptimizerSpec)],
    "kvs_store_set_optimizer_attr": [_STORE, POINTER(Param)],
    "kvs_store_set_gradient_compression": [_STORE, POINTER(Param), c_size_t],
    "kvs_store_save_optimizer_states": [_STORE, c_char_p, c_int],
    "kvs_store_load_optimizer_states": [_STORE, c_char_p],
    "kvs_store_rank": [_STORE, POINTER(c_int)],
    "kvs_store_num_workers": [_STORE, POINTER(c_int)],
    "kvs_store_local_rank": [_STORE, POINTER(c_int)],
    "kvs_store_is_capable": [_STORE, c_char_p, POINTER(c_int)],
    "kvs_store_supports": [_STORE, DType, Device, POINTER(c_int)],
    "kvs_store_stats": [_STORE, POINTER(Stats)],
    "kvs_store_barrier": [_STORE],
    "kvs_store_send_command_to_servers": [_STORE, c_int, c_char_p, c_size_t],
    "kvs_store_num_dead_nodes": [_STORE, c_char_p, c_int64, POINTER(c_int)],
    "kvs_store_is_recovery": [_STORE, POINTER(c_int)],
    "kvs_store_join_last": [_STORE, POINTER(c_int)],
    "kvs_store_set_controller": [_STORE, c_void_p, c_void_p],
    "kvs_store_run_server": [_STORE],
    "kvs_store_extension": [_STORE, c_char_p, POINTER(c_void_p), POINTER(c_void_p)],
    "kvs_event_wait": [c_void_p, c_int64],
    "kvs_event_wait_arrays": [c_void_p, c_int64, POINTER(c_int)],
    "kvs_event_test": [c_void_p, POINTER(c_int)],
    "kvs_event_on_complete": [c_void_p, EventCallback, c_void_p],
    "kvs_dlpack_take": [c_void_p, c_int, POINTER(Tensor)],
    "kvs_dlpack_give": [POINTER(Tensor), c_int, c_void_p, c_void_p, POINTER(c_void_p)],
    "kvs_optimizer_create": [POINTER(OptimizerSpec), POINTER(c_void_p)],
    "kvs_optimizer_update": [c_void_p, Key, POINTER(Tensor), POINTER(Tensor)],
    "kvs_optimizer_set_attr": [c_void_p, POINTER(Param)],
    "kvs_optimizer_save_states": [c_void_p, c_char_p, c_int],
    "kvs_optimizer_load_states": [c_void_p, c_char_p],
    "kvs_device_count": [c_int32, POINTER(c_int)],
    "kvs_device_info": [Device, POINTER(DeviceInfo)],
    "kvs_plugin_list": [POINTER(c_void_p)],
    "kvs_plugin_path_add": [c_char_p],
}

# The others: what they return, and what they take.
_FUNCTIONS = {
    "kvs_version": (c_char_p, []),
    "kvs_last_error": (c_char_p, []),
    "kvs_fail": (c_int32, None),  # variadic
    "kvs_event_free": (None, [c_void_p]),
    "kvs_event_drop": (None, [c_void_p]),
    "kvs_store_type": (c_char_p, [_STORE]),
    "kvs_store_cancel": (None, [_STORE]),
    "kvs_dlpack_release": (None, [POINTER(Tensor)]),
    "kvs_optimizer_free": (None, [c_void_p]),
    "kvs_plugin_list_free": (None, [c_void_p]),
    "kvs_plugin_list_count": (c_size_t, [c_void_p]),
    "kvs_plugin_list_at": (POINTER(PluginInfo), [c_void_p, c_size_t]),
    "kvs_plugin_state_text": (c_char_p, [c_int]),
}


def _load() -> ctypes.CDLL:
    path = os.environ.get("KVSTORE_LIBRARY")
    try:
        library = ctypes.CDLL(os.path.abspath(path) if path else "libkvstore.so.0")
    except OSError as error:
        raise ImportError(
            f"libkvstore can't be loaded: {error}; install the package libkvstore0, or let "
            "KVSTORE_LIBRARY name libkvstore.so"
        ) from None
    for name, argtypes in _CALLS.items():
        function = getattr(library, name)
        function.restype = c_int32
        function.argtypes = argtypes
    for name, (restype, argtypes) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = restype
        if argtypes is not None:
            function.argtypes = argtypes
    return library


lib = _load()


def address_of(name: str) -> int:
    """Where the library's function of that name lies."""
    return ctypes.cast(getattr(lib, name), c_void_p).value or 0


def _load_fast() -> Optional[ModuleType]:
    """The C extension beside the library, if there is one for this Python. Never required."""
    path = os.environ.get("KVSTORE_LIBRARY")
    if not path or os.environ.get("KVSTORE_PYTHON_FAST") == "0":
        return None
    folder = os.path.dirname(os.path.abspath(path))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = os.path.join(folder, "kvstore_fast" + suffix)
        if os.path.exists(file):
            spec = importlib.util.spec_from_file_location("kvstore_fast", file)
            if spec is None or spec.loader is None:
                return None
            module = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
                import numpy

                module.bind(numpy.ndarray, *(address_of("kvs_store_" + verb) for verb in module.VERBS))
            except ImportError:
                return None
            return module
    return None


fast = _load_fast()
