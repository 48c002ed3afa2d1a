# SPDX-License-Identifier: Apache-2.0
"""Calls of the C library on a thread of their own, so that the main thread hears Ctrl-C while it waits."""

import threading
from typing import Any, Callable, List, Optional, Tuple

from .errors import error_of, last_text

SLICE_MS = 50  # how long Ctrl-C may go unheard


def is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


class Aside:
    """A call of the C library on a thread of its own, so that this one hears signals meanwhile."""

    def __init__(self, function: Callable[..., int], arguments: Tuple[Any, ...]) -> None:
        self.answer: Tuple[int, str] = (0, "")
        self.done = threading.Event()
        self._call = function, arguments
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"kvstore {function.__name__}")

    def _run(self) -> None:
        function, arguments = self._call
        status = function(*arguments)
        self.answer = status, last_text() if status != 0 else ""
        self.done.set()

    def is_over(self) -> bool:
        """Whether the library has nothing to do with it any more."""
        return self.done.is_set() or self._thread.ident is None

    def run(self) -> Tuple[int, str]:
        """Make the call and wait for it: what it returned, and its text."""
        self._thread.start()
        while not self.done.wait(SLICE_MS / 1000):  # a signal that comes to another thread ends no wait
            pass
        return self.answer


def call_aside(function: Callable[..., int], arguments: Tuple[Any, ...], rank: Optional[int], about: str,
               path: Optional[str], asides: List[Aside]) -> None:
    """Call the C library aside and raise its error. If the wait is interrupted, the call stays among `asides`."""
    aside = Aside(function, arguments)
    asides[:] = [one for one in asides if not one.is_over()]
    asides.append(aside)
    status, text = aside.run()
    asides.remove(aside)
    if status != 0:
        raise error_of(status, text, rank, about, path)
