"""Behaviours 6 and 47 on an object store: moto's S3."""

import os
import pathlib
import pickle
import subprocess
import sys
import textwrap

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
    by_uri = Result.from_path(f"s3://bucket/runs/run/?endpoint_override={endpoint}&scheme=http")
    assert by_uri.uri == result.uri
    for again in (by_uri, Result.from_path(result.path, storage_filesystem=result.filesystem)):
        assert [metrics["epoch"] for _, metrics in again.best_checkpoints] == [0, 1, 2, 3]
        with again.checkpoint.as_directory() as folder:
            assert sorted(os.listdir(folder))[:3] == ["epoch", "paceline_manifest.json", "rank_0.txt"]
    with pytest.raises(RuntimeError):
        Result.from_path(f"s3://bucket/nowhere?endpoint_override={endpoint}&scheme=http")


def test_47_a_filesystem_may_be_given_instead_of_a_uri(run_config, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    filesystem = pyarrow.fs.S3FileSystem(endpoint_override=endpoint, scheme="http")
    settings = run_config(storage_path="bucket/others", storage_filesystem=filesystem, name="run")
    result = fit(lambda: train.report({}, Checkpoint.from_dict({"a": 1})), settings, workers=1)
    assert result.checkpoint.to_dict()["a"] == 1
    files = filesystem.get_file_info(pyarrow.fs.FileSelector("bucket/others/run/checkpoint_000001"))
    assert {file.base_name for file in files} == {"dict_checkpoint.json", "paceline_manifest.json"}


def read(filesystem, path):
    with filesystem.open_input_file(path) as file:
        return file.read().decode()


def places(config):
    train.report({"n": 1}, checkpoint_of_rank(config["scratch"], "own", {"model.pt": "weights"}), checkpoint_dir_name="c0")
    checkpoint, storage = train.get_checkpoint(), train.get_context().get_storage()
    return {
        "file": read(checkpoint.filesystem, os.path.join(checkpoint.path, "model.pt")),
        "checkpoint": checkpoint.path,
        "storage": [storage.storage_fs_path, storage.experiment_fs_path, storage.experiment_dir_name],
        "filesystem": [storage.storage_filesystem.type_name, storage.custom_fs_provided, storage.read_only],
        "names": [storage.build_checkpoint_path_from_name("x"), storage.extract_checkpoint_dir_name_from_path(checkpoint.path)],
    }


# What Ray Train 2.60 gives for the same program, with "path" as the run's folder in the file system "type".
@pytest.mark.parametrize(
    ("storage_path", "given", "path", "type"),
    [
        ("bucket/keys", "s3", "bucket/keys/run", "s3"),
        ("s3://bucket/uri?endpoint_override={}&scheme=http", None, "bucket/uri/run", "s3"),
        ("/results", "subtree", "/results/run", "subtree"),
        ("bucket/session", "session", "bucket/session/run", "s3"),
    ],
)
def test_47_paths_and_filesystems_fit_together(storage_path, given, path, type, run_config, endpoint, tmp_path, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    options = {"endpoint_override": endpoint, "scheme": "http", "region": "us-east-1"}
    with_keys = pyarrow.fs.S3FileSystem(access_key="KEY", secret_key="SEC/RET", **options)
    filesystem = {
        None: None,
        "s3": with_keys,
        "subtree": pyarrow.fs.SubTreeFileSystem("bucket/tree", with_keys),
        "session": pyarrow.fs.S3FileSystem(access_key="KEY", secret_key="SEC/RET", session_token="TOKEN", **options),
    }[given]
    settings = run_config(storage_path=storage_path.format(endpoint), storage_filesystem=filesystem, name="run")
    result = fit(places, settings, config={"scratch": str(tmp_path)})
    assert result.return_value == {
        "file": "weights",
        "checkpoint": f"{path}/c0",
        "storage": [path.removesuffix("/run"), path, "run"],
        "filesystem": [type, given is not None, False],
        "names": [f"{path}/x", "c0"],
    }
    assert (result.path, result.filesystem.type_name, result.checkpoint.path) == (path, type, f"{path}/c0")
    assert filesystem is None or result.filesystem == filesystem
    assert read(result.filesystem, result.path + "/c0/model.pt") == "weights"
    again = Result.from_path(result.path, storage_filesystem=result.filesystem)
    copy = pickle.loads(pickle.dumps(again.checkpoint))
    for checkpoint in (result.checkpoint, again.checkpoint, copy, Checkpoint(f"{path}/c0", filesystem=result.filesystem)):
        assert (checkpoint.path, checkpoint.filesystem, checkpoint) == (f"{path}/c0", result.filesystem, result.checkpoint)
        assert "model.pt" in os.listdir(checkpoint.to_directory())


SECRETS = ("sEcReT/kEy+PaCeLiNe", "sEcReT%2FkEy%2BPaCeLiNe", "tOkEnPaCeLiNe")

PROGRAM = """
    import os, sys
    import pyarrow.fs
    import paceline.train as train
    from paceline.train import Checkpoint, FailureConfig, Result, RunConfig, ScalingConfig, TrackerConfig, UserCallback
    from paceline.train.torch import TorchTrainer

    class Show(UserCallback):
        def after_report(self, run_context, metrics, checkpoint):
            print(run_context, run_context.path, run_context.uri, checkpoint)

    def loop(config):
        for process in (os.getpid(), os.getppid()):
            print(open(f"/proc/{process}/cmdline").read(), open(f"/proc/{process}/environ").read())
        storage = train.get_context().get_storage()
        print(repr(storage), storage.uri, train.get_checkpoint(), dict(os.environ))
        train.report({"n": 1}, Checkpoint.from_dict({"a": 1}))
        print(train.get_checkpoint(), train.get_all_reported_checkpoints())
        if train.get_context().get_attempt() == 1:
            train.get_checkpoint().filesystem.open_input_file("bucket/nothing")

    options = dict(zip(("access_key", "secret_key", "session_token"), os.environ.pop("KEYS").split()))
    filesystem = pyarrow.fs.S3FileSystem(**options, endpoint_override=sys.argv[1], scheme="http", region="us-east-1")
    settings = RunConfig(name=sys.argv[2], storage_path=sys.argv[3], storage_filesystem=filesystem, callbacks=[Show()],
                         trackers=[TrackerConfig(kind="csv")], failure_config=FailureConfig(max_failures=1))
    print(settings)
    trainer = TorchTrainer(loop, train_loop_config={"settings": settings, "filesystem": filesystem},
                           scaling_config=ScalingConfig(num_workers=2), run_config=settings)
    try:
        result = trainer.fit()
    except Exception as error:
        print(repr(error), error.__dict__)
        raise
    print(result, result.best_checkpoints, vars(result))
    print(Result.from_path(result.path, storage_filesystem=filesystem))
"""


@pytest.mark.parametrize("keys", [f"KEY {SECRETS[0]}", f"KEY {SECRETS[0]} {SECRETS[2]}"], ids=["uri", "object"])
def test_47_keys_of_a_filesystem_are_nowhere_to_be_found(keys, endpoint, tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "PACELINE_STATE_DIR": str(tmp_path / "state"), "TMPDIR": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true",
        "KEYS": keys, "PACELINE_STORAGE_RETRY_S": "1"}  # fmt: skip
    said = []

    def say(*command, code=0):
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        said.append(done.stdout + done.stderr)
        return said[-1]

    name = f"secrets_{len(keys)}"
    assert "checkpoint_000001" in say(sys.executable, "program.py", endpoint, name, "bucket/runs")
    say(sys.executable, "program.py", endpoint, name, "no_bucket/runs", code=1)
    del environment["KEYS"]
    paceline = (sys.executable, "-m", "paceline")
    for command in (["list"], ["list", "--json"], ["show", name], ["show", name, "--json"], ["logs", name, "--controller"],
                    ["metrics", name, "--json"], ["checkpoint", "ls", name], ["rm", name, "--yes"]):  # fmt: skip
        say(*paceline, *command, code=None)
    assert "are not kept" in said[-1] or "a program that gives it again" in said[-1]
    looked_at = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    wanted = {"journal.jsonl", "metrics.jsonl", "controller.log", "runs.sqlite", "metrics.csv", "location"}
    assert wanted <= {path.name for path in looked_at}
    client = boto3.client("s3", endpoint_url=f"http://{endpoint}")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="bucket"):
        looked_at |= {one["Key"]: client.get_object(Bucket="bucket", Key=one["Key"])["Body"].read() for one in page["Contents"]}
    looked_at |= {f"output {number}": text.encode() for number, text in enumerate(said)}
    found = [name for name, content in looked_at.items() for secret in SECRETS if secret.encode() in content]
    assert not found
