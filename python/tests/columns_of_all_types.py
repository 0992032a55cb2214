"""A column of each type that Arrow has, with nulls where that can be: what formats are tested with."""

import datetime
import decimal

import numpy
import pyarrow as pa

ROWS = 50


def _some_null(values):
    return [None if row % 7 == 3 else value for row, value in enumerate(values)]


def _of(kind, make, nulls=True):
    values = [make(row) for row in range(ROWS)]
    return pa.array(_some_null(values) if nulls else values, kind)


NUMBERS = {
    "int8": _of(pa.int8(), int),
    "uint8": _of(pa.uint8(), int),
    "int16": _of(pa.int16(), int),
    "uint16 without nulls": _of(pa.uint16(), int, nulls=False),
    "uint32": _of(pa.uint32(), lambda row: 2**32 - 1 - row),
    "uint64": _of(pa.uint64(), lambda row: 2**64 - 1 - row),
    "int64 without nulls": _of(pa.int64(), lambda row: row - 2**63, nulls=False),
    "half": _of(pa.float16(), lambda row: numpy.float16(row / 4)),
    "float": _of(pa.float32(), lambda row: row / 8),
    "double without nulls": _of(pa.float64(), lambda row: row / 8, nulls=False),
    "bool": _of(pa.bool_(), lambda row: row % 3 == 0),
    "decimal": _of(pa.decimal128(20, 2), lambda row: decimal.Decimal(row) / 100),
    "short decimal": _of(pa.decimal32(5, 2), lambda row: decimal.Decimal(row) / 100),
    "long decimal": _of(pa.decimal256(60, 2), decimal.Decimal),
    "null": pa.nulls(ROWS),
}
TIMES = {
    "date": _of(pa.date32(), lambda row: datetime.date(2020, 1, 1) + datetime.timedelta(row)),
    "date64": _of(pa.date64(), lambda row: datetime.date(2020, 1, 1) + datetime.timedelta(row)),
    "time32": _of(pa.time32("ms"), int),
    "time64": _of(pa.time64("us"), int),
    "seconds": _of(pa.timestamp("s"), int),
    "nanoseconds": _of(pa.timestamp("ns"), int),
    "zone": _of(pa.timestamp("us", "Europe/Berlin"), int),
    "duration": _of(pa.duration("ms"), int),
}
TEXTS = {
    "text": _of(pa.string(), lambda row: f"é{row}" * (row % 5)),
    "large text": _of(pa.large_string(), lambda row: f"é{row}"),
    "view": _of(pa.string_view(), lambda row: f"longer than a view holds: {row}"),
    "bytes": _of(pa.binary(), lambda row: bytes([row] * row)),
    "large bytes": _of(pa.large_binary(), lambda row: bytes([row] * row)),
    "three bytes": _of(pa.binary(3), lambda row: bytes([row] * 3)),
    "dictionary": _of(pa.string(), lambda row: f"value {row % 4}").dictionary_encode(),
    "short dictionary": pa.DictionaryArray.from_arrays(_of(pa.int8(), lambda row: row % 4), pa.array([10, 20, 30, 40])),
}
NESTED = {
    "list": _of(pa.list_(pa.int64()), lambda row: list(range(row % 4))),
    "large list": _of(pa.large_list(pa.string()), lambda row: [str(item) for item in range(row % 4)]),
    "lists": _of(pa.list_(pa.list_(pa.int32())), lambda row: [[item] * item if item != 2 else None for item in range(row % 4)]),
    "struct": _of(None, lambda row: {"a": row, "b": None if row % 5 == 0 else str(row)}),
    "structs": _of(None, lambda row: [{"a": item, "b": [item]} for item in range(row % 3)]),
    "map": _of(pa.map_(pa.string(), pa.int32()), lambda row: [(str(item), item) for item in range(row % 3)]),
}
TENSORS = {
    "tensor": _of(pa.list_(pa.float32(), 2), lambda row: [row, row + 1], nulls=False),
    "tensor that may be null": _of(pa.list_(pa.float32(), 2), lambda row: [row, row + 1]),
    "tensor of values that may be null": _of(pa.list_(pa.int16(), 2), lambda row: [row, None], nulls=False),
    "matrix": _of(pa.list_(pa.list_(pa.uint8(), 2), 3), lambda row: [[row, 1], [2, 3], [4, 5]], nulls=False),
    "texts": _of(pa.list_(pa.string(), 2), lambda row: [str(row), "b"], nulls=False),
    "records": _of(pa.list_(pa.struct([("a", pa.int32())]), 2), lambda row: [{"a": row}, {"a": 1}], nulls=False),
}
# What Parquet and ORC do not have.
OF_ARROW_ALONE = {
    "view of bytes": _of(pa.binary_view(), lambda row: bytes([row]) * 20),
    "view of a list": _of(pa.list_view(pa.int32()), lambda row: [row] * (row % 3)),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([10, 30, ROWS], pa.int32()), pa.array(["a", None, "b"])),
    "interval": _of(pa.month_day_nano_interval(), lambda row: pa.MonthDayNano([1, row, 3])),
    "union": pa.UnionArray.from_sparse(
        pa.array([row % 2 for row in range(ROWS)], pa.int8()),
        [pa.array(range(ROWS)), pa.array([str(row) for row in range(ROWS)])]),
}
EXTENSIONS = {
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), _of(pa.binary(16), lambda row: bytes([row] * 16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), _of(pa.string(), lambda row: f'{{"a": {row}}}')),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), _of(pa.int8(), lambda row: row % 2)),
}
ALL = {**NUMBERS, **TIMES, **TEXTS, **NESTED, **TENSORS}


def table_of(name, column):
    """The column, and one that says which row of the table each is (same_rows.py)."""
    from same_rows import numbered

    return numbered(pa.table({name: column}))
