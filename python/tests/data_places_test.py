"""Where files lie and what they are called: names that are no text, the same file twice, very many files, odd folders."""

import os
import pathlib
import pickle
import time

import numpy
import pyarrow
import pyarrow.parquet
import pytest

import paceline.data
import paceline.train


def test_names_that_are_not_utf8(tmp_path):
    folder = os.fsencode(tmp_path)
    for number, name in enumerate((b"a\xff.csv", b"b\xc3\xa4.csv")):
        with open(folder + b"/" + name, "wb") as file:
            file.write(b"x\n%d\n" % number)
    dataset = paceline.data.read_csv(str(tmp_path), include_paths=True)
    assert [row["x"] for row in dataset.take_all()] == [0, 1]
    assert [os.path.basename(row["path"]) for row in dataset.take_all()] == ["a\ufffd.csv", "bä.csv"]
    assert paceline.data.read_csv(str(tmp_path / "*.csv")).count() == 2
    with open(folder + b"/a\xff.csv", "wb") as file:
        file.write(b"x,y\n1\n")
    with pytest.raises(ValueError, match="a\ufffd.csv"):
        paceline.data.read_csv(str(tmp_path)).count()


def test_names_that_are_not_utf8_are_given(tmp_path, monkeypatch):
    folder = os.fsencode(tmp_path) + b"/f\xfe"
    os.mkdir(folder)
    with open(folder + b"/a\xff%20.csv", "wb") as file:
        file.write(b"x\n1\n")
    whole = folder + b"/a\xff%20.csv"
    monkeypatch.chdir(folder)
    for given in (whole, os.fsdecode(whole), [whole], pathlib.Path(os.fsdecode(whole)), folder, folder + b"/*.csv",
                  folder + b"/?\xff*", b"a\xff%20.csv"):
        dataset = paceline.data.read_csv(given)
        assert dataset.take_all() == [{"x": 1}], given
        dataset.explain()
        assert pickle.loads(pickle.dumps(dataset)).count() == 1
    with pytest.raises(OSError, match="b\ufffd"):
        paceline.data.read_csv(folder + b"/b\xff.csv").count()
    assert paceline.data.read_csv(b"%s/%s" % (os.fsencode(tmp_path), b"f\xfe")).count() == 1


@pytest.mark.parametrize("name", ["a b", "a%20b", "a#b", "a?b", "a=b", "a\nb", "[a]", "*", "é", "a:b", "~"])
def test_names_that_mean_something_elsewhere(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / f"{name}.txt").write_text("found")
    (tmp_path / "other.txt").write_text("not this")
    assert paceline.data.read_text(str(folder)).take_all() == [{"text": "found"}]
    assert paceline.data.read_text(str(folder / f"{name}.txt")).take_all() == [{"text": "found"}]


def test_a_file_that_is_named_twice_is_read_twice(tmp_path):
    path = str(tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"x": range(100)}), path, row_group_size=10)
    for paths in ([path, path], [path, str(tmp_path)], [str(tmp_path), str(tmp_path / "*.parquet")]):
        dataset = paceline.data.read_parquet(paths)
        assert [row["x"] for row in dataset.take_all()] == 2 * list(range(100))
        shuffled = [row["x"] for row in dataset.random_shuffle(seed=1).iter_rows()]
        assert sorted(shuffled) == sorted(2 * list(range(100))) and shuffled != 2 * list(range(100))


def test_ten_thousand_files(tmp_path, record_property):
    """Each row once, in the order of the names. How long listing takes is recorded, not asserted."""
    for folder in range(10):
        (tmp_path / f"{folder}").mkdir()
        for file in range(1000):
            numpy.save(tmp_path / f"{folder}/{file:04}.npy", numpy.array([1000 * folder + file]))
    begin = time.monotonic()
    dataset = paceline.data.read_numpy(str(tmp_path))
    assert dataset.count() == 10_000
    record_property("seconds to list 10,000 files and read their headers", time.monotonic() - begin)
    assert [value for batch in dataset.iter_batches(batch_size=1000) for value in batch["data"]] == list(range(10_000))
    shuffled = [value for batch in dataset.random_shuffle(seed=1).iter_batches(batch_size=1000) for value in batch["data"]]
    assert shuffled != list(range(10_000)) and sorted(shuffled) == list(range(10_000))


def test_what_programs_keep_for_themselves_is_left_out(tmp_path):
    (tmp_path / "_temporary").mkdir()
    for name in ("a.txt", "_SUCCESS", ".a.txt.crc", "_temporary/b.txt"):
        (tmp_path / name).write_text(name)
    assert paceline.data.read_text(str(tmp_path)).take_all() == [{"text": "a.txt"}]
    assert paceline.data.read_text(str(tmp_path / "_SUCCESS")).take_all() == [{"text": "_SUCCESS"}]


def test_links(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.txt").write_text("a")
    (tmp_path / "data/b.txt").symlink_to(tmp_path / "data/a.txt")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert [row["text"] for row in paceline.data.read_text(str(tmp_path / "link")).take_all()] == ["a", "a"]


def test_a_folder_without_files_is_named(tmp_path):
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(paceline.train.StorageError, match="a.parquet"):
        paceline.data.read_parquet(str(tmp_path / "a.parquet")).count()
