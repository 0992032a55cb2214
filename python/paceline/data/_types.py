"""Which type of Arrow a column has that was made of Python's values or of numpy's arrays.

Arrow infers a type of the values. Some types have no values of their own in Python or numpy, so that it infers another:
a function that gives a column back as it got it is to leave it as it was. Such a column has the type from before, if
that holds every value. Whole numbers, floating-point numbers and dictionaries, which functions compute anew, have the
type that is inferred: whether a narrow one holds them would differ from block to block.
"""

from typing import Any, Dict, List, Optional

import numpy
import pyarrow

_kinds = pyarrow.types
_FAMILIES = (
    _kinds.is_timestamp, _kinds.is_duration, _kinds.is_time, _kinds.is_date, _kinds.is_decimal,
    lambda kind: _kinds.is_string(kind) or _kinds.is_large_string(kind) or _kinds.is_string_view(kind),
    lambda kind: _kinds.is_binary(kind) or _kinds.is_large_binary(kind) or _kinds.is_fixed_size_binary(kind),
)  # fmt: skip


def array(values: List[Any], before: Optional[pyarrow.DataType] = None) -> pyarrow.Array:
    """Values of Python.

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowTypeError: For values of several types.
        OverflowError: For whole numbers that no type of 64 bits holds.
    """
    try:
        inferred = pyarrow.array(values)
    except OverflowError:  # beyond int64
        return _of_first([before, pyarrow.uint64()], values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # such as the pairs of a map
        if before is None or not _kinds.is_nested(before):
            raise
        return _of_first([before], values)
    if before is None:
        return _with_nanoseconds(values, inferred)
    wanted = _kept(inferred.type, before, False)
    if wanted == inferred.type:
        return _with_nanoseconds(values, inferred)
    try:
        made = pyarrow.array(values, wanted)
        is_same = made.cast(inferred.type, safe=False).equals(inferred)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        is_same = False
    return made if is_same else _with_nanoseconds(values, inferred)


def _of_first(kinds, values):
    """Of the first of these types that holds all values."""
    error: Optional[Exception] = None
    for kind in filter(None, kinds):
        try:
            return pyarrow.array(values, kind)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError) as one:
            error = one
    assert error is not None
    raise error


def _with_nanoseconds(values, inferred):
    """pandas' times have them; Arrow infers microseconds, and drops them."""
    kind = inferred.type
    if _kinds.is_timestamp(kind) and any(getattr(value, "nanosecond", 0) for value in values):
        return pyarrow.array(values, pyarrow.timestamp("ns", kind.tz))
    if _kinds.is_duration(kind) and any(getattr(value, "nanoseconds", 0) for value in values):
        return pyarrow.array(values, pyarrow.duration("ns"))
    return inferred


def _kept(inferred, before, in_list):
    """The type from before, as far as it is only another form of the one that is inferred."""
    if inferred == before:
        return before
    if _kinds.is_struct(inferred) and _kinds.is_struct(before):
        if [field.name for field in inferred] != [field.name for field in before]:
            return inferred
        return pyarrow.struct([field.with_type(_kept(field.type, old.type, in_list)) for field, old in zip(inferred, before)])
    if is_list(inferred) and is_list(before):
        value = _kept(inferred.value_type, before.value_type, True)
        if _kinds.is_fixed_size_list(before):
            return pyarrow.list_(value, before.list_size)
        return pyarrow.large_list(value) if _kinds.is_large_list(before) else pyarrow.list_(value)
    if _kinds.is_integer(inferred) and _kinds.is_integer(before):  # other lists of the column are arrays of this type
        return before if in_list or _kinds.is_uint64(before) else inferred
    if _kinds.is_timestamp(inferred) and _kinds.is_timestamp(before) and (inferred.tz is None) != (before.tz is None):
        return inferred
    return before if any(test(inferred) and test(before) for test in _FAMILIES) else inferred


def is_list(kind: pyarrow.DataType) -> bool:
    """Whether its values are lists, of one length or not."""
    return _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind)


def with_zone(column: pyarrow.Array, before: Optional[pyarrow.DataType]) -> pyarrow.Array:
    """A column of numpy's times, which have no zone and are those of UTC, in the zone from before; dates in milliseconds
    as dates."""
    if before is None or not _kinds.is_timestamp(column.type):
        return column
    if _kinds.is_timestamp(before) and before.tz is not None:
        return column.cast(pyarrow.timestamp(column.type.unit, before.tz))
    if _kinds.is_date64(before):
        try:
            return column.cast(before)
        except pyarrow.ArrowInvalid:  # no longer whole days
            return column
    return column


def by_name(schema: Optional[pyarrow.Schema]) -> Dict[str, pyarrow.DataType]:
    """The types of columns; of tensors that of what holds them."""
    kinds = {} if schema is None else {field.name: field.type for field in schema}
    return {name: kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind for name, kind in kinds.items()}


def of_one_integer(arrays: List[numpy.ndarray]) -> List[numpy.ndarray]:
    """Arrays of signed and unsigned whole numbers, which numpy would make doubles of, as whole numbers of one type.

    Raises:
        OverflowError: Where none holds all of them.
    """
    kinds = {one.dtype for one in arrays}
    if len(kinds) < 2 or any(kind.kind not in "iu" for kind in kinds) or numpy.result_type(*kinds).kind != "f":
        return arrays
    full = [one for one in arrays if one.size]
    least, greatest = min(int(one.min()) for one in full), max(int(one.max()) for one in full)
    if greatest > numpy.iinfo(numpy.int64).max and least < 0:
        raise OverflowError(f"no type of whole numbers holds both {least} and {greatest}")
    kind = numpy.int64 if greatest <= numpy.iinfo(numpy.int64).max else numpy.uint64
    return [one.astype(kind) for one in arrays]
