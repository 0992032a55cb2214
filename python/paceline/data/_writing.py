"""What Dataset has to write its rows to files."""

import os
import random
from typing import Any

import pyarrow

from paceline.data import _blocks
from paceline.data._reading import Reading


class Writing(Reading):
    """The part of Dataset that writes. Each call reads the rows anew."""

    def write_parquet(self, path: str, **options: Any) -> None:
        """A Parquet file for each block, in a folder. `options`: of pyarrow.parquet.write_table()."""
        import pyarrow.parquet

        self._write(path, "parquet", lambda table, file: pyarrow.parquet.write_table(table, file, **options))

    def write_csv(self, path: str, **options: Any) -> None:
        """A CSV file for each block, in a folder. `options`: of pyarrow.csv.write_csv()."""
        import pyarrow.csv

        self._write(path, "csv", lambda table, file: pyarrow.csv.write_csv(table, file, **options))

    def write_json(self, path: str) -> None:
        """A file of JSON lines for each block, in a folder."""

        def write(table, file):
            table.to_pandas().to_json(file, orient="records", lines=True)

        self._write(path, "json", write)

    def write_numpy(self, path: str, *, column: str) -> None:
        """A .npy file of a column for each block, in a folder."""
        import numpy

        def write(table, file):
            block = table.select([column]).combine_chunks().to_batches()[0]
            numpy.save(file, _blocks.column_to_numpy(block.column(0)))

        self._write(path, "npy", write)

    def _write(self, path, ending, write):
        # Names that sort as the blocks stand, and a name of its own each time, as files are added to a folder.
        os.makedirs(path, exist_ok=True)
        mark = f"{random.getrandbits(64):016x}"
        for number, block in enumerate(self._blocks()):
            name = f"{mark}_{number:06d}.{ending}"
            unfinished = os.path.join(path, f".{name}")  # readers leave out what begins with a dot
            write(pyarrow.Table.from_batches([block]), unfinished)
            os.replace(unfinished, os.path.join(path, name))
