# SPDX-License-Identifier: Apache-2.0
"""Named parameters, as the structs of the C library."""

import ctypes
import numbers
from ctypes import c_int64
from typing import Any, Mapping

from ._library import (
    PARAM_BOOL,
    PARAM_FLOAT,
    PARAM_INT,
    PARAM_INTS,
    PARAM_NULL,
    PARAM_TEXT,
    Param,
)
from .errors import KVStoreTypeError, KVStoreValueError, Status


def fill_param(param: Param, name: str, value: Any, about: str) -> None:
    """One parameter. TypeError: a value of a kind that no parameter has."""
    if not isinstance(name, str):
        raise KVStoreTypeError(f"{about}: names of parameters are str, not {type(name).__name__}",
                               Status.ERR_ARGUMENT)
    param.name = name.encode()
    if value is None:
        param.type = PARAM_NULL
    elif isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        param.type, param.value.integer = PARAM_BOOL, int(value)
    elif isinstance(value, numbers.Integral) or hasattr(value, "__index__"):
        number = int(value)
        if not -(2**63) <= number < 2**63:
            raise KVStoreValueError(f"{about}: {name} {number} does not fit in 64 bits", Status.ERR_ARGUMENT)
        param.type, param.value.integer = PARAM_INT, number
    elif isinstance(value, numbers.Real) or (hasattr(value, "__float__") and not hasattr(value, "__len__")):
        param.type, param.value.real = PARAM_FLOAT, float(value)
    elif isinstance(value, str):
        param.type, param.value.text = PARAM_TEXT, value.encode()
    elif isinstance(value, (list, tuple)) and all(isinstance(n, numbers.Integral) for n in value):
        param.type = PARAM_INTS
        param.value.integers = (c_int64 * max(len(value), 1))(*value)
        param.n_integers = len(value)
    else:
        raise KVStoreTypeError(f"{about}: {name} can't be a {type(value).__name__}: {value!r}"[:300],
                               Status.ERR_ARGUMENT)


def params_of(params: Mapping[str, Any], about: str) -> "ctypes.Array[Param]":
    """Named values as an array of structs. `about` begins the text of an error."""
    made = (Param * len(params))()
    for param, (name, value) in zip(made, params.items()):
        fill_param(param, name, value, about)
    return made
