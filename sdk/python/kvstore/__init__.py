# SPDX-License-Identifier: Apache-2.0
"""libkvstore for Python: keeps the parameters and gradients of a data-parallel training job in step.

>>> import kvstore, numpy as np
>>> kv = kvstore.create()                       # or "device", "dist_sync", …
>>> kv.init("weight", np.zeros((2, 2), "f4"))
>>> kv.set_optimizer(kvstore.optimizer.SGD())
>>> kv.push("weight", np.ones((2, 2), "f4"))    # gradients; a list of arrays means devices
>>> out = np.empty((2, 2), "f4")
>>> kv.pull("weight", out=out)
>>> out
array([[-0.01, -0.01],
       [-0.01, -0.01]], dtype=float32)

The interface is the one that users of Apache MXNet's KVStore know. The library is found through KVSTORE_LIBRARY, or
where the system keeps its libraries.
"""

from . import errors, lr_scheduler, optimizer
from ._library import lib as _lib
from ._plugins import add_plugin_path, doctor, plugins
from .base import KVStoreBase
from .context import Context, OnDevice, cpu, gpu, gpu_memory_info, num_gpus, on
from .errors import KVStoreError, Status
from .futures import Future
from .row_sparse import RowSparse
from .server import KVStoreServer
from .store import KVStore, create

__version__ = "0.1.0"

__all__ = [
    "Context", "Future", "KVStore", "KVStoreBase", "KVStoreError", "KVStoreServer", "OnDevice", "RowSparse", "Status",
    "add_plugin_path", "cpu", "create", "doctor", "errors", "gpu", "gpu_memory_info", "library_version", "lr_scheduler",
    "num_gpus", "on", "optimizer", "plugins",
]


def library_version() -> str:
    """The version of libkvstore that is loaded."""
    return (_lib.kvs_version() or b"").decode()
