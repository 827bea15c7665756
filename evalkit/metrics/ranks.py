"""Ranks of hits from scores, without an order of documents.

The scores of each query's documents stand in a row; the rows follow one another in `flat`, and
`length` says how long each is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from evalkit.metrics.hits import Floats, Ints


def blocks(length: Ints, size: int) -> Iterator[tuple[int, int, slice]]:
    """Whole rows of about `size` places together: numbers of the rows, and their places.

    >>> list(blocks(np.array([2, 2, 1]), 3))
    [(0, 2, slice(0, 4, None)), (2, 3, slice(4, 5, None))]
    """
    end = np.cumsum(length)
    edges = np.flatnonzero(np.diff((end - length) // size)) + 1
    for a, b in pairwise([0, *edges.tolist(), len(length)]):
        if a < b:
            yield a, b, slice(int(end[a] - length[a]), int(end[b - 1]))


def sorted_rows(flat: Floats, length: Ints) -> tuple[Floats, set[int]]:
    """The scores with each row sorted downwards, and the numbers of the rows that were not.

    >>> scores, rising = sorted_rows(np.array([3.0, 1.0, 2.0, 9.0]), np.array([3, 1]))
    >>> scores.tolist(), rising
    ([3.0, 2.0, 1.0, 9.0], {0})
    """
    end = np.cumsum(length)
    rises = flat[1:] > flat[:-1]
    rises[_row_ends(end, flat)] = False
    if not rises.any():
        return flat, set()
    rising = np.unique(np.searchsorted(end, np.flatnonzero(rises), side="right"))
    flat = flat.copy()
    for a, b in zip((end - length)[rising].tolist(), end[rising].tolist(), strict=True):
        row = flat[a:b]
        row.sort()
        row[:] = row[::-1]
    return flat, set(rising.tolist())


def place_of(flat: Floats, length: Ints, row: Ints, score: Floats) -> Ints:
    """Where in `flat` a score stands in its row: below all that are greater, first of its equals.

    One binary search for all scores at once.

    >>> place_of(np.array([9.0, 3.0, 2.0, 1.0]), np.array([1, 3]), np.array([1]), np.array([2.0]))
    array([2])
    """
    row_end = np.cumsum(length)
    end = row_end[row]
    low = end - length[row]
    step = 1 << int(length.max(initial=0)).bit_length() >> 1
    while step:
        ahead = np.minimum(low + step, end)
        low = np.where(flat[ahead - 1] > score, ahead, low)
        step >>= 1
    return low


def tied_groups(flat: Floats, length: Ints) -> tuple[Ints, Ints, Ints]:
    """Begin, end and row of each group of two or more equal scores, in sorted rows.

    >>> tied_groups(np.array([3.0, 2.0, 2.0, 2.0, 1.0]), np.array([3, 2]))
    (array([1]), array([3]), array([0]))
    """
    row_end = np.cumsum(length)
    equal = flat[1:] == flat[:-1]
    equal[_row_ends(row_end, flat)] = False
    pairs = np.flatnonzero(equal)
    begin = pairs[np.diff(pairs, prepend=-2) > 1]
    end = pairs[np.diff(pairs, append=flat.size + 2) > 1] + 2
    return begin, end, np.searchsorted(row_end, begin, side="right")


def _row_ends(end: Ints, flat: Floats) -> Ints:
    """Where the last score of a row stands before the first of the next."""
    return end[(end > 0) & (end < flat.size)] - 1
