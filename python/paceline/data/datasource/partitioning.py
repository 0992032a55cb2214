"""What the folders of a file say about its rows."""

import dataclasses
import enum
from typing import Any, Dict, List, Optional


class PartitionStyle(str, enum.Enum):
    """HIVE: folders such as ``year=2024``. DIRECTORY: of Ray's, which readers refuse: name the folders year=…."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclasses.dataclass
class Partitioning:
    """Folders as columns: ``partitioning=Partitioning("hive")`` of the readers, which is the same as "hive".

    Args:
        style: "hive".
        base_dir: Taken for Ray's scripts: all folders count.
        field_names: Taken for Ray's scripts: the folders have them.
        field_types: Taken for Ray's scripts: whole numbers are int64, all else is text.
        filesystem: Taken for Ray's scripts.
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
            raise ValueError(f"partitioning is {self.style!r}; allowed: 'hive'") from None
