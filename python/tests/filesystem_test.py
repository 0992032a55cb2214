"""Locations that are given as a path and a pyarrow filesystem."""

import os
import pickle

import pytest
from pyarrow import fs

import paceline.train as train
from paceline._native import native
from paceline.train import Checkpoint, Result, RunConfig
from paceline.train._filesystem import located
from paceline.train.torch import TorchTrainer


def test_a_run_in_a_subtree_of_the_local_file_system(tmp_path):
    storage = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    settings = RunConfig(name="run", storage_path="/results", storage_filesystem=storage, quiet=True)
    result = TorchTrainer(lambda: train.report({"n": 1}), run_config=settings).fit()
    assert result.path == str(tmp_path / "results" / "run")
    assert Result.from_path("results/run", storage_filesystem=storage).metrics == {"n": 1}
    os.mkdir(tmp_path / "own")
    assert Checkpoint("own", filesystem=storage).path == str(tmp_path / "own")


def test_what_a_store_is_opened_with_becomes_a_uri():
    store = fs.S3FileSystem(
        access_key="key", secret_key="a/b", region="us-east-1", endpoint_override="localhost:9", scheme="http"
    )
    assert located("bucket/runs", store) == (
        "s3://key:a%2Fb@bucket/runs?endpoint_override=localhost%3A9&region=us-east-1&scheme=http"
    )
    assert located("s3://bucket/runs", fs.S3FileSystem(region="us-east-1")).startswith("s3://bucket/runs")


def test_keys_of_a_uri_are_in_no_text():
    uri = "s3://key:secret@bucket/run?region=us-east-1"
    assert "s3://key:…@bucket/run" in repr(RunConfig(storage_path=uri))
    checkpoint = Checkpoint._from_native(native.Checkpoint.published(uri))
    copy = pickle.loads(pickle.dumps(checkpoint))
    for one in (checkpoint, copy):
        assert one.path == "s3://key:…@bucket/run?region=us-east-1"
        assert "secret" not in repr(one)
        assert one.filesystem == fs.FileSystem.from_uri(uri)[0]
    assert copy == checkpoint
    with pytest.raises(RuntimeError, match="are not kept"):
        Result.from_path(checkpoint.path)


def test_what_workers_could_not_open_is_refused():
    with pytest.raises(ValueError, match="S3FileSystem with anonymous cannot be handed over"):
        located("bucket", fs.S3FileSystem(anonymous=True, region="us-east-1"))
    with pytest.raises(ValueError, match="give the location as a URI instead"):
        RunConfig(storage_path="runs", storage_filesystem=fs.FileSystem.from_uri("mock://runs")[0])
