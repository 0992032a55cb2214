"""Sources and sinks of users' own."""

from paceline.data.datasource.datasink import Datasink, SaveMode, WriteResult
from paceline.data.datasource.datasource import Datasource, FileShuffleConfig, ReadTask
from paceline.data.datasource.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
from paceline.data.datasource.filename_provider import FilenameProvider

__all__ = [
    "BlockBasedFileDatasink",
    "Datasink",
    "Datasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "WriteResult",
]
