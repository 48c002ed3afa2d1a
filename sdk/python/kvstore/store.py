# SPDX-License-Identifier: Apache-2.0
"""Stores: keys with values that workers push gradients to and pull weights from.

How a call waits. Most are plain calls of the C library, which give the interpreter's lock back. Those of a
main thread that may wait for others (workers, or updaters in Python on other threads) are issued with an
event and look up between slices of the wait, so that Ctrl-C is heard at once; calls without an event run on
a thread of their own meanwhile.
"""

import atexit
import collections
import concurrent.futures
import ctypes
import logging
import os
import sys
import threading
import time
import weakref
from ctypes import addressof, byref, c_int, c_void_p
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple, Union

from . import futures
from ._arrays import DTYPES, Packed, dtype_name, key_of, keys_of, pack
from ._aside import SLICE_MS, Aside, call_aside, is_main
from ._library import Allgather, AllreduceOps, Call, Device, DType, Option, Stats, fast, lib
from ._params import params_of
from ._plain import NotCopied, int32_of, ms_of, path_of, text_of
from ._row_ids import pack_row_ids
from ._updaters import Gate, is_updating, trampoline
from .base import KVStoreBase, registered
from .context import Context, cpu
from .errors import (
    KVStoreStateError,
    KVStoreTypeError,
    KVStoreValueError,
    Status,
    check,
    error_of,
    fail,
    last_text,
)
from .futures import Future

_CANCEL_SECONDS = 3.0  # for calls that were interrupted and hear of a cancel
_CLOSE_SECONDS = 300.0  # for calls of other threads, which have deadlines of their own
_EXIT_SECONDS = 5.0  # for what is under way when the interpreter ends, or a with-block by an error
_KEEP_SPARSE = 1
_REDUCTIONS = ("sum", "average", "min", "max")  # as numbered in kvstore/allreduce.h
_CALL_BYTES = ctypes.sizeof(Call)

_logger = logging.getLogger("kvstore")
_stores: "weakref.WeakSet[KVStore]" = weakref.WeakSet()
_exiting = False
_creating: List[Aside] = []
_forever: List[Any] = []  # arrays of operations that were given up while they ran


def _call_of(priority: int, flags: int = 0, reduce: str = "sum") -> Call:
    if reduce not in _REDUCTIONS:
        raise KVStoreValueError(f"no reduction {reduce!r}; there are {', '.join(_REDUCTIONS)}", Status.ERR_ARGUMENT)
    return Call(_CALL_BYTES, int32_of(priority, "the priority"), flags, _REDUCTIONS.index(reduce), None)


