"""FilenameProvider: what files that a dataset is written to are called."""

from typing import Any, Dict, Optional


class FilenameProvider:
    """Names of files. Derived classes have a get_filename_for_task() of their own; names must differ, and should sort as
    the tasks do.

    Args:
        dataset_uuid: What names begin with.
        file_format: What they end with.
    """

    def __init__(self, dataset_uuid: Optional[str] = None, file_format: Optional[str] = None):
        self.dataset_uuid, self.file_format = dataset_uuid, file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Of the file with the rows of a task."""
        begin = f"{self.dataset_uuid}_" if self.dataset_uuid else ""
        end = f".{self.file_format}" if self.file_format else ""
        return f"{begin}{write_uuid}_{task_index:06d}{end}"

    def get_filename_for_block(self, block: Any, write_uuid: str, task_index: int, block_index: int) -> str:
        """Of the file with the rows of a block, of which a task has one."""
        return self.get_filename_for_task(write_uuid, task_index)

    def get_filename_for_row(self, row: Dict[str, Any], write_uuid: str, task_index: int, block_index: int,
                             row_index: int) -> str:
        """Of the file with a single row."""
        name, dot, end = self.get_filename_for_task(write_uuid, task_index).partition(".")
        return f"{name}_{block_index:06d}_{row_index:06d}{dot}{end}"
