"""What datasets write, as other readers see it; what becomes of what is there; sinks and sources of users' own."""

import glob
import os

import numpy
import pandas
import pyarrow
import pyarrow.parquet

import ray.data
from ray.data import Datasink, Datasource, ReadTask, SaveMode
from ray.data.block import BlockAccessor, BlockMetadata
from ray.data.datasource import BlockBasedFileDatasink, FilenameProvider, RowBasedFileDatasink

outcome = {}
frame = pandas.DataFrame({"x": range(6), "name": ["a", "b", "a", "b", "a", "c"], "f": numpy.arange(6) / 2})
dataset = ray.data.from_pandas(frame)


def files(folder, kind="*"):
    return sorted(os.path.relpath(path, folder) for path in glob.glob(f"{folder}/**/*{kind}", recursive=True)
                  if os.path.isfile(path))  # fmt: skip


def folders(folder):
    return sorted({os.path.dirname(path) for path in files(folder)})


dataset.write_parquet(os.path.abspath("parquet"))
outcome["parquet"] = pandas.concat(pandas.read_parquet(f"parquet/{path}") for path in files("parquet")).to_dict("list")
dataset.write_csv(os.path.abspath("csv"))
outcome["csv"] = pandas.concat(pandas.read_csv(f"csv/{path}") for path in files("csv")).to_dict("list")
dataset.write_json(os.path.abspath("json"))
outcome["json"] = pandas.concat(pandas.read_json(f"json/{path}", lines=True) for path in files("json")).to_dict("list")
dataset.write_numpy(os.path.abspath("numpy"), column="f")
outcome["numpy"] = numpy.concatenate([numpy.load(f"numpy/{path}") for path in files("numpy")]).tolist()
outcome["endings"] = [{os.path.splitext(path)[1] for path in files(kind)}.pop() for kind in ("parquet", "csv", "json", "numpy")]

dataset.write_parquet(os.path.abspath("parts"), partition_cols=["name"])
outcome["partitions"] = folders("parts")
back = pyarrow.parquet.read_table("parts").to_pandas().astype({"name": str})
outcome["back"] = back.sort_values("x").to_dict("list")
dataset.repartition(6).write_parquet(os.path.abspath("fewer"), min_rows_per_file=6)
outcome["fewer"] = [pyarrow.parquet.read_metadata(f"fewer/{path}").num_rows for path in files("fewer")]
dataset.write_csv(os.path.abspath("zipped"), arrow_open_stream_args={"compression": "gzip"})
outcome["zipped"] = len(pandas.read_csv(f"zipped/{files('zipped')[0]}", compression="gzip"))


class Named(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"mine_{write_uuid}_{task_index}.csv"


dataset.write_csv(os.path.abspath("named"), filename_provider=Named())
outcome["named"] = [path.startswith("mine_") for path in files("named")]

for mode in (SaveMode.APPEND, SaveMode.OVERWRITE, SaveMode.IGNORE, SaveMode.ERROR):
    folder = os.path.abspath(f"mode_{mode.value}")
    dataset.write_parquet(folder)
    try:
        dataset.limit(2).write_parquet(folder, mode=mode)
    except ValueError:
        outcome[mode.value] = "ValueError"
    else:
        outcome[mode.value] = len(pyarrow.parquet.read_table(folder))


class Squares(Datasource):
    def get_name(self):
        return "Squares"

    def estimate_inmemory_data_size(self):
        return 800

    def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        def task(start):
            def read():
                yield pyarrow.table({"x": [value**2 for value in range(start, start + 3)]})
                yield pyarrow.table({"x": [start]})

            return ReadTask(read, BlockMetadata(num_rows=4, size_bytes=32, input_files=None, exec_stats=None))

        return [task(start) for start in (0, 10, 20)]


squares = ray.data.read_datasource(Squares())
outcome["source"] = [sorted(row["x"] for row in squares.take_all()), squares.count(), squares.columns()]


class Rows(Datasink):
    events = []

    def on_write_start(self, schema=None):
        open("started", "w").close()

    def write(self, blocks, ctx):
        return [BlockAccessor.for_block(block).num_rows() for block in blocks]

    def on_write_complete(self, write_result):
        self.events.append([int(write_result.num_rows), sorted(sum(write_result.write_returns, []))])

    def on_write_failed(self, error):
        self.events.append("failed")


dataset.write_datasink(Rows())
outcome["sink"] = [Rows.events, os.path.exists("started")]


class Lines(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        file.write("".join(f"{row['x']}\n" for row in block.iter_rows(public_row_format=False)).encode())


class Line(RowBasedFileDatasink):
    def write_row_to_file(self, row, file):
        file.write(f"{row['x']}".encode())


dataset.write_datasink(Lines(os.path.abspath("lines"), file_format="txt"))
outcome["lines"] = "".join(open(f"lines/{path}").read() for path in files("lines", ".txt"))
dataset.write_datasink(Line(os.path.abspath("line"), file_format="txt"))
outcome["line"] = [open(f"line/{path}").read() for path in files("line", ".txt")]
