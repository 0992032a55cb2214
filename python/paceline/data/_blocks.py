"""Blocks of rows (pyarrow.RecordBatch) as what users' functions take and give: numpy, pandas, pyarrow, rows.

Tensor columns are fixed-size lists of numbers, nested by their shape; numpy sees them as one array.
"""

from typing import Any, Dict, List, Mapping, Optional

import numpy
import pyarrow

from paceline.data import _types

FORMATS = ("default", "numpy", "pandas", "pyarrow", None)


def column_to_numpy(column: pyarrow.Array) -> numpy.ndarray:
    """Numbers without nulls and lists of one length as arrays of numbers, all else as numpy's objects. Not copied where
    that can be; such an array is read-only."""
    if isinstance(column, pyarrow.FixedShapeTensorArray) and column.null_count == 0:
        return column.to_numpy_ndarray()
    column = _plain(column)
    kind = column.type
    if pyarrow.types.is_fixed_size_list(kind) and column.null_count == 0:
        inner = column_to_numpy(column.flatten())
        if inner.dtype != object:
            return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        return _lists_to_numpy(column)
    if pyarrow.types.is_struct(kind) and not _numpy_keeps(column):
        return _objects(_values(column))
    return column.to_numpy(zero_copy_only=False)


def _numpy_keeps(column):
    """Whether Arrow's way to numpy, the fastest, leaves what is in structs as it is: it makes doubles of whole numbers with
    nulls, and times of another precision."""
    kind = column.type
    if pyarrow.types.is_struct(kind):
        return all(map(_numpy_keeps, column.flatten()))
    if _types.is_list(kind):
        return not column.null_count and _numpy_keeps(column.flatten())
    if pyarrow.types.is_integer(kind):
        return not column.null_count
    return any(test(kind) for test in (pyarrow.types.is_floating, pyarrow.types.is_string, pyarrow.types.is_binary))


def _plain(column):
    return column.storage if isinstance(column, pyarrow.ExtensionArray) else column


def _lists_to_numpy(column):
    return _stacked_rows([None if row is None else column_to_numpy(row) for row in (scalar.values for scalar in column)])


def _stacked_rows(rows):
    shapes = {row.shape for row in rows if row is not None}
    if len(shapes) == 1 and None not in (row if row is None else 0 for row in rows):
        return numpy.stack(rows)
    ragged = numpy.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        ragged[place] = row
    return ragged


def to_numpy(block: pyarrow.RecordBatch) -> Dict[str, numpy.ndarray]:
    return {field.name: _objects(_values(column, True)) if _is_tuple(field) else column_to_numpy(column)
            for field, column in zip(block.schema, block.columns)}


def _objects(values):
    array = numpy.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def to_rows(block: pyarrow.RecordBatch) -> List[Dict[str, Any]]:
    """A dict a row: tensors and lists as numpy arrays, all else as Python's own values. Whole numbers of which some in a
    list are null are an array of objects, with None for these."""
    columns = [_values(column, _is_tuple(field)) for field, column in zip(block.schema, block.columns)]
    return [dict(zip(block.schema.names, values)) for values in zip(*columns)] if columns else [{}] * block.num_rows


def _values(column, is_tuple=False):
    kind = _plain(column).type
    if pyarrow.types.is_struct(kind) and len(kind):
        fields = zip(*(_values(field) for field in _plain(column).flatten()))
        made = list(fields) if is_tuple else [dict(zip((one.name for one in kind), values)) for values in fields]
        if column.null_count:
            made = [one if is_valid else None for one, is_valid in zip(made, column.is_valid().to_pylist())]
        return made
    if pyarrow.types.is_nested(kind) and not pyarrow.types.is_struct(kind) and not pyarrow.types.is_map(kind):
        if _has_nulls_in_lists(_plain(column)):
            return _rows_of_whole_numbers(_plain(column))
        return list(column_to_numpy(column))
    return column.to_pylist()


def _has_nulls_in_lists(column):
    """Whether there are nulls among whole numbers, in lists of any depth."""
    while _types.is_list(column.type):
        column = column.flatten()
    return column.null_count > 0 and pyarrow.types.is_integer(column.type)


