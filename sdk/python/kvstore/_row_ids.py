# SPDX-License-Identifier: Apache-2.0
"""The row ids of a row_sparse_pull: one array or sequence for all outs, or a list shaped as the outs."""

from typing import Any, List, Optional, Tuple

from ._arrays import Packed, flatten, shape_address
from ._library import Tensor
from .errors import KVStoreValueError, Status
from .row_sparse import np, row_ids_of


def pack_row_ids(row_ids: Any, out: Any, is_list: bool) -> Tuple[Packed, List[int]]:
    """The ids as arrays of the C library, and how many different ones there are for each out."""
    outs, counts = flatten(out, is_list, "outs")
    ids, ids_counts = _ids_of_outs(row_ids, counts)
    sizes = [len(one) for one in ids]
    if counts is not None and ids_counts is not None:
        sizes = _spread(sizes, ids_counts, counts)
    elif len(sizes) == 1:
        sizes *= max(len(outs), 1)
    if len(sizes) != len(outs):  # of lists that don't fit: the library says so
        sizes = [0] * len(outs)
    return _pack(ids, ids_counts), sizes


def _ids_of_outs(row_ids: Any, counts: Optional[List[int]]) -> Tuple[List[Any], Optional[List[int]]]:
    """Ids as sorted int64 arrays, each once, and how many arrays belong to each key."""
    if isinstance(row_ids, (list, tuple)) and any(hasattr(one, "__len__") or hasattr(one, "shape") and one.shape != ()
                                                  for one in row_ids):
        flat, ids_counts = flatten(row_ids, counts is not None and len(row_ids) == len(counts), "row_ids")
        if counts is not None and ids_counts is None:
            raise KVStoreValueError(f"row_sparse_pull: {len(row_ids)} row_ids for {len(counts)} keys",
                                    Status.ERR_ARGUMENT)
        if any(isinstance(one, (list, tuple)) and any(hasattr(n, "__len__") for n in one) for one in flat):
            raise KVStoreValueError("row_sparse_pull: row_ids are nested deeper than the outs", Status.ERR_ARGUMENT)
        return [_unique(one) for one in flat], ids_counts
    one = _unique(row_ids)
    if counts is None:
        return [one], None
    return [one] * len(counts), [1] * len(counts)


def _unique(ids: Any) -> Any:
    array = row_ids_of(ids)  # first: it says what is missing
    return np.unique(array)


def _spread(sizes: List[int], ids_counts: List[int], counts: List[int]) -> List[int]:
    """Of keys that have one array of ids for each out, or one for all outs."""
    spread: List[int] = []
    place = 0
    for n_ids, n_outs in zip(ids_counts, counts):
        mine = sizes[place:place + n_ids]
        place += n_ids
        spread += mine if n_ids == n_outs else mine[:1] * n_outs
    return spread


def _pack(ids: List[Any], counts: Optional[List[int]]) -> Packed:
    packed = Packed()
    tensors = (Tensor * max(len(ids), 1))()
    for tensor, one in zip(tensors, ids):
        tensor.data = one.ctypes.data if one.size else None
        tensor.device_type, tensor.ndim = 1, 1
        tensor.code, tensor.bits, tensor.lanes = 0, 64, 1
        tensor.shape = shape_address(one.shape, packed.keep)
        packed.keep.append(one)
    packed.set(tensors, len(ids), counts)
    return packed
