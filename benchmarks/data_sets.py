#!/usr/bin/env python3
"""Writes the Parquet folders that the rows of the data engine read: `data_sets.py FOLDER [--quick]`, with pyarrow.

    FOLDER/scalars   5.2 million rows: int64 "id", which counts the rows, 20 columns of float32, a short string
    FOLDER/tensors   as many vectors of 64 float32, each with its "id", 1.4 GB

Each has 104 files, compressed with snappy. What is there already stays; the content depends on nothing but this file.
"""

import argparse
import pathlib
import shutil

import numpy
import pyarrow
import pyarrow.parquet

FILES = 104
ROWS = 50_000  # in a file
QUICK_FILES = 8
QUICK_ROWS = 5_000
SCALARS = [f"f{number:02}" for number in range(20)]
DIMENSIONS = 64


def float32(generator, rows: int) -> pyarrow.Array:
    """Random numbers, which hardly compress."""
    return pyarrow.array(generator.standard_normal(rows, numpy.float32))


def scalars(first: int, rows: int, generator) -> pyarrow.Table:
    ids = numpy.arange(first, first + rows)
    columns = {"id": pyarrow.array(ids)} | {name: float32(generator, rows) for name in SCALARS}
    return pyarrow.table(columns | {"text": pyarrow.array([f"item {number % 1009}" for number in ids])})


def tensors(first: int, rows: int, generator) -> pyarrow.Table:
    vectors = pyarrow.FixedSizeListArray.from_arrays(float32(generator, rows * DIMENSIONS), DIMENSIONS)
    return pyarrow.table({"id": pyarrow.array(numpy.arange(first, first + rows)), "vector": vectors})


def write(folder: pathlib.Path, make, files: int, rows: int) -> None:
    if folder.is_dir():
        return
    # A name of its own until it is complete: what is there is whole.
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number in range(files):
        table = make(number * rows, rows, numpy.random.default_rng(number))
        # With pyarrow's own encodings, which files of pandas and of Ray Data have, too.
        pyarrow.parquet.write_table(table, unfinished / f"part_{number:03}.parquet", compression="snappy")
    unfinished.rename(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="few rows in few files")
    options = parser.parse_args()
    files, rows = (QUICK_FILES, QUICK_ROWS) if options.quick else (FILES, ROWS)
    for make in (scalars, tensors):
        write(options.folder / make.__name__, make, files, rows)
