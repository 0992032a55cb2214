"""What the folders of a file say about its rows."""

import dataclasses
import enum
from typing import Any, Dict, List, Optional

import pyarrow


class PartitionStyle(str, enum.Enum):
    """HIVE: folders such as ``year=2024``. DIRECTORY: such as ``2024``, whose names are given."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclasses.dataclass
class Partitioning:
    """Folders as columns: ``partitioning=`` of the readers, where ``"hive"`` is the same as ``Partitioning("hive")``.

    Args:
        style: "hive" or "dir".
        base_dir: Only folders below it count; by default all do. With "dir" it is needed wherever files are deeper than
            the names say.
        field_names: With "dir", the name of each folder from base_dir down to the file. With "hive", the keys that all
            files must have, in this order.
        field_types: Types of columns, by name: int, float, str or bool, or types of pyarrow's. By default a column is
            int64 where all its values are whole numbers, and text otherwise.
        filesystem: In which base_dir is; that of the reader by default.

    Example:
        >>> paceline.data.read_csv("logs/", partitioning=Partitioning("dir", base_dir="logs", field_names=["year"]))
    """

    style: PartitionStyle
    base_dir: Optional[str] = None
    field_names: Optional[List[str]] = None
    field_types: Optional[Dict[str, Any]] = None
    filesystem: Any = None

    def __post_init__(self) -> None:
        try:
            self.style = PartitionStyle(self.style)
        except ValueError:
            raise ValueError(f"partitioning is {self.style!r}; allowed: 'hive', 'dir'") from None
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError('Partitioning("dir") needs field_names: the name of each folder below base_dir')

    def _schema(self) -> pyarrow.Schema:
        """Of columns whose types are given."""
        types = {int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string(), bool: pyarrow.bool_()}
        return pyarrow.schema([(name, types.get(one, one)) for name, one in (self.field_types or {}).items()])
