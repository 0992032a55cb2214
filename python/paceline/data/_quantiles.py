"""A sketch of many numbers that tells their quantiles: levels of values, each of which stands for twice as many as those
of the level below (Karnin, Lang, Liberty, 2016, with levels of one size). Which half of a full level goes up alternates,
so that the same numbers always give the same sketch."""

from typing import List, Sequence

import numpy


class QuantileSketch:
    """Numbers, of which it keeps all until there are more than `size`; then about `size` for each doubling."""

    def __init__(self, size: int, values: Sequence[float] = ()):
        self._size, self._turn = max(2, size), 0
        self._levels: List[numpy.ndarray] = [numpy.asarray(values, dtype="float64")]
        self._compact()

    def merged(self, other: "QuantileSketch") -> "QuantileSketch":
        """With the other's numbers. Both are used up."""
        for level, values in enumerate(other._levels):
            if level == len(self._levels):
                self._levels.append(values)
            else:
                self._levels[level] = numpy.concatenate([self._levels[level], values])
        self._compact()
        return self

    def quantiles(self, parts: Sequence[float]) -> List[float]:
        """Of each part, the smallest number that has more than this part of all at or below it."""
        values = numpy.concatenate(self._levels)
        weights = numpy.concatenate([numpy.full(len(one), 2**level) for level, one in enumerate(self._levels)])
        if not len(values):
            return []
        order = numpy.argsort(values, kind="stable")
        below = numpy.cumsum(weights[order])
        places = numpy.searchsorted(below, numpy.asarray(parts) * below[-1], side="right")
        return values[order][numpy.minimum(places, len(values) - 1)].tolist()

    def _compact(self):
        level = 0
        while level < len(self._levels):
            values = self._levels[level]
            if len(values) > self._size:
                values = numpy.sort(values)
                kept = values[len(values) - len(values) % 2 :]  # an odd one stays
                risen = values[self._turn : len(values) - len(values) % 2 : 2]
                self._turn = 1 - self._turn
                self._levels[level] = kept
                if level + 1 == len(self._levels):
                    self._levels.append(risen)
                else:
                    self._levels[level + 1] = numpy.concatenate([self._levels[level + 1], risen])
            level += 1
