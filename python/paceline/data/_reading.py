"""What Dataset has to read its rows: as rows, batches and tables, and for what is known about them."""

import functools
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Union

import pyarrow

from paceline import _options
from paceline._native import native
from paceline.data import _blocks, _plans
from paceline.data._schema import Schema
from paceline.data.iterator import DataIterator

if TYPE_CHECKING:
    from paceline.data.aggregate import AggregateFn
    from paceline.data.dataset import MaterializedDataset


_FEW = 1000  # rows for which no processes are started


class Reading:
    """The part of Dataset that reads. Each call reads anew."""

    _plan: Any
    select_columns: Any  # Dataset's

    def iterator(self) -> DataIterator:
        """Its rows, epoch after epoch."""
        return DataIterator(self)

    def iter_rows(self) -> Iterable[Dict[str, Any]]:
        """DataIterator.iter_rows() of a new iterator."""
        return DataIterator(self, once=True).iter_rows()

    def iter_batches(self, **options: Any) -> Iterable[Any]:
        """DataIterator.iter_batches() of a new iterator."""
        return DataIterator(self, once=True).iter_batches(**options)

    def iter_torch_batches(self, **options: Any) -> Iterable[Any]:
        """DataIterator.iter_torch_batches() of a new iterator."""
        return DataIterator(self, once=True).iter_torch_batches(**options)

    def to_torch(self, **options: Any):
        """DataIterator.to_torch() of a new iterator."""
        return self.iterator().to_torch(**options)

    def schema(self, fetch_if_missing: bool = True) -> Schema:
        """Its columns: names and types. Where a function makes them, the first block is made.

        Args:
            fetch_if_missing: Taken for Ray's scripts.
        """
        _options.note("Dataset", [] if fetch_if_missing else ["fetch_if_missing"])
        return Schema(self._reader.schema())

    def columns(self, fetch_if_missing: bool = True) -> List[str]:
        """The names of its columns."""
        return self.schema(fetch_if_missing).names

    def count(self) -> int:
        """Its number of rows. Read only where the files do not say it (after a filter)."""
        facts = self._reader.facts()
        if facts["counts_rows"]:
            return facts["rows"]
        return sum(block.num_rows for block in self._blocks())

    def num_blocks(self) -> int:
        """The number of blocks, each of which is read alone."""
        return self._reader.facts()["blocks"]

    def size_bytes(self) -> int:
        """About how many bytes its rows take in memory, as the files say."""
        return self._reader.facts()["bytes"]

    def input_files(self) -> List[str]:
        """What it was told to read."""
        return native.input_files(self._plan)

    def take(self, limit: int = 20) -> List[Dict[str, Any]]:
        """The first rows, as dicts."""
        rows: List[Dict[str, Any]] = []
        if _plans.count("limit", limit) == 0:
            return rows
        for block in self._blocks(min(limit, 1024), here=limit <= _FEW):
            rows.extend(_blocks.to_rows(block))
            if len(rows) >= limit:
                break
        return rows[:limit]

    def take_all(self, limit: Optional[int] = None) -> List[Dict[str, Any]]:
        """All rows, as dicts. ValueError where there are more than `limit`."""
        rows: List[Dict[str, Any]] = []
        for block in self._blocks():
            rows.extend(_blocks.to_rows(block))
            if limit is not None and len(rows) > limit:
                raise ValueError(f"the dataset has more than {limit} rows")
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: Optional[str] = "default") -> Any:
        """The first rows as one batch. ValueError where there are none."""
        for block in self._blocks(_plans.count("batch_size", batch_size, 1), here=batch_size <= _FEW):
            return _blocks.to_format(block, batch_format)
        raise ValueError("the dataset has no rows")

    def show(self, limit: int = 20) -> None:
        """Prints the first rows."""
        for row in self.take(limit):
            print(row)

    def materialize(self) -> "MaterializedDataset":
        """The same rows in memory: read now, never again. In the order of the first epoch."""
        from paceline.data.dataset import MaterializedDataset

        blocks = list(self._blocks())
        if not blocks:
            schema = self.schema().base_schema
            blocks = [pyarrow.RecordBatch.from_pylist([], schema=schema)]
        return MaterializedDataset(_plans.of_blocks(blocks))

    def stats(self) -> str:
        """What has been read of this dataset in this process, step by step; empty before anything is. Aggregates such
        as sum() read a dataset of their own, with their columns alone."""
        return self._reader.stats()

    def explain(self) -> None:
        """Prints its steps."""
        print(self._plan.explain(), end="")

    # Of all rows

    def aggregate(self, *aggs: "AggregateFn") -> Dict[str, Any]:
        """What aggregates (paceline.data.aggregate) make of all rows, by their names, in one pass."""
        from paceline.data import _aggregation

        return _aggregation.of(self, aggs)

    def sum(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The sum of a column, or of each of several as a dict."""
        return self._aggregate("Sum", on, ignore_nulls=ignore_nulls)

    def min(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The smallest value."""
        return self._aggregate("Min", on, ignore_nulls=ignore_nulls)

    def max(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The largest value."""
        return self._aggregate("Max", on, ignore_nulls=ignore_nulls)

    def mean(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The mean."""
        return self._aggregate("Mean", on, ignore_nulls=ignore_nulls)

    def std(self, on: Union[None, str, List[str]] = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """The standard deviation, with ``rows - ddof`` in the denominator."""
        return self._aggregate("Std", on, ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column: str, ignore_nulls: bool = False) -> List[Any]:
        """The values of a column, each once, in the order in which they come."""
        return self._aggregate("Unique", column, ignore_nulls=ignore_nulls)

    def _aggregate(self, kind, on, **options):
        from paceline.data import _aggregation, aggregate

        columns = [on] if isinstance(on, str) else list(on or self.columns())
        values = _aggregation.of(self, [getattr(aggregate, kind)(column, **options) for column in columns])
        return next(iter(values.values())) if len(values) == 1 else values

    # Out of it

    def to_pandas(self, limit: Optional[int] = None):
        """All rows as a pandas.DataFrame. ValueError where there are more than `limit`."""
        import pandas

        frames = [_blocks.to_format(block, "pandas") for block in self._blocks()]
        frame = pandas.concat(frames, ignore_index=True) if frames else self.schema().empty_table().to_pandas()
        if limit is not None and len(frame) > limit:
            raise ValueError(f"the dataset has {len(frame)} rows, more than {limit}")
        return frame

    def to_pandas_refs(self) -> List[Any]:
        """The blocks as DataFrames. Ray gives references to them."""
        return [_blocks.to_format(block, "pandas") for block in self._blocks()]

    def to_numpy_refs(self, *, column: Optional[str] = None) -> List[Any]:
        """The blocks as dicts of arrays, or the arrays of a column. Ray gives references to them."""
        blocks = map(_blocks.to_numpy, self._blocks())
        return [block if column is None else block[column] for block in blocks]

    def to_arrow_refs(self) -> List[pyarrow.Table]:
        """The blocks as tables. Ray gives references to them; here they are the tables."""
        return [pyarrow.Table.from_batches([block]) for block in self._blocks()]

    # Inside

    @functools.cached_property
    def _reader(self):
        return self._plan.open()

    def _blocks(self, batch_size: Optional[int] = None, here: bool = False) -> Iterable[pyarrow.RecordBatch]:
        """`here`: no processes are started for functions, for there are few rows."""
        for table in DataIterator(self, here=here, once=True).iter_batches(batch_size=batch_size, batch_format="pyarrow"):
            yield from table.combine_chunks().to_batches()
