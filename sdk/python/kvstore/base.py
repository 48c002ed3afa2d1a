# SPDX-License-Identifier: Apache-2.0
"""What every store is, and stores written in Python."""

import warnings
from typing import Any, Dict, NoReturn, Optional, Type, TypeVar

from .errors import KVStoreNotImplementedError, KVStoreTypeError, Status

_T = TypeVar("_T", bound=type)

_classes: Dict[str, Type["KVStoreBase"]] = {}


class KVStoreBase:
    """The interface of a store. A store in Python derives from this class and overrides what it offers;
    the other methods raise NotImplementedError.

    >>> import kvstore
    >>> @kvstore.KVStoreBase.register
    ... class Doubler(kvstore.KVStoreBase):
    ...     def __init__(self, factor=2):
    ...         self.factor = factor
    ...     def pushpull(self, key, value, out=None, priority=0):
    ...         out[:] = self.factor * value
    >>> kv = kvstore.create("doubler", factor=4)
    >>> type(kv).__name__, isinstance(kv, kvstore.KVStoreBase)
    ('Doubler', True)
    >>> kv.push(1, None)
    Traceback (most recent call last):
    ...
    kvstore.errors.KVStoreNotImplementedError: not implemented: push by doubler
    """

    @staticmethod
    def register(klass: _T) -> _T:
        """A class decorator: ``kvstore.create`` finds the class by its name in lower case, and makes an
        instance of it with the options as keyword arguments. A second class of one name replaces the first
        and warns. TypeError: not a class derived from KVStoreBase."""
        if not isinstance(klass, type) or not issubclass(klass, KVStoreBase):
            raise KVStoreTypeError(f"register takes a class derived from KVStoreBase, not {klass!r}",
                                   Status.ERR_ARGUMENT)
        name = klass.__name__.lower()
        if name in _classes and _classes[name] is not klass:
            warnings.warn(f"the store {name!r} of {_classes[name].__module__} is replaced by that of "
                          f"{klass.__module__}", UserWarning, stacklevel=2)
        _classes[name] = klass
        return klass

    def _refuse(self, operation: str) -> NoReturn:
        raise KVStoreNotImplementedError(f"not implemented: {operation} by {self.type}",
                                         Status.ERR_NOT_IMPLEMENTED)

    # Signatures are those that users of MXNet know.

    def init(self, key: Any, value: Any) -> Any:
        """Create keys with their values."""
        self._refuse("init")

    def push(self, key: Any, value: Any, priority: int = 0) -> Any:
        """Sum the values given for each key into the store."""
        self._refuse("push")

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> Any:
        """Write the stored values into the outs."""
        self._refuse("pull")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> Any:
        """Push and pull as one operation."""
        self._refuse("pushpull")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> Any:
        """Rank 0's value to every out on every rank."""
        self._refuse("broadcast")

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> Any:
        """Write rows of row-sparse keys into row-sparse outs."""
        self._refuse("row_sparse_pull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Update in the store."""
        self._refuse("set_optimizer")

    def set_updater(self, updater: Any) -> None:
        """Update by a function."""
        self._refuse("set_updater")

    def set_optimizer_attr(self, name: str, value: Any) -> None:
        """Change a parameter of the optimizer in the store."""
        self._refuse("set_optimizer_attr")

    def set_gradient_compression(self, compression_params: Dict[str, Any]) -> None:
        """Compress pushed gradients."""
        self._refuse("set_gradient_compression")

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do this."""
        self._refuse("is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the optimizer's states to a file."""
        self._refuse("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Read the optimizer's states from a file."""
        self._refuse("load_optimizer_states")

    def barrier(self) -> None:
        """Wait for all workers."""
        self._refuse("barrier")

    def send_command_to_servers(self, head: int, body: Any) -> None:
        """Have every server do something."""
        self._refuse("send_command_to_servers")

    def num_dead_nodes(self, role: str = "worker", timeout: float = 60) -> int:
        """How many processes have not been heard of."""
        self._refuse("num_dead_nodes")

    def join(self) -> int:
        """Take no further part in rounds."""
        self._refuse("join")

    def wait_all(self, timeout: Optional[float] = None) -> None:
        """Wait for everything issued."""
        self._refuse("wait_all")

    def close(self) -> None:
        """Nothing to give back."""

    # The old names.

    def _barrier(self) -> None:
        self.barrier()

    def _send_command_to_servers(self, head: int, body: Any) -> None:
        self.send_command_to_servers(head, body)

    def _set_updater(self, updater: Any) -> None:
        self.set_updater(updater)

    def __enter__(self) -> "KVStoreBase":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close()

    @property
    def type(self) -> str:
        """The name the store was created by, in lower case."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        self._refuse("rank")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        self._refuse("num_workers")

    @property
    def local_rank(self) -> int:
        """This worker's number among the processes of this host."""
        self._refuse("local_rank")

    @property
    def is_recovery(self) -> bool:
        """Whether this process rejoined a running job."""
        self._refuse("is_recovery")


def registered(name: str) -> Optional[Type[KVStoreBase]]:
    """The class registered under this name in lower case, if there is one."""
    return _classes.get(name)