def _option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (str, int, float, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise KVStoreTypeError(f"create: option {name} is a str, number or bool, not {type(value).__name__}",
                           Status.ERR_ARGUMENT)


class KVStore(NotCopied, KVStoreBase):
    """A store of the C library; made by :func:`kvstore.create`.

    Arrays: anything with the buffer protocol or DLPack, used where it lies. For one key, an array, or a list
    of arrays, one for each device; for a list of keys, a list of these. Keys are int, str, or what has
    ``__index__``. Every operation on data takes ``async_=True`` and then returns a :class:`Future`; its arrays
    may not be touched until that is done. A store may be used from several threads; not in a forked child.
    """

    _handle: Optional[int] = None  # closed

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._type = (lib.kvs_store_type(handle) or b"").decode()
        self._pid = os.getpid()
        self._flying: Dict[int, futures.Flight] = {}
        self._inside: Deque[int] = collections.deque()  # calls under way
        self._orphans: List[Tuple[c_void_p, Any]] = []  # interrupted operations: their events and arrays
        self._late: List[Any] = []  # arrays of operations past their deadline
        self._asides: List[Aside] = []  # calls under way, and interrupted ones
        self._gate = Gate()
        self._updater: Any = None
        self._old_updaters: List[Any] = []
        self._rank: Optional[int] = None
        self._waits = False
        number = c_int()
        status = lib.kvs_store_rank(handle, byref(number))
        self._serves = status == Status.ERR_STATE  # the role of this process is server or scheduler
        if status == 0:
            self._rank = number.value
        if lib.kvs_store_num_workers(handle, byref(number)) == 0:
            self._waits = number.value > 1
        self._usable_fast: Any = None if self._waits else fast  # nothing can interrupt its calls
        self._fast = self._usable_fast  # while no updater in Python is called by them
        _stores.add(self)

    # ---- How calls are made ----

    def _get(self) -> int:
        handle = self._handle
        if handle is None:
            raise KVStoreStateError(f"the store {self._type} is closed", Status.ERR_STATE, self._rank)
        return handle

    def _may_wait(self) -> bool:
        """Whether a call of this thread might wait, deaf to signals, for what takes its time."""
        return (self._waits or (self._updater is not None and bool(self._flying or self._inside))
                ) and is_main()

    def _ask(self, function: Callable[..., int], *arguments: Any, about: str = "name",
             path: Optional[str] = None) -> None:
        """A call without an event. Raises its error."""
        self._inside.append(1)
        try:
            handle = self._get()
            if (self._waits or self._flying) and is_main() and not _exiting:
                call_aside(function, (handle,) + arguments, self._rank, about, path, self._asides)
            else:
                check(function(handle, *arguments), self._rank, about, path)
        finally:
            self._inside.pop()

    def _ask_int(self, function: Callable[..., int], *arguments: Any) -> int:
        number = c_int()
        self._inside.append(1)
        try:
            check(function(self._get(), *arguments, byref(number)), self._rank)
        finally:
            self._inside.pop()
        return number.value

    def _operate(self, function: Callable[..., int], packs: List[Optional[Packed]], call: Optional[Call],
                 async_: bool, keys: Tuple[Any, int, bool]) -> Optional[Future]:
        """One operation on data, in one of its three ways."""
        structs, n, _ = keys
        if async_ or self._may_wait():
            call = _call_of(0) if call is None else call
            if async_:
                return self._fly(function, structs, n, packs, call)
            self._run_in_slices(function, structs, n, packs, call)
            return None
        addresses = [None if one is None else one.address for one in packs]
        self._inside.append(1)
        try:
            status = function(self._get(), addressof(structs), n, *addresses, None if call is None else byref(call))
            if status != 0:
                if status == Status.ERR_TIMEOUT:  # it goes on
                    self._late.append(packs)
                fail(status, self._rank, "key")
        finally:
            self._inside.pop()
        for one in packs:
            if one is not None and one.row_outs:
                one.finish()
        return None

    def _issue(self, function: Callable[..., int], structs: Any, n: int, packs: List[Optional[Packed]],
               call: Call, event: c_void_p) -> None:
        """Fills `event`, also when Ctrl-C is heard before this returns."""
        call.ret_event = addressof(event)
        addresses = [None if one is None else one.address for one in packs]
        check(function(self._get(), addressof(structs), n, *addresses, byref(call)), self._rank, "key")

    def _fly(self, function: Callable[..., int], structs: Any, n: int, packs: List[Optional[Packed]],
             call: Call) -> Future:
        flight = futures.Flight(self, packs)
        event = c_void_p()
        self._inside.append(1)
        try:
            number = futures.board(flight)
            try:
                self._issue(function, structs, n, packs, call, event)
            finally:
                if event:
                    futures.launch(number, event)
                else:
                    futures.leave(number)
        finally:
            self._inside.pop()
        return flight.future

    def _run_in_slices(self, function: Callable[..., int], structs: Any, n: int, packs: List[Optional[Packed]],
                       call: Call) -> None:
        self._reap()
        event, is_free = c_void_p(), c_int()
        self._inside.append(1)
        try:
            try:
                self._issue(function, structs, n, packs, call, event)
                while not is_free.value:
                    check(lib.kvs_event_wait_arrays(event, SLICE_MS, byref(is_free)), self._rank, "key")
            except BaseException:
                if event:
                    self._orphans.append((event, packs))
                    self._reap()
                raise
            lib.kvs_event_free(event)
        finally:
            self._inside.pop()
        for one in packs:
            if one is not None:
                one.finish()

    def _reap(self) -> None:
        """Let go of interrupted operations that have ended."""
        done = c_int()
        for orphan in list(self._orphans):
            if lib.kvs_event_test(orphan[0], byref(done)) == 0 and done.value:
                self._orphans.remove(orphan)
                lib.kvs_event_free(orphan[0])

    # ---- Operations on data ----

    def init(self, key: Any, value: Any, *, async_: bool = False) -> Optional[Future]:
        """Create each key with a copy of its value: one array a key, dense or :class:`RowSparse`.

        With several workers all call it, and rank 0's value counts. ValueError: the key exists already.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> kv.init(["a", "b"], [np.zeros(2, "f4"), np.ones((2, 2), "f4")])
        >>> kv.init("a", np.zeros(2, "f4"))
        Traceback (most recent call last):
        ...
        kvstore.errors.KVStoreValueError: init: duplicate init of key 'a'
        """
        keys = keys_of(key)
        return self._operate(lib.kvs_store_init, [pack(value, keys[2], "values")], None, async_, keys)

    def push(self, key: Any, value: Any, priority: int = 0, *, async_: bool = False) -> Optional[Future]:
        """Sum the values given for each key. The sum replaces the stored value, or goes to the optimizer or
        updater if one is set.

        Values have the shape and dtype of init. A larger `priority` goes sooner among operations that wait.
        KeyError: a key that was not initialised; ValueError: shapes, lengths; TypeError: dtypes.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> kv.init(3, np.zeros((2, 2), "f4"))
        >>> kv.push(3, [np.ones((2, 2), "f4"), np.ones((2, 2), "f4")])
        >>> out = np.empty((2, 2), "f4")
        >>> kv.pull(3, out=out)
        >>> out
        array([[2., 2.],
               [2., 2.]], dtype=float32)
        """
        if self._fast is not None and not async_:
            self._inside.append(1)  # as in _operate; here, as a function would cost a tenth of the call
            try:
                status = self._fast.push(self._handle, key, value, priority)
            finally:
                self._inside.pop()
            if status == 0:
                return None
            if status < 0:
                fail(status, self._rank, "key")
        keys = keys_of(key)
        return self._operate(lib.kvs_store_push, [pack(value, keys[2], "values")],
                             _call_of(priority) if priority != 0 else None, async_, keys)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True, *,
             async_: bool = False) -> Optional[Future]:
        """Write the stored value of each key into its outs: arrays of the shape of init, and of its dtype or
        another floating one.

        A row-sparse key gives a dense out its dense form. A :class:`RowSparse` out is a TypeError (use
        row_sparse_pull), unless `ignore_sparse` is false: it gets all rows that a row-sparse key has.
        KeyError: not initialised; ValueError: shapes, and `out` is None.
        """
        if self._fast is not None and not async_ and ignore_sparse:
            self._inside.append(1)
            try:
                status = self._fast.pull(self._handle, key, out, priority)
            finally:
                self._inside.pop()
            if status == 0:
                return None
            if status < 0:
                fail(status, self._rank, "key")
        if out is None:
            raise KVStoreValueError("pull: out is None; give the arrays to write", Status.ERR_ARGUMENT, self._rank)
        keys = keys_of(key)
        call = _call_of(priority, 0 if ignore_sparse else _KEEP_SPARSE) if priority != 0 or not ignore_sparse else None
        row_out = None if ignore_sparse else lambda _, one: one.shape[0]
        return self._operate(lib.kvs_store_pull, [pack(out, keys[2], "outs", True, row_out)], call, async_, keys)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0, *,
                 reduce: str = "sum", async_: bool = False) -> Optional[Future]:
        """Push, then pull, as one operation; without `out` the result is written back into the values.

        In stores that keep no weights it is an allreduce, and the key need not be initialised. `reduce`: in some
        of these (horovod) also ``"average"``, ``"min"`` or ``"max"`` of the workers' values.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create("teststore")
        >>> a, b = np.ones(2, "f4"), np.full(2, 2, "f4")
        >>> kv.pushpull("grad", [a, b])
        >>> a, b
        (array([3., 3.], dtype=float32), array([3., 3.], dtype=float32))
        """
        if self._fast is not None and not async_ and reduce == "sum":
            self._inside.append(1)
            try:
                status = self._fast.pushpull(self._handle, key, value, out, priority)
            finally:
                self._inside.pop()
            if status == 0:
                return None
            if status < 0:
                fail(status, self._rank, "key")
        keys = keys_of(key)
        values = pack(value, keys[2], "values", writes=out is None)
        outs = None if out is None else pack(out, keys[2], "outs", True)
        call = _call_of(priority, 0, reduce) if priority != 0 or reduce != "sum" else None
        return self._operate(lib.kvs_store_pushpull, [values, outs], call, async_, keys)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0, *,
                  async_: bool = False) -> Optional[Future]:
        """Rank 0's value of each key to every out on every rank. Where weights are kept it is init, then pull.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> out = [np.empty(2, "f4"), np.empty(2, "f4")]
        >>> kv.broadcast("w", np.ones(2, "f4"), out)
        >>> out[1]
        array([1., 1.], dtype=float32)
        """
        if out is None:
            raise KVStoreValueError("broadcast: out is None; give the arrays to write", Status.ERR_ARGUMENT,
                                    self._rank)
        keys = keys_of(key)
        packs: List[Optional[Packed]] = [pack(value, keys[2], "values"), pack(out, keys[2], "outs", True)]
        return self._operate(lib.kvs_store_broadcast, packs, _call_of(priority) if priority != 0 else None, async_,
                             keys)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None, *,
                        async_: bool = False) -> Optional[Future]:
        """Write the rows named by `row_ids` of each row-sparse key into its :class:`RowSparse` outs: ascending,
        each once, absent rows zero.

        `row_ids`: an array of any shape and integer dtype, or a sequence of ints, for all outs; or a list of
        arrays shaped as the outs. ValueError: an id outside the shape, or one that is no whole number; `out` or
        `row_ids` is None. TypeError: the key or an out is dense.
        """
        if out is None or row_ids is None:
            raise KVStoreValueError(f"row_sparse_pull: {'out' if out is None else 'row_ids'} is None",
                                    Status.ERR_ARGUMENT, self._rank)
        keys = keys_of(key)
        ids, room = pack_row_ids(row_ids, out, keys[2])
        packs: List[Optional[Packed]] = [pack(out, keys[2], "outs", True, lambda i, _: room[i]), ids]
        return self._operate(lib.kvs_store_row_sparse_pull, packs, _call_of(priority) if priority != 0 else None,
                             async_, keys)

    def allgather(self, key: Any, value: Any, out: Any) -> None:
        """Every worker gets the values of all, one behind the other in order of rank. Values may differ in their
        first dimension, and `out` has the sum of these. `key` names the exchange. ValueError: shapes;
        NotImplementedError: not an allreduce backend that has it (horovod)."""
        table, state = c_void_p(), c_void_p()
        keys, packs = key_of(key), [pack([value], False, "values"), pack([out], False, "outs", True)]

        def kvs_allgather(_: int) -> int:
            ops = AllreduceOps.from_address(table.value or 0)
            return int(Allgather(ops.allgather)(state, byref(keys), *(one.keep[-1] for one in packs)))

        self._ask(lib.kvs_store_extension, b"allreduce", byref(table), byref(state))
        self._ask(kvs_allgather, about="key")

    # ---- Keys that go ----

    def delete(self, key: Any) -> None:
        """Forget a key or a list of keys, once all that was issued is carried out: as if never initialised. With
        several workers each deletes them at the same point. KeyError: not initialised; nothing was done.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> kv.init("w", np.zeros(2, "f4"))
        >>> kv.delete("w")
        >>> kv.init("w", np.zeros((3, 3), "f4"))
        """
        structs, n, _ = keys_of(key)
        self._ask(lib.kvs_store_delete, byref(structs), n, about="key")

    def reset(self, key: Any, value: Any) -> None:
        """Delete, then init with values of the same shapes and dtypes: keys begin afresh, without states of the
        optimizer. Errors are those of both."""
        structs, n, is_list = keys_of(key)
        values = pack(value, is_list, "values")

        def kvs_store_reset(handle: int) -> int:
            return int(lib.kvs_store_reset(handle, byref(structs), n, values.address, None))

        self._ask(kvs_store_reset, about="key")

    # ---- Updating in the store ----

    def set_optimizer(self, optimizer: Any) -> None:
        """Update in the store by this optimizer (``kvstore.optimizer``), with empty states, for the pushes issued
        after it. On `dist` every worker calls it. TypeError: not an optimizer."""
        from .optimizer import Optimizer

        if not isinstance(optimizer, Optimizer):
            raise KVStoreTypeError("set_optimizer takes an optimizer of kvstore.optimizer, not "
                                   f"{type(optimizer).__name__}", Status.ERR_ARGUMENT, self._rank)
        spec = optimizer._spec()
        self._ask(lib.kvs_store_set_optimizer, byref(spec.struct))
        self._forget_updater()

    def set_updater(self, updater: Optional[Callable[[Any, Any, Any], Any]]) -> None:
        """Have ``updater(key, value, stored)`` change the stored value at each push: `value` is the sum of the
        push, read-only, `stored` is writable; NumPy arrays or :class:`RowSparse` that view the store's memory
        for the length of the call. What it raises is raised by the push. None: pushes replace again.

        It may ask the store for type, rank, num_workers and is_capable, nothing else.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> kv.init("w", np.ones(2, "f4"))
        >>> def add(key, value, stored):
        ...     stored += value
        >>> kv.set_updater(add)
        >>> kv.push("w", np.ones(2, "f4"))
        >>> out = np.empty(2, "f4")
        >>> kv.pull("w", out=out)
        >>> out
        array([2., 2.], dtype=float32)
        """
        if updater is not None and not callable(updater):
            raise KVStoreTypeError(f"set_updater takes a function, not {type(updater).__name__}",
                                   Status.ERR_ARGUMENT, self._rank)
        called = None if updater is None else trampoline(updater, self._gate)
        self._fast = None  # from before the library may call it
        try:
            self._ask(lib.kvs_store_set_updater, None if called is None else ctypes.cast(called, c_void_p), None)
            self._forget_updater()
            self._updater = called
        finally:
            self._fast = self._usable_fast if self._updater is None else None

    def _forget_updater(self) -> None:
        if self._updater is not None:
            self._old_updaters.append(self._updater)  # an interrupted push may still run it
            self._updater = None
        self._fast = self._usable_fast

    def set_optimizer_attr(self, name: str, value: Any) -> None:
        """Change learning_rate, wd, rescale_grad, … of the optimizer in the store, for the pushes issued after it.
        RuntimeError: no optimizer, or learning_rate while a schedule is set."""
        params = params_of({name: value}, "set_optimizer_attr")
        self._ask(lib.kvs_store_set_optimizer_attr, params)

    def set_gradient_compression(self, compression_params: Dict[str, Any]) -> None:
        """Compress gradients pushed after it: ``{"type": "1bit" or "2bit", "threshold": 0.5}``.

        >>> import kvstore
        >>> kvstore.create("device").set_gradient_compression({"type": "2bit", "threshold": 0.5})
        """
        if not isinstance(compression_params, dict):
            raise KVStoreTypeError("set_gradient_compression takes a dict, not "
                                   f"{type(compression_params).__name__}", Status.ERR_ARGUMENT, self._rank)
        params = params_of(compression_params, "set_gradient_compression")
        self._ask(lib.kvs_store_set_gradient_compression, params, len(params))

    def save_optimizer_states(self, fname: Union[str, "os.PathLike[str]"], dump_optimizer: bool = False) -> None:
        """Write every optimizer state to a file that any safetensors reader opens; with `dump_optimizer` also the
        optimizer itself. RuntimeError: no optimizer; OSError."""
        path = path_of(fname, "save_optimizer_states")
        self._ask(lib.kvs_store_save_optimizer_states, path, int(bool(dump_optimizer)), about="file",
                  path=os.fsdecode(path))

    def load_optimizer_states(self, fname: Union[str, "os.PathLike[str]"]) -> None:
        """Replace all optimizer states by those of a file. On failure the store is unchanged. FileNotFoundError;
        ValueError: foreign, damaged, or of another optimizer; KeyError: of a key that was not initialised."""
        path = path_of(fname, "load_optimizer_states")
        self._ask(lib.kvs_store_load_optimizer_states, path, about="file", path=os.fsdecode(path))

    # ---- What a store is ----

    @property
    def type(self) -> str:
        """The name the store was created by, in lower case."""
        return self._type

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self._ask_int(lib.kvs_store_rank)

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return self._ask_int(lib.kvs_store_num_workers)

    @property
    def local_rank(self) -> int:
        """This worker's number among the processes of this host."""
        return self._ask_int(lib.kvs_store_local_rank)

    @property
    def is_recovery(self) -> bool:
        """Whether this process rejoined a running job."""
        return bool(self._ask_int(lib.kvs_store_is_recovery))

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do ``"optimizer"``, ``"sparse"``, ``"gradient_compression"``, ``"async"``.
        ValueError: another name.

        >>> import kvstore
        >>> kvstore.create().is_capable("optimizer")
        True
        """
        return bool(self._ask_int(lib.kvs_store_is_capable, text_of(capability, "a capability")))

    def supports(self, dtype: Any, context: Context = cpu()) -> bool:
        """Whether arrays of a dtype, as NumPy names it, on that kind of device are taken.

        >>> import kvstore
        >>> kvstore.create().supports("float16"), kvstore.create().supports("complex64")
        (True, False)
        """
        if not isinstance(context, Context):
            raise KVStoreTypeError(f"supports takes a device, such as kvstore.cpu(), not {type(context).__name__}",
                                   Status.ERR_ARGUMENT, self._rank)
        code = DTYPES.get(dtype_name(dtype))
        return code is not None and bool(self._ask_int(lib.kvs_store_supports, DType(*code, 1),
                                                       Device(context.code, context.device_id)))

    def stats(self) -> Dict[str, int]:
        """Counts since creation of what succeeded: keys initialised, pushed, pulled, and bytes.

        >>> import kvstore, numpy as np
        >>> kv = kvstore.create()
        >>> kv.init(0, np.zeros(4, "f4"))
        >>> kv.push(0, np.ones(4, "f4"))
        >>> kv.stats()["bytes_pushed"]
        16
        """
        stats = Stats(ctypes.sizeof(Stats))
        self._ask(lib.kvs_store_stats, byref(stats))
        return {name: getattr(stats, name) for name, *_ in Stats._fields_[2:]}

    # ---- Several processes ----

    def barrier(self) -> None:
        """Return when all workers have called it. TimeoutError names the ranks missing."""
        self._ask(lib.kvs_store_barrier)

    def join(self) -> int:
        """Take no further part in rounds that the others are still in, and wait for them; the rank that joined last.
        Rounds to come need all workers again."""
        number = c_int()
        self._ask(lib.kvs_store_join_last, byref(number))
        return number.value

    def send_command_to_servers(self, head: int, body: Union[str, bytes]) -> None:
        """Have every server carry out a command; it has when this returns."""
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise KVStoreTypeError(f"the body of a command is str or bytes, not {type(body).__name__}",
                                   Status.ERR_ARGUMENT, self._rank)
        self._ask(lib.kvs_store_send_command_to_servers, int32_of(head, "the head of a command"), bytes(body),
                  memoryview(body).nbytes)

    def num_dead_nodes(self, role: str = "worker", timeout: float = 60) -> int:
        """How many processes of `role` have not been heard of for `timeout` seconds."""
        number = c_int()
        self._ask(lib.kvs_store_num_dead_nodes, text_of(role, "a role"), ms_of(timeout, "num_dead_nodes"),
                  byref(number))
        return number.value

    def wait_all(self, timeout: Optional[float] = None) -> None:
        """Wait for everything issued on the store, at most `timeout` seconds (None: the store's own deadline), and
        raise the first error that nobody was told yet. Errors of futures that somebody has stay with them."""
        flying = [weakref.ref(flight.future) for flight in list(self._flying.values())]
        self._ask(lib.kvs_store_wait_all, -1 if timeout is None else ms_of(timeout, "wait_all"), about="key")
        for future in flying:  # other threads, which issue or complete them, may be a moment behind
            concurrent.futures.wait([one for one in [future()] if one is not None])
        self._late.clear()
        self._reap()

    # ---- The end ----

    def _run_server(self) -> None:
        self._inside.append(1)
        try:
            handle = self._get()
            if is_main():
                call_aside(lib.kvs_store_run_server, (handle,), None, "name", None, self._asides)
            else:
                check(lib.kvs_store_run_server(handle))
        finally:
            self._inside.pop()

    def cancel(self) -> None:
        """Wake every call that waits in the store, with an error; later ones fail too, and it can only be closed. Any
        thread, also in a handler of a signal."""
        handle = self._handle
        if handle is not None and os.getpid() == self._pid:
            lib.kvs_store_cancel(handle)

    def _leave(self, is_done: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not is_done() and time.monotonic() < end:
            time.sleep(0.001)
        return is_done()

    def _give_up_handle(self) -> Optional[int]:
        """The handle, to whoever asks first: close, the end of the object, and the interpreter's may meet."""
        handle: Optional[int] = self.__dict__.pop("_handle", None)
        return handle

    def close(self) -> None:
        """Wait for the store's work, or past its deadline abandon it with an error. Raises the first error that
        nobody was told yet; errors of futures that somebody has stay with them. The store can't be used afterwards;
        closing it again does nothing. RuntimeError in an updater."""
        if is_updating():
            raise error_of(int(Status.ERR_STATE), "close: not allowed in an updater", self._rank)
        handle = self._give_up_handle()
        if handle is None:
            return
        if os.getpid() != self._pid:
            return  # the parent's
        try:
            self._leave(lambda: not self._inside, _CLOSE_SECONDS)  # other threads' calls
        except BaseException:
            lib.kvs_store_cancel(handle)
            self._leave(lambda: not self._inside, _EXIT_SECONDS)
            self._close_handle(handle)
            raise
        self._reap()
        was_interrupted = bool(self._orphans) or not self._is_alone()
        if was_interrupted:
            lib.kvs_store_cancel(handle)  # what was interrupted and still waits ends now
            self._leave(self._is_alone, _CANCEL_SECONDS)
        status, text = self._close_handle(handle)
        if status != 0 and (not was_interrupted or status != Status.ERR_CANCELLED):
            raise error_of(status, text, self._rank, "key")

    def _is_alone(self) -> bool:
        """Whether no call is in the library, interrupted ones included."""
        return not self._inside and all(aside.is_over() for aside in self._asides)

    def _close_handle(self, handle: int) -> Tuple[int, str]:
        if not self._is_alone():
            return 0, ""  # a call goes on: leave it the store
        if not (self._waits or self._flying or self._serves) or not is_main() or _exiting:
            status = lib.kvs_store_close(handle)
            answer = status, last_text() if status != 0 else ""
        else:
            aside = Aside(lib.kvs_store_close, (handle,))
            try:
                answer = aside.run()
            except BaseException:
                lib.kvs_store_cancel(handle)
                self._leave(aside.is_over, _EXIT_SECONDS)
                self._keep_what_runs()
                raise
        self._keep_what_runs()
        return answer

    def _keep_what_runs(self) -> None:
        """Past close, what still runs goes on: its arrays and updaters must stay."""
        self._reap()
        self._leave(lambda: not self._flying, 0.1)
        if _exiting and self._flying:  # nothing is to end when the interpreter has
            self._gate.is_shut = True
            self._leave(lambda: not self._flying or bool(self._gate.inside), _EXIT_SECONDS)
        if self._orphans or self._flying or self._late:
            _forever.append((self._orphans, list(self._flying.values()), self._late, self._updater,
                             self._old_updaters))

    def _close_quietly(self, seconds: float) -> None:
        """Close where another error, or nobody, is on its way: what is under way has some time, then it is
        cancelled; an error of close is logged."""
        if not self._leave(lambda: not self._flying and not self._inside, seconds):
            self.cancel()
        try:
            self.close()
        except Exception as error:
            if getattr(error, "code", None) != Status.ERR_CANCELLED:
                _logger.warning("the store %s was closed with an error: %s", self._type, error)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, (Exception, SystemExit)):
            self._close_quietly(_EXIT_SECONDS)
        else:  # Ctrl-C: leave at once
            self.cancel()
            self._close_quietly(0)

    def __del__(self) -> None:
        if self._handle is None or sys.is_finalizing():
            return
        if futures.is_calling_back():  # where no store may be used
            handle = self._give_up_handle()
            if handle is not None:
                threading.Thread(target=_close_dropped, args=(handle, self._type), daemon=True).start()
        else:
            self._close_quietly(_CLOSE_SECONDS)

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"rank {self._rank}"
        return f"<kvstore.KVStore {self._type!r}, {state}>"


