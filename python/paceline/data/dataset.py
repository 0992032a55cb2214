"""Dataset: where rows come from and what is done to them, step by step, with Ray Data's names."""

import contextlib
import enum
import operator
import os
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

import cloudpickle

from paceline import _options
from paceline._native import native
from paceline.data import _blocks, _compute, _functions, _plans
from paceline.data._writing import Writing
from paceline.data.context import DataContext
from paceline.data.iterator import DataIterator

Seed = Union[None, int, _plans.RandomSeedConfig]


class MixStoppingCondition(enum.Enum):
    """Where Dataset.mix() ends. STOP_ON_LONGEST_REPEAT is not Ray's."""

    STOP_ON_SHORTEST = "first"  #: where a dataset that has given all its rows would be next
    STOP_ON_LONGEST_DROP = "all"  #: with the last row of all; from where one ends on, the others share its part
    STOP_ON_LONGEST_REPEAT = "repeat"  #: where each has given all its rows; those that end before begin again


class Dataset(Writing):
    """A plan for rows. Nothing is read before the rows are wanted; each method returns a new dataset.

    Not made by users: ``read_parquet()``, ``from_items()`` and their like make one.

        ds = paceline.data.read_parquet("images/").random_shuffle(seed=7).map_batches(normalize)
        for batch in ds.iter_torch_batches(batch_size=64):
            ...
    """

    def __init__(self, plan, united: Iterable["Dataset"] = ()):
        self._made_plan, self._united = plan, list(united)
        self._name: Optional[str] = None

    @property
    def _plan(self):
        """A union's is made when it is wanted, of all that is in the unions in it: a union that grows one by one has no
        levels, and no step of its growth costs more than the one before."""
        if self._made_plan is None:
            plans, waiting = [], self._united[::-1]
            while waiting:
                one = waiting.pop()
                if one._made_plan is None:
                    waiting += one._united[::-1]
                else:
                    plans += one._made_plan.inputs if one._made_plan.kind == "union" else [one._made_plan]
            self._made_plan, self._united = native.DataPlan("union", {}, plans), []
        return self._made_plan

    def __repr__(self) -> str:
        return f"Dataset({' -> '.join(self._plan.explain().splitlines())})"

    def __reduce__(self):
        return _dataset_of, (_plans.described(self._plan),)

    def __len__(self) -> int:
        raise AttributeError("use Dataset.count()")  # it may have to read all rows

    def __iter__(self):
        raise TypeError("a Dataset is iterated with iter_rows(), iter_batches() or iter_torch_batches()")

    @property
    def name(self) -> Optional[str]:
        """What set_name() has called it."""
        return self._name

    def set_name(self, name: Optional[str]) -> None:
        """Calls it something, for the program's own use."""
        self._name = name

    @property
    def context(self) -> DataContext:
        """How datasets are read in this process."""
        return DataContext.get_current()

    def has_serializable_lineage(self) -> bool:
        """Whether its rows are read from elsewhere, and so do not travel with it."""
        return not _plans.has_rows(self._plan)

    def serialize_lineage(self) -> bytes:
        """Where its rows come from and what is done to them, as bytes."""
        if not self.has_serializable_lineage():
            raise ValueError("the dataset has rows in memory, so bytes of it would be a copy of them; write them to files")
        return cloudpickle.dumps(self)

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> "Dataset":
        """The dataset of serialize_lineage(). It runs code that is in them: only of those whom you trust."""
        return cloudpickle.loads(serialized_ds)

    # Steps

    def map(self, fn: Callable, *, fn_args=None, fn_kwargs=None, fn_constructor_args=None, fn_constructor_kwargs=None,
            on_error: Optional[str] = None, quarantine: Optional[str] = None, **resources: Any) -> "Dataset":
        """Each row as what ``fn`` makes of it, from a dict to a dict.

        Args:
            fn: A function, or a class whose objects are called.
            fn_args: Given to it behind the row. fn_kwargs: Likewise, by name.
            fn_constructor_args: Given to the class. fn_constructor_kwargs: Likewise, by name.
            on_error: What becomes of a row for which ``fn`` raises: "raise", an error; "skip", it is left out; "replace",
                a good row of its block, or of the nearest that has one, takes its place. None: what
                ``DataContext.max_errored_blocks`` says.
            quarantine: Path of a file to which such rows are added, as JSON lines.
            resources: Where it runs (docs/data.md, "Functions"). ``concurrency``: at most so many processes.
                ``num_cpus``: cores for each of them. ``num_gpus``: GPUs that each alone sees, or a part of one.
                ``memory``: bytes that each may hold; beyond that it is ended. ``compute``: an ActorPoolStrategy or a
                TaskPoolStrategy. Other options of Ray's get a notice that they have no effect.
        """
        function = _function("map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"Map({function.name})", True, _functions.Map(function), on_error, quarantine)

    def flat_map(self, fn: Callable, *, fn_args=None, fn_kwargs=None, fn_constructor_args=None,
                 fn_constructor_kwargs=None, on_error: Optional[str] = None, quarantine: Optional[str] = None,
                 **resources: Any) -> "Dataset":
        """Each row as the rows that ``fn`` makes of it, from a dict to a list of dicts. Arguments as of map()."""
        function = _function("flat_map", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"FlatMap({function.name})", False, _functions.FlatMap(function), on_error, quarantine)

    def map_batches(self, fn: Callable, *, batch_size: Union[None, int, str] = None, batch_format: Optional[str] = "default",
                    zero_copy_batch: bool = True, fn_args=None, fn_kwargs=None, fn_constructor_args=None,
                    fn_constructor_kwargs=None, udf_modifying_row_count: bool = True,
                    on_error: Optional[str] = None, quarantine: Optional[str] = None, **resources: Any) -> "Dataset":
        """Batches as what ``fn`` makes of them: a dict of arrays, a DataFrame or a Table, or a generator of these.

        Args:
            batch_size: Rows of a batch; None, or Ray's "auto" and "default", for whole blocks. All batches but the last
                have so many, across blocks. Where rows are not counted before they are read (behind a filter; of CSV,
                JSON and text files), a batch is of one block, whose last one may be smaller.
            batch_format: What the function gets: "numpy" ("default"), "pandas" or "pyarrow".
            zero_copy_batch: False gives the function arrays that it may write to.
            udf_modifying_row_count: False where it gives one row for each row: then the number of rows stays known.

        The other arguments are those of map(). With on_error "skip" or "replace", a batch for which ``fn`` raises is given
        to it in parts, down to single rows.
        """
        _blocks.check_format(batch_format)
        if batch_size in ("auto", "default"):
            batch_size = None
        rows = None if batch_size is None else _plans.count("batch_size", batch_size, 1)
        function = _function("map_batches", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        step = _functions.MapBatches(function, rows, batch_format, copies=not zero_copy_batch)
        batched = self if rows is None else self._step("whole_batches", rows=rows)
        return batched._apply(f"MapBatches({function.name})", not udf_modifying_row_count, step, on_error, quarantine)

    def filter(self, fn: Optional[Callable] = None, expr: Any = None, *, fn_args=None, fn_kwargs=None,
               fn_constructor_args=None, fn_constructor_kwargs=None, on_error: Optional[str] = None,
               quarantine: Optional[str] = None, **resources: Any) -> "Dataset":
        """The rows for which a condition is true.

        Args:
            fn: A function from a row to a truth value.
            expr: Instead: an expression of paceline.data.expressions or of pyarrow.compute, or a text such as
                ``"x > 3 and name == 'a'"``. It is evaluated by Arrow, without Python. Of Parquet files, row groups and
                folders (``partitioning="hive"``) that have no such row are not read.
        """
        if (fn is None) == (expr is None):
            raise ValueError("filter() takes either a function or expr=…")
        if expr is not None:
            of_functions = {"fn_args": fn_args, "fn_kwargs": fn_kwargs, "fn_constructor_args": fn_constructor_args,
                            "fn_constructor_kwargs": fn_constructor_kwargs, "on_error": on_error, "quarantine": quarantine}
            if useless := [name for name, value in of_functions.items() if value is not None]:
                raise ValueError(f"filter(expr=…) calls no function: leave out {', '.join(useless)}")
            _compute.taken_from("filter", resources)
            return self._step("filter", expression=_expression(expr))
        function = _function("filter", fn, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, resources)
        return self._apply(f"Filter({function.name})", False, _functions.Filter(function), on_error, quarantine)

    def add_column(self, col: str, fn: Callable, *, batch_format: Optional[str] = "pandas", **resources: Any) -> "Dataset":
        """With a column of what ``fn`` makes of each batch, a value for each row."""
        _blocks.check_format(batch_format)
        function = _function("add_column", fn, None, None, None, None, resources)
        return self._apply(f"AddColumn({col})", True, _functions.AddColumn(function, col, batch_format))

    def with_column(self, column_name: str, expr: Any, **resources: Any) -> "Dataset":
        """With a column that an expression computes, in the place of one that is called so."""
        _options.take("Dataset", "with_column", resources)
        return self._step("with_column", name=column_name, expression=_expression(expr))

    def with_columns(self, exprs: Dict[str, Any], **resources: Any) -> "Dataset":
        """with_column() of several, each of which sees those before it."""
        _options.take("Dataset", "with_columns", resources)
        made = self
        for name, expr in exprs.items():
            made = made.with_column(name, expr)
        return made

    def select_columns(self, cols: Union[str, List[str]], **resources: Any) -> "Dataset":
        """These columns alone. Of Parquet, Feather, ORC and CSV files nothing else is read but what steps before need."""
        _options.take("Dataset", "select_columns", resources)
        return self._step("select_columns", columns=[cols] if isinstance(cols, str) else list(cols))

    def drop_columns(self, cols: Union[str, List[str]], **resources: Any) -> "Dataset":
        """All columns but these."""
        _options.take("Dataset", "drop_columns", resources)
        return self._step("drop_columns", columns=[cols] if isinstance(cols, str) else list(cols))

    def rename_columns(self, names: Union[Dict[str, str], List[str]], **resources: Any) -> "Dataset":
        """With other names: by the old ones, or a list of all new ones."""
        _options.take("Dataset", "rename_columns", resources)
        if not isinstance(names, dict):
            columns = self.schema().names
            if len(names) != len(columns):
                raise ValueError(f"rename_columns() was given {len(names)} names for {len(columns)} columns, {columns}; give "
                                 "one for each, or a dict of those that change")
            names = dict(zip(columns, names))
        return self._step("rename_columns", names=names)

    def limit(self, limit: int) -> "Dataset":
        """The first rows of the order."""
        return Dataset(native.limited_plan(self._plan, _plans.count("limit", limit)))

    def union(self, *other: "Dataset") -> "Dataset":
        """The rows of this and of other datasets. Where one is shuffled, all rows are."""
        return Dataset(None, [self, *other])

    def mix(self, *other: "Dataset", weights: Optional[List[float]] = None,
            stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP) -> "Dataset":
        """The rows of this and of other datasets, interleaved by weights: after any number of rows, each has given its
        part of them to the row. Each keeps its own order, shuffled or not.

        Args:
            weights: One for each dataset, this one first; by default all are equal. They need not sum to 1.
            stopping_condition: Where it ends.
        """
        options: Dict[str, Any] = {"stop": MixStoppingCondition(stopping_condition).value}
        if weights is not None:
            if len(weights) != 1 + len(other):
                raise ValueError(f"there are {len(weights)} weights for {1 + len(other)} datasets; wanted: one for each")
            options["weights"] = [float(weight) for weight in weights]
        return self._with("mix", other, **options)

    def cache(self, path: Optional[str] = None, bytes: Optional[int] = None) -> "Dataset":  # noqa: A002
        """The same rows, which are made once: later epochs take them from the cache, in their own order. What steps before
        do by chance is drawn once. Not Ray Data's.

        Args:
            path: A local folder, in which other processes and later runs find them too. By default they are in memory.
            bytes: That they may take; in memory beside what reading may use, and by default half of that. What finds no
                room is made anew in each epoch. On a disk, datasets that were opened longer ago make room.
        """
        options: Dict[str, Any] = {}
        if path is not None:
            options = {"path": os.path.abspath(path), "version": _plans.version(self._plan)}
        if bytes is not None:
            options["bytes"] = _plans.count("bytes", bytes)
        return self._step("cache", **options)

    def zip(self, *other: "Dataset") -> "Dataset":
        """Row by row the columns of this and of other datasets, which have equally many rows. A name that is there
        already gets a number: "x_1"."""
        return self._with("zip", other)

    # Order

    def random_shuffle(self, *, seed: Seed = None, num_blocks: Optional[int] = None, **resources: Any) -> "Dataset":
        """Rows in another order in each epoch. Nothing is held in memory for it but a window of blocks.

        Args:
            seed: Of the order: the same seed and epoch give the same order. None draws one now.
        """
        _options.take("Dataset", "random_shuffle", resources)
        shuffled = Dataset(native.shuffled_plan(self._plan, "rows", _plans.seed(seed)))
        return shuffled.repartition(num_blocks) if num_blocks else shuffled

    def randomize_block_order(self, *, seed: Seed = None) -> "Dataset":
        """Blocks in another order in each epoch, their rows as they stand."""
        return Dataset(native.shuffled_plan(self._plan, "chunks", _plans.seed(seed)))

    def repartition(self, num_blocks: Optional[int] = None, target_num_rows_per_block: Optional[int] = None, *,
                    shuffle: bool = False, **resources: Any) -> "Dataset":
        """The same rows in another number of blocks, mixed with shuffle=True."""
        _options.take("Dataset", "repartition", resources)
        if (num_blocks is None) == (target_num_rows_per_block is None):
            raise ValueError("repartition() takes either num_blocks or target_num_rows_per_block")
        if num_blocks is None:
            num_blocks = max(1, -(-self.count() // _plans.count("target_num_rows_per_block", target_num_rows_per_block, 1)))
        parted = self._step("repartition", blocks=_plans.count("num_blocks", num_blocks, 1))
        return parted.random_shuffle() if shuffle else parted

    def random_sample(self, fraction: float, *, seed: Seed = None) -> "Dataset":
        """About this part of the rows, each by chance; the same ones in each epoch, however they are shuffled."""
        return Dataset(native.sampled_plan(self._plan, fraction, _plans.seed(seed)))

    # Parts

    def split(self, n: int, *, equal: bool = False, **placement: Any) -> List["Dataset"]:
        """n datasets with a part of the rows each, in order.

        Args:
            equal: All have equally many rows; fewer than n are left out.
        """
        _options.take("Dataset", "split", placement)
        parts = native.split_plan(self._plan, self.count(), _plans.count("n", n, 1), equal)
        return [Dataset(part) for part in parts]

    def split_at_indices(self, indices: List[int]) -> List["Dataset"]:
        """The rows before the first index, from there to the second, …, and from the last on."""
        return [Dataset(part) for part in native.split_plan_at(self._plan, indices)]

    def split_proportionately(self, proportions: List[float]) -> List["Dataset"]:
        """A dataset for each proportion, and one for what is left, in order. Each has at least one row.

        Raises:
            ValueError: There are not enough rows for that.
        """
        return [Dataset(part) for part in native.split_plan_by(self._plan, self.count(), proportions)]

    def train_test_split(self, test_size: Union[int, float], *, shuffle: bool = False, seed: Optional[int] = None,
                         stratify: Optional[str] = None) -> Tuple["Dataset", "Dataset"]:
        """Two datasets: the last rows, as many as test_size says, are the second.

        Args:
            test_size: A part of the rows, or their number.
            shuffle: Whether rows are mixed before.
        """
        if stratify is not None:
            raise NotImplementedError("train_test_split(stratify=…) is not there yet; filter by class and split each")
        size, rows = _part_or_rows(test_size), self.count()
        if rows < 2:
            raise native.ConfigError(f"the dataset has {rows} row{'s' * (rows != 1)}; wanted: at least 2, one for each part")
        train, test = native.train_and_test(self._plan, rows, size, shuffle, _plans.seed(seed))
        return Dataset(train), Dataset(test)

    def streaming_train_test_split(self, test_size: float, *, split_type: str = "random", hash_column: Optional[str] = None,
                                   seed: Seed = None, **resources: Any) -> Tuple["Dataset", "Dataset"]:
        """Two datasets, without a look at the rows before: each row is in one of them, in each epoch the same one, however
        rows are shuffled.

        Args:
            test_size: About which part of the rows the second has.
            split_type: "random": by chance; "hash": by the value of hash_column, so that rows of one value stay together.
            hash_column: For "hash".
            seed: For "random".
        """
        _options.take("Dataset", "streaming_train_test_split", resources)
        parts = native.streaming_train_and_test(self._plan, test_size, split_type, hash_column, _plans.seed(seed))
        return Dataset(parts[0]), Dataset(parts[1])

    def streaming_split(self, n: int, *, equal: bool = False, **placement: Any) -> List[DataIterator]:
        """An iterator for each of n consumers, who share each epoch's rows.

        Args:
            equal: All get equally many rows, and at most n - 1 are left out; otherwise they may differ by one.
        """
        _options.take("Dataset", "streaming_split", placement)
        return [DataIterator(self, rank, n, "drop" if equal else "uneven") for rank in range(n)]

    # Inside

    def _with(self, kind: str, other: Iterable["Dataset"], **options: Any) -> "Dataset":
        return Dataset(native.DataPlan(kind, options, [self._plan, *(one._plan for one in other)]))

    def _step(self, kind: str, **options: Any) -> "Dataset":
        return Dataset(native.DataPlan(kind, options, [self._plan]))

    def _apply(self, name: str, keeps_rows: bool, step: Any, on_error: Optional[str] = None,
               quarantine: Optional[str] = None) -> "Dataset":
        function = native.DataFunction(name, keeps_rows, step, _functions.arguments(step))
        return Dataset(native.DataPlan("function", _plans.bad_rows(on_error, quarantine), [self._plan], function))


class MaterializedDataset(Dataset):
    """A dataset whose rows are in memory."""


def _function(step, fn, args, kwargs, constructor_args, constructor_kwargs, resources):
    if not callable(fn):
        raise TypeError(f"the function of a step is a {type(fn).__name__}, which cannot be called")
    compute = _compute.taken_from(step, resources)
    return _functions.Function(fn, args or (), kwargs, constructor_args or (), constructor_kwargs, compute)


def _part_or_rows(test_size: Any) -> Union[int, float]:
    """As Python's own: the native module would take a numpy.float32 for a number of rows."""
    with contextlib.suppress(TypeError):
        return operator.index(test_size)
    if not hasattr(test_size, "__float__"):
        raise TypeError(f"test_size is {test_size!r}; wanted: a part of the rows, or their number")
    return float(test_size)


def _expression(expr: Any) -> str:
    from paceline.data import expressions

    return expressions.encoded(expr)


def _dataset_of(described) -> Dataset:
    return Dataset(_plans.made_of(described))