def _rows_of_whole_numbers(column):
    return [None if row is None else _array_of(row) for row in (scalar.values for scalar in column)]


def _array_of(row):
    if _types.is_list(row.type):
        return _stacked_rows(_rows_of_whole_numbers(row))
    return _objects(row.to_pylist()) if row.null_count else column_to_numpy(row)


def to_format(block: pyarrow.RecordBatch, batch_format: Optional[str]) -> Any:
    if batch_format == "pandas":
        frame = block.to_pandas()
        for field, column in zip(block.schema, block.columns):
            kind = _plain(column).type
            if pyarrow.types.is_fixed_size_list(kind) or pyarrow.types.is_struct(kind):
                frame[field.name] = _values(column, _is_tuple(field))
        return frame
    if batch_format in ("pyarrow", None):
        return pyarrow.Table.from_batches([block])
    return to_numpy(block)


def check_format(batch_format: Any) -> None:
    if batch_format not in FORMATS:
        raise ValueError(f"batch_format is {batch_format!r}; allowed: {', '.join(map(repr, FORMATS))}")


def column_from(values: Any, kind: Optional[pyarrow.DataType] = None) -> pyarrow.Array:
    """What a function gives for a column: an array, a tensor, a list. `kind` is the type that the column had before."""
    if isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        values = values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values
        is_tensor = isinstance(values, pyarrow.FixedShapeTensorArray) and values.null_count == 0
        return column_from(values.to_numpy_ndarray()) if is_tensor else _plain(values)
    if hasattr(values, "detach"):  # a tensor of torch
        values = values.detach().cpu().numpy()
    if not isinstance(values, numpy.ndarray):
        values = list(values)
        if values and all(hasattr(value, "shape") or isinstance(value, numpy.generic) for value in values):
            values = _stacked(values)
        elif fields := _fields_of(values):
            return _structs(values, fields, kind)
        else:
            return _types.array(values, kind)
    if values.dtype == object:
        return _column_of_objects(values, kind)
    if values.ndim <= 1:
        return _types.with_zone(pyarrow.array(values), kind)
    return _tensor_column(numpy.ascontiguousarray(values))


# A tuple is a struct whose fields are called by their places; the column's metadata says that it was one.
_TUPLES = {b"paceline": b"tuple"}


def _is_tuple(field):
    return (field.metadata or {}).get(b"paceline") == b"tuple"


def _fields_of(values):
    """The names and keys of the parts, where all values are tuples of one length, or dicts with arrays in them."""
    if all(isinstance(value, tuple) for value in values) and len({len(value) for value in values}) == 1 and values[0]:
        return [str(place) for place in range(len(values[0]))], range(len(values[0]))
    if all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values) and any(
        hasattr(part, "shape") for part in values[0].values()
    ):
        return list(values[0]), list(values[0])
    return None


def _structs(values, fields, kind):
    names, keys = fields
    kinds = {field.name: field.type for field in kind} if kind is not None and pyarrow.types.is_struct(kind) else {}
    parts = [column_from([value[key] for value in values], kinds.get(name)) for name, key in zip(names, keys)]
    return pyarrow.StructArray.from_arrays(parts, names)


def _stacked(values):
    arrays = [value.detach().cpu().numpy() if hasattr(value, "detach") else numpy.asarray(value) for value in values]
    if len({array.shape for array in arrays}) == 1:
        return numpy.stack(_types.of_one_integer(arrays))
    ragged = numpy.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        ragged[place] = array
    return ragged


def _column_of_objects(values, kind=None):
    if len(values) and _fields_of(list(values)):
        return _structs(values, _fields_of(list(values)), kind)
    if len(values) and all(isinstance(value, numpy.ndarray) for value in values):
        stacked = _stacked(values)
        if stacked.dtype != object:
            return column_from(stacked)
    if any(isinstance(value, numpy.ndarray) for value in values):
        return _types.array([value.tolist() if isinstance(value, numpy.ndarray) else value for value in values], kind)
    return _types.array(list(values), kind)


