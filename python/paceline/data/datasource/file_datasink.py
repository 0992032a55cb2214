"""Sinks that write files into a folder: a file for each part of the rows, or for each row."""

from typing import Any, Dict, Iterable, List, Optional

import pyarrow

from paceline import _notices
from paceline.data.block import Block, BlockAccessor
from paceline.data.datasource import _files, _unfinished
from paceline.data.datasource.datasink import Datasink, SaveMode, TaskContext, WriteResult
from paceline.data.datasource.filename_provider import FilenameProvider


class _FileDatasink(Datasink):
    """Files that appear when all are written. Where the write fails, none of them stay, and what was there does."""

    _wants_schema = False  # on_write_start() comes before anything is read: there may be nothing to write

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        open_stream_args: Optional[Dict[str, Any]] = None,
        filename_provider: Optional[FilenameProvider] = None,
        dataset_uuid: Optional[str] = None,
        file_format: Optional[str] = None,
        mode: SaveMode = SaveMode.APPEND,
    ):
        self.unresolved_path, self.dataset_uuid, self.file_format = path, dataset_uuid, file_format
        self.filesystem, self.path = _files.place_of(path, filesystem)
        self.try_create_dir, self.open_stream_args = try_create_dir, dict(open_stream_args or {})
        self.filename_provider = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self.mode = SaveMode(mode)
        if self.mode is SaveMode.UPSERT:
            raise ValueError("mode is 'upsert'; allowed for files: create, append, overwrite, ignore, error")
        self._begin()

    def _begin(self):
        self.has_created_dir = self._skips = False
        self._former: List[str] = []  # what goes in the end
        self._made_folders: List[str] = []
        self._unfinished = _unfinished.UnfinishedFiles(
            self.filesystem, self.path, self.open_stream_args, self.mode is SaveMode.OVERWRITE, self.try_create_dir
        )

    def on_write_start(self, schema: Optional[pyarrow.Schema] = None) -> None:
        """Looks what is there already.

        Raises:
            ValueError: For what is there with the modes "error" and "create".
            NotADirectoryError: For a file in the place of the folder.
        """
        from pyarrow import fs

        self._begin()
        kind = self.filesystem.get_file_info(self.path).type
        # Object stores have such files of mode "overwrite" alone, and listing a folder may take many requests.
        looks = self.mode is SaveMode.OVERWRITE or not _files.is_store(self.filesystem)
        if kind == fs.FileType.Directory and looks and _unfinished.remove_abandoned(self.filesystem, self.path):
            self._made_folders = [self.path]  # by the write that was killed
        elif kind != fs.FileType.NotFound:
            self._meet(kind)
        elif self.try_create_dir:
            self._made_folders = _files.make_folder(self.filesystem, self.path)
        self.has_created_dir = bool(self._made_folders)

    def _meet(self, kind):
        """What is there already."""
        from pyarrow import fs

        if self.mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(
                f"{self.unresolved_path} is there already, and mode is {self.mode.value!r}; write elsewhere, or with "
                "'append', 'overwrite' or 'ignore'"
            )
        if self.mode is SaveMode.IGNORE:
            _notices.give_once(f"nothing is written to {self.unresolved_path}, which is there already (mode 'ignore')")
            self._skips = True
        elif kind != fs.FileType.Directory and not _files.is_store(self.filesystem):  # there, both may have one name
            raise NotADirectoryError(f"{self.unresolved_path} is a file; wanted: a folder, new or not, for the files")
        elif self.mode is SaveMode.OVERWRITE:
            found = self.filesystem.get_file_info(fs.FileSelector(self.path, recursive=True))
            self._former = [one.path for one in found if one.is_file and not _unfinished.is_unfinished(one.path, self.path)]

    def write(self, blocks: Iterable[Block], ctx: TaskContext) -> None:
        """The blocks of a part, as one."""
        if self._skips:
            return
        tables = [BlockAccessor.for_block(block).to_arrow() for block in blocks]
        table = tables[0] if len(tables) == 1 else pyarrow.concat_tables(tables, promote_options="permissive")
        self.write_block(BlockAccessor(table), 0, ctx)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        """The rows of a part."""
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult) -> None:
        """After the last rows; the files are there."""
        self._complete(write_result)

    def on_write_failed(self, error: BaseException) -> None:
        """Instead of that; no file of this write is there."""
        self._withdraw()

    def _complete(self, write_result):
        if self._skips:
            return
        self._unfinished.finish(self._former)
        if not write_result.num_rows:
            _files.remove_empty(self.filesystem, self._made_folders)
        self._made_folders = []

    def _withdraw(self):
        self._unfinished.abandon()
        _files.remove_empty(self.filesystem, self._made_folders)
        self._made_folders = []

    def _write_file(self, name, write):
        self._unfinished.add(name, write)


class RowBasedFileDatasink(_FileDatasink):
    """A file for each row: derived classes have write_row_to_file()."""

    def write_row_to_file(self, row: Dict[str, Any], file: pyarrow.NativeFile) -> None:
        """Writes a row."""
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        for number, row in enumerate(block.iter_rows()):
            name = self.filename_provider.get_filename_for_row(
                row, ctx.kwargs["write_uuid"], ctx.task_idx, block_index, number
            )
            self._write_file(name, lambda file, row=row: self.write_row_to_file(row, file))


class BlockBasedFileDatasink(_FileDatasink):
    """A file for each part of the rows: derived classes have write_block_to_file().

    Args:
        path: The folder.
        min_rows_per_file: How many rows a file has at least; None for those of a block.
        file_datasink_kwargs: filesystem, try_create_dir, open_stream_args, filename_provider, file_format, mode.
    """

    def __init__(self, path: str, *, min_rows_per_file: Optional[int] = None, **file_datasink_kwargs: Any):
        super().__init__(path, **file_datasink_kwargs)
        self.min_rows_per_file = min_rows_per_file

    @property
    def min_rows_per_write(self) -> Optional[int]:
        return self.min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: pyarrow.NativeFile) -> None:
        """Writes rows."""
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        table = block.to_arrow()
        name = self.filename_provider.get_filename_for_block(table, ctx.kwargs["write_uuid"], ctx.task_idx, block_index)
        self._write_file(name, lambda file: self.write_block_to_file(block, file))
