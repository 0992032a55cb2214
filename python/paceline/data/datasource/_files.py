"""Where the files of a write are, and how they are written, kept and removed in any file system of pyarrow's."""

import contextlib
import os
import posixpath
import signal
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

import pyarrow

from paceline import _filesystem

# Where a file appears when its stream is closed, a rename is a copy, and folders need not be made.
_STORES = ("s3", "gcs", "abfs")


def place_of(path: str, filesystem: Any) -> Tuple[Any, str]:
    """A file system of pyarrow's, and the path in it.

    Args:
        path: Of a folder; a URI if there is no file system.
        filesystem: One of pyarrow's or fsspec's, or None.
    """
    path = os.fspath(path).removeprefix("local://")
    place = _filesystem.given(path, filesystem)
    if place is not None:
        return place.filesystem, place.path
    location = path if "://" in path else os.path.abspath(path)
    return _filesystem.filesystem_of(location), _filesystem.path_of(location)


def is_store(filesystem: Any) -> bool:
    """Whether it is an object store."""
    return filesystem.type_name in _STORES


def is_local(filesystem: Any) -> bool:
    """Whether its paths are those of this machine."""
    return filesystem.type_name == "local"


def is_there(filesystem: Any, path: str) -> bool:
    """Whether there is a file or folder."""
    from pyarrow import fs

    return filesystem.get_file_info(path).type != fs.FileType.NotFound


def write(filesystem: Any, path: str, write_to: Callable[[Any], None], stream_options: Dict[str, Any]) -> None:
    """A file of what `write_to` writes to a stream. Where that fails, an object store has none; elsewhere there may be a
    part of it."""
    if not is_store(filesystem):
        with filesystem.open_output_stream(path, **stream_options) as stream:
            write_to(stream)
        return
    held = pyarrow.BufferOutputStream()
    write_to(held)
    # Not in a `with`: one that has failed must not be closed, which would publish a part.
    stream = filesystem.open_output_stream(path, **stream_options)
    stream.write(held.getvalue())
    stream.close()


def sync(paths: Iterable[str]) -> None:
    """Waits until local files and folders are on the disk."""
    for path in paths:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def make_folder(filesystem: Any, path: str) -> List[str]:
    """Makes a folder, and those above it. Returns which were not there, the deepest first."""
    made = []
    above = path
    while above.strip("/") and not is_there(filesystem, above):
        made.append(above)
        above = posixpath.dirname(above)
    if made:
        filesystem.create_dir(path, recursive=True)
    return made


def remove(filesystem: Any, path: str) -> None:
    """A file, if it is there and can be removed."""
    with contextlib.suppress(OSError):
        filesystem.delete_file(path)


def remove_folder(filesystem: Any, path: str) -> None:
    """A folder and what is in it, if it is there and can be removed."""
    with contextlib.suppress(OSError):
        filesystem.delete_dir(path)


def remove_empty(filesystem: Any, folders: Iterable[str]) -> None:
    """Folders that have nothing in them, as long as there is one."""
    from pyarrow import fs

    with contextlib.suppress(OSError):
        for folder in folders:
            if filesystem.get_file_info(fs.FileSelector(folder)):
                return
            if is_local(filesystem):
                os.rmdir(folder)  # which fails where another process has just put something there
            else:
                filesystem.delete_dir(folder)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until this is left."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # other threads are not interrupted
        return
    pending: List[Any] = []
    signal.signal(signal.SIGINT, lambda *of_signal: pending.append(of_signal))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pending:
            handler(*pending[0])
