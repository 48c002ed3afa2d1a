# SPDX-License-Identifier: Apache-2.0
"""What users give as keys and arrays, as the structs of the C library: without copying.

Nested lists are flattened here: of arrays for one key, for each of a list of keys, or keys × devices.
"""

import ctypes
import operator
import sys
from ctypes import POINTER, Structure, addressof, byref, c_char, c_int, c_int64, c_size_t, c_ssize_t, c_void_p
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _dlpack
from ._library import Arrays, Key, Rows, Tensor
from .context import OnDevice
from .errors import KVStoreError, KVStoreTypeError, KVStoreValueError, Status
from .row_sparse import RowSparse, np

copied_bytes = 0  # by this package, where a value was not contiguous

DTYPES = {
    "float32": (2, 32), "float64": (2, 64), "float16": (2, 16), "bfloat16": (4, 16),
    "int8": (0, 8), "uint8": (1, 8), "int32": (0, 32), "int64": (0, 64),
}
_NAMES = {code: name for name, code in DTYPES.items()}
_ACCEPTED = ", ".join(DTYPES)
_OF_NUMPY: Dict[Any, Tuple[int, int]] = {}
_BUFFER_CODES = {"f": 2, "d": 2, "e": 2, "b": 0, "B": 1, "i": 0, "l": 0, "q": 0}
_NATIVE = "<" if sys.byteorder == "little" else ">"
_HOST = 1

if np is not None:
    _OF_NUMPY = {np.dtype(name): code for name, code in DTYPES.items() if name != "bfloat16"}
    _ndarray: Any = np.ndarray
else:
    _ndarray = ()


# ---- Keys ------------------------------------------------------------------------------------------

_known_keys: Dict[Any, Key] = {}  # of ints and strs, which calls use again and again
_KEYS_KEPT = 1 << 16


def _make_key(key: Any) -> Key:
    if isinstance(key, str):
        try:
            text = key.encode()
        except UnicodeEncodeError:
            raise KVStoreValueError(f"key {key!r} is not UTF-8 text", Status.ERR_ARGUMENT) from None
        if b"\0" in text:
            raise KVStoreValueError(f"key {key!r} contains a NUL character", Status.ERR_ARGUMENT)
        return Key(text, 0)
    try:
        number = operator.index(key)
    except TypeError:
        raise KVStoreTypeError(f"keys are int or str, not {type(key).__name__}: {key!r}"[:200],
                               Status.ERR_KEY_TYPE) from None
    if not -(2**63) <= number < 2**63:
        raise KVStoreValueError(f"key {number} does not fit in 64 bits", Status.ERR_ARGUMENT)
    return Key(None, number)


def key_of(key: Any) -> Key:
    """One key. TypeError: neither int, str, nor anything with ``__index__``."""
    if type(key) is int or type(key) is str:  # 1.0 and True would be found as 1
        made = _known_keys.get(key)
        if made is None:
            made = _make_key(key)
            if len(_known_keys) < _KEYS_KEPT:
                _known_keys[key] = made
        return made
    return _make_key(key)


def keys_of(key: Any) -> Tuple[Any, int, bool]:
    """One key or a list: what holds the structs, how many, and whether it was a list."""
    if not isinstance(key, (list, tuple)):
        return key_of(key), 1, False
    keys = (Key * len(key))()
    for i, one in enumerate(key):
        made = key_of(one)
        keys[i].str, keys[i].num = made.str, made.num
    return keys, len(key), True


def user_key(key: Key) -> Any:
    """As the user gave it."""
    return key.num if key.str is None else key.str.decode()


# ---- One array ---------------------------------------------------------------------------------------

_shapes: Dict[Tuple[int, ...], Tuple[int, Any]] = {}
_SHAPES_KEPT = 1 << 14


def shape_address(shape: Tuple[int, ...], keep: List[Any]) -> int:
    """Where a shape lies as int64 numbers. Those that a program uses again and again are kept."""
    known = _shapes.get(shape)
    if known is None:
        numbers = (c_int64 * max(len(shape), 1))(*shape)
        known = addressof(numbers), numbers
        if len(_shapes) < _SHAPES_KEPT:
            _shapes[shape] = known
        else:
            keep.append(numbers)
    return known[0]


