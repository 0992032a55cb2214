"""The files of a write until it is complete: they wait in a folder that readers leave out, and get their names together.

The folder is locked while its process lives. The next write removes those of processes that have been killed.
"""

import fcntl
import os
import posixpath
import time
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

from paceline.data.datasource import _files

_BEGIN = ".unfinished-"  # readers leave out what begins with a dot
_SECONDS = 24 * 60 * 60.0  # until a folder that cannot be locked counts as one of a process that has been killed


class UnfinishedFiles:
    """The files of one write.

    In object stores, where to rename is to copy, those of a write that replaces nothing get their names at once.

    Args:
        filesystem: One of pyarrow's.
        folder: Where the files are to be.
        stream_options: Of open_output_stream().
        replaces: Whether the files replace those that are there; otherwise no name may be there.
        makes_folders: Whether folders in `folder` are made.
    """

    def __init__(self, filesystem: Any, folder: str, stream_options: Dict[str, Any], replaces: bool, makes_folders: bool):
        self._filesystem, self._folder, self._stream_options = filesystem, folder, stream_options
        self._replaces, self._makes_folders = replaces, makes_folders
        self._waits = replaces or not _files.is_store(filesystem)
        self._names: Dict[str, None] = {}  # in order
        self._made: List[str] = []  # files that have their names, and were not there before
        self._made_folders: List[List[str]] = []
        self._is_finished = False
        self._waiting = ""  # the folder
        self._lock: Optional[int] = None

    def add(self, name: str, write: Callable[[Any], None]) -> None:
        """Writes a file, whose name may have folders.

        Raises:
            ValueError: For a name that is there, or leads elsewhere.
        """
        name = posixpath.normpath(name)
        if name.startswith(("/", "../")) or name in ("..", "."):
            raise ValueError(f"the FilenameProvider says {name!r}; wanted: the name of a file in {self._folder}")
        if name in self._names:
            raise ValueError(f"the FilenameProvider says {name!r} twice; names must differ: make them of write_uuid and "
                             "task_index (of rows also row_index)")
        path = posixpath.join(self._folder, name)
        if not self._replaces:
            self._refuse_what_is_there(path)
        self._names[name] = None
        if not self._waits:
            self._make_folder_of(path)
            self._made.append(path)
            _files.write(self._filesystem, path, write, self._stream_options)
            return
        if not self._waiting:
            self._waiting, self._lock = _waiting_folder(self._filesystem, self._folder)
        waiting = posixpath.join(self._waiting, name)
        if "/" in name and not _files.is_store(self._filesystem):
            self._filesystem.create_dir(posixpath.dirname(waiting), recursive=True)
        _files.write(self._filesystem, waiting, write, self._stream_options)

    def finish(self, former: List[str]) -> None:
        """Gives the files their names, then removes those of `former` that are not among them. Once all have them, they
        stay, whatever happens then. A second time, it does nothing."""
        if self._is_finished:
            return
        places = {posixpath.join(self._folder, name): posixpath.join(self._waiting, name) for name in self._names}
        there = set(former)
        syncs = bool(former) and _files.is_local(self._filesystem)
        if syncs:
            _files.sync(places.values())
        with _files.uninterrupted():
            if self._waits:
                # What replaces a file last: what is behind that cannot be undone.
                for path in sorted(places, key=there.__contains__):
                    self._rename(places[path], path, path in there)
            if syncs:
                _files.sync({above for path in places for above in _above(path, self._folder)})
            self._is_finished = True
            for path in there - places.keys():
                _files.remove(self._filesystem, path)
            self._end()

    def abandon(self) -> None:
        """Removes all files that this write has made, if it is not finished."""
        if self._is_finished:
            return
        for path in self._made:
            _files.remove(self._filesystem, path)
        for folders in reversed(self._made_folders):
            _files.remove_empty(self._filesystem, folders)
        self._made, self._made_folders, self._names = [], [], {}
        self._end()

    def _rename(self, waiting, path, was_there):
        self._make_folder_of(path)
        if not self._replaces:
            self._refuse_what_is_there(path)  # another process may have been faster
        if not was_there:
            self._made.append(path)
        self._filesystem.move(waiting, path)

    def _make_folder_of(self, path):
        folder = posixpath.dirname(path)
        if self._makes_folders and folder != self._folder and not _files.is_store(self._filesystem):
            self._made_folders.append(_files.make_folder(self._filesystem, folder))

    def _refuse_what_is_there(self, path):
        if _files.is_there(self._filesystem, path):
            raise ValueError(f"{path} is there already, and the FilenameProvider gives its name again; make names of "
                             "write_uuid, or write with mode 'overwrite'")

    def _end(self):
        if self._waiting:
            _files.remove_folder(self._filesystem, self._waiting)
            self._waiting = ""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_unfinished(path: str, folder: str) -> bool:
    """Whether a path below a folder is that of a file that waits."""
    return posixpath.relpath(path, folder).startswith(_BEGIN)


def remove_abandoned(filesystem: Any, folder: str) -> bool:
    """Removes the files that writes to a folder have left whose processes have been killed. Returns whether there were
    any, and now nothing else is there."""
    from pyarrow import fs

    there = filesystem.get_file_info(fs.FileSelector(folder))
    removed = 0
    for one in there:
        if one.type == fs.FileType.Directory and one.base_name.startswith(_BEGIN):
            removed += _removed_if_abandoned(filesystem, one.path)
    return removed > 0 and removed == len(there)


def _waiting_folder(filesystem, folder) -> Tuple[str, Optional[int]]:
    """A new one, and what locks it."""
    while True:
        path = posixpath.join(folder, _BEGIN + uuid.uuid4().hex)
        if _files.is_store(filesystem):
            return path, None
        filesystem.create_dir(path, recursive=False)
        if not _files.is_local(filesystem):
            return path, None
        try:
            lock, _ = _locked(path)
        except OSError:
            continue  # another write has taken it for one that nobody uses: it was not locked yet
        if os.path.exists(path):
            return path, lock
        os.close(lock)


def _locked(path) -> Tuple[int, bool]:
    """A local folder, opened, and whether it could be locked.

    Raises:
        OSError: It is not there any more, or a process that lives has locked it.
    """
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return opened, True
    except (BlockingIOError, FileNotFoundError):
        os.close(opened)
        raise
    except OSError:
        return opened, False  # a file system without locks


def _removed_if_abandoned(filesystem, path) -> bool:
    is_locked, lock = False, None
    try:
        if _files.is_local(filesystem):
            lock, is_locked = _locked(path)
        if is_locked or _is_old(filesystem, path):
            _files.remove_folder(filesystem, path)
            return not _files.is_there(filesystem, path)
        return False
    except OSError:
        return False
    finally:
        if lock is not None:
            os.close(lock)


def _is_old(filesystem, path):
    from pyarrow import fs

    found = [filesystem.get_file_info(path), *filesystem.get_file_info(fs.FileSelector(path, recursive=True))]
    times = [one.mtime_ns for one in found if one.mtime_ns is not None]
    return bool(times) and time.time() - max(times) / 1e9 > _SECONDS


def _above(path, folder):
    """The folders from `folder` down to a file."""
    while path != folder and path.strip("/"):
        path = posixpath.dirname(path)
        yield path
