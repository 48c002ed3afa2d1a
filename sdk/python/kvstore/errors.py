# SPDX-License-Identifier: Apache-2.0
"""Errors: every one is a KVStoreError with the status of the C library, and also the built-in class
that a Python program would expect.

>>> import kvstore
>>> kv = kvstore.create()
>>> try:
...     kv.push(7, [])
... except ValueError as error:
...     isinstance(error, kvstore.KVStoreError), error.code.name
(True, 'ERR_ARGUMENT')
"""

import enum
import os
from typing import Any, Dict, List, NoReturn, Optional, Tuple, Type

from ._library import lib


class Status(enum.IntEnum):
    """What the C library's functions return."""

    OK = 0
    ERR_ARGUMENT = -1
    ERR_NO_MEMORY = -2
    ERR_NOT_FOUND = -3
    ERR_EXISTS = -4
    ERR_SHAPE = -5
    ERR_DTYPE = -6
    ERR_KEY_TYPE = -7
    ERR_STORAGE = -8
    ERR_RANGE = -9
    ERR_NOT_IMPLEMENTED = -10
    ERR_STATE = -11
    ERR_UNAVAILABLE = -12
    ERR_PLUGIN = -13
    ERR_FORMAT = -14
    ERR_IO = -15
    ERR_TIMEOUT = -16
    ERR_CANCELLED = -17
    ERR_PEER = -18
    ERR_CALLBACK = -19
    ERR_NON_FINITE = -20
    ERR_INTERNAL = -21


class KVStoreError(Exception):
    """What went wrong, in words that name the culprit and what mends it.

    Attributes: ``code``, a :class:`Status`; ``rank``, that of the worker whose call failed, or None
    where there is no store yet.
    """

    code: Status
    rank: Optional[int]

    def __init__(self, text: str, code: Status = Status.ERR_ARGUMENT,
                 rank: Optional[int] = None) -> None:
        super().__init__(text)
        self._text = text
        self.code = code
        self.rank = rank

    def __str__(self) -> str:  # KeyError would quote it
        return self._text

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_rebuild, (type(self), self._text, self.code, self.rank))


def _rebuild(kind: Type[KVStoreError], text: str, code: Status,
             rank: Optional[int]) -> KVStoreError:
    return kind(text, code, rank)


class KVStoreKeyError(KVStoreError, KeyError):
    """A key that was never initialised."""


class KVStoreValueError(KVStoreError, ValueError):
    """Duplicate init, shapes, lengths, unknown names, parameters, files of states."""


class KVStoreTypeError(KVStoreError, TypeError):
    """Mixed or wrong types of keys, dtypes, kinds of arrays; not an array at all."""


class KVStoreStateError(KVStoreError, RuntimeError):
    """Not now, or not here: after close, in a forked child, in a callback, cancelled, unavailable."""


class KVStoreTimeoutError(KVStoreError, TimeoutError):
    """The store's deadline passed; the text says who did not answer."""


class KVStoreNotImplementedError(KVStoreError, NotImplementedError):
    """This backend does not offer the operation."""


class KVStoreConnectionError(KVStoreError, ConnectionError):
    """Another process of the job is lost; the text names it."""


class KVStoreOSError(KVStoreError, OSError):
    """A file can't be read or written."""


class KVStoreFileNotFoundError(KVStoreOSError, FileNotFoundError):
    """There is no such file."""


class KVStoreMemoryError(KVStoreError, MemoryError):
    """Out of memory."""


_CLASSES: Dict[Status, Type[KVStoreError]] = {
    Status.ERR_ARGUMENT: KVStoreValueError,
    Status.ERR_NO_MEMORY: KVStoreMemoryError,
    Status.ERR_NOT_FOUND: KVStoreValueError,  # but for keys and files: see `fail`
    Status.ERR_EXISTS: KVStoreValueError,
    Status.ERR_SHAPE: KVStoreValueError,
    Status.ERR_DTYPE: KVStoreTypeError,
    Status.ERR_KEY_TYPE: KVStoreTypeError,
    Status.ERR_STORAGE: KVStoreTypeError,
    Status.ERR_RANGE: KVStoreValueError,
    Status.ERR_NOT_IMPLEMENTED: KVStoreNotImplementedError,
    Status.ERR_STATE: KVStoreStateError,
    Status.ERR_UNAVAILABLE: KVStoreStateError,
    Status.ERR_PLUGIN: KVStoreStateError,
    Status.ERR_FORMAT: KVStoreValueError,
    Status.ERR_IO: KVStoreOSError,
    Status.ERR_TIMEOUT: KVStoreTimeoutError,
    Status.ERR_CANCELLED: KVStoreStateError,
    Status.ERR_PEER: KVStoreConnectionError,
    Status.ERR_CALLBACK: KVStoreStateError,
    Status.ERR_NON_FINITE: KVStoreValueError,
    Status.ERR_INTERNAL: KVStoreStateError,
}


def last_text() -> str:
    """The C library's text of this thread's last failed call."""
    return (lib.kvs_last_error() or b"").decode("utf-8", "replace")


# Exceptions that Python code raised inside a callback of the C library, with the text the library was
# given for each: they come back as themselves from the call that reports that text.
_raised: List[Tuple[str, BaseException]] = []


def remember(error: BaseException) -> str:
    """Keep what a callback raised; return the text to hand to the C library."""
    words = f"{type(error).__name__}: {error}"[:400]
    text = "".join(c if c.isprintable() else " " for c in words)  # as it is, whatever the library escapes
    _raised.append((text, error))
    del _raised[:-64]  # of stores that nobody asks any more
    return text


def _recall(text: str) -> Optional[BaseException]:
    for i, (words, error) in enumerate(_raised):
        if words in text:
            del _raised[i]
            return error
    return None


def error_of(status: int, text: str, rank: Optional[int] = None, about: str = "name",
             path: Optional[str] = None) -> BaseException:
    """The exception for a status. `about`: what it is that ERR_NOT_FOUND did not find, "key", "name"
    or "file"."""
    code = Status(status) if status in Status._value2member_map_ else Status.ERR_INTERNAL
    if code == Status.ERR_CALLBACK:
        error = _recall(text)
        if error is not None:
            return error
    kind = _CLASSES.get(code, KVStoreStateError)
    if code == Status.ERR_NOT_FOUND and about == "file" and path and not os.path.exists(path):
        kind = KVStoreFileNotFoundError
    elif code == Status.ERR_NOT_FOUND and about != "name":
        kind = KVStoreKeyError
    elif code == Status.ERR_IO and path is not None and not os.path.isdir(
            os.path.dirname(path) or "."):
        kind = KVStoreFileNotFoundError
    return kind(text, code, rank)


def fail(status: int, rank: Optional[int] = None, about: str = "name",
         path: Optional[str] = None) -> NoReturn:
    """Raise what the C library's last call on this thread, which returned `status`, says."""
    raise error_of(status, last_text(), rank, about, path)


def check(status: int, rank: Optional[int] = None, about: str = "name",
          path: Optional[str] = None) -> None:
    """Raise if `status` is not 0."""
    if status != 0:
        fail(status, rank, about, path)
