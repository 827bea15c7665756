"""Ids where they lie, in Arrow's buffers: hashed, compared and grouped without a Python string.

`pa.array(ndarray)`, `to_numpy` and `fill_null` load pandas, which costs a cold process half a
second; so numbers go in and out through the buffers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalkit.errors import DataError
from evalkit.metrics.hits import Ints

Keys = NDArray[np.uint64]
Texts = Any  # a pyarrow array of strings; pyarrow's own types are Any to mypy in most places

ODD: Final = [np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9)]
_LOW_BYTES: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_BLOCK: Final = 1 << 14  # texts hashed at once, to stay in the processor's cache


def texts(column: Any, name: str) -> Texts:
    """A column of ids as one Arrow array of text; what is not text is refused, not converted."""
    array = column if isinstance(column, (pa.Array, pa.ChunkedArray)) else _arrow(column, name)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if isinstance(array, pa.ChunkedArray):
        if array.nbytes >= 1 << 31:  # more than 32-bit offsets reach
            array = array.cast(pa.large_string())
        array = array.combine_chunks()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise DataError(f"column {name} holds {array.type}: ids are text, so read them as text")
    if array.null_count:
        raise DataError(f"column {name} has {array.null_count} empty cells: every row needs an id")
    return array


def _arrow(column: Any, name: str) -> Any:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise DataError(f"column {name} mixes text with something else: ids are text") from None


def numbers(column: Any, name: str) -> NDArray[Any]:
    """A column of numbers as a numpy array."""
    if isinstance(column, pa.ChunkedArray):
        parts = [numbers(chunk, name) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.zeros(0)
    if isinstance(column, pa.Array):
        if column.null_count:
            raise DataError(f"column {name} has {column.null_count} empty cells")
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise DataError(f"column {name} holds {column.type}, not numbers")
        return _buffer(column, 1, np.dtype(column.type.to_pandas_dtype()))
    array = np.asarray(column)
    if array.size and array.dtype.kind not in "iuf":
        raise DataError(f"column {name} holds {array.dtype}, not numbers")
    return array


def _buffer(array: Any, which: int, kind: Any) -> NDArray[Any]:
    values: NDArray[Any] = np.frombuffer(array.buffers()[which], kind)
    return values[array.offset :][: len(array)]


def _bits(array: Any, which: int) -> NDArray[np.bool_]:
    """Arrow's packed flags; those of a fresh result begin at its first bit."""
    packed = np.frombuffer(array.buffers()[which], np.uint8)
    return np.unpackbits(packed, count=len(array), bitorder="little").view(np.bool_)


def take(array: Texts, rows: Ints) -> Texts:
    """The texts at these rows."""
    places: Any = np.ascontiguousarray(rows, np.int64)
    return array.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(places)]))


def equal(one: Texts, rows: Ints, other: Texts, other_rows: Ints) -> NDArray[np.bool_]:
    """Whether the texts are the same, pair by pair."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    left, right = take(one, rows), take(other, other_rows)
    return _bits(pc.equal(left, right.cast(left.type)), 1)


def runs(array: Texts) -> tuple[Texts, Ints]:
    """Neighbouring equal texts: the text of each run, and the row where it ends."""
    encoded = pc.run_end_encode(array, run_end_type=pa.int64())  # type: ignore[attr-defined]
    return encoded.values, numbers(encoded.run_ends, "rows").astype(np.int64)


def index_in(wanted: Texts, known: Texts) -> Ints:
    """Where in `known` each text stands; -1 where it does not."""
    index: Any = pc.index_in(wanted, value_set=known.cast(wanted.type))
    place: Ints = _buffer(index, 1, np.int32).astype(np.int64)
    if index.null_count:
        place[~_bits(index, 0)] = -1
    return place


def hashed(array: Texts) -> Keys:
    """A 64-bit hash of each text, from windows of 8 bytes read at its start, end and between."""
    out = np.empty(len(array), np.uint64)
    width = np.dtype(np.int64 if pa.types.is_large_string(array.type) else np.int32)
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, width)[array.offset :][: len(array) + 1]
    for a in range(0, len(array), _BLOCK):
        ends = offsets[a : a + _BLOCK + 1].astype(np.int64)
        first, size = int(ends[0]), int(ends[-1] - ends[0])
        padded = np.zeros(size + 8, np.uint8)  # so that the last text has a whole window
        if size:
            padded[:size] = np.frombuffer(data, np.uint8, size, first)
        # a window of 8 bytes at every byte; `take` would copy them all first
        window = np.ndarray(size + 1, "<u8", padded, strides=(1,))
        ends -= first
        start, length = ends[:-1], np.diff(ends)
        key = window[start] & _LOW_BYTES.take(np.minimum(length, 8))
        key ^= length.view(np.uint64) * ODD[2]
        key *= ODD[0]
        last = np.maximum(ends[1:] - 8, 0)
        for at in range(8, int(length.max()), 8):  # only texts that reach so far are mixed again
            mixed = key ^ (key >> np.uint64(31))
            mixed += window[np.minimum(start + at, last)]  # the last window may overlap
            mixed *= ODD[1]
            np.copyto(key, mixed, where=length > at)
        key ^= key >> np.uint64(32)
        key *= ODD[2]
        out[a : a + _BLOCK] = key
    return out
