# SPDX-License-Identifier: Apache-2.0
"""Row-sparse values: some rows of a large array, and their numbers."""

from typing import Any, Optional, Tuple

from .errors import KVStoreTypeError, KVStoreValueError, Status

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]

__all__ = ["RowSparse", "np", "row_ids_of"]  # np: for the package's other modules


class RowSparse:
    """Some rows of an array of `shape`: row ``indices[i]`` is ``data[i]``, all others are zero.

    `data` has the shape ``(n,) + shape[1:]``, `indices` is int64 with the shape ``(n,)``; in a value they may
    come in any order, and rows that stand twice add up. As an out, `data` and `indices` hold afterwards exactly
    the rows pulled, ascending, in new arrays where their number changed.

    >>> import kvstore, numpy as np
    >>> kv = kvstore.create()
    >>> kv.init("emb", kvstore.RowSparse(np.ones((2, 3), "f4"), [0, 4], (5, 3)))
    >>> out = kvstore.RowSparse.zeros((5, 3))
    >>> kv.row_sparse_pull("emb", out=out, row_ids=[4, 1, 4])
    >>> out.indices, out.data
    (array([1, 4]), array([[0., 0., 0.],
           [1., 1., 1.]], dtype=float32))
    """

    __slots__ = ("data", "indices", "shape", "_read_only")

    def __init__(self, data: Any, indices: Any, shape: Tuple[int, ...]) -> None:
        if np is None:
            raise KVStoreValueError("row-sparse values need NumPy", Status.ERR_UNAVAILABLE)
        self.shape = tuple(int(n) for n in shape)
        if not self.shape:
            raise KVStoreValueError("a row-sparse value has one dimension at least", Status.ERR_SHAPE)
        self.data = data
        self.indices = indices
        self._read_only = False
        self.check()

    @classmethod
    def zeros(cls, shape: Tuple[int, ...], dtype: Any = "float32") -> "RowSparse":
        """A value of that shape without any rows."""
        if np is None:
            raise KVStoreValueError("row-sparse values need NumPy", Status.ERR_UNAVAILABLE)
        shape = tuple(shape)
        return cls(np.zeros((0,) + shape[1:], dtype), np.zeros(0, np.int64), shape)

    @classmethod
    def _view(cls, data: Any, indices: Any, shape: Tuple[int, ...], read_only: bool) -> "RowSparse":
        made = cls.__new__(cls)
        made.data, made.indices, made.shape, made._read_only = data, indices, shape, read_only
        return made

    def check(self) -> None:
        """See to it that data is an array and indices are int64 numbers, and that they fit together. ValueError,
        TypeError."""
        self.data, self.indices = np.asarray(self.data), row_ids_of(self.indices)
        want = (len(self.indices),) + self.shape[1:]
        if tuple(self.data.shape) != want:
            raise KVStoreValueError(
                f"row-sparse value of shape {self.shape} with {len(self.indices)} indices: data has the shape "
                f"{tuple(self.data.shape)}, not {want}", Status.ERR_SHAPE)

    @property
    def dtype(self) -> Any:
        """The dtype of the rows."""
        return self.data.dtype

    def todense(self) -> Any:
        """The whole array: a NumPy array of `shape`.

        >>> import kvstore, numpy as np
        >>> kvstore.RowSparse(np.ones((2, 1), "f4"), [2, 2], (3, 1)).todense().ravel()
        array([0., 0., 2.], dtype=float32)
        """
        dense = np.zeros(self.shape, self.data.dtype)
        np.add.at(dense, self.indices, self.data)
        return dense

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        raise KVStoreTypeError("a row-sparse value is no dense array; see todense()", Status.ERR_STORAGE)

    def __repr__(self) -> str:
        return f"<RowSparse {self.shape} {self.dtype}, {len(self.indices)} rows>"

    # ---- as much arithmetic as updaters need ----

    def __mul__(self, factor: Any) -> "RowSparse":
        if np.ndim(factor) != 0 or isinstance(factor, RowSparse):
            return NotImplemented
        return RowSparse(np.multiply(self.data, factor, dtype=self.data.dtype), self.indices, self.shape)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "RowSparse":
        if np.ndim(divisor) != 0 or isinstance(divisor, RowSparse):
            return NotImplemented
        return RowSparse(np.divide(self.data, divisor, dtype=self.data.dtype), self.indices, self.shape)

    def __neg__(self) -> "RowSparse":
        return RowSparse(-self.data, self.indices, self.shape)

    def __iadd__(self, other: Any) -> "RowSparse":
        return self._change(other, 1)

    def __isub__(self, other: Any) -> "RowSparse":
        return self._change(other, -1)

    def _change(self, other: Any, sign: int) -> "RowSparse":
        if self._read_only:
            raise KVStoreValueError("this row-sparse value is read-only", Status.ERR_ARGUMENT)
        if not isinstance(other, RowSparse):
            dense = self.todense()
            dense += np.asarray(other) * sign
            self.data, self.indices = dense, np.arange(self.shape[0], dtype=np.int64)
            return self
        if other.shape != self.shape:
            raise KVStoreValueError(f"shapes {self.shape} and {other.shape} differ", Status.ERR_SHAPE)
        rows = np.concatenate([self.indices, other.indices])
        ids, places = np.unique(rows, return_inverse=True)
        data = np.zeros((len(ids),) + self.shape[1:], self.data.dtype)
        n = len(self.indices)
        np.add.at(data, places[:n], self.data)
        np.add.at(data, places[n:], other.data * sign)
        if len(ids) == n and np.array_equal(ids, self.indices):
            self.data[...] = data  # a view stays one
        else:
            self.data, self.indices = data, ids
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """``dense += sparse`` and ``dense -= sparse`` change the rows that there are."""
        out = options.pop("out", (None,))
        if method == "__call__" and not options:
            left, right = (inputs + (None,))[:2]
            if ufunc is np.multiply:
                sparse, other = (left, right) if isinstance(left, RowSparse) else (right, left)
                return sparse.__mul__(other)
            if ufunc in (np.add, np.subtract) and out[0] is left and isinstance(right, RowSparse):
                if tuple(left.shape) != right.shape:
                    raise KVStoreValueError(f"shapes {left.shape} and {right.shape} differ",
                                            Status.ERR_SHAPE)
                if not left.flags.writeable:
                    raise KVStoreValueError("the array to change is read-only", Status.ERR_ARGUMENT)
                (np.add if ufunc is np.add else np.subtract).at(left, right.indices, right.data)
                return left
        return NotImplemented


def row_ids_of(ids: Any) -> Any:
    """`ids`, an array of any shape or a sequence, as one int64 array. TypeError, ValueError."""
    if np is None:
        raise KVStoreValueError("row-sparse values need NumPy", Status.ERR_UNAVAILABLE)
    try:
        array = np.asarray(ids)
    except ValueError as error:
        raise KVStoreValueError(f"row ids: {error}", Status.ERR_ARGUMENT) from None
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind == "f":
        whole = array.astype(np.int64)
        if not np.array_equal(whole, array):
            raise KVStoreValueError("row ids are whole numbers; "
                                    f"{array[whole != array].flat[0]} is none", Status.ERR_DTYPE)
        array = whole
    elif array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.max() >= 2**63:
        raise KVStoreValueError(f"row id {array.max()} is out of range", Status.ERR_RANGE)
    elif array.dtype.kind not in "iu":
        raise KVStoreTypeError(f"row ids are integers, not {array.dtype}", Status.ERR_DTYPE)
    return np.ascontiguousarray(array.ravel(), dtype=np.int64)
