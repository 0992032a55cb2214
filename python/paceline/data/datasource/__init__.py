"""Sources and sinks of users' own."""

from paceline import _absent
from paceline.data.datasource.datasink import Datasink, SaveMode, WriteResult
from paceline.data.datasource.datasource import Datasource, FileShuffleConfig, ReadTask
from paceline.data.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
from paceline.data.datasource.filename_provider import FilenameProvider
from paceline.data.datasource.partitioning import Partitioning, PartitionStyle

__all__ = [
    "BlockBasedFileDatasink",
    "Datasink",
    "Datasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "PartitionStyle",
    "Partitioning",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "WriteResult",
]

_absent.explain(__name__)
