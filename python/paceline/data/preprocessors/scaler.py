"""Numbers in other units. What is learnt passes over nulls and NaN, which stay."""

import math
from typing import List, Optional, Tuple

from paceline.data import aggregate
from paceline.data.preprocessors._numbers import KnownMean, KnownStd, OfNumbers

_TINY = 1e-8  # what is smaller is no spread
_LARGE = 1e290  # from a smaller one no number is infinitely far away


def _halved_if_large(values, *learnt):
    """Their differences, which are to be divided by one another, are not infinite then."""
    return (one / 2 for one in (values, *learnt)) if _LARGE < max(map(abs, learnt)) < math.inf else (values, *learnt)


class StandardScaler(OfNumbers):
    """Less their mean, in standard deviations (of all rows: ddof is 0). Nulls and NaN count in neither."""

    def _fit(self, ds):
        of = [KnownMean(column) for column in self.columns]
        self.stats_ = ds.aggregate(*of, *(KnownStd(column, ddof=0) for column in self.columns))
        return self

    def _column(self, values):
        mean, std = self.stats_[f"mean({values.name})"], self.stats_[f"std({values.name})"]
        if mean is None or std is None:
            return values * float("nan")
        return (values - float(mean)) / (1 if std < _TINY else std)


class MinMaxScaler(OfNumbers):
    """From 0 for the smallest to 1 for the largest."""

    def _fit(self, ds):
        of = [aggregate.Min(column) for column in self.columns]
        self.stats_ = ds.aggregate(*of, *(aggregate.Max(column) for column in self.columns))
        return self

    def _column(self, values):
        least, greatest = self.stats_[f"min({values.name})"], self.stats_[f"max({values.name})"]
        if least is None or greatest is None:
            return values * float("nan")
        values, least, greatest = _halved_if_large(values, float(least), float(greatest))  # rounded as the values are
        spread = greatest - least
        return (values - least) / (1 if spread < _TINY else spread)


class MaxAbsScaler(OfNumbers):
    """As parts of the largest absolute value."""

    def _fit(self, ds):
        self.stats_ = ds.aggregate(*(aggregate.AbsMax(column) for column in self.columns))
        return self

    def _column(self, values):
        greatest = self.stats_[f"abs_max({values.name})"]
        return values * float("nan") if greatest is None else values / float(greatest or 1)


class RobustScaler(OfNumbers):
    """Less their median, in distances between two quantiles.

    Args:
        columns: Of numbers.
        quantile_range: The two, as parts from 0 to 1.
        output_columns: Where they go; None: into the same columns.
        quantile_precision: See aggregate.ApproximateQuantile.
    """

    DEFAULT_QUANTILE_PRECISION = 800

    def __init__(
        self,
        columns: List[str],
        quantile_range: Tuple[float, float] = (0.25, 0.75),
        output_columns: Optional[List[str]] = None,
        quantile_precision: int = DEFAULT_QUANTILE_PRECISION,
    ):
        super().__init__(columns, output_columns)
        self.quantile_range, self.quantile_precision = tuple(quantile_range), quantile_precision

    def _fit(self, ds):
        low, high = self.quantile_range
        of = [aggregate.ApproximateQuantile(column, [low, 0.5, high], self.quantile_precision) for column in self.columns]
        found = ds.aggregate(*of)
        for column in self.columns:
            values = found[f"approx_quantile({column})"] or [None] * 3
            for name, value in zip(("low_quantile", "median", "high_quantile"), values):
                self.stats_[f"{name}({column})"] = value
        return self

    def _column(self, values):
        low, median, high = (self.stats_[f"{name}({values.name})"] for name in ("low_quantile", "median", "high_quantile"))
        if median is None:
            return values * float("nan")
        values, low, median, high = _halved_if_large(values, low, median, high)
        return values * 0.0 if high == low else (values - median) / (high - low)
