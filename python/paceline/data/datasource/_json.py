"""JSON lines of Arrow's columns: numbers as they are, of every digit that tells them from others.

Whole columns become columns of texts, which are then put together row by row; all of it by Arrow.
"""

import json
from typing import Any, List, Sequence

import pyarrow
import pyarrow.compute as compute

from paceline import _notices
from paceline.data import _blocks
from paceline.data.block import BlockAccessor

# Of DataFrame.to_json(): what is written where nobody says otherwise.
PANDAS_OPTIONS = {"orient": "records", "lines": True}

_TEXT = pyarrow.large_string()  # a part's texts may be longer than what they are made of
_PART_BYTES = 32 << 20
_CONTROL = [chr(code) for code in range(0x20)]  # JSON has these in texts by their numbers alone


def write_lines(table: pyarrow.Table, file: Any) -> None:
    """A line for each row."""
    rows = max(1, table.num_rows * _PART_BYTES // max(1, table.nbytes))
    for first in range(0, table.num_rows, rows):
        part = _blocks.joined(table.slice(first, rows))
        lines = _objects(part.schema, part.columns, part.num_rows)
        file.write(_joined([lines, _scalar("\n")]).buffers()[2])  # they lie one after the other


def frame_of(block: BlockAccessor) -> Any:
    """A pandas.DataFrame for to_json(): whole numbers beside nulls are objects, not floats, which lack digits."""
    frame, table = block.to_pandas(), block.to_arrow()
    for name, column in zip(table.column_names, table.columns):
        if pyarrow.types.is_integer(column.type) and column.null_count:
            frame[name] = column.to_pandas(integer_object_nulls=True)
    return frame


def _scalar(text):
    return pyarrow.scalar(text, _TEXT)


def _joined(texts: Sequence[Any]):
    return compute.binary_join_element_wise(*texts, _scalar(""))


def _objects(fields, columns: List[pyarrow.Array], rows: int) -> pyarrow.Array:
    """``{"name":value,…}`` for each row."""
    if not columns:
        return pyarrow.array(["{}"] * rows, _TEXT)
    parts: List[Any] = []
    for field, column in zip(fields, columns):
        parts += [_scalar(f"{',' if parts else '{'}{json.dumps(field.name, ensure_ascii=False)}:"), _texts(column, field)]
    return _joined([*parts, _scalar("}")])


def _texts(column: pyarrow.Array, field: Any = None) -> pyarrow.Array:
    """Each value as JSON; "null" where there is none."""
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    kind, types = column.type, pyarrow.types
    if types.is_dictionary(kind):
        return _texts(column.dictionary_decode())
    if types.is_struct(kind):
        fields = column.flatten()
        is_tuple = field is not None and _blocks._is_tuple(field)
        texts = _tuples(fields, len(column)) if is_tuple else _objects(kind, fields, len(column))
    elif types.is_map(kind):
        offsets = column.offsets.to_numpy()
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        keys, items = (part.slice(first, last - first) for part in (column.keys, column.items))
        texts = _lists(_tuples([keys, items], last - first), pyarrow.array(offsets - first))
    elif types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        lengths = compute.fill_null(compute.list_value_length(column), 0).cast(pyarrow.int64())
        offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int64()), compute.cumulative_sum(lengths)])
        texts = _lists(_texts(column.flatten()), offsets)
    else:
        texts = _plain(column)
    if column.null_count:
        texts = compute.if_else(column.is_valid(), texts, pyarrow.scalar(None, _TEXT))
    return compute.fill_null(texts, _scalar("null"))


def _tuples(columns, rows):
    if not columns:
        return pyarrow.array(["[]"] * rows, _TEXT)
    parts: List[Any] = []
    for column in columns:
        parts += [_scalar("," if parts else "["), _texts(column)]
    return _joined([*parts, _scalar("]")])


def _lists(texts, offsets):
    lists = pyarrow.LargeListArray.from_arrays(offsets.cast(pyarrow.int64()), texts)
    return _joined([_scalar("["), compute.binary_join(lists, _scalar(",")), _scalar("]")])


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """Of values that have no parts; null where there is none."""
    kind, types = column.type, pyarrow.types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind) or types.is_null(kind):
        return column.cast(_TEXT)
    if types.is_floating(kind):
        return _floats(column)
    if types.is_duration(kind):
        return column.cast(pyarrow.int64()).cast(_TEXT)  # in its own unit
    if types.is_timestamp(kind):
        if kind.tz is not None:
            column = column.cast(pyarrow.timestamp(kind.unit, "UTC"))
        moments = compute.replace_substring(column.cast(_TEXT), " ", "T", max_replacements=1)
        return _joined([_scalar('"'), moments, _scalar('"')])
    if types.is_date(kind) or types.is_time(kind):
        return _joined([_scalar('"'), column.cast(_TEXT), _scalar('"')])
    try:
        return _quoted(column.cast(_TEXT))  # of bytes, those that are UTF-8
    except pyarrow.ArrowNotImplementedError:
        values = [json.dumps(value, ensure_ascii=False, default=str) for value in column.to_pylist()]
        return pyarrow.array(values, _TEXT)


def _floats(column):
    """As short as they are read back as the same; with a point, so that they are not read back as whole numbers."""
    if pyarrow.types.is_float16(column.type):
        column = column.cast(pyarrow.float32())
    if compute.any(compute.is_inf(column)).as_py():
        _notices.give_once("write_json() writes infinities as null: JSON has no word for them")
    texts = column.cast(_TEXT)
    is_whole = compute.match_substring_regex(texts, "^-?[0-9]+$")
    texts = compute.if_else(is_whole, _joined([texts, _scalar(".0")]), texts)
    return compute.if_else(compute.is_finite(column), texts, pyarrow.scalar(None, _TEXT))


def _quoted(texts):
    for character in ("\\", '"'):
        texts = compute.replace_substring(texts, character, "\\" + character)
    if compute.any(compute.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        for character in _CONTROL:
            texts = compute.replace_substring(texts, character, json.dumps(character)[1:-1])
    return _joined([_scalar('"'), texts, _scalar('"')])
