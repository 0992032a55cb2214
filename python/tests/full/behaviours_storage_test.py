"""Behaviours 6 and 47 on an object store: moto's S3."""

import os
import sys
import pathlib

import boto3
import pyarrow.fs
import pytest
from moto.server import ThreadedMotoServer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import paceline.train as train
from behaviours import checkpoint_of_rank, fit
from paceline.train import Checkpoint, FailureConfig, Result


@pytest.fixture(scope="module")
def endpoint():
    """Where S3's protocol is served; there is the bucket `bucket`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
                            "AWS_EC2_METADATA_DISABLED": "true"}.items():  # fmt: skip
            patch.setenv(name, value)
        boto3.client("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="bucket")
        yield f"{host}:{port}"
    server.stop()


def loop(config):
    start = int(open(os.path.join(folder, "epoch")).read()) + 1 if (folder := downloaded()) else 0
    for epoch in range(start, 4):
        name = f"{train.get_context().get_attempt()}_{epoch}"
        rank = train.get_context().get_world_rank()
        files = {"epoch": str(epoch), f"rank_{rank}.txt": name}
        train.report({"epoch": epoch}, checkpoint_of_rank(config["scratch"], name, files))
        if epoch == 1 and rank == 1 and train.get_context().get_attempt() == 1:
            raise ValueError("once")
    return start


def downloaded():
    checkpoint = train.get_checkpoint()
    return checkpoint and checkpoint.to_directory()


def test_06_47_a_run_on_s3_is_written_continued_and_read(run_config, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    location = f"s3://bucket/runs?endpoint_override={endpoint}&scheme=http"
    settings = run_config(storage_path=location, name="run", failure_config=FailureConfig(max_failures=1))
    result = fit(loop, settings, config={"scratch": str(tmp_path)})
    assert result.return_value == 2 and result.metrics == {"epoch": 3}
    assert result.filesystem.type_name == "s3"
    for path in (result.path, f"s3://bucket/runs/run/?endpoint_override={endpoint}&scheme=http"):
        again = Result.from_path(path)
        assert [metrics["epoch"] for _, metrics in again.best_checkpoints] == [0, 1, 2, 3]
        with again.checkpoint.as_directory() as folder:
            assert sorted(os.listdir(folder))[:3] == ["epoch", "manifest.json", "rank_0.txt"]
    with pytest.raises(RuntimeError):
        Result.from_path(f"s3://bucket/nowhere?endpoint_override={endpoint}&scheme=http")


def test_47_a_filesystem_may_be_given_instead_of_a_uri(run_config, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    filesystem = pyarrow.fs.S3FileSystem(endpoint_override=endpoint, scheme="http")
    settings = run_config(storage_path="bucket/others", storage_filesystem=filesystem, name="run")
    result = fit(lambda: train.report({}, Checkpoint.from_dict({"a": 1})), settings, workers=1)
    assert result.checkpoint.to_dict()["a"] == 1
    files = filesystem.get_file_info(pyarrow.fs.FileSelector("bucket/others/run/checkpoint_000001"))
    assert {file.base_name for file in files} == {"dict_checkpoint.json", "manifest.json"}
