"""paceline.data: datasets in one process, against pyarrow, numpy and pandas."""

import json
import pathlib
import pickle
import subprocess
import sys

import cloudpickle
import numpy
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
import torch

import paceline.data
from paceline.data import expressions


@pytest.fixture
def folder(tmp_path):
    """Three files of 100 rows, in row groups of 30: x, its square, a name, a tensor of 2 × 3."""
    for file in range(3):
        x = numpy.arange(file * 100, file * 100 + 100)
        tensor = numpy.repeat(x, 6).astype("float32")
        table = pyarrow.table({
            "x": x,
            "square": (x**2).astype("float32"),
            "name": [f"row {value}" for value in x],
            "tensor": pyarrow.FixedSizeListArray.from_arrays(pyarrow.FixedSizeListArray.from_arrays(tensor, 3), 2),
        })
        pyarrow.parquet.write_table(table, tmp_path / f"{file}.parquet", row_group_size=30)
    return str(tmp_path)


def numbers(dataset, **options):
    return [value for batch in dataset.iter_batches(**options) for value in batch["x"].tolist()]


def test_rows_come_as_they_stand_in_the_files(folder):
    dataset = paceline.data.read_parquet(folder)
    assert numbers(dataset, batch_size=7) == list(range(300))
    assert dataset.count() == 300 and dataset.num_blocks() == 12
    assert dataset.columns() == ["x", "square", "name", "tensor"]
    assert dataset.take(2)[1]["name"] == "row 1" and dataset.take(2)[1]["tensor"].shape == (2, 3)


def test_batches_are_tensors_without_a_copy(folder):
    dataset = paceline.data.read_parquet(folder).drop_columns(["name"])
    batches = list(dataset.iter_torch_batches(batch_size=64))
    assert [len(batch["x"]) for batch in batches] == [64, 64, 64, 64, 44]
    assert torch.equal(torch.cat([batch["x"] for batch in batches]), torch.arange(300))
    assert batches[0]["tensor"].shape == (64, 2, 3) and batches[0]["tensor"][5, 1, 2] == 5
    (first, *_) = dataset.iter_torch_batches(batch_size=8, dtypes={"x": torch.float16})
    assert first["x"].dtype == torch.float16 and first["square"].dtype == torch.float32


def test_texts_cannot_be_tensors(folder):
    with pytest.raises(TypeError, match="the column 'name' cannot become a tensor: it holds string.*drop_columns"):
        next(iter(paceline.data.read_parquet(folder).iter_torch_batches()))


@pytest.mark.parametrize("shuffle", [{}, {"batch_size": 64, "local_shuffle_buffer_size": 100}])
def test_a_shuffled_epoch_has_each_row_once_and_the_next_another_order(folder, shuffle):
    dataset = paceline.data.read_parquet(folder)
    batches = (dataset if shuffle else dataset.random_shuffle(seed=3)).iterator().iter_batches(**shuffle)
    first, second = ([value for batch in batches for value in batch["x"].tolist()] for _ in range(2))
    assert first != second and sorted(first) == sorted(second) == list(range(300)) and first != sorted(first)
    again = (dataset if shuffle else dataset.random_shuffle(seed=3)).iterator().iter_batches(**shuffle)
    assert [value for batch in again for value in batch["x"].tolist()] == first


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_no_batch_in_mid_stream_is_short(prefetch):
    dataset = paceline.data.from_items([{"x": value} for value in range(40)], override_num_blocks=4)
    sizes = [len(batch["x"]) for batch in dataset.iter_batches(batch_size=8, prefetch_batches=prefetch,
                                                               local_shuffle_buffer_size=8)]
    assert sizes == [8, 8, 8, 8, 8]


def test_a_state_goes_on_with_the_next_row(folder):
    dataset = paceline.data.read_parquet(folder).random_shuffle(seed=1).filter(lambda row: row["x"] % 3 > 0)
    whole = numbers(dataset, batch_size=16)
    iterator = dataset.iterator()
    seen = []
    for step, batch in enumerate(iterator.iter_batches(batch_size=16)):
        seen += batch["x"].tolist()
        if step == 4:
            break
    state = iterator.state_dict()
    other = pickle.loads(cloudpickle.dumps(dataset)).iterator()
    other.load_state_dict(state)
    rest = [value for batch in other.iter_batches(batch_size=11) for value in batch["x"].tolist()]
    assert seen + rest == whole
    assert state["epoch"] == 0 and other.state_dict()["epoch"] == 1
    with pytest.raises(ValueError, match="another dataset: its fingerprint is"):
        paceline.data.read_parquet(folder).iterator().load_state_dict(state)


