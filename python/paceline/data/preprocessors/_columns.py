"""What preprocessors of columns have in common: of a table they leave all other columns as they are."""

from typing import Any, Dict, List, Optional

import numpy
import pyarrow

from paceline.data import _blocks, _types
from paceline.data.preprocessor import Preprocessor, _block


class OfSome(Preprocessor):
    """One that makes columns of some columns. Only these go through pandas: there whole numbers of which some are null
    are doubles, so that a dataset's blocks would differ in type, and large numbers be others.

    A class of a user's that derives from one of these, with a _transform_pandas() of its own, gets DataFrames with all
    columns. What transform_batch() gives are DataFrames."""

    columns: List[str]
    _drops_columns = False  # those it reads

    @classmethod
    def preferred_batch_format(cls) -> str:
        return "pyarrow" if cls._transform_pandas is OfSome._transform_pandas else "pandas"

    def _outputs(self, frame: Any) -> Dict[str, Any]:
        """What it makes of a DataFrame, by name. All are made before the first takes its place in the frame: it may have
        the name of a column that others are made of."""
        raise NotImplementedError

    def _outputs_of_table(self, table: pyarrow.Table) -> Dict[str, Any]:
        """What it makes of a table."""
        import pandas

        there = [column for column in self.columns if column in table.schema.names]
        if not there:
            return self._outputs(pandas.DataFrame(index=range(table.num_rows)))
        return self._outputs(frame_of_columns(table, there))

    def _transform_pandas(self, frame):
        made = self._outputs(frame)
        if self._drops_columns:
            frame = frame.drop(columns=[column for column in self.columns if column in frame.columns])
        for output, values in made.items():
            frame[output] = list(values) if getattr(values, "ndim", 1) > 1 else values
        return frame

    def _transform_arrow(self, table):
        kinds = _types.by_name(table.schema)
        made = {output: _blocks._series(values, kinds.get(output)) if hasattr(values, "dtypes") else values
                for output, values in self._outputs_of_table(table).items()}  # fmt: skip
        block = _blocks.from_format(made, type(self).__name__, table.schema)
        dropped = self.columns if self._drops_columns else []
        columns = {field.name: (field, column) for field, column in zip(table.schema, table.columns)
                   if field.name not in dropped}  # fmt: skip
        columns.update({field.name: (field, column) for field, column in zip(block.schema, block.columns)})
        fields, arrays = zip(*columns.values()) if columns else ((), ())
        return pyarrow.Table.from_arrays(list(arrays), schema=pyarrow.schema(fields))

    def _transform_batch(self, data):
        import pandas

        if self.preferred_batch_format() != "pyarrow":
            return super()._transform_batch(data)
        if isinstance(data, pandas.DataFrame):
            return self._transform_pandas(data.copy())
        return self._frame_of(_block(data))

    def _frame_of(self, block):
        return self._transform_pandas(block.to_pandas())


class OfColumns(OfSome):
    """One that makes a column of each of its columns, in its place or as one of output_columns."""

    def __init__(self, columns: List[str], output_columns: Optional[List[str]] = None):
        super().__init__()
        if output_columns and len(output_columns) != len(columns):
            raise ValueError(f"output_columns has {len(output_columns)} names; wanted: one for each of {len(columns)} columns")
        self.columns, self.output_columns = list(columns), list(output_columns or columns)

    def _outputs(self, frame):
        return self._named([self._column(frame[column]) for column in self.columns])

    def _named(self, made):
        return dict(zip(self.output_columns, made))

    def _column(self, values: Any) -> Any:
        """A pandas.Series as what it makes of it. Its name is the column's."""
        raise NotImplementedError


class OfArrow(OfColumns):
    """One that works with Arrow's columns."""

    def _outputs_of_table(self, table):
        return self._named(self._arrays({column: table.column(column) for column in table.schema.names}, table.num_rows))

    def _outputs(self, frame):
        made = self._arrays({column: _blocks._series(frame[column]) for column in self.columns if column in frame}, len(frame))
        return self._named([_series_of(values).set_axis(frame.index) for values in made])

    def _arrays(self, there, rows):
        return [self._arrow_column(name, in_one(there[name])) if name in there else self._absent_column(name, rows)
                for name in self.columns]  # fmt: skip

    def _arrow_column(self, name: str, values: pyarrow.Array) -> pyarrow.Array:
        """What it makes of a column."""
        raise NotImplementedError

    def _absent_column(self, name: str, rows: int) -> pyarrow.Array:
        """What it makes where there is no such column."""
        raise KeyError(name)

    def _frame_of(self, block):
        return _blocks.to_format(_blocks.joined(self._transform_arrow(block.to_arrow())), "pandas")


def frame_of_columns(table: pyarrow.Table, columns: List[str]) -> Any:
    """These columns as a DataFrame."""
    chosen = table.select(columns)
    for place, values in enumerate(chosen.columns):
        if pyarrow.types.is_dictionary(values.type):
            chosen = chosen.set_column(place, columns[place], without_null_words(in_one(values)))
    return _blocks.to_format(_blocks.joined(chosen), "pandas")


def without_null_words(values: pyarrow.DictionaryArray) -> pyarrow.DictionaryArray:
    """The same values, of which those are null that were nulls or NaN in the dictionary: most do not look for them there,
    and pandas refuses such dictionaries."""
    words = values.dictionary
    are_null = words.is_null(nan_is_null=True)
    if not are_null.true_count:
        return values
    lost = are_null.to_numpy(zero_copy_only=False)
    places = pyarrow.array(numpy.cumsum(~lost) - ~lost, values.indices.type, mask=lost)
    kept = words.filter(pyarrow.array(~lost))
    return pyarrow.DictionaryArray.from_arrays(places.take(values.indices), kept, ordered=values.type.ordered)


def in_one(values: Any) -> pyarrow.Array:
    """A column of chunks as one array."""
    return values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values


def _series_of(values):
    import pandas

    return pandas.Series(values.to_pylist()) if _types.is_list(values.type) else values.to_pandas()
