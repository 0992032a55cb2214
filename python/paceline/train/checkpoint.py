"""Checkpoint: a reference to a folder of files."""

import contextlib
import os
from typing import Any, Dict, Iterator, Optional, Union

from paceline._native import native


class Checkpoint:
    """A folder of a checkpoint: the user's own before report(), the published one afterwards.

    Args:
        path: The folder, or the URI of one in an object store.

    Raises:
        StorageError: When there is no such folder (also an ``OSError``).

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
        ...     report({"loss": loss}, checkpoint=Checkpoint.from_directory(folder))
    """

    def __init__(self, path: Union[str, os.PathLike], filesystem: Optional[Any] = None):
        if filesystem is not None:
            raise ValueError("Checkpoint(filesystem=…): give the URI as path (s3://…, gs://…, abfs://…) instead")
        self._native = native.Checkpoint.from_directory(os.fspath(path))

    @classmethod
    def from_directory(cls, path: Union[str, os.PathLike]) -> "Checkpoint":
        """A checkpoint of the user's own files; the folder is copied when it is reported."""
        return cls(path)

    @classmethod
    def _from_native(cls, checkpoint) -> Optional["Checkpoint"]:
        if checkpoint is None:
            return None
        self = cls.__new__(cls)
        self._native = checkpoint
        return self

    @property
    def path(self) -> str:
        """The folder, or the URI of one in an object store."""
        return self._native.path

    def to_directory(self, path: Optional[Union[str, os.PathLike]] = None) -> str:
        """Copies the files to ``path`` (by default a new temporary folder) and returns it."""
        return self._native.to_directory("" if path is None else os.fspath(path))

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The files as a local folder while the ``with`` block runs: no copy where they are local already.

        Example:
            >>> with checkpoint.as_directory() as folder:
            ...     model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
        """
        folder = self._native.as_directory()
        yield os.fspath(folder)
        del folder

    def get_metadata(self) -> Dict[str, Any]:
        """The user's own notes on the checkpoint; empty when there are none."""
        return self._native.get_metadata()

    def set_metadata(self, metadata: Dict[str, Any]) -> None:
        """Replaces the notes."""
        self._native.set_metadata(metadata)

    def update_metadata(self, metadata: Dict[str, Any]) -> None:
        """Adds to the notes."""
        self._native.update_metadata(metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path!r})"

    # The object of the extension has no pickled form; a published checkpoint's path is all there is to it.
    def __reduce__(self):
        return (_unpickled, (self.path,))


def _unpickled(path):
    return Checkpoint._from_native(native.Checkpoint.published(path))