def _close_dropped(handle: int, kind: str) -> None:
    if lib.kvs_store_close(handle) != 0:
        _logger.warning("the store %s was closed with an error: %s", kind, last_text())


# ---- Creating ---------------------------------------------------------------------------------------------

def _create_handle(name: Optional[str], options: Dict[str, Any]) -> int:
    structs = (Option * max(len(options), 1))()
    for struct, (option, value) in zip(structs, options.items()):
        struct.name = text_of(option, "create: the name of an option")
        struct.value = text_of(_option_text(option, value), f"create: option {option}")
    handle = c_void_p()
    arguments = (None if name is None else text_of(name, "create: the name"), structs, len(options), byref(handle))
    if is_main():  # a rendezvous takes as long as the others take
        call_aside(lib.kvs_store_create, arguments, None, "name", None, _creating)
    else:
        check(lib.kvs_store_create(*arguments))
    return handle.value or 0


def create(name: Optional[str] = "local", *, serve: bool = True, **options: Any) -> KVStoreBase:
    """Create a store by name: ``"local"``, ``"device"``, ``"dist_sync"``, …, or the name, in lower case, of a class
    registered with :class:`KVStoreBase`; None: what the configuration names (``kvstore run`` does), else
    ``"local"``. Options are those that ``kvstore info NAME`` lists.

    In a process whose role is server or scheduler (``KVSTORE_ROLE``, ``DMLC_ROLE``) this serves until the job is
    over and then raises SystemExit(0), so that one script serves all roles; with ``serve=False`` it returns, and
    ``KVStoreServer(kv).run()`` serves.

    ValueError: no such backend or option, with near names; RuntimeError: known, but not installed, turned off, or
    lacking something.

    >>> import kvstore
    >>> kvstore.create("LOCAL").type
    'local'
    >>> kvstore.create("lokal")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    kvstore.errors.KVStoreValueError: ...lokal...
    """
    if name is not None and not isinstance(name, str):
        raise KVStoreTypeError(f"create: the name of a store is a str, not {type(name).__name__}",
                               Status.ERR_ARGUMENT)
    klass = None if name is None else registered(name.lower())
    if klass is not None:
        return klass(**options)
    store = KVStore(_create_handle(name, options))
    if store._serves and serve:
        from .server import KVStoreServer

        KVStoreServer(store).run()
        raise SystemExit(0)
    return store


# ---- Fork and exit --------------------------------------------------------------------------------------------

def _at_exit() -> None:
    """Close what the program left open, at once if it ends by an error, before the interpreter goes."""
    global _exiting
    _exiting = True  # no more threads
    failed = hasattr(sys, "last_type") or hasattr(sys, "last_exc")
    for store in [one for one in _stores if one._pid == os.getpid()]:
        store._close_quietly(0 if failed else _EXIT_SECONDS)
    if _forever:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_forever))


atexit.register(_at_exit)
