# SPDX-License-Identifier: Apache-2.0
"""Plain arguments of calls - texts, integers, seconds, paths - as the C library takes them, or refused in words.

And what may not be copied."""

import operator
import os
from typing import Any, NoReturn

from .errors import KVStoreTypeError, KVStoreValueError, Status

_MAX_MS = 2**62


class NotCopied:
    """What holds a handle of the C library: a copy would free it twice, and another process doesn't have it."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise KVStoreTypeError(f"a {type(self).__name__} can't be copied or pickled; create one where it is used",
                               Status.ERR_ARGUMENT)


def text_of(value: Any, what: str) -> bytes:
    """A str as UTF-8 without a NUL."""
    if not isinstance(value, str):
        raise KVStoreTypeError(f"{what} is a str, not {type(value).__name__}", Status.ERR_ARGUMENT)
    try:
        text = value.encode()
    except UnicodeEncodeError:
        raise KVStoreValueError(f"{what} {value!r} is not UTF-8 text", Status.ERR_ARGUMENT) from None
    if b"\0" in text:
        raise KVStoreValueError(f"{what} {value!r} contains a NUL character", Status.ERR_ARGUMENT)
    return text


def int32_of(value: Any, what: str) -> int:
    """An int of 32 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise KVStoreTypeError(f"{what} is an int, not {type(value).__name__}", Status.ERR_ARGUMENT) from None
    if not -(2**31) <= number < 2**31:
        raise KVStoreValueError(f"{what} {number} does not fit in 32 bits", Status.ERR_ARGUMENT)
    return number


def ms_of(seconds: Any, what: str) -> int:
    """Seconds, which may be infinite, in milliseconds."""
    try:
        ms = float(seconds) * 1000 if not isinstance(seconds, (str, bytes)) else None
    except (TypeError, OverflowError):
        ms = None
    if ms is None:
        raise KVStoreTypeError(f"{what}: the time-out is a number of seconds, not {seconds!r}"[:200],
                               Status.ERR_ARGUMENT)
    if not ms >= 0:  # NaN too
        raise KVStoreValueError(f"{what}: the time-out is 0 s or more, not {seconds!r}", Status.ERR_ARGUMENT)
    return int(min(ms, _MAX_MS))


def path_of(name: Any, what: str) -> bytes:
    """A file's name."""
    try:
        path = os.fsencode(name)
    except TypeError:
        raise KVStoreTypeError(f"{what}: a file's name is a str or path, not {type(name).__name__}",
                               Status.ERR_ARGUMENT) from None
    except UnicodeEncodeError:
        raise KVStoreValueError(f"{what}: no file can be named {name!r}", Status.ERR_ARGUMENT) from None
    if b"\0" in path:
        raise KVStoreValueError(f"{what}: the file's name {name!r} contains a NUL character", Status.ERR_ARGUMENT)
    return path
