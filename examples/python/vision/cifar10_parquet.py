"""The CIFAR-10 photographs as Parquet files.

    python examples/python/vision/cifar10_parquet.py data   # writes data/cifar-10-parquet/{train,test}.parquet
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import sys

import pyarrow
import pyarrow.parquet

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from vision.cifar10 import Cifar10

ROWS_OF_A_GROUP = 1000  # what is read at a time: 3 MB of pixels


def cifar10_parquet(root: str, train: bool = True) -> str:
    """The path of a file with a row for each photograph: ``image``, a tensor [32, 32, 3] uint8, and ``label``.

    It is written once, of the files that Cifar10 reads or fetches.

    Example:
        >>> ds = paceline.data.read_parquet(cifar10_parquet("data"))
    """
    path = os.path.join(root, "cifar-10-parquet", "train.parquet" if train else "test.parquet")
    if os.path.exists(path):
        return path
    photographs = Cifar10(root, train)
    pixels = photographs.pixels.permute(0, 2, 3, 1).contiguous().numpy()  # as pictures are: height, width, channels
    table = pyarrow.table(
        {
            "image": pyarrow.FixedShapeTensorArray.from_numpy_ndarray(pixels),
            "label": photographs.labels.numpy(),
        }
    )
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Of several processes one writes at a time. What a process that was killed has left, the next one writes over.
    with open(f"{path}.unfinished", "ab") as unfinished:
        fcntl.flock(unfinished, fcntl.LOCK_EX)
        if os.path.exists(path):
            with contextlib.suppress(FileNotFoundError):
                os.remove(unfinished.name)
        else:
            pyarrow.parquet.write_table(table, unfinished.name, row_group_size=ROWS_OF_A_GROUP)
            os.replace(unfinished.name, path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default="data", help="the folder of the photographs, which are fetched if need be")
    root = parser.parse_args().root
    for train in (True, False):
        print(cifar10_parquet(root, train=train))
