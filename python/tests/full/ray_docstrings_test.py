"""The examples in Ray Data's docstrings run, with `ray` replaced by `paceline`, and print what is said there."""

import json
import pathlib
import re
import subprocess
import sys

import numpy
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))
import ray_docstrings
import ray_tree

NETWORK = re.compile(r"\b(s3|gs|abfss?|https?|hdfs|mongodb|az|example)://|path/to/|path1|bucket/|pdf-sample")
_STEPS = "a dataset shows its steps, not rows"
_OTHER_FILE = "Ray's bucket has another file"
# The examples that differ, and why.
UNLIKE = {
    "dataset.Dataset.materialize": _STEPS,
    "dataset.Dataset.serialize_lineage": _STEPS,
    "dataset.Dataset.deserialize_lineage": _STEPS,
    "dataset.Dataset.to_tf": _STEPS,
    "dataset.Dataset.explain": _STEPS,
    "dataset.Dataset.stats": "stats() names other things",
    "iterator.DataIterator": _STEPS,
    "iterator.DataIterator.to_tf": _STEPS,
    "read_api.from_arrow": _STEPS,
    "read_api.from_items": _STEPS,
    "read_api.from_numpy": _STEPS,
    "read_api.from_pandas": _STEPS,
    "read_api.range": _STEPS,
    "read_api.range_tensor": _STEPS,
    "dataset.Dataset.unique": _OTHER_FILE,
    "read_api.read_json": _OTHER_FILE,
    "dataset.Dataset.input_files": "paths are absolute",
    "read_api.read_parquet": _OTHER_FILE,
    "read_api.read_csv": _OTHER_FILE,
    "read_api.read_datasource": "it imports a private module",
    "read_api.read_databricks_tables": "Ray's own module has it not",
    "read_api.from_tf": "it needs TensorFlow",
    "read_api.from_torch": "it needs torchvision",
    "preprocessors.discretizer.CustomKBinsDiscretizer": "pandas shows a column of whole numbers with nulls as floats",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that are called as those of Ray's bucket, with other rows in them."""
    folder = tmp_path_factory.mktemp("examples")
    numbers = numpy.random.default_rng(1)
    measures = {name: (numbers.random(150) * 5 + 1).round(1) for name in ("sepal.length", "sepal.width", "petal.length", "petal.width")}
    named = {**measures, "variety": ["Setosa", "Versicolor", "Virginica"] * 50}
    numbered = {**{f"{name.replace('.', ' ')} (cm)": values for name, values in measures.items()}, "target": [0, 1, 2] * 50}
    for bucket, table in (("paceline", pyarrow.table(named)), ("air", pyarrow.table(numbered))):
        for name in ("iris-csv", "iris-parquet"):
            (folder / bucket / name).mkdir(parents=True)
        for name in ("iris.csv", "iris-csv/part.csv"):
            pyarrow.csv.write_csv(table, folder / bucket / name)
        for name in ("iris.parquet", "iris-parquet/part.parquet"):
            pyarrow.parquet.write_table(table, folder / bucket / name)
        pyarrow.csv.write_csv(table, folder / bucket / "iris.tsv", pyarrow.csv.WriteOptions(delimiter="\t"))
    (folder / "out").mkdir()
    (folder / "paceline/train.jsonl").write_text('{"input": "a"}\n{"input": "b"}\n')
    (folder / "paceline/log.json").write_text('{"timestamp": "2022-02-10 06:00:00", "size": 3}\n')
    (folder / "paceline/this.txt").write_text("The Zen of Python\n\nBeautiful is better\n")
    return folder


@pytest.fixture(scope="module")
def examples(folder):
    found = dict(ray_docstrings.examples(ray_tree.wheel()))
    here = {name: [(local(code, folder), shown) for code, shown in parts] for name, parts in found.items()}
    return {name: parts for name, parts in here.items() if not any(NETWORK.search(code) for code, _ in parts)}


def local(code, folder):
    code = re.sub(r"(local://)?/tmp/", f"{folder}/out/", code)
    return re.sub(r"s3://anonymous@(paceline|air)-example-data/", rf"{folder}/\1/", code)


@pytest.fixture(scope="module")
def differences(examples, folder):
    """By example: what raises an error that says nothing of what to use instead, or prints something else."""
    programs = {name: [code for code, _ in parts] for name, parts in examples.items()}
    done = subprocess.run([sys.executable, HERE.parents[1] / "ray_docstrings.py"], text=True, capture_output=True,
                          input=json.dumps({"folder": str(folder), "programs": programs}), timeout=1500)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(different(examples, json.loads(done.stdout)))


def different(examples, outcomes):
    for name, found in outcomes.items():
        is_absent, told = False, []
        for (code, shown), (printed, error) in zip(examples[name], found):
            is_absent |= bool(re.match("Absent(Name|Module)Error", error or ""))  # of names that have a reason
            if is_absent and (error or shown):
                continue  # it may need what was absent
            if error or (shown and not re.search(re.escape(words(shown)).replace(r"\.\.\.", ".*"), words(printed))):
                told.append(f"{code}\n{error or f'printed: {printed}wanted: {shown}'}")
        if told:
            yield name, "\n".join(told)


def words(text):
    return re.sub(r"\s+", "", text).replace("ray", "paceline")


def test_all_examples_run_but_for_those_that_have_a_reason(examples, differences):
    assert len(examples) > 100
    assert {name: how for name, how in differences.items() if name not in UNLIKE} == {}


def test_each_reason_is_for_an_example_that_differs(differences):
    assert UNLIKE.keys() <= differences.keys()
