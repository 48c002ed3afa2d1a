# SPDX-License-Identifier: Apache-2.0
"""Updaters in Python: how the C library calls them."""

import collections
import threading
import time
from typing import Any, Callable, Deque

from ._arrays import user_key, view_of
from ._library import Updater, lib
from .errors import Status, remember


_here = threading.local()


def is_updating() -> bool:
    """Whether this thread is in an updater."""
    return getattr(_here, "is_updating", False)


class Gate:
    """Between a store's updaters and the library: once it is shut, whoever is in an updater stays there, since what
    is behind it in the library would call an interpreter that has ended."""

    def __init__(self) -> None:
        self.inside: Deque[int] = collections.deque()  # updaters under way
        self.is_shut = False


def trampoline(fn: Callable[[Any, Any, Any], Any], gate: Gate) -> Any:
    """`fn(key, value, stored)` as a function of the C library. The caller keeps what is returned."""

    def call(key: Any, value: Any, stored: Any, _arg: Any) -> int:
        _here.is_updating = True
        gate.inside.append(1)
        try:
            target = view_of(stored[0], True)
            fn(user_key(key[0]), view_of(value[0], False), target)
            return 0
        except BaseException as error:  # pylint: disable=broad-except
            lib.kvs_fail(int(Status.ERR_CALLBACK), b"%s", remember(error).encode())
            return int(Status.ERR_CALLBACK)
        finally:
            _here.is_updating = False
            while gate.is_shut:
                time.sleep(3600)
            gate.inside.pop()

    return Updater(call)
