"""A Checkpoint by itself: folders, metadata, copies, text."""

import os
import pickle
import tempfile

import pyarrow.fs

from ray.train import Checkpoint

outcome = {}

source = tempfile.mkdtemp()
os.makedirs(os.path.join(source, "inner"))
with open(os.path.join(source, "inner", "a.txt"), "w") as file:
    file.write("a")
checkpoint = Checkpoint.from_directory(source)
outcome["path"] = checkpoint.path == source
outcome["filesystem"] = isinstance(checkpoint.filesystem, pyarrow.fs.LocalFileSystem)
outcome["text"] = str(checkpoint).replace(source, "SOURCE")
with checkpoint.as_directory() as folder:
    outcome["same_folder"] = folder == source
copy = checkpoint.to_directory(os.path.join(tempfile.mkdtemp(), "copy"))
outcome["copied"] = [os.path.basename(copy), os.path.exists(os.path.join(copy, "inner", "a.txt"))]
other = checkpoint.to_directory()
outcome["own_copy"] = [other != source, os.listdir(other), os.path.exists(source)]
outcome["no_metadata"] = checkpoint.get_metadata()
checkpoint.set_metadata({"a": 1, "b": [1, 2]})
checkpoint.update_metadata({"b": "new", "c": None})
outcome["metadata"] = checkpoint.get_metadata()
outcome["of_another_object"] = Checkpoint(source).get_metadata()
moved = Checkpoint(source, filesystem=pyarrow.fs.LocalFileSystem())
with moved.as_directory() as folder:
    outcome["with_filesystem"] = sorted(os.listdir(folder))
again = pickle.loads(pickle.dumps(checkpoint))
outcome["pickled"] = [again.path == source, again.get_metadata()]
absent = Checkpoint(os.path.join(source, "absent"))
outcome["absent"] = os.path.basename(absent.path)
by_uri = Checkpoint(f"file://{source}")
outcome["by_uri"] = by_uri.path == source
