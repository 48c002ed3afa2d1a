# SPDX-License-Identifier: Apache-2.0
"""Processes whose role is server or scheduler."""

from typing import Any

from .errors import KVStoreTypeError, Status
from .store import KVStore


class KVStoreServer:
    """Serves with a store that was created with ``serve=False`` in a process whose role is server or scheduler."""

    def __init__(self, kvstore: Any) -> None:
        if not isinstance(kvstore, KVStore):
            raise KVStoreTypeError(f"a server serves with a store of kvstore.create, not {type(kvstore).__name__}",
                                   Status.ERR_ARGUMENT)
        self.kvstore = kvstore

    def run(self) -> None:
        """Serve until the job is over, then close the store. RuntimeError: the role of this process is worker."""
        try:
            self.kvstore._run_server()
        except KeyboardInterrupt:
            self.kvstore._cancel()
            raise
        self.kvstore.close()
