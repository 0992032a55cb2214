"""The frame of aggregates: functions that make an accumulator of each block and merge these; their one pass."""

from typing import Any, Callable, Dict, Iterable, Optional

import pyarrow

from paceline._native import native
from paceline.data import _blocks


class AggregateFn:
    """An aggregate of functions.

    Args:
        init: The accumulator of no rows; gets None.
        merge: Of two accumulators one.
        name: Of the result.
        accumulate_row: Of an accumulator and a row, as a dict, an accumulator.
        accumulate_block: Instead: of an accumulator and a pyarrow.Table.
        finalize: The result of the last accumulator.

    Raises:
        ValueError: When there is neither accumulate_row nor accumulate_block, or both.
    """

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Optional[Callable[[Any, Dict[str, Any]], Any]] = None,
        accumulate_block: Optional[Callable[[Any, pyarrow.Table], Any]] = None,
        finalize: Optional[Callable[[Any], Any]] = None,
    ):
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("an AggregateFn takes either accumulate_row or accumulate_block")
        if not isinstance(name, str):
            raise TypeError(f"AggregateFn.name is {name!r}; wanted: a text")
        self.name, self.init, self.merge = name, init, merge
        self.accumulate_block = accumulate_block or _by_rows(accumulate_row)
        self.finalize = finalize or (lambda accumulator: accumulator)

    _column: Optional[str] = None  # the only one that it reads


def _by_rows(accumulate_row):
    def accumulate_block(accumulator, table):
        for batch in table.to_batches():
            for row in _blocks.to_rows(batch):
                accumulator = accumulate_row(accumulator, row)
        return accumulator

    return accumulate_block


class AggregateFnV2(AggregateFn):
    """An aggregate as a class: derived classes have aggregate_block(), combine() and, if they like, finalize().

    Args:
        name: Of the result.
        zero_factory: Makes the accumulator of no rows.
        on: The column; None for all.
        ignore_nulls: Whether blocks of which aggregate_block() makes None are left out. Otherwise the result is None then.
    """

    _is_known_of_no_rows = False  # what counts and lists is 0 and empty then

    def __init__(self, name: str, zero_factory: Callable[[], Any], *, on: Optional[str], ignore_nulls: bool):
        if not name:
            raise ValueError("an aggregate needs a name")
        self._column, self._ignore_nulls, self._zero = on, ignore_nulls, zero_factory
        own_finalize = self.finalize
        super().__init__(
            lambda _: zero_factory() if self._is_known_of_no_rows or not ignore_nulls else None,
            self._merged,
            name,
            accumulate_block=lambda _, table: self.aggregate_block(table),
            finalize=lambda accumulator: None if accumulator is None else own_finalize(accumulator),
        )

    def _merged(self, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return (second if first is None else first) if self._ignore_nulls else None
        return self.combine(first, second)

    def get_target_column(self) -> Optional[str]:
        """The column."""
        return self._column

    def get_agg_name(self) -> str:
        """The name without the column."""
        return self.name.partition("(")[0]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        """Of two accumulators one."""
        raise NotImplementedError

    def aggregate_block(self, block: pyarrow.Table) -> Any:
        """The accumulator of a block; None where it has nothing but nulls, or one that counts."""
        raise NotImplementedError

    def finalize(self, accumulator: Any) -> Any:  # type: ignore[no-redef]
        """The result."""
        return accumulator

    def _values(self, block: pyarrow.Table) -> Optional[pyarrow.Array]:
        """The column without nulls; None where it has none but these, or one that counts. Of a dictionary the values."""
        column = block.column(self._column).combine_chunks()
        if pyarrow.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.null_count:
            column = column.drop_null() if self._ignore_nulls else None
        return column if column is not None and len(column) else None

    def _refuse_what_is_no_number(self, kind: pyarrow.DataType) -> None:
        """Before a cast, for which texts of digits are numbers, too."""
        of = pyarrow.types
        tests = (of.is_integer, of.is_floating, of.is_decimal, of.is_boolean, of.is_null)
        if not any(test(kind) for test in tests):
            raise native.ConfigError(f"{self.name}: the column {self._column!r} has {kind}; wanted: numbers")


class OfColumn(AggregateFnV2):
    """One that is called after its column."""

    _kind = ""

    def __init__(self, on, ignore_nulls, alias_name, zero):
        super().__init__(alias_name or f"{self._kind}({on})", zero, on=on, ignore_nulls=ignore_nulls)


def of(dataset: Any, aggregates: Iterable[AggregateFn]) -> Dict[str, Any]:
    """The results by name, of one pass over the rows. Of several of one name, the second is called ``name_2``."""
    aggregates = list(aggregates)
    accumulators = [one.init(None) for one in aggregates]
    for block in _blocks_of(dataset, aggregates):
        _refuse_missing(aggregates, block.schema.names)
        table = pyarrow.Table.from_batches([block])
        for place, one in enumerate(aggregates):
            accumulators[place] = one.merge(accumulators[place], one.accumulate_block(one.init(None), table))
    results: Dict[str, Any] = {}
    for one, accumulator in zip(aggregates, accumulators):
        results[_free_name(one.name, results)] = one.finalize(accumulator)
    return results


def _blocks_of(dataset, aggregates):
    """With no column but what they read, where they say it."""
    columns = dict.fromkeys(one._column for one in aggregates)
    chosen = dataset.select_columns(list(columns)) if columns and None not in columns else dataset
    try:
        yield from chosen._blocks()
    except native.ConfigError as error:
        if any(f"column '{column}'" in str(error) for column in columns):
            _refuse_missing(aggregates, dataset.columns())
        raise


def _refuse_missing(aggregates, there):
    for one in aggregates:
        if one._column is not None and one._column not in there:
            text = f"{one.name}: there is no column {one._column!r}; there are {', '.join(there)}"
            raise native.ConfigError(text) from None


def _free_name(name, taken):
    """As Ray numbers them."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
