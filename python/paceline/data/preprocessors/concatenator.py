"""Several columns as one of arrays."""

import logging
from typing import Any, List, Optional

import numpy

from paceline.data.preprocessor import Preprocessor

_log = logging.getLogger(__name__)


def _has_nan(values):
    if values.dtype != object:
        return bool(values.isna().any()) or (values.dtype.kind == "f" and not numpy.isfinite(values.to_numpy()).all())
    arrays = (numpy.asarray(value) for value in values)  # columns of arrays, and of numbers as Python has them
    return any(array.dtype == object and any(one is None for one in array.flat)
               or array.dtype.kind == "f" and not numpy.isfinite(array).all() for array in arrays)


class Concatenator(Preprocessor):
    """An array for each row, of the values of several columns, which go.

    Args:
        columns: In the order of the array.
        output_column_name: The new column.
        dtype: Of the array. One of whole numbers is an error where a column has nulls or NaN.
        raise_if_missing: Whether columns that are not there are an error; otherwise there is a warning.
        flatten: Whether columns that are arrays themselves are put one behind the other.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], output_column_name: str = "concat_out", dtype: Any = None,
                 raise_if_missing: bool = False, flatten: bool = False):
        super().__init__()
        self.columns, self.output_column_name, self.dtype = list(columns), output_column_name, dtype
        self.raise_if_missing, self.flatten = raise_if_missing, flatten

    def _transform_pandas(self, frame):
        there = [column for column in self.columns if column in frame.columns]
        if missing := [column for column in self.columns if column not in there]:
            message = f"the batch has no columns {missing}; it has {list(frame.columns)}"
            if self.raise_if_missing or not there:
                raise ValueError(message)
            _log.warning(message)
        if self.flatten:
            rows = [numpy.concatenate([numpy.atleast_1d(value) for value in row]) for row in zip(*(frame[c] for c in there))]
            if self.dtype is not None:
                self._refuse_nan(frame, there)
                rows = [row.astype(self.dtype) for row in rows]
        else:
            self._refuse_nan(frame, there)
            rows = list(numpy.column_stack([frame[column].to_numpy(dtype=self.dtype) for column in there]))
        frame = frame.drop(columns=there)
        frame[self.output_column_name] = rows
        return frame

    def _refuse_nan(self, frame, columns):
        """Whole numbers have no NaN: numpy would make the smallest of them of it."""
        if self.dtype is None or numpy.dtype(self.dtype).kind not in "iub":
            return
        for column in columns:
            if _has_nan(frame[column]):
                raise ValueError(
                    f"the column {column!r} has nulls, NaN or infinite numbers, which {numpy.dtype(self.dtype)} has "
                    "not; fill them first, as with SimpleImputer, or filter them, or take a dtype of floating-point numbers"
                )

    def get_output_columns(self) -> List[str]:
        return [self.output_column_name]
