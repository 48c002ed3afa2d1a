# SPDX-License-Identifier: Apache-2.0
"""Operations that go on: what ``async_=True`` returns, and what keeps their arrays alive."""

import asyncio
import concurrent.futures
import itertools
import threading
from ctypes import c_void_p, string_at
from typing import Any, Dict, Generator, List, Optional

from ._library import EventCallback, lib
from ._plain import NotCopied
from .errors import Status, error_of


class Future(NotCopied, concurrent.futures.Future[Any]):
    """An operation that goes on. ``result(timeout)`` waits for it and raises its error; ``done()``,
    ``exception()``, ``add_done_callback`` and ``concurrent.futures.wait`` work; ``await`` does too, in any
    event loop. It can't be cancelled. Callbacks run on the thread that completes the operation and may not
    use a store. The error of a future that is dropped unasked is raised by the next operation on its key, or by
    ``wait_all`` or ``close``.

    >>> import asyncio, kvstore, numpy as np
    >>> kv = kvstore.create()
    >>> kv.init("w", np.ones(2, "f4"))
    >>> out = np.empty(2, "f4")
    >>> async def train():
    ...     await kv.push("w", np.full(2, 3, "f4"), async_=True)
    ...     await kv.pull("w", out=out, async_=True)
    >>> asyncio.run(train())
    >>> out
    array([3., 3.], dtype=float32)
    """

    _event: Optional[c_void_p] = None  # of an error that nobody has asked for

    def result(self, timeout: Optional[float] = None) -> Any:
        try:
            return super().result(timeout)
        finally:
            self._note_told()

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        try:
            return super().exception(timeout)
        finally:
            self._note_told()

    def _note_told(self) -> None:
        if self.done():
            event = self.__dict__.pop("_event", None)
            if event is not None:
                lib.kvs_event_free(event)

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()

    def __del__(self) -> None:
        event = self.__dict__.pop("_event", None)
        if event is not None:
            lib.kvs_event_drop(event)


class Flight:
    """What an operation in flight needs."""

    __slots__ = ("future", "packs", "store", "event")

    def __init__(self, store: Any, packs: List[Any]) -> None:
        self.future = Future()
        self.future.set_running_or_notify_cancel()
        self.store = store
        self.packs = packs  # None where the call has no such arrays
        self.event: Optional[c_void_p] = None


_flights: Dict[int, Flight] = {}
_numbers = itertools.count(1)
_here = threading.local()


def is_calling_back() -> bool:
    """Whether this thread tells a future of its end."""
    return getattr(_here, "is_callback", False)


def board(flight: Flight) -> int:
    """Keep what the operation needs, until `land`."""
    number = next(_numbers)
    _flights[number] = flight
    flight.store._flying[number] = flight
    return number


def leave(number: int) -> Optional[Flight]:
    """The operation is over, or never began."""
    flight = _flights.pop(number, None)
    if flight is not None:
        flight.store._flying.pop(number, None)
    return flight


def _give_back(flight: Flight, succeeded: bool) -> None:
    """Of the arrays: what came into the outs, and the arrays themselves, before anybody is told of the end."""
    packs, flight.packs = flight.packs, []
    for pack in packs:
        if succeeded and pack is not None:
            pack.finish()


def _on_complete(status: int, text: Optional[int], number: Optional[int]) -> None:
    flight = leave(number or 0)
    if flight is None:
        return
    _here.is_callback = True
    try:
        _give_back(flight, status == 0)
        if status == 0:
            flight.future.set_result(None)
        else:
            words = string_at(text).decode("utf-8", "replace") if text else ""
            if status != Status.ERR_CANCELLED:
                flight.future._event, flight.event = flight.event, None
            flight.future.set_exception(error_of(status, words, flight.store._rank, "key"))
    except BaseException as error:  # pylint: disable=broad-except
        if not flight.future.done():
            flight.future.set_exception(error)
    finally:
        if flight.event is not None:
            lib.kvs_event_free(flight.event)
        del flight  # it may be the last to hold its store, or a future with an error
        _here.is_callback = False


_callback = EventCallback(_on_complete)


def launch(number: int, event: c_void_p) -> None:
    """Have the flight told of the event's end; the handle is the flight's."""
    _flights[number].event = event
    lib.kvs_event_on_complete(event, _callback, number)