def _tensor_column(values):
    column = pyarrow.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        column = pyarrow.FixedSizeListArray.from_arrays(column, size)
    return column


def from_format(batch: Any, name: str, before: Optional[pyarrow.Schema] = None) -> pyarrow.RecordBatch:
    """The block that a function has given in any of the formats; TypeError for anything else.

    Args:
        batch: What it gave.
        name: The function's, for errors.
        before: Of the block that it got: columns whose values still fit keep types that numpy and Python do not have.
    """
    if isinstance(batch, (pyarrow.RecordBatch, pyarrow.Table)):
        block = _block(dict(zip(batch.schema.names, batch.columns)), name)
        tuples = [field.with_metadata(_TUPLES) if _is_tuple(given) else field
                  for field, given in zip(block.schema, batch.schema)]
        return pyarrow.RecordBatch.from_arrays(block.columns, schema=pyarrow.schema(tuples))
    if isinstance(batch, Mapping):
        return _block(dict(batch), name, before)
    if type(batch).__module__.split(".")[0] == "pandas" and hasattr(batch, "columns"):
        kinds = _types.by_name(before)
        return _block({str(column): _series(batch[column], kinds.get(column)) for column in batch.columns}, name)
    raise TypeError(
        f"{name} gave {type(batch).__name__}; wanted a dict of arrays, a pandas.DataFrame or a pyarrow.Table"
    )


def _series(series, kind=None):
    if series.dtype == object:
        return _column_of_objects(series.to_numpy(), kind)
    return pyarrow.Array.from_pandas(series)


def _block(columns, name, before=None):
    arrays, metadata, kinds = {}, {}, _types.by_name(before)
    for column, values in columns.items():
        if not isinstance(column, str):
            raise TypeError(f"{name} gave a column called {column!r}; names of columns are texts")
        if not hasattr(values, "__len__") or isinstance(values, (str, bytes)) or getattr(values, "ndim", 1) == 0:
            raise TypeError(f"{name} gave {type(values).__name__} for the column {column!r}; wanted a value for each row")
        try:
            arrays[column] = column_from(values, kinds.get(column))
            if len(values) and isinstance(values[0], tuple) and pyarrow.types.is_struct(arrays[column].type):
                metadata[column] = _TUPLES
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError) as error:
            kinds = ", ".join(sorted({type(value).__name__ for value in values}))
            raise TypeError(
                f"{name}: the column {column!r} has values of type {kinds}, which Arrow cannot hold: {error}. Make "
                "numbers, texts, bytes, arrays or dicts of them"
            ) from error
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{column}: {len(array)}" for column, array in arrays.items())
        raise ValueError(f"{name} gave columns of different lengths ({lengths})")
    fields = [pyarrow.field(column, array.type, metadata=metadata.get(column)) for column, array in arrays.items()]
    return pyarrow.RecordBatch.from_arrays(list(arrays.values()), schema=pyarrow.schema(fields))


def from_rows(rows: List[Any], name: str, before: Optional[pyarrow.Schema] = None) -> pyarrow.RecordBatch:
    """A block of dicts, which may have different keys: what is missing is null. `before`: see from_format()."""
    columns: Dict[str, List[Any]] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"{name} gave {type(row).__name__} for a row; wanted a dict")
        for key in row:
            columns.setdefault(key, [])
    for row in rows:
        for key, values in columns.items():
            values.append(row.get(key))
    return _block(columns, name, before)


def together(blocks: List[pyarrow.RecordBatch]) -> pyarrow.Table:
    """Blocks one after the other, which are not copied unless types differ: these become one that holds both."""
    tables = [pyarrow.Table.from_batches([block]) for block in blocks]
    return tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables, promote_options="permissive")


def joined(table: pyarrow.Table) -> pyarrow.RecordBatch:
    """A table as one block."""
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pyarrow.RecordBatch.from_arrays([pyarrow.array([], field.type) for field in table.schema], schema=table.schema)
