"""Sinks of users' own: where write_datasink() writes."""

import dataclasses
import enum
import inspect
import itertools
import uuid
from typing import Any, Dict, Iterable, List, Optional

import pyarrow

from paceline.data.block import Block


class SaveMode(str, enum.Enum):
    """What becomes of what is there already: CREATE and ERROR: an error; APPEND: it stays; OVERWRITE: it goes, once the
    new is there; IGNORE: nothing is written; UPSERT: not for files."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    UPSERT = "upsert"


@dataclasses.dataclass
class TaskContext:
    """Which of the calls of Datasink.write() this is.

    Attributes:
        task_idx: Their number, from 0, in the order of the rows.
        op_name: Of the sink.
        kwargs: ``write_uuid``: a text that is another in each write.
    """

    task_idx: int
    op_name: str
    kwargs: Dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class WriteResult:
    """What has been written.

    Attributes:
        num_rows: Rows.
        size_bytes: Bytes of them in memory.
        write_returns: What Datasink.write() has returned, in the order of the rows.
    """

    num_rows: int
    size_bytes: int
    write_returns: List[Any]

    @classmethod
    def combine(cls, *wrs: "WriteResult") -> "WriteResult":
        """Several as one."""
        returns = [one for result in wrs for one in result.write_returns]
        return cls(sum(result.num_rows for result in wrs), sum(result.size_bytes for result in wrs), returns)


class Datasink:
    """A place for rows: derived classes have write(), which is called for one part of the rows after another, in order
    and in this process. Only the rows of one part are in memory."""

    _wants_schema = True

    def on_write_start(self, schema: Optional[pyarrow.Schema] = None) -> None:
        """Before the first rows."""

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> Any:
        """Writes tables. What it returns is handed to on_write_complete()."""
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult) -> None:
        """After the last rows."""

    def on_write_failed(self, error: BaseException) -> None:
        """Instead of that, when something has raised an error, or Ctrl-C was pressed."""

    def get_name(self) -> str:
        """By default of the class."""
        return type(self).__name__.removeprefix("_").removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Taken for Ray's scripts."""
        return True

    @property
    def min_rows_per_write(self) -> Optional[int]:
        """How many rows a call of write() is to have at least; None for those of a block."""
        return None

    # What holds for files, also where a derived class has methods of the names above without calling those here.

    def _complete(self, write_result: WriteResult) -> None:
        """Before on_write_complete()."""

    def _withdraw(self) -> None:
        """Before on_write_failed()."""


def write(dataset: Any, sink: Datasink) -> None:
    """All rows of a dataset, block by block."""
    write_uuid, result = uuid.uuid4().hex, WriteResult(0, 0, [])
    blocks = iter(dataset._blocks())
    try:
        if sink._wants_schema and inspect.signature(sink.on_write_start).parameters:
            first = next(blocks, None)  # which tells it, so that no function is called for that alone
            sink.on_write_start(dataset.schema().base_schema if first is None else first.schema)
            blocks = itertools.chain([] if first is None else [first], blocks)
        else:
            sink.on_write_start()
        for number, tables in enumerate(_parts(blocks, sink.min_rows_per_write or 1)):
            context = TaskContext(number, f"Write{sink.get_name()}", {"write_uuid": write_uuid})
            returned = sink.write(tables, context)
            result.num_rows += sum(table.num_rows for table in tables)
            result.size_bytes += sum(table.nbytes for table in tables)
            result.write_returns.append(returned)
        sink._complete(result)
        sink.on_write_complete(result)
    except BaseException as error:
        sink._withdraw()
        sink.on_write_failed(error)
        raise


def _parts(blocks, least):
    tables: List[pyarrow.Table] = []
    rows = 0
    for block in blocks:
        if block.num_rows:
            tables.append(pyarrow.Table.from_batches([block]))
            rows += block.num_rows
        if rows >= least:
            yield tables
            tables, rows = [], 0
    if tables:
        yield tables
