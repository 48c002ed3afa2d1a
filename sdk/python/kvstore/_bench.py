# SPDX-License-Identifier: Apache-2.0
"""Rows of ``kvstore bench --python``: what calls cost from Python. Run by that command, once with the extension
and once without."""

import array
import json
import statistics
import sys
import time
from typing import Any, Callable, List

from . import store
from ._library import fast
from .row_sparse import np

_SAMPLE_SECONDS = 100e-6


def _samples(call: Callable[[], Any], seconds: float) -> List[float]:
    for _ in range(3):
        call()
    n_calls = 1
    while True:
        begun = time.perf_counter()
        for _ in range(n_calls):
            call()
        if time.perf_counter() - begun >= _SAMPLE_SECONDS:
            break
        n_calls *= 2
    samples: List[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        for _ in range(n_calls):
            call()
        samples.append((time.perf_counter() - begun) / n_calls)
    return samples


def _text(seconds: float) -> str:
    return f"{1e6 * seconds:.2f} us" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def _show(name: str, backend: str, as_json: bool, samples: List[float]) -> None:
    middle = statistics.median(samples)
    if as_json:
        row = {"peer": "kvstore", "workload": name, "size_bytes": 16, "keys": 1, "procs": 1, "median_s": middle,
               "min_s": min(samples), "max_s": max(samples), "GBps": 16e-9 / middle, "samples": len(samples),
               "of_triad": None, "backend": backend}
        print(json.dumps(row))
    else:
        times = "".join(f" {_text(one):>11}" for one in (middle, min(samples), max(samples)))
        print(f"{'kvstore':<8} {name:<26} {16:>10} {1:>5} {1:>7}{times} {'-':>8} {'-':>8} {'-':>8}")


def main(backend: str, form: str, length: str) -> None:
    """Measure; `form` is json or table, `length` quick or full."""
    seconds = 0.002 if length == "quick" else 0.4
    kv = store.create(backend)
    if np is not None:
        value, out = np.ones((2, 2), "f4"), np.empty((2, 2), "f4")
    else:
        value, out = array.array("f", [1] * 4), array.array("f", [0] * 4)
    way = "python" if fast is not None and np is not None else "ctypes"
    kv.init(3, value)
    for verb, call in (("push", lambda: kv.push(3, value)), ("pull", lambda: kv.pull(3, out=out)),
                       ("pushpull", lambda: kv.pushpull(3, value, out=out))):
        _show(f"{way}_{verb}", backend, form == "json", _samples(call, seconds))
    kv.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