def test_after_a_break_comes_the_next_epoch():
    iterator = paceline.data.range(100).iterator()
    batches = iterator.iter_batches(batch_size=10)
    for batch in batches:
        break
    assert len(list(batches)) == 10
    assert iterator.state_dict()["epoch"] == 2
    iterator.set_epoch(0)
    iterator.skip(95)
    assert [batch["id"].tolist() for batch in batches] == [[95, 96, 97, 98, 99]]


class Scale:
    """A class with state."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, batch):
        return {"x": batch["x"] * self.factor}


def test_functions_get_and_give_all_formats(folder):
    dataset = paceline.data.read_parquet(folder, columns=["x", "tensor"])

    def frames(frame):
        assert isinstance(frame, pandas.DataFrame) and frame["tensor"][0].shape == (2, 3)
        return frame[frame.x % 2 == 0]

    def table(batch):
        return batch.append_column("y", pyarrow.array([1.5] * len(batch)))

    def parts(batch):
        yield {"x": batch["x"][:3]}
        yield {"x": torch.as_tensor(batch["x"][3:].copy())}

    assert numbers(dataset.map_batches(frames, batch_format="pandas")) == list(range(0, 300, 2))
    assert dataset.map_batches(table, batch_format="pyarrow").sum("y") == 450
    assert numbers(dataset.map_batches(parts, batch_size=10)) == list(range(300))
    assert numbers(dataset.map_batches(Scale, fn_constructor_args=[2], batch_size=7)) == list(range(0, 600, 2))
    assert dataset.map_batches(lambda batch: {"t": batch["tensor"] * 2}).take_batch(4)["t"].shape == (4, 2, 3)
    assert dataset.map(lambda row: {"y": row["x"] + 1, "t": row["tensor"][0]}).take(1)[0]["t"].shape == (3,)
    assert dataset.flat_map(lambda row: [{"z": row["x"]}] * 2).count() == 600
    assert dataset.add_column("half", lambda frame: frame["x"] / 2).take(3)[2]["half"] == 1


@pytest.mark.parametrize("given", [None, 3, "abc", {"x": [1, 2]}, numpy.array(1), pandas.DataFrame({"x": [1, 2]})])
def test_what_is_no_column_is_named(given):
    dataset = paceline.data.range(3).add_column("y", lambda batch: given)
    with pytest.raises(TypeError, match=f"<lambda> gave {type(given).__name__} for the column 'y'; wanted: an array"):
        dataset.take(1)


def test_what_a_function_gets_is_not_to_be_written_unless_it_is_copied(folder):
    def in_place(batch):
        batch["x"] += 1
        return batch

    dataset = paceline.data.read_parquet(folder, columns=["x"])
    for read in (lambda mapped: mapped.take(1), lambda mapped: list(mapped.iter_batches())):  # the latter in a process
        with pytest.raises(ValueError, match="read-only") as raised:
            read(dataset.map_batches(in_place))
        assert any("map_batches(…, zero_copy_batch=False)" in note for note in raised.value.__notes__)
    assert dataset.map_batches(in_place, zero_copy_batch=False).take(1) == [{"x": 1}]


@pytest.mark.parametrize("values", [[[1, 2], [3]], [{"a": numpy.arange(2)}, {"a": numpy.arange(2)}]])
def test_copies_may_be_written_to_also_where_arrays_are_in_arrays(values):
    def in_place(batch):
        for value in batch["item"]:
            (value["a"] if isinstance(value, dict) else value)[0] = 7
        return batch

    dataset = paceline.data.from_arrow(pyarrow.table({"item": pyarrow.array(values)}))
    with pytest.raises(ValueError, match="read-only") as raised:
        dataset.map_batches(in_place).take(1)
    assert any("zero_copy_batch" in note for note in raised.value.__notes__)
    row = dataset.map_batches(in_place, zero_copy_batch=False).take(1)[0]["item"]
    assert (row["a"] if isinstance(row, dict) else row).tolist()[0] == 7
    assert dataset.take(1)[0] != 7


def test_errors_that_are_not_of_memory_that_can_only_be_read_have_no_hint():
    def fails(batch):
        raise ValueError("the disk is read-only")

    with pytest.raises(ValueError, match="the disk") as raised:
        paceline.data.range(3).map_batches(fails, zero_copy_batch=False).take(1)
    assert not any("zero_copy_batch" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match="read-only") as raised:
        paceline.data.range_tensor(3).map(lambda row: row["data"].fill(1)).take(1)
    assert not any("zero_copy_batch" in note for note in raised.value.__notes__)


def test_exceptions_of_functions_are_the_users_own(folder):
    def broken(row):
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing") as raised:
        paceline.data.read_parquet(folder).map(broken).take(1)
    assert any(entry.name == "broken" for entry in raised.traceback)
    with pytest.raises(TypeError, match="<lambda> gave int; wanted a dict of arrays"):
        paceline.data.read_parquet(folder).map_batches(lambda batch: 3).take(1)


def test_chance_is_tied_to_seed_and_epoch(folder):
    dataset = paceline.data.read_parquet(folder, columns=["x"]).map_batches(
        lambda batch: {"x": batch["x"] + numpy.random.rand(len(batch["x"])) + torch.rand(len(batch["x"])).numpy()},
        batch_size=9)
    before = torch.get_rng_state()
    first = numbers(dataset, batch_size=50)
    assert numbers(dataset, batch_size=7, prefetch_batches=3) == first
    epochs = dataset.iterator().iter_batches()
    assert [value for _ in range(2) for batch in epochs for value in batch["x"].tolist()][300:] != first
    assert torch.equal(torch.get_rng_state(), before)


def test_expressions_are_arrows(folder):
    dataset = paceline.data.read_parquet(folder)
    assert numbers(dataset.filter(expr="x > 10 and x <= 13 or name == 'row 20'")) == [11, 12, 13, 20]
    assert numbers(dataset.filter(expr=~(expressions.col("x") > 4))) == [0, 1, 2, 3, 4]
    assert numbers(dataset.filter(expr="x in [3, 5] and not x == 5")) == [3]
    assert dataset.with_column("y", expressions.col("x") * 2).take(2)[1]["y"] == 2
    with pytest.raises(ValueError, match="cannot be evaluated; use a function"):
        dataset.filter(expr="f(x)")
    for wrong in (dataset.filter(expr="zz > 3"), dataset.map(lambda row: row).with_column("y", expressions.col("zz") * 2)):
        with pytest.raises(ValueError, match=r"zz.*: there is no column 'zz'; there are x, square, name, tensor"):
            wrong.take(1)


def test_functions_get_whole_batches_across_blocks(folder):
    dataset = paceline.data.read_parquet(folder)

    def sizes(dataset, batch_size):
        seen = dataset.map_batches(lambda batch: {"rows": [len(batch["x"])]}, batch_size=batch_size)
        return [row["rows"] for row in seen.take_all()]

    assert sizes(dataset, 64) == [64, 64, 64, 64, 44]
    assert sizes(dataset, 1000) == [300]
    assert sorted(sizes(dataset.random_shuffle(seed=1), 64)) == [44, 64, 64, 64, 64]
    # Where rows are not counted, batches are of one block.
    assert sizes(dataset.filter(expr="x != 5"), 64) == [29, 30, 30, 10] + [30, 30, 30, 10] * 2
    with pytest.raises(ValueError, match="batch_size is 0"):
        dataset.map_batches(lambda batch: batch, batch_size=0)


def doubled(batch, log):
    with open(log, "a") as file:
        file.write(".")
    return {"x": batch["x"] * 2}


def test_a_cache_spares_functions_their_work(folder, tmp_path):
    log = tmp_path / "log"

    def calls():
        return len(log.read_text())

    dataset = paceline.data.read_parquet(folder).map_batches(doubled, fn_kwargs={"log": str(log)})
    kept = dataset.cache().random_shuffle(seed=1).iterator().iter_batches()
    first, second = ([x for batch in kept for x in batch["x"].tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(0, 600, 2)) and first != second
    blocks = dataset.num_blocks()
    assert calls() == blocks
    on_disk = dataset.cache(path=str(tmp_path / "cache"))
    assert numbers(on_disk) == list(range(0, 600, 2)) and calls() == 2 * blocks
    assert numbers(dataset.cache(path=str(tmp_path / "cache"))) == list(range(0, 600, 2)) and calls() == 2 * blocks
    other = paceline.data.read_parquet(folder).map_batches(lambda batch: {"x": batch["x"] + 1})
    assert numbers(other.cache(path=str(tmp_path / "cache"))) == list(range(1, 301))
    with pytest.raises(Exception, match="rows that are in memory have no name"):
        paceline.data.from_items([1]).cache(path=str(tmp_path / "cache")).count()


def test_bad_rows_are_skipped_or_replaced(folder, tmp_path):
    dataset = paceline.data.read_parquet(folder).repartition(4)
    quarantine = tmp_path / "quarantine" / "bad.jsonl"
    quarantine.parent.mkdir()

    def picky(row):
        if row["x"] in (7, 8, 299):
            raise ValueError(f"not {row['x']}")
        return {"x": row["x"]}

    def picky_batch(batch):
        return {"x": numpy.array([picky({"x": x})["x"] for x in batch["x"]])}

    good = [x for x in range(300) if x not in (7, 8, 299)]
    skipped = dataset.map(picky, on_error="skip", quarantine=str(quarantine))
    assert numbers(skipped) == good and skipped.count() == 297
    bad = {line["row"]["x"]: line["error"] for line in map(json.loads, quarantine.read_text().splitlines())}
    assert sorted(bad) == ["299", "7", "8"] and "not 299" in bad["299"]
    replaced = numbers(dataset.map(picky, on_error="replace"))
    assert replaced == [6 if x in (7, 8) else min(x, 298) for x in range(300)]
    assert len(dataset.map(picky, on_error="replace").iterator()) == 300
    assert numbers(dataset.map_batches(picky_batch, batch_size=64, on_error="skip")) == good
    # Ranks agree on the rows, and on their number.
    parts = [[row["x"] for row in one.iter_rows()] for one in skipped.streaming_split(2, equal=True)]
    assert sorted(parts[0] + parts[1]) == good[:296]
    with pytest.raises(ValueError, match="not 7"):
        numbers(dataset.map(picky))
    with pytest.raises(ValueError, match="allowed: 'raise', 'skip', 'replace'"):
        dataset.map(picky, on_error="ignore")


def test_bad_lines_are_quarantined(tmp_path):
    path, quarantine = tmp_path / "a.csv", tmp_path / "bad.jsonl"
    path.write_text("x,name\n1,a\n2,b,c\nthree,d\n4,e\n")
    types = pyarrow.csv.ConvertOptions(column_types={"x": pyarrow.int64()})
    dataset = paceline.data.read_csv(str(path), convert_options=types, on_error="skip", quarantine=str(quarantine))
    assert numbers(dataset) == [1, 4]
    assert [row["x"] for row in dataset.select_columns(["x"]).take_all()] == [1, 4]
    lines = [json.loads(line) for line in quarantine.read_text().splitlines()]
    assert [(line["path"], line["offset"], line["text"]) for line in lines[:2]] == [
        (str(path), 11, "2,b,c\n"), (str(path), 17, "three,d\n")]
    (tmp_path / "a.json").write_text('{"x": 1}\n{"x": "two"}\n{"x": 3}\n')
    context = paceline.data.DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        assert numbers(paceline.data.read_json(str(tmp_path / "a.json"))) == [1, 3]
    finally:
        context.max_errored_blocks = 0


def test_only_what_is_wanted_is_read(folder, capsys):
    dataset = paceline.data.read_parquet(folder).filter(expr="x >= 270").select_columns(["square"])
    dataset.explain()
    shown = capsys.readouterr().out
    assert 'columns=["square","x"], filter=(x >= 270)' in shown and "SelectColumns(square)" in shown
    assert dataset.num_blocks() == 2 and dataset.count() == 30 and dataset.columns() == ["square"]
    # The two parts of a split have no row in common, whatever is read of them.
    train, test = paceline.data.read_parquet(folder).train_test_split(0.5, shuffle=True, seed=2)
    rows = numbers(train.select_columns(["x"])) + numbers(test.filter(expr="x >= 0"))
    assert sorted(rows) == list(range(300))


def test_parts_and_unions(folder):
    dataset = paceline.data.read_parquet(folder, columns=["x"])
    assert numbers(dataset.limit(45)) == list(range(45))
    assert [part.count() for part in dataset.split(7)] == [42, 43, 43, 43, 43, 43, 43]
    assert [part.count() for part in dataset.split(7, equal=True)] == [42] * 7
    assert [numbers(part) for part in dataset.split_at_indices([1, 3])][1] == [1, 2]
    assert [part.count() for part in dataset.split_proportionately([0.5, 0.2])] == [150, 60, 90]
    train, test = dataset.train_test_split(0.25, shuffle=True, seed=2)
    assert train.count() == 225 and sorted(numbers(train) + numbers(test)) == list(range(300))
    assert numbers(dataset.filter(expr="x > 100").limit(5)) == [101, 102, 103, 104, 105]
    assert numbers(dataset.limit(2).union(dataset.limit(1))) == [0, 1, 0]
    assert dataset.repartition(5).num_blocks() == 5 and numbers(dataset.repartition(5)) == list(range(300))
    sample = numbers(dataset.random_sample(0.5, seed=1))
    assert 110 < len(sample) < 190 and sample == numbers(dataset.random_sample(0.5, seed=1))
    sampled = dataset.random_sample(0.5, seed=1)
    assert sampled.count() == len(sample) == len(sampled.iterator())
    for same in (sampled, sampled.random_shuffle(seed=3), sampled.repartition(4), sampled.limit(300),
                 sampled.filter(expr="x >= 0"), sampled.mix(sampled.limit(0))):
        batches = same.iterator().iter_batches()
        for _ in range(3):
            assert sorted(value for batch in batches for value in batch["x"].tolist()) == sample
    assert sum(part.count() for part in sampled.split(3)) == len(sample)
    assert sampled.zip(sampled.rename_columns({"x": "y"})).count() == len(sample)


def test_mixtures_are_exact_to_the_row():
    few, many = paceline.data.range(30), paceline.data.range(1000).random_shuffle(seed=4)
    mixed = few.map_batches(lambda batch: {"id": -1 - batch["id"]}).mix(many, weights=[1, 3])
    rows = [row["id"] for row in mixed.iter_rows()]
    assert len(rows) == 1030 and sorted(rows) == sorted([*range(-30, 0), *range(1000)])
    for position in range(1, 120):
        assert abs(sum(row < 0 for row in rows[:position]) - position / 4) <= 1
    assert [row for row in rows if row < 0] == list(range(-1, -31, -1))
    shuffled = [row for row in rows if row >= 0]
    assert shuffled == [row["id"] for row in mixed.iter_rows() if row["id"] >= 0] != sorted(shuffled)
    assert set(rows[120:]) < set(shuffled)  # few has ended
    stop = paceline.data.MixStoppingCondition
    assert few.mix(many, weights=[1, 3], stopping_condition=stop.STOP_ON_SHORTEST).count() in range(117, 125)
    repeated = few.mix(many, stopping_condition=stop.STOP_ON_LONGEST_REPEAT)
    assert repeated.count() in (1999, 2000)
    iterator = repeated.iterator()
    batches = iter(iterator.iter_batches(batch_size=100))
    next(batches), next(batches)
    later = repeated.iterator()
    later.load_state_dict(iterator.state_dict())
    assert next(iter(later.iter_batches(batch_size=100)))["id"].tolist() == next(batches)["id"].tolist()
    with pytest.raises(ValueError, match="1 weights for 2 datasets"):
        few.mix(many, weights=[1])
    with pytest.raises(Exception, match="numbers above 0"):
        few.mix(many, weights=[1, 0]).count()


def test_zip_puts_columns_side_by_side():
    left, right = paceline.data.range(100).repartition(3), paceline.data.range(100).random_shuffle(seed=1)
    rows = left.zip(right, left).take_all()
    assert [row["id"] for row in rows] == [row["id_2"] for row in rows] == list(range(100))
    assert [row["id_1"] for row in rows] != list(range(100)) and sorted(row["id_1"] for row in rows) == list(range(100))
    with pytest.raises(Exception, match="the first has 100, another 5"):
        left.zip(left.limit(5)).schema()


@pytest.mark.parametrize("equal", [True, False])
def test_consumers_share_the_rows(equal):
    iterators = paceline.data.range(103).streaming_split(4, equal=equal)
    rows = [[value for batch in one.iter_batches(batch_size=5) for value in batch["id"].tolist()] for one in iterators]
    assert [len(iterator) for iterator in iterators] == [len(one) for one in rows] == ([25] * 4 if equal else [26, 26, 26, 25])
    assert sorted(sum(rows, [])) == list(range(100 if equal else 103))


def test_aggregates_are_those_of_pandas(folder):
    dataset = paceline.data.read_parquet(folder).map_batches(lambda batch: batch, batch_size=13)
    frame = dataset.to_pandas()
    assert dataset.sum("x") == frame.x.sum() and dataset.min("x") == 0 and dataset.max("name") == frame.name.max()
    assert dataset.mean("square") == pytest.approx(frame.square.mean())
    assert dataset.std("x") == pytest.approx(frame.x.std())
    assert dataset.mean(["x", "square"]) == pytest.approx({"mean(x)": frame.x.mean(), "mean(square)": frame.square.mean()})
    assert paceline.data.from_items([1, 2, 1, None]).unique("item") == [1, 2, None]


def test_what_is_in_memory():
    frame = pandas.DataFrame({"x": [1, 2], "name": ["a", None]})
    assert paceline.data.from_pandas(frame).take_all() == [{"x": 1, "name": "a"}, {"x": 2, "name": None}]
    assert paceline.data.from_numpy(numpy.ones((4, 2))).take_batch(4)["data"].shape == (4, 2)
    assert paceline.data.from_arrow(pyarrow.table({"x": [3]})).take_all() == [{"x": 3}]
    assert paceline.data.range_tensor(3, shape=(2, 2)).take(3)[2]["data"].tolist() == [[2, 2], [2, 2]]
    assert paceline.data.from_torch([torch.arange(2), torch.arange(2, 4)]).take_batch(2)["item"].tolist() == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="the column 'item' has values of type object"):
        paceline.data.from_items([object()])
    assert paceline.data.from_items([{"x": 1}, {"x": 2, "y": "b"}]).take_all()[0] == {"x": 1, "y": None}
    assert paceline.data.from_items([]).count() == 0


def test_files_of_other_formats(tmp_path, folder):
    dataset = paceline.data.read_parquet(folder, columns=["x", "name"])
    for kind in ("csv", "json"):
        getattr(dataset, f"write_{kind}")(str(tmp_path / kind))
        read = getattr(paceline.data, f"read_{kind}")(str(tmp_path / kind))
        assert read.take_all() == dataset.take_all()
    dataset.write_numpy(str(tmp_path / "npy"), column="x")
    assert paceline.data.read_numpy(str(tmp_path / "npy")).sum("data") == dataset.sum("x")
    feather = str(tmp_path / "x.feather")
    pyarrow.feather.write_feather(dataset.to_arrow_refs()[0], feather)
    assert paceline.data.read_feather(feather, columns=["name"]).take(1) == [{"name": "row 0"}]
    pyarrow.orc.write_table(dataset.to_arrow_refs()[1], str(tmp_path / "x.orc"))
    assert paceline.data.read_orc(str(tmp_path / "x.orc")).take(1) == [{"x": 30, "name": "row 30"}]
    for year in (2023, 2024):
        dataset.limit(year - 2021).write_parquet(str(tmp_path / f"_years/year={year}"))
    by_year = paceline.data.read_parquet(str(tmp_path / "_years"), partitioning="hive", include_paths=True)
    assert [(row["x"], row["year"]) for row in by_year.take_all()] == [(0, 2023), (1, 2023), (0, 2024), (1, 2024), (2, 2024)]
    assert "year=2023" in by_year.take(1)[0]["path"]
    (tmp_path / "lines.txt").write_text("a\n\nb")
    assert paceline.data.read_text(str(tmp_path / "lines.txt")).take_all() == [{"text": "a"}, {"text": "b"}]
    lines = str(tmp_path / "li*.txt")
    assert paceline.data.read_binary_files(lines, include_paths=True).take_all() == [
        {"bytes": b"a\n\nb", "path": str(tmp_path / "lines.txt")}]
    (tmp_path / "t.csv").write_text("1\t2\n3\t4\n")
    options = {"parse_options": pyarrow.csv.ParseOptions(delimiter="\t"),
               "read_options": pyarrow.csv.ReadOptions(column_names=["a", "b"])}
    assert paceline.data.read_csv(str(tmp_path / "t.csv"), **options).take_all() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    both = paceline.data.read_parquet(folder, shuffle="files").iterator().iter_batches(batch_size=100)
    firsts = {tuple(batch["x"][0] for batch in both) for _ in range(20)}
    assert len(firsts) > 1 and all(set(one) == {0, 100, 200} for one in firsts)


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_what_is_written_can_be_read(tmp_path, folder, kind):
    dataset = paceline.data.read_parquet(folder, columns=["x", "name"])
    getattr(dataset, f"write_{kind}")(str(tmp_path / "out"))
    files = sorted((tmp_path / "out").iterdir())
    read = {"parquet": pandas.read_parquet, "csv": pandas.read_csv, "json": lambda path: pandas.read_json(path, lines=True)}
    frame = pandas.concat([read[kind](path) for path in files], ignore_index=True)
    assert len(files) == 12 and frame.equals(dataset.to_pandas())


def test_collate_functions_and_pairs(folder):
    dataset = paceline.data.read_parquet(folder, columns=["x", "square"])
    batch = next(iter(dataset.iter_torch_batches(batch_size=3, collate_fn=lambda batch: torch.tensor(batch["x"].sum()))))
    assert batch == 3
    features, label = next(iter(dataset.to_torch(label_column="square", batch_size=4)))
    assert features.tolist() == [[0], [1], [2], [3]] and label.tolist() == [[0], [1], [4], [9]]


def test_errors_say_what_is_wrong(folder, tmp_path):
    with pytest.raises(Exception, match="missing.parquet"):
        paceline.data.read_parquet(str(tmp_path / "missing.parquet")).count()
    with pytest.raises(Exception, match="no file has a column 'y'; there is 'x', 'square'"):
        paceline.data.read_parquet(folder, columns=["y"]).count()
    for paths, text in ((None, "paths is None"), (3, "paths is 3"), ([None], "paths has None in it")):
        for read in (paceline.data.read_parquet, paceline.data.read_text):
            with pytest.raises(TypeError, match=f"{text}; wanted: a file, a folder, a glob, or a list of these"):
                read(paths)
    with pytest.raises(ValueError, match="batch_size is 0"):
        paceline.data.range(3).iter_batches(batch_size=0)
    with pytest.raises(ValueError, match="batch_format is 'arrow'"):
        paceline.data.range(3).iter_batches(batch_format="arrow")


def test_a_program_may_end_in_mid_iteration():
    program = """if True:
        import paceline.data
        dataset = paceline.data.range(10_000_000).map_batches(lambda batch: batch)
        kept = [iter(dataset.iter_batches(batch_size=10)) for _ in range(4)]
        print(sum(int(next(one)["id"][9]) for one in kept))"""
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout) == (0, "36\n"), ended.stderr


def test_relative_paths(folder, monkeypatch):
    monkeypatch.chdir(pathlib.Path(folder).parent)
    assert paceline.data.read_parquet(pathlib.Path(folder).name).count() == 300


def test_statistics_name_the_bottleneck(folder):
    dataset = paceline.data.read_parquet(folder).map_batches(lambda batch: batch)
    dataset.count()
    text = dataset.stats()
    assert "Operator 0 ReadParquet: 12 blocks" in text and "Operator 1 MapBatches(<lambda>): 12 blocks" in text
    assert text.splitlines()[-1].startswith("Bottleneck: ")