class _Buffer(Structure):
    """CPython's Py_buffer."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t), ("itemsize", c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_void_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, POINTER(_Buffer), c_int], c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_Buffer)], None


def _buffer_address(view: memoryview) -> int:
    buffer = _Buffer()
    _get_buffer(view, byref(buffer), 0)
    address = buffer.buf or 0
    _release_buffer(byref(buffer))
    return address


def _numpy_dtype(dtype: Any) -> Tuple[int, int]:
    code = _OF_NUMPY.get(dtype)
    if code is not None:
        return code
    if dtype.name == "bfloat16" and dtype.itemsize == 2:
        return DTYPES["bfloat16"]
    if not dtype.isnative:
        raise KVStoreTypeError(f"dtype {dtype.str} has the other byte order; convert it: "
                               "a.astype(a.dtype.newbyteorder('='))", Status.ERR_DTYPE)
    raise KVStoreTypeError(f"dtype {dtype} is not accepted: {_ACCEPTED}", Status.ERR_DTYPE)


def _fill_numpy(tensor: Tensor, array: Any, writes: bool, keep: List[Any]) -> None:
    global copied_bytes
    code, bits = _numpy_dtype(array.dtype)
    flags = array.flags
    if writes and not flags.writeable:
        raise KVStoreValueError("the array to write is read-only", Status.ERR_ARGUMENT)
    if not flags.c_contiguous or not flags.aligned:
        if writes:
            raise KVStoreValueError(f"the array to write is not contiguous: shape {array.shape}, strides of "
                                    f"{array.strides} bytes", Status.ERR_ARGUMENT)
        array = array.copy()
        copied_bytes += array.nbytes
    if array.size == 0:
        tensor.data = None
    elif flags.writeable:
        tensor.data = addressof(c_char.from_buffer(array)) if bits != 16 or code == 2 else array.ctypes.data
    else:
        tensor.data = array.__array_interface__["data"][0]
    keep.append(array)
    tensor.device_type = _HOST
    tensor.ndim = array.ndim
    tensor.code, tensor.bits, tensor.lanes = code, bits, 1
    tensor.shape = shape_address(array.shape, keep)


def _fill_buffer(tensor: Tensor, view: memoryview, writes: bool, keep: List[Any]) -> None:
    global copied_bytes
    form = view.format
    order, letter = (form[0], form[1:]) if form[:1] in ("<", ">", "=", "@", "!") else ("@", form)
    code, bits = _BUFFER_CODES.get(letter, -1), 8 * view.itemsize  # an "l" has several sizes
    if (code, bits) not in _NAMES or (order in "<>!" and order != _NATIVE and bits > 8):
        raise KVStoreTypeError(f"elements of format {form!r} are not accepted: {_ACCEPTED}, in this "
                               "machine's byte order", Status.ERR_DTYPE)
    if writes and view.readonly:
        raise KVStoreValueError("the array to write is read-only", Status.ERR_ARGUMENT)
    shape = tuple(view.shape or ())
    if not view.c_contiguous:
        if writes:
            raise KVStoreValueError(f"the array to write is not contiguous: strides of {view.strides} bytes",
                                    Status.ERR_ARGUMENT)
        view = memoryview(view.tobytes())
        copied_bytes += view.nbytes
    tensor.data = _buffer_address(view) if view.nbytes else None
    keep.append(view)
    tensor.device_type = _HOST
    tensor.ndim = len(shape)
    tensor.code, tensor.bits, tensor.lanes = code, bits, 1
    tensor.shape = shape_address(shape, keep)


def fill(tensor: Tensor, array: Any, writes: bool, keep: List[Any]) -> None:
    """Describe one array; `keep` gets what must live as long as the operation. TypeError, ValueError."""
    if isinstance(array, _ndarray):
        _fill_numpy(tensor, array, writes, keep)
    elif isinstance(array, OnDevice):
        if hasattr(array.array, "__dlpack__") and not isinstance(array.array, _ndarray):
            keep.append(_dlpack.take(array.array, tensor, array.stream))
        else:
            fill(tensor, array.array, writes, keep)
        if tensor.device_type == _HOST and array.context.code == _HOST:
            tensor.device_id = array.context.device_id
        elif (tensor.device_type, tensor.device_id) != (array.context.code, array.context.device_id):
            raise KVStoreTypeError(f"an array on device ({tensor.device_type}, {tensor.device_id}) of DLPack "
                                   f"can't be labelled {array.context}", Status.ERR_ARGUMENT)
    elif isinstance(array, RowSparse):
        _fill_rows(tensor, array, keep)
    elif hasattr(array, "__dlpack__"):
        keep.append(_dlpack.take(array, tensor))
    else:
        try:
            view = memoryview(array)
        except TypeError:
            raise KVStoreTypeError(f"not an array: {type(array).__name__}; arrays have the buffer protocol or "
                                   "DLPack", Status.ERR_ARGUMENT) from None
        _fill_buffer(tensor, view, writes, keep)


# ---- Row-sparse values and outs ---------------------------------------------------------------------

def _fill_rows(tensor: Tensor, value: RowSparse, keep: List[Any]) -> None:
    value.check()
    n = len(value.indices)
    _fill_numpy(tensor, value.data, False, keep)
    rows = Rows(value.indices.ctypes.data, n, n)
    _make_row_sparse(tensor, value.shape, rows, keep)
    keep += [value.indices, rows]


def _make_row_sparse(tensor: Tensor, shape: Tuple[int, ...], rows: Rows, keep: List[Any]) -> None:
    tensor.ndim = len(shape)
    tensor.shape = shape_address(shape, keep)
    tensor.rows = addressof(rows)


class RowsOut:
    """A row-sparse out on its way: room for `capacity` rows; `finish` puts what came into the out."""

    def __init__(self, out: RowSparse, capacity: int) -> None:
        self.out = out
        self.data, self.ids = out.data, out.indices
        usable = (len(self.ids) == capacity and self.data.shape == (capacity,) + out.shape[1:]
                  and self.data.flags.c_contiguous and self.data.flags.writeable
                  and self.ids.flags.c_contiguous and self.ids.flags.writeable
                  and self.ids.dtype == np.int64)
        if not usable:
            self.data = np.empty((capacity,) + out.shape[1:], out.data.dtype)
            self.ids = np.empty(capacity, np.int64)
        self.rows = Rows(self.ids.ctypes.data, 0, capacity)

    def fill(self, tensor: Tensor, keep: List[Any]) -> None:
        _fill_numpy(tensor, self.data, True, keep)
        _make_row_sparse(tensor, self.out.shape, self.rows, keep)
        keep.append(self)

    def finish(self) -> None:
        n = self.rows.n_rows
        if n == self.rows.capacity:
            self.out.data, self.out.indices = self.data, self.ids
        else:
            self.out.data, self.out.indices = self.data[:n].copy(), self.ids[:n].copy()


# ---- Lists of arrays -----------------------------------------------------------------------------------

class Packed:
    """The arrays of a call, and all that must live while it runs."""

    __slots__ = ("arrays", "keep", "row_outs", "address", "per_key")

    def __init__(self) -> None:
        self.keep: List[Any] = []
        self.row_outs: List[RowsOut] = []
        self.arrays = Arrays()
        self.per_key: Optional[Any] = None
        self.address = addressof(self.arrays)

    def set(self, tensors: Any, n: int, per_key: Optional[Sequence[int]]) -> None:
        self.keep.append(tensors)
        self.arrays.tensors, self.arrays.n = addressof(tensors), n
        if per_key is not None:
            self.per_key = (c_size_t * max(len(per_key), 1))(*per_key)
            self.arrays.per_key, self.arrays.n_per_key = addressof(self.per_key), len(per_key)

    def finish(self) -> None:
        for out in self.row_outs:
            out.finish()


def flatten(value: Any, is_list: bool, what: str) -> Tuple[List[Any], Optional[List[int]]]:
    """The arrays of one key, or of a list of keys, in one list, and how many belong to each key."""
    if not is_list:
        return (list(value) if isinstance(value, (list, tuple)) else [value]), None
    if not isinstance(value, (list, tuple)):
        raise KVStoreTypeError(f"a list of keys takes a list of {what}, not {type(value).__name__}",
                               Status.ERR_ARGUMENT)
    flat: List[Any] = []
    counts = []
    for one in value:
        group = one if isinstance(one, (list, tuple)) else (one,)
        flat.extend(group)
        counts.append(len(group))
    return flat, counts


def pack(value: Any, is_list: bool, what: str, writes: bool = False,
         row_out: Optional[Callable[[int, RowSparse], int]] = None) -> Packed:
    """Describe the arrays of a call. `what` they are called in texts. `row_out` gives a row-sparse out's room for
    rows by its place in the flattened list; without it a row-sparse out is described as it is."""
    packed = Packed()
    if not is_list and not isinstance(value, (list, tuple)) and not isinstance(value, RowSparse):
        tensor = Tensor()
        fill(tensor, value, writes, packed.keep)
        packed.set(tensor, 1, None)
        return packed
    flat, counts = flatten(value, is_list, what)
    tensors = (Tensor * max(len(flat), 1))()
    for i, array in enumerate(flat):
        if row_out is not None and isinstance(array, RowSparse):
            out = RowsOut(array, row_out(i, array))
            out.fill(tensors[i], packed.keep)
            packed.row_outs.append(out)
            continue
        try:
            fill(tensors[i], array, writes, packed.keep)
        except KVStoreError as error:
            if len(flat) == 1:
                raise
            raise type(error)(f"{what}: array {i}: {error}", error.code) from None
    packed.set(tensors, len(flat), counts)
    return packed


def dtype_name(dtype: Any) -> str:
    """What DTYPES calls it: of a name, a NumPy dtype or scalar type, ..."""
    if np is not None:
        try:
            return str(np.dtype(dtype).name)
        except TypeError:  # bfloat16, without ml_dtypes
            pass
    return str(dtype)


# ---- Views of the library's memory -----------------------------------------------------------------------

def _numpy_dtype_of(code: int, bits: int) -> Any:
    name = _NAMES.get((code, bits))
    if name == "bfloat16":
        try:
            import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise KVStoreTypeError("bfloat16 arrays in Python need the package ml_dtypes",
                                   Status.ERR_DTYPE) from None
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def view_of(tensor: Tensor, writable: bool) -> Any:
    """A tensor in host memory as a NumPy array or RowSparse that views it."""
    if np is None:
        raise KVStoreValueError("updaters in Python need NumPy", Status.ERR_UNAVAILABLE)
    shape = tuple((c_int64 * tensor.ndim).from_address(tensor.shape)) if tensor.ndim else ()
    dtype = _numpy_dtype_of(tensor.code, tensor.bits)
    if not tensor.rows:
        return _view(tensor.data, tensor.byte_offset, shape, dtype, writable)
    rows = Rows.from_address(tensor.rows)
    data = _view(tensor.data, tensor.byte_offset, (rows.n_rows,) + shape[1:], dtype, writable)
    ids = _view(rows.ids, 0, (rows.n_rows,), np.dtype(np.int64), False)
    return RowSparse._view(data, ids, shape, not writable)


def _view(address: Optional[int], offset: int, shape: Tuple[int, ...], dtype: Any, writable: bool) -> Any:
    n_bytes = dtype.itemsize
    for n in shape:
        n_bytes *= n
    if n_bytes == 0 or not address:
        array = np.empty(shape, dtype)
    else:
        array = np.ndarray(shape, dtype, (c_char * n_bytes).from_address(address + offset))
    array.flags.writeable = writable
    return array
