"""Checkpoint: a reference to a folder of files."""

import atexit
import contextlib
import os
import shutil
import tempfile
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Union

from paceline._filesystem import Place, filesystem_of, given, kind_of, of_run, path_of, place_of
from paceline._native import native


class Checkpoint:
    """A reference to a checkpoint's folder: before report() the user's own, afterwards the published one.

    Args:
        path: The folder: a local path, the URI of one in an object store, or a path in ``filesystem``.
        filesystem: The file system of ``path``: pyarrow's or fsspec's.

    The folder need not be there yet: whatever reads it says so, as an ``OSError``.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
        ...     report({"loss": loss}, checkpoint=Checkpoint.from_directory(folder))
    """

    _folder: weakref.finalize  # of from_dict()
    _place: Optional[Place] = None  # what filesystem was given for; else that of the run, in its train loop

    def __init__(self, path: Union[str, os.PathLike], filesystem: Optional[Any] = None):
        self._place = given(os.fspath(path), filesystem)
        self._native = native.Checkpoint.at(self._place.location if self._place else os.fspath(path))

    @classmethod
    def from_directory(cls, path: Union[str, os.PathLike]) -> "Checkpoint":
        """Makes a checkpoint of the user's own files; report() copies the folder."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: Dict[str, Any]) -> "Checkpoint":
        """Makes a checkpoint of a dictionary: a model's state_dict(), an optimizer's, numbers, nested as you like.

        Tensors are stored as safetensors, plain values (numbers, strings, lists, tuples, dicts) as JSON. Everything
        else is pickled, and to_dict() unpickles it only with ``allow_pickle=True``. Tensors on GPUs come back on the
        CPU, and parameters as tensors. The prefix ``module.`` in state dicts of DistributedDataParallel is dropped.

        Args:
            data: Values by name; to_dict() replaces ``_timestamp`` and ``_current_checkpoint_id`` in it.

        Raises:
            TypeError: If an entry cannot be stored because it cannot be pickled or is a shard of a tensor; it names the
                entry.

        Example:
            >>> report({"loss": loss}, checkpoint=Checkpoint.from_dict({"model": model.state_dict(), "epoch": epoch}))
        """
        from paceline.train import dict_checkpoint

        return cls._made_by(lambda folder: dict_checkpoint.write(data, folder))

    def to_dict(self, allow_pickle: bool = False) -> Dict[str, Any]:
        """Returns the dictionary that was passed to from_dict().

        Besides its entries it has Ray Train's ``_timestamp`` (when it was reported, or before that made by from_dict(),
        in seconds since the Unix epoch), ``_current_checkpoint_id`` (the report's number, None before) and
        ``_preprocessor`` (None).

        Args:
            allow_pickle: Whether to unpickle entries that had to be pickled, which runs code from the file. Use it only
                for checkpoints whose writer you trust.

        Raises:
            ValueError: If there are pickled entries and not ``allow_pickle``, naming them; if from_dict() did not make
                the checkpoint.
        """
        from paceline.train import dict_checkpoint

        with self.as_directory() as folder:
            return dict_checkpoint.read(folder, allow_pickle)

    @classmethod
    def _made_by(cls, write: Callable[[str], None]) -> "Checkpoint":
        """Of a new folder that `write` fills; it is deleted with the object."""
        folder = tempfile.mkdtemp(prefix="paceline_checkpoint_")
        try:
            write(folder)
            self = cls(folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        self._folder = weakref.finalize(self, _delete, folder, os.getpid())
        return self

    def _keep_folder(self, deletes: bool) -> None:
        """Whoever uploads the folder while training goes on deletes it once it is published, if report() `deletes`.

        What is never published, because the attempt fails, is deleted at the end of the process.
        """
        if (folder := getattr(self, "_folder", None)) and (detached := folder.detach()) and deletes:
            atexit.register(_delete, *detached[2])

    @classmethod
    def _from_native(cls, checkpoint, place: Optional[Place] = None) -> Any:  # a Checkpoint, None for None
        if checkpoint is None:
            return None
        self = cls.__new__(cls)
        self._native = checkpoint
        self._place = place or of_run.place
        return self

    @property
    def path(self) -> str:
        """The folder's path in :attr:`filesystem`: that of a local folder, or ``bucket/runs/run/checkpoint_000001``."""
        return path_of(self._native.path_with_credentials, self._place)

    @property
    def filesystem(self) -> Any:
        """The pyarrow file system that :attr:`path` is in; it has the keys that were given."""
        return filesystem_of(self._native.path_with_credentials, self._place)

    @property
    def uri(self) -> str:
        """Where the folder is, for people and for ``paceline checkpoint``: a local path, or a URI without its keys."""
        return self._native.path

    def to_directory(self, path: Optional[Union[str, os.PathLike]] = None) -> str:
        """Copies the files to ``path`` (by default a new temporary folder) and returns it."""
        return self._native.to_directory("" if path is None else os.fspath(path))

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """The files as a local folder while the ``with`` block runs; files that are local already are not copied, so a
        later report that is given the same ``checkpoint_dir_name`` replaces them meanwhile.

        Example:
            >>> with checkpoint.as_directory() as folder:
            ...     model.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
        """
        folder = self._native.as_directory()
        yield os.fspath(folder)
        del folder

    def load(self, model: Any, *, strict: bool = True) -> Any:
        """Restores a model from a published checkpoint: C++'s ``Checkpoint::save(model)``, or from_dict()'s ``"model"``.

        Args:
            model: A ``torch.nn.Module``, which may be wrapped by DistributedDataParallel; it stays on its device.
            strict: Whether names must be the same on both sides. If false, what only one side has is left alone.

        Returns:
            The result of PyTorch's ``load_state_dict()``: ``missing_keys``, which the checkpoint lacks, and
            ``unexpected_keys``, which the model lacks.

        Raises:
            RuntimeError: As ``load_state_dict()``: if shapes differ, or with ``strict`` names.
            StorageError: When the files are missing or damaged.
            ValueError: If the checkpoint has no model.

        Example:
            >>> result = checkpoint.load(model, strict=False)
            >>> print("new:", result.missing_keys)
        """
        from paceline.train import _weights

        return _weights.load(self._native, model, strict)

    def get_metadata(self) -> Dict[str, Any]:
        """The user's notes on the checkpoint; empty if there are none."""
        return self._native.get_metadata()

    def set_metadata(self, metadata: Dict[str, Any]) -> None:
        """Replaces the notes."""
        self._native.set_metadata(metadata)

    def update_metadata(self, metadata: Dict[str, Any]) -> None:
        """Adds to the notes, keeping those with other names."""
        self._native.update_metadata(metadata)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return False
        return self.uri == other.uri or (self.path == other.path and self.filesystem == other.filesystem)

    def __hash__(self) -> int:
        return hash(path_of(self._native.path_with_credentials))

    def __repr__(self) -> str:
        """In Ray Train's form."""
        kind = kind_of(self._native.path_with_credentials, self._place)
        return f"{type(self).__name__}(filesystem={kind}, path={self.path})"

    # The object of the extension has no pickled form; where a published checkpoint is is all there is to it. Pickles are
    # how checkpoints reach other processes: they have the keys.
    def __reduce__(self):
        location = self._native.path_with_credentials
        if self._place is None and not native.custom_id(location):
            return (_unpickled, (location,))
        return (_unpickled, (self.path, self.filesystem))


def _delete(folder, pid):
    if os.getpid() == pid:  # not in processes that were forked from there
        shutil.rmtree(folder, ignore_errors=True)


def _unpickled(path, filesystem=None):
    place = None if filesystem is None else place_of(path, filesystem)
    checkpoint = Checkpoint._from_native(native.Checkpoint.published(place.location if place else path))
    checkpoint._place = place
    return checkpoint
