"""What is left of writes that fail, are interrupted, or whose process is killed: all that was there before, no more."""

import os
import pathlib
import resource
import signal
import subprocess
import sys

import pyarrow.parquet
import pytest

import paceline.data
from paceline.data import BlockBasedFileDatasink
from paceline.data.datasource import FilenameProvider


class Fixed(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"part-{task_index}.parquet"


class Once(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return "rows.parquet"


def contents(folder):
    """What each file holds, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fails_at(number, error=None):
    """Options for files, the last of which raises."""
    calls = []

    def options():
        calls.append(number)
        if len(calls) == number:
            if error is None:
                os.kill(os.getpid(), signal.SIGINT)
                return {}
            raise error
        return {}

    return options


def test_names_that_are_there_are_refused_and_stay(tmp_path):
    out = tmp_path / "out"
    paceline.data.range(10).write_parquet(str(out), filename_provider=Fixed())
    before = contents(out)
    for options in (None, fails_at(1, LookupError("broken"))):
        with pytest.raises((ValueError, LookupError), match="part-0.parquet is there already|broken"):
            paceline.data.range(20).write_parquet(str(out), filename_provider=Fixed(), arrow_parquet_args_fn=options)
        assert contents(out) == before
    with pytest.raises(ValueError, match="says 'rows.parquet' twice"):
        paceline.data.range(20, override_num_blocks=2).write_parquet(str(out), filename_provider=Once())
    assert contents(out) == before


def test_an_overwrite_that_fails_leaves_the_files_whose_names_it_takes(tmp_path):
    out = tmp_path / "out"
    paceline.data.range(100, override_num_blocks=3).write_parquet(str(out), filename_provider=Fixed())
    before = contents(out)
    again = paceline.data.range(50, override_num_blocks=2)
    with pytest.raises(LookupError):
        again.write_parquet(str(out), filename_provider=Fixed(), mode="overwrite",
                            arrow_parquet_args_fn=fails_at(2, LookupError()))  # fmt: skip
    assert contents(out) == before
    again.write_parquet(str(out), filename_provider=Fixed(), mode="overwrite")
    assert sorted(contents(out)) == ["part-0.parquet", "part-1.parquet"]
    assert paceline.data.read_parquet(str(out)).count() == 50


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_ctrl_c_leaves_nothing(tmp_path, mode):
    there, new = tmp_path / "there", tmp_path / "above" / "new"
    paceline.data.range(10).write_parquet(str(there))
    before = contents(there)
    dataset = paceline.data.range(100, override_num_blocks=10)
    for out in (there, new):
        with pytest.raises(KeyboardInterrupt):
            dataset.write_parquet(str(out), mode=mode, arrow_parquet_args_fn=fails_at(4))
    assert contents(there) == before and not new.parent.exists()


def test_a_full_disk_leaves_nothing_and_a_retry_works(tmp_path):
    out = tmp_path / "out"
    dataset = paceline.data.range(200_000, override_num_blocks=4)
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    for write in ("write_parquet", "write_csv", "write_json"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, former[1]))  # larger files are an error, as on a full disk
        try:
            with pytest.raises(OSError):
                getattr(dataset, write)(str(out), mode="error")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, former)
        assert not out.exists()
    dataset.write_parquet(str(out), mode="error")
    assert paceline.data.read_parquet(str(out)).count() == 200_000


KILLED = """
import os, signal, sys
import paceline.data
calls = []
def options():
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return {}
paceline.data.range(100, override_num_blocks=5).write_parquet(sys.argv[1], mode=sys.argv[2], arrow_parquet_args_fn=options)
"""


def kill(folder, mode):
    done = subprocess.run([sys.executable, "-B", "-c", KILLED, str(folder), mode], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_write_leaves_the_rows_that_were_there(tmp_path):
    out, new = tmp_path / "out", tmp_path / "new"
    paceline.data.range(7).write_parquet(str(out))
    before = contents(out)
    kill(out, "overwrite")
    assert len(contents(out)) == len(before) + 4  # the last one of them is empty
    assert paceline.data.read_parquet(str(out)).count() == 7
    paceline.data.range(3).write_parquet(str(out), mode="append")
    assert before.items() <= contents(out).items() and len(contents(out)) == len(before) + 1
    assert paceline.data.read_parquet(str(out)).count() == 10
    kill(new, "error")
    paceline.data.range(3).write_parquet(str(new), mode="error")  # there was nothing else
    assert len(list(new.iterdir())) == 1


def test_a_write_leaves_the_unfinished_files_of_another(tmp_path):
    inside = []

    def options():
        if not inside:
            inside.append(1)
            paceline.data.range(5).write_parquet(str(tmp_path / "out"), mode="overwrite")
        return {}

    paceline.data.range(10).write_parquet(str(tmp_path / "out"), arrow_parquet_args_fn=options)
    assert len(contents(tmp_path / "out")) == 2 and paceline.data.read_parquet(str(tmp_path / "out")).count() == 15


def test_files_appear_where_a_sink_has_methods_of_its_own(tmp_path):
    class Marked(BlockBasedFileDatasink):
        def write_block_to_file(self, block, file):
            pyarrow.parquet.write_table(block.to_arrow(), file)

        def on_write_complete(self, write_result):
            seen.append(len(list(pathlib.Path(self.path).iterdir())))

        def on_write_failed(self, error):
            seen.append(type(error))

    seen = []
    sink = Marked(str(tmp_path / "out"), file_format="parquet")
    paceline.data.range(10, override_num_blocks=2).write_datasink(sink)
    assert seen == [2] and len(list((tmp_path / "out").iterdir())) == 2
    with pytest.raises(ZeroDivisionError):
        paceline.data.range(10).map(lambda row: {"x": 1 / (5 - row["id"])}).write_datasink(sink)
    assert seen[1:] == [ZeroDivisionError] and len(list((tmp_path / "out").iterdir())) == 2


def test_names_that_lead_elsewhere_are_refused(tmp_path):
    class Elsewhere(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return "../elsewhere.parquet"

    with pytest.raises(ValueError, match="wanted: the name of a file"):
        paceline.data.range(3).write_parquet(str(tmp_path / "out"), filename_provider=Elsewhere())
    assert list(tmp_path.iterdir()) == []
