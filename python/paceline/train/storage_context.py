"""StorageContext: where a run is stored, with the names that Ray Train's has."""

import datetime
import os
import posixpath
from typing import Any

from paceline import _absent
from paceline._filesystem import filesystem_of, of_run, path_of
from paceline._native import native
from paceline.train.checkpoint import Checkpoint


class StorageContext(str):
    """Where a run is stored: a text, the path of its folder, with the file system that this path is in.

    Attributes:
        experiment_dir_name: The run's name.
        storage_filesystem: The pyarrow file system that all paths here are in.
        storage_fs_path: The folder that has the run's: what ``RunConfig.storage_path`` is in ``storage_filesystem``.
        custom_fs_provided: Whether the script gave ``RunConfig.storage_filesystem``.
        read_only: False: files may be put there.
        uri: The run's folder for people and the command line: a local path, or a URI without its keys.

    Example:
        >>> storage = get_context().get_storage()
        >>> with storage.storage_filesystem.open_output_stream(f"{storage.experiment_fs_path}/notes.txt") as file:
        ...     file.write(b"…")
    """

    experiment_dir_name: str
    read_only = False
    _location: str
    _place: Any

    def __new__(cls, location: str, experiment_dir_name: str) -> "StorageContext":
        """Of the run whose train loop this process runs; `location` is its folder's."""
        self = super().__new__(cls, path_of(location, of_run.place) if location else "")
        self._location, self._place, self.experiment_dir_name = location, of_run.place, experiment_dir_name
        return self

    @property
    def storage_filesystem(self) -> Any:
        return filesystem_of(self._location, self._place)

    @property
    def storage_fs_path(self) -> str:
        return self.removesuffix(self.experiment_dir_name).rstrip("/") or "/"

    @property
    def experiment_fs_path(self) -> str:
        """The run's folder in ``storage_filesystem``: this text itself."""
        return str(self)

    @property
    def custom_fs_provided(self) -> bool:
        return self._place is not None and not self._place.is_of_uri

    @property
    def uri(self) -> str:
        return native.without_credentials(self._location)

    @property
    def local_working_directory(self) -> str:
        """Where this worker runs."""
        return os.getcwd()

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """The path of the checkpoint's folder, which is in the run's."""
        return posixpath.join(self, checkpoint_name)

    def extract_checkpoint_dir_name_from_path(self, checkpoint_path: str) -> str:
        """The name of a checkpoint's folder that is in the run's.

        Raises:
            ValueError: For a path that is elsewhere.
        """
        if not checkpoint_path.startswith(f"{self}/"):
            raise ValueError(f"the checkpoint path {checkpoint_path} is not in the run's folder {self}")
        return checkpoint_path[len(self) + 1 :]

    @staticmethod
    def make_default_checkpoint_dir_name() -> str:
        """A name after the time. Paceline itself names checkpoints after their reports."""
        return f"checkpoint_{datetime.datetime.now():%Y-%m-%d_%H-%M-%S.%f}"

    def persist_current_checkpoint(self, checkpoint: Checkpoint, checkpoint_dir_name: str) -> Checkpoint:
        """Copies a checkpoint's files into the run's folder, where a ``checkpoint_upload_fn`` puts them."""
        import pyarrow.fs

        path, filesystem = self.build_checkpoint_path_from_name(checkpoint_dir_name), self.storage_filesystem
        filesystem.create_dir(path)
        pyarrow.fs.copy_files(
            checkpoint.path,
            path,
            source_filesystem=checkpoint.filesystem,
            destination_filesystem=filesystem,
            use_threads=filesystem.type_name != "s3",  # Arrow's uploads from several threads may hang
        )
        return Checkpoint(path, filesystem)

    def __reduce__(self):
        return (str, (str(self),))


_absent.explain(__name__)
