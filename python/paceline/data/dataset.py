"""Dataset: where rows come from and what is done to them, step by step, with Ray Data's names."""

import functools
import os
import random
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import pyarrow

from paceline import _options
from paceline._native import native
from paceline.data import _blocks, _functions
from paceline.data.iterator import DataIterator


class Dataset:
    """A plan for rows. Nothing is read before the rows are wanted; each method returns a new dataset.

    Not made by users: ``read_parquet()``, ``from_items()`` and their like make one.

        ds = paceline.data.read_parquet("images/").random_shuffle(seed=7).map_batches(normalize)
        for batch in ds.iter_torch_batches(batch_size=64):
            ...
    """

    def __init__(self, plan):
        self._plan = plan

    def __repr__(self) -> str:
        return f"Dataset({' -> '.join(self._plan.explain().splitlines())})"

    def __reduce__(self):
        return _dataset_of, (_described(self._plan),)

    def __len__(self) -> int:
        raise AttributeError("use Dataset.count()")  # it may have to read all rows

    def __iter__(self):
        raise TypeError("a Dataset is iterated with iter_rows(), iter_batches() or iter_torch_batches()")

    # Steps

    def map(self, fn: Callable, *, fn_args=None, fn_kwargs=None, fn_constructor_args=None, fn_constructor_kwargs=None,
            **resources: Any) -> "Dataset":
        """Each row as what ``fn`` makes of it, from a dict to a dict.

        Args:
            fn: A function, or a class whose objects are called.
            fn_args: Given to it behind the row. fn_kwargs: Likewise, by name.
            fn_constructor_args: Given to the class. fn_constructor_kwargs: Likewise, by name.
            resources: Of Ray's: num_cpus, concurrency, … They get a notice that they have no effect.
        """
        function = _function("map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"Map({function.name})", True, _functions.Map(function))

    def flat_map(self, fn: Callable, *, fn_args=None, fn_kwargs=None, fn_constructor_args=None,
                 fn_constructor_kwargs=None, **resources: Any) -> "Dataset":
        """Each row as the rows that ``fn`` makes of it, from a dict to a list of dicts. Arguments as of map()."""
        function = _function("flat_map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"FlatMap({function.name})", False, _functions.FlatMap(function))

    def map_batches(self, fn: Callable, *, batch_size: Optional[int] = None, batch_format: Optional[str] = "default",
                    zero_copy_batch: bool = True, fn_args=None, fn_kwargs=None, fn_constructor_args=None,
                    fn_constructor_kwargs=None, udf_modifying_row_count: bool = True, **resources: Any) -> "Dataset":
        """Batches as what ``fn`` makes of them: a dict of arrays, a DataFrame or a Table, or a generator of these.

        Args:
            batch_size: Rows of a batch, which are of one block; None for whole blocks.
            batch_format: What the function gets: "numpy" ("default"), "pandas" or "pyarrow".
            zero_copy_batch: False gives the function arrays that it may write to.
            udf_modifying_row_count: False where it gives one row for each row: then the number of rows stays known.

        The other arguments are those of map().
        """
        _blocks.check_format(batch_format)
        function = _function("map_batches", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        step = _functions.MapBatches(function, batch_size, batch_format, copies=not zero_copy_batch)
        return self._apply(f"MapBatches({function.name})", not udf_modifying_row_count, step)

    def filter(self, fn: Optional[Callable] = None, expr: Any = None, *, fn_args=None, fn_kwargs=None,
               fn_constructor_args=None, fn_constructor_kwargs=None, **resources: Any) -> "Dataset":
        """The rows for which a condition is true.

        Args:
            fn: A function from a row to a truth value.
            expr: Instead: an expression of paceline.data.expressions or of pyarrow.compute, or a text such as
                ``"x > 3 and name == 'a'"``. It is evaluated by Arrow, without Python.
        """
        if (fn is None) == (expr is None):
            raise ValueError("filter() takes either a function or expr=…")
        if expr is not None:
            return self._step("filter", expression=_expression(expr))
        function = _function("filter", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"Filter({function.name})", False, _functions.Filter(function))

    def add_column(self, col: str, fn: Callable, *, batch_format: Optional[str] = "pandas", **resources: Any) -> "Dataset":
        """With a column of what ``fn`` makes of each batch, a value for each row."""
        _blocks.check_format(batch_format)
        function = _function("add_column", fn, None, None, None, None, resources)
        return self._apply(f"AddColumn({col})", True, _functions.AddColumn(function, col, batch_format))

    def with_column(self, column_name: str, expr: Any) -> "Dataset":
        """With a column that an expression computes, in the place of one that is called so."""
        return self._step("with_column", name=column_name, expression=_expression(expr))

    def select_columns(self, cols: Union[str, List[str]]) -> "Dataset":
        """These columns alone. Of Parquet files nothing else is read."""
        columns = [cols] if isinstance(cols, str) else list(cols)
        plan = self._plan
        if plan.kind == "read_parquet":
            return Dataset(native.DataPlan("read_parquet", {**plan.options, "columns": columns}, []))
        return self._step("select_columns", columns=columns)

    def drop_columns(self, cols: Union[str, List[str]]) -> "Dataset":
        """All columns but these."""
        return self._step("drop_columns", columns=[cols] if isinstance(cols, str) else list(cols))

    def rename_columns(self, names: Union[Dict[str, str], List[str]]) -> "Dataset":
        """With other names: by the old ones, or a list of all new ones."""
        if not isinstance(names, dict):
            names = dict(zip(self.schema().names, names))
        return self._step("rename_columns", names=names)

    def limit(self, limit: int) -> "Dataset":
        """The first rows of the order."""
        return self._step("range", rows=_count("limit", limit))

    def union(self, *other: "Dataset") -> "Dataset":
        """The rows of this and of other datasets. Where one is shuffled, all rows are."""
        return Dataset(native.DataPlan("union", {}, [self._plan, *(one._plan for one in other)]))

    # Order

    def random_shuffle(self, *, seed: Optional[int] = None, num_blocks: Optional[int] = None, **resources: Any) -> "Dataset":
        """Rows in another order in each epoch. Nothing is held in memory for it but a window of blocks.

        Args:
            seed: Of the order: the same seed and epoch give the same order. None draws one now.
        """
        _options.take("Dataset", "random_shuffle", resources)
        shuffled = self._step("shuffle", what="rows", seed=_seed(seed))
        return shuffled.repartition(num_blocks) if num_blocks else shuffled

    def randomize_block_order(self, *, seed: Optional[int] = None) -> "Dataset":
        """Blocks in another order in each epoch, their rows as they stand."""
        return self._step("shuffle", what="chunks", seed=_seed(seed))

    def repartition(self, num_blocks: Optional[int] = None, target_num_rows_per_block: Optional[int] = None, *,
                    shuffle: bool = False, **resources: Any) -> "Dataset":
        """The same rows in another number of blocks, mixed with shuffle=True."""
        _options.take("Dataset", "repartition", resources)
        if (num_blocks is None) == (target_num_rows_per_block is None):
            raise ValueError("repartition() takes either num_blocks or target_num_rows_per_block")
        if num_blocks is None:
            num_blocks = max(1, -(-self.count() // _count("target_num_rows_per_block", target_num_rows_per_block)))
        parted = self._step("repartition", blocks=_count("num_blocks", num_blocks))
        return parted.random_shuffle() if shuffle else parted

    def random_sample(self, fraction: float, *, seed: Optional[int] = None) -> "Dataset":
        """About this part of the rows, each by chance; the same ones in each epoch."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction is {fraction!r}; allowed: 0 to 1")
        return self._apply(f"RandomSample({fraction})", False, _functions.Sample(fraction, _seed(seed)))

    # Parts

    def split(self, n: int, *, equal: bool = False, **placement: Any) -> List["Dataset"]:
        """n datasets with a part of the rows each, in order.

        Args:
            equal: All have equally many rows; fewer than n are left out.
        """
        _options.take("Dataset", "split", placement)
        rows = self.count()
        if equal:
            size = rows // n
            return [self._range(part * size, size) for part in range(n)]
        ends = [rows * (part + 1) // n for part in range(n)]
        return [self._range(first, end - first) for first, end in zip([0, *ends], ends)]

    def split_at_indices(self, indices: List[int]) -> List["Dataset"]:
        """The rows before the first index, from there to the second, …, and from the last on."""
        if list(indices) != sorted(indices) or any(index < 0 for index in indices):
            raise ValueError(f"indices are {indices}; wanted: numbers from 0, sorted")
        ends = [*indices, 2**62]
        return [self._range(first, end - first) for first, end in zip([0, *indices], ends)]

    def split_proportionately(self, proportions: List[float]) -> List["Dataset"]:
        """A dataset for each proportion, and one for what is left."""
        if not proportions or any(part <= 0 for part in proportions) or sum(proportions) >= 1:
            raise ValueError(f"proportions are {proportions}; wanted: numbers above 0 whose sum is below 1")
        rows, ends, done = self.count(), [], 0.0
        for part in proportions:
            done += part
            ends.append(int(rows * done))
        return self.split_at_indices(ends)

    def train_test_split(self, test_size: Union[int, float], *, shuffle: bool = False, seed: Optional[int] = None,
                         stratify: Optional[str] = None) -> Tuple["Dataset", "Dataset"]:
        """Two datasets: the last rows, as many as test_size says, are the second.

        Args:
            test_size: A part of the rows, or their number.
            shuffle: Whether rows are mixed before.
        """
        if stratify is not None:
            raise NotImplementedError("train_test_split(stratify=…) is not there yet; filter by class and split each")
        rows = self.count()
        if isinstance(test_size, float):
            if not 0 < test_size < 1:
                raise ValueError(f"test_size is {test_size}; allowed: a part between 0 and 1, or a number of rows")
            test_size = -int(-rows * test_size // 1)
        if not 0 < test_size < rows:
            raise ValueError(f"test_size is {test_size}; allowed: 1 to {rows - 1}, since there are {rows} rows")
        mixed = self.random_shuffle(seed=_seed(seed)) if shuffle else self
        return mixed._range(0, rows - test_size), mixed._range(rows - test_size, test_size)

    def streaming_split(self, n: int, *, equal: bool = False, **placement: Any) -> List[DataIterator]:
        """An iterator for each of n consumers, who share each epoch's rows.

        Args:
            equal: All get equally many rows, and at most n - 1 are left out; otherwise they may differ by one.
        """
        _options.take("Dataset", "streaming_split", placement)
        return [DataIterator(self, rank, n, "drop" if equal else "uneven") for rank in range(n)]

    # What is in it

    def iterator(self) -> DataIterator:
        """Its rows, epoch after epoch."""
        return DataIterator(self)

    def iter_rows(self) -> Iterable[Dict[str, Any]]:
        """DataIterator.iter_rows() of a new iterator."""
        return self.iterator().iter_rows()

    def iter_batches(self, **options: Any) -> Iterable[Any]:
        """DataIterator.iter_batches() of a new iterator."""
        return self.iterator().iter_batches(**options)

    def iter_torch_batches(self, **options: Any) -> Iterable[Any]:
        """DataIterator.iter_torch_batches() of a new iterator."""
        return self.iterator().iter_torch_batches(**options)

    def to_torch(self, **options: Any):
        """DataIterator.to_torch() of a new iterator."""
        return self.iterator().to_torch(**options)

    def schema(self, **fetch: Any) -> pyarrow.Schema:
        """Its columns: names and types. Where a function makes them, the first block is made."""
        _options.take("Dataset", "schema", fetch)
        return self._open().schema()

    def columns(self, **fetch: Any) -> List[str]:
        """The names of its columns."""
        return self.schema(**fetch).names

    def count(self) -> int:
        """Its number of rows. Read only where the files do not say it (after a filter)."""
        opened = self._open()
        if opened.counts_rows:
            return sum(rows for rows, _ in opened.chunks)
        return sum(block.num_rows for block in self._blocks())

    def num_blocks(self) -> int:
        """The number of blocks, each of which is read alone."""
        return len(self._open().chunks)

    def size_bytes(self) -> int:
        """About how many bytes its rows take in memory, as the files say."""
        return sum(size for _, size in self._open().chunks)

    def input_files(self) -> List[str]:
        """What it was told to read."""
        return sorted(set(_paths(self._plan)))

    def take(self, limit: int = 20) -> List[Dict[str, Any]]:
        """The first rows, as dicts."""
        rows: List[Dict[str, Any]] = []
        for block in self._blocks(batch_size=min(_count("limit", limit), 1024)):
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
        for block in self._blocks(batch_size=_count("batch_size", batch_size)):
            return _blocks.to_format(block, batch_format)
        raise ValueError("the dataset has no rows")

    def show(self, limit: int = 20) -> None:
        """Prints the first rows."""
        for row in self.take(limit):
            print(row)

    def materialize(self) -> "MaterializedDataset":
        """The same rows in memory: read now, never again. In the order of the first epoch."""
        blocks = list(self._blocks())
        if not blocks:
            schema = self.schema()
            blocks = [pyarrow.RecordBatch.from_pylist([], schema=schema)]
        return MaterializedDataset(native.DataPlan("rows", {}, [], rows=_of_one_schema(blocks)))

    def stats(self) -> str:
        """What has been read of this dataset in this process, step by step."""
        from paceline.data import _stats

        return _stats.text_of(self._open().statistics())

    def explain(self) -> None:
        """Prints its steps."""
        print(self._plan.explain(), end="")

    # Of all rows

    def sum(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The sum of a column, or of each of several as a dict."""
        return self._aggregate("sum", on, ignore_nulls)

    def min(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The smallest value."""
        return self._aggregate("min", on, ignore_nulls)

    def max(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The largest value."""
        return self._aggregate("max", on, ignore_nulls)

    def mean(self, on: Union[None, str, List[str]] = None, ignore_nulls: bool = True) -> Any:
        """The mean."""
        return self._aggregate("mean", on, ignore_nulls)

    def std(self, on: Union[None, str, List[str]] = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """The standard deviation, with ``rows - ddof`` in the denominator."""
        return self._aggregate("std", on, ignore_nulls, ddof)

    def unique(self, column: str) -> List[Any]:
        """The values of a column, each once, in the order in which they come."""
        values: Dict[Any, None] = {}
        for block in self.select_columns([column])._blocks():
            values.update(dict.fromkeys(block.column(0).unique().to_pylist()))
        return list(values)

    def _aggregate(self, what, on, ignore_nulls, ddof=1):
        from paceline.data import _aggregates

        return _aggregates.of(self, what, on, ignore_nulls, ddof)

    # Out of it

    def to_pandas(self, limit: Optional[int] = None):
        """All rows as a pandas.DataFrame. ValueError where there are more than `limit`."""
        import pandas

        frames = [_blocks.to_format(block, "pandas") for block in self._blocks()]
        frame = pandas.concat(frames, ignore_index=True) if frames else self.schema().empty_table().to_pandas()
        if limit is not None and len(frame) > limit:
            raise ValueError(f"the dataset has {len(frame)} rows, more than {limit}")
        return frame

    def to_arrow_refs(self) -> List[pyarrow.Table]:
        """The blocks as tables. Ray gives references to them; here they are the tables."""
        return [pyarrow.Table.from_batches([block]) for block in self._blocks()]

    def write_parquet(self, path: str, **options: Any) -> None:
        """A Parquet file for each block, in a folder. `options`: of pyarrow.parquet.write_table()."""
        import pyarrow.parquet

        self._write(path, "parquet", lambda table, file: pyarrow.parquet.write_table(table, file, **options))

    def write_csv(self, path: str, **options: Any) -> None:
        """A CSV file for each block, in a folder. `options`: of pyarrow.csv.write_csv()."""
        import pyarrow.csv

        self._write(path, "csv", lambda table, file: pyarrow.csv.write_csv(table, file, **options))

    def write_json(self, path: str) -> None:
        """A file of JSON lines for each block, in a folder."""

        def write(table, file):
            table.to_pandas().to_json(file, orient="records", lines=True)

        self._write(path, "json", write)

    def write_numpy(self, path: str, *, column: str) -> None:
        """A .npy file of a column for each block, in a folder."""
        import numpy

        def write(table, file):
            block = table.select([column]).combine_chunks().to_batches()[0]
            numpy.save(file, _blocks.column_to_numpy(block.column(0)))

        self._write(path, "npy", write)

    def _write(self, path, ending, write):
        # Names that sort as the blocks stand, and a name of its own each time, as files are added to a folder.
        os.makedirs(path, exist_ok=True)
        mark = f"{random.getrandbits(64):016x}"
        for number, block in enumerate(self._blocks()):
            name = f"{mark}_{number:06d}.{ending}"
            unfinished = os.path.join(path, f".{name}")  # readers leave out what begins with a dot
            write(pyarrow.Table.from_batches([block]), unfinished)
            os.replace(unfinished, os.path.join(path, name))

    # Inside

    def _step(self, kind: str, **options: Any) -> "Dataset":
        return Dataset(native.DataPlan(kind, options, [self._plan]))

    def _apply(self, name: str, keeps_rows: bool, step: Any) -> "Dataset":
        function = native.DataFunction(name, keeps_rows, step)
        return Dataset(native.DataPlan("function", {}, [self._plan], function))

    def _range(self, first: int, rows: int) -> "Dataset":
        return self._step("range", first=first, rows=rows)

    @functools.cached_property
    def _opened(self):
        return self._plan.open()

    def _open(self):
        return self._opened

    def _has_functions(self) -> bool:
        """Whether a step is a function of Python."""
        return _any_function(self._plan)

    def _blocks(self, batch_size: Optional[int] = None) -> Iterable[pyarrow.RecordBatch]:
        for table in self.iter_batches(batch_size=batch_size, batch_format="pyarrow"):
            yield from table.combine_chunks().to_batches()


class MaterializedDataset(Dataset):
    """A dataset whose rows are in memory."""


def _of_one_schema(blocks):
    schemas = {str(block.schema) for block in blocks}
    if len(schemas) == 1:
        return blocks
    tables = [pyarrow.Table.from_batches([block]) for block in blocks]
    return pyarrow.concat_tables(tables, promote_options="permissive").to_batches()


def _function(step, fn, args, kwargs, constructor_args, constructor_kwargs, resources):
    if not callable(fn):
        raise TypeError(f"the function of a step is a {type(fn).__name__}, which cannot be called")
    _options.take("Dataset", step, resources)
    return _functions.Function(fn, args or (), kwargs, constructor_args or (), constructor_kwargs)


def _count(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}; allowed: a whole number from 0")
    return value


def _seed(seed: Optional[int]) -> int:
    """Drawn once: every process that opens the plan has the same."""
    return random.SystemRandom().getrandbits(62) if seed is None else int(seed)


def _expression(expr: Any) -> str:
    from paceline.data import expressions

    return expressions.encoded(expr)


def _any_function(plan):
    return plan.function is not None or any(map(_any_function, plan.inputs))


def _paths(plan):
    yield from plan.options.get("paths", [])
    for one in plan.inputs:
        yield from _paths(one)


def _described(plan):
    """A plan as plain objects, and back: it travels to workers so."""
    function = plan.function and (plan.function.name, plan.function.keeps_rows, plan.function.function)
    return plan.kind, plan.options, [_described(one) for one in plan.inputs], function, plan.rows


def _dataset_of(described) -> Dataset:
    return Dataset(_plan_of(described))


def _plan_of(described):
    kind, options, inputs, function, rows = described
    made = function and native.DataFunction(*function)
    return native.DataPlan(kind, options, [_plan_of(one) for one in inputs], made, rows)

