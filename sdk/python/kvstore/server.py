# SPDX-License-Identifier: Apache-2.0
"""Processes whose role is server or scheduler."""

import ctypes
import os
from typing import Any, Callable, Optional

from ._library import Controller, lib
from .errors import KVStoreTypeError, Status, remember
from .store import KVStore


def _trampoline(fn: Callable[[int, bytes], Any]) -> Any:
    def call(head: int, body: Optional[int], n_bytes: int, _arg: Any) -> int:
        try:
            fn(head, ctypes.string_at(body, n_bytes) if body else b"")
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            lib.kvs_fail(int(Status.ERR_CALLBACK), b"%s", remember(error).encode())
            return int(Status.ERR_CALLBACK)

    return Controller(call)


def _is_scheduler() -> bool:
    """Whether this process gets no commands, so that one script may serve all roles."""
    return (os.environ.get("KVSTORE_ROLE") or os.environ.get("DMLC_ROLE") or "").lower() == "scheduler"


class KVStoreServer:
    """Serves with a store that was created with ``serve=False`` in a process whose role is server or scheduler.
    ``controller(head, body)`` gets the commands of workers that the backend doesn't know itself; what it raises is
    the error of the call that sent the command. It may use no store."""

    def __init__(self, kvstore: Any, controller: Optional[Callable[[int, bytes], Any]] = None) -> None:
        if not isinstance(kvstore, KVStore):
            raise KVStoreTypeError(f"a server serves with a store of kvstore.create, not {type(kvstore).__name__}",
                                   Status.ERR_ARGUMENT)
        self.kvstore = kvstore
        self._controller = None if controller is None else _trampoline(controller)
        if self._controller is not None and not _is_scheduler():
            kvstore._ask(lib.kvs_store_set_controller, ctypes.cast(self._controller, ctypes.c_void_p), None)

    def run(self) -> None:
        """Serve until the job is over, then close the store. RuntimeError: the role of this process is worker."""
        try:
            self.kvstore._run_server()
        except KeyboardInterrupt:
            self.kvstore.cancel()
            raise
        self.kvstore.close()
