"""Locations that are given as a path and a file system, of pyarrow's or fsspec's."""

import json
import os
import pathlib
import pickle

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

import paceline.train as train
from behaviours import checkpoint_of_rank, fit
from paceline._filesystem import place_of
from paceline._native import native
from paceline.train import Checkpoint, FailureConfig, Result, RunConfig, ScalingConfig, TrackerConfig, UserCallback
from paceline.train.torch import TorchTrainer

URI = "s3://key:secret@bucket/run?region=us-east-1"


def s3(**options):
    return fs.S3FileSystem(access_key="key", secret_key="a/b", region="us-east-1", **options)


def test_a_run_in_a_subtree_of_the_local_file_system(tmp_path):
    storage = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    settings = RunConfig(name="run", storage_path="/results", storage_filesystem=storage, quiet=True)
    result = TorchTrainer(lambda: train.report({"n": 1}), run_config=settings).fit()
    assert (result.path, result.filesystem) == ("/results/run", storage)
    assert result.uri == str(tmp_path / "results" / "run")
    assert result.filesystem.get_file_info(result.path + "/journal.jsonl").is_file
    assert Result.from_path("results/run", storage_filesystem=storage).metrics == {"n": 1}
    os.mkdir(tmp_path / "own")
    own = Checkpoint("own", filesystem=storage)
    assert (own.path, own.uri) == ("own", str(tmp_path / "own"))


def test_a_relative_path_of_the_local_file_system_is_the_drivers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("own")
    assert Checkpoint("own", filesystem=fs.LocalFileSystem()).path == str(tmp_path / "own")


def test_what_a_store_is_opened_with_becomes_a_uri():
    place = place_of("bucket/my runs/", s3(endpoint_override="localhost:9", scheme="http"))
    assert place.location == (
        "s3://key:a%2Fb@bucket/my%20runs?endpoint_override=localhost:9&region=us-east-1&scheme=http"
    )
    assert place.path == "bucket/my runs"
    assert place.find(place.location.replace("?", "/run?")) == "bucket/my runs/run"
    assert place.find("s3://bucket/my%20runs/run") is None, "another account's"
    assert place_of("s3://bucket/runs", fs.S3FileSystem(region="us-east-1")).path == "bucket/runs"
    for scheme in ("gs", "gcs", "GCS"):  # each of a store's names
        place = place_of(f"{scheme}://bucket/runs", fs.GcsFileSystem(anonymous=True))
        assert place.path == "bucket/runs"
    in_a_bucket = place_of("/runs", fs.SubTreeFileSystem("bucket/tree", s3()))
    assert in_a_bucket.location == "s3://key:a%2Fb@bucket/tree/runs?region=us-east-1"


def test_keys_of_a_file_system_are_in_no_text():
    settings = RunConfig(name="run", storage_path="bucket/runs", storage_filesystem=s3())
    place = settings._place()
    assert (settings.storage_path, settings.storage_filesystem) == ("bucket/runs", s3())
    for text in (repr(settings), str(place), repr(vars(settings))):
        assert "a/b" not in text and "a%2Fb" not in text
    assert "storage_path='bucket/runs', storage_filesystem=<S3FileSystem>" in repr(settings)
    checkpoint = Checkpoint._from_native(native.Checkpoint.published(place.location.replace("?", "/c?")), place)
    copy = pickle.loads(pickle.dumps(checkpoint))
    for one in (checkpoint, copy):
        assert (one.path, one.filesystem) == ("bucket/runs/c", s3())
        assert repr(one) == "Checkpoint(filesystem=s3, path=bucket/runs/c)"
    assert copy == checkpoint and hash(copy) == hash(checkpoint)


def test_keys_of_a_uri_are_in_no_text():
    assert "s3://key:…@bucket/run" in repr(RunConfig(storage_path=URI))
    checkpoint = Checkpoint._from_native(native.Checkpoint.published(URI))
    copy = pickle.loads(pickle.dumps(checkpoint))
    for one in (checkpoint, copy):
        assert one.path == "bucket/run"
        assert one.uri == "s3://key:…@bucket/run?region=us-east-1"
        assert "secret" not in repr(one)
        assert one.filesystem == fs.FileSystem.from_uri(URI)[0]
    assert copy == checkpoint
    with pytest.raises(RuntimeError, match="are not kept"):
        Result.from_path(checkpoint.uri)


def test_keys_in_a_train_loop_config_are_not_recorded(run_config):
    # TensorBoard's and others' hyperparameters; the records have none.
    config = {"uri": URI, "settings": RunConfig(storage_path="bucket/runs", storage_filesystem=s3()), "to": [URI]}
    settings = run_config(trackers=[TrackerConfig(kind="tensorboard")])
    result = TorchTrainer(lambda config: None, train_loop_config=config, run_config=settings).fit()
    recorded = b"".join(path.read_bytes() for path in pathlib.Path(result.path).rglob("*") if path.is_file())
    assert "s3://key:…@bucket/run".encode() in recorded
    assert not any(key in recorded for key in (b"secret", b"a/b", b"a%2Fb"))


def test_what_is_no_file_system_is_refused():
    with pytest.raises(ValueError, match="the file system is of type str; wanted: a pyarrow.fs.FileSystem"):
        RunConfig(storage_path="runs", storage_filesystem="s3")


# File systems that no URI describes: paths of theirs mean nothing to others.


class Loud(LocalFileSystem):
    """One of the user's own, whose text has what nobody shall read."""

    def __init__(self, password="a secret", **options):
        super().__init__(**options)
        self.password = password

    def __repr__(self):
        return f"Loud({self.password})"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Where the run "run" in "runs" is in a folder of that file system."""
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    os.mkdir(tmp_path / "mine")
    return fs.PyFileSystem(fs.FSSpecHandler(DirFileSystem(str(tmp_path / "mine"), Loud())))


def read(filesystem, path):
    with filesystem.open_input_file(path) as file:
        return file.read().decode()


def loop(config):
    context = train.get_context()
    seen = train.get_checkpoint()
    start = int(read(seen.filesystem, os.path.join(seen.path, "epoch"))) + 1 if seen else 0
    for epoch in range(start, 3):
        files = {"epoch": str(epoch), f"rank_{context.get_world_rank()}": "x" * 100_000}
        checkpoint = checkpoint_of_rank(config["scratch"], f"{context.get_attempt()}_{epoch}", files)
        train.report({"epoch": epoch}, checkpoint)
        if epoch == 1 and context.get_attempt() == 1 and context.get_world_rank() == 1:
            raise ValueError("once")
    published = train.get_checkpoint()
    with published.as_directory() as folder:
        files = sorted(os.listdir(folder))
    storage = context.get_storage()
    return [start, published.path, files, str(storage), storage.storage_filesystem.type_name]


def test_a_file_system_without_a_uri_holds_a_run(mine, run_config, tmp_path):
    settings = run_config(
        name="run", storage_path="runs", storage_filesystem=mine, failure_config=FailureConfig(max_failures=1)
    )
    result = fit(loop, settings, config={"scratch": str(tmp_path)})
    last = result.checkpoint.path
    files = ["epoch", "paceline_manifest.json", "rank_0", "rank_1"]
    assert result.return_value == [2, last, files, "runs/run", mine.type_name]
    assert (result.path, result.filesystem) == ("runs/run", mine) and os.path.dirname(last) == "runs/run"
    assert read(mine, last + "/epoch") == "2" and (tmp_path / "mine" / last / "rank_1").stat().st_size == 100_000
    with result.checkpoint.as_directory() as folder:
        assert sorted(os.listdir(folder)) == files
    # The texts name no folder of the disk, nor what the file system says of itself.
    assert result.uri == "custom://fsspec+dir/runs/run"
    for text in (repr(result), repr(settings), (tmp_path / "state").rglob("journal.jsonl").__next__().read_text()):
        assert "a secret" not in text and "password" not in text
    # Another program that gives the file system again continues.
    again = Result.from_path("runs/run", storage_filesystem=mine)
    assert again.metrics == {"epoch": 2} and again.checkpoint == result.checkpoint
    assert [read(one.filesystem, one.path + "/epoch") for one, _ in again.best_checkpoints] == ["0", "1", "2"]
    copy = pickle.loads(pickle.dumps(again.checkpoint))
    assert copy.path == last and read(copy.filesystem, copy.path + "/epoch") == "2"
    copy.set_metadata({"note": 1})
    assert again.checkpoint.get_metadata() == {"note": 1}
    # Its text cannot be opened.
    with pytest.raises(RuntimeError, match="only a program that gives it again can: Result.from_path"):
        Result.from_path(result.uri)


def test_a_run_continues_from_a_checkpoint_in_such_a_file_system(mine, run_config, tmp_path):
    mine.create_dir("first")
    with mine.open_output_stream("first/epoch") as file:
        file.write(b"1")
    first = Checkpoint("first", filesystem=mine)
    assert os.listdir(first.to_directory()) == ["epoch"]
    result = fit(loop, run_config(), config={"scratch": str(tmp_path)}, workers=1, resume_from_checkpoint=first)
    assert result.return_value[0] == 2


def test_fsspec_file_systems_are_taken_as_they_are(mine, run_config, tmp_path):
    plain = mine.handler.fs
    settings = run_config(name="run", storage_path="runs", storage_filesystem=plain)
    result = fit(lambda: train.report({"n": 1}, Checkpoint.from_dict({"a": 1})), settings, workers=1)
    assert result.filesystem == mine and result.checkpoint.to_dict()["a"] == 1


def test_the_calling_process_trains_there_too(mine, run_config):
    settings = run_config(name="run", storage_path="runs", storage_filesystem=mine)

    def in_the_driver():
        train.report({"n": 1}, Checkpoint.from_dict({"a": 1}))
        return train.get_checkpoint().path

    assert fit(in_the_driver, settings, workers=0).return_value == "runs/run/checkpoint_000001"


def test_a_setting_that_is_switched_off_is_no_uris(run_config):
    settings = run_config(storage_path="bucket/runs", storage_filesystem=fs.S3FileSystem(background_writes=False))
    assert settings._place().location.startswith("custom://")


def test_a_file_system_that_cannot_travel_is_refused_before_anything_starts(run_config):
    class Local(LocalFileSystem):
        def __reduce__(self):
            raise TypeError("it has a connection")

    settings = run_config(storage_path="runs", storage_filesystem=fs.PyFileSystem(fs.FSSpecHandler(Local())))
    with pytest.raises(TypeError, match="Local.* cannot be sent to the workers: .*it has a connection; give one that"):
        fit(lambda: None, settings, workers=1)


class Failing(Loud):
    def open(self, path, mode="rb", **options):
        if mode == "wb" and path.endswith("manifest.json"):
            raise PermissionError("no more room, says its owner")
        return super().open(path, mode, **options)


def test_what_such_a_file_system_raises_is_told(mine, run_config, tmp_path):
    failing = fs.PyFileSystem(fs.FSSpecHandler(DirFileSystem(str(tmp_path / "mine"), Failing("another"))))
    settings = run_config(name="run", storage_path="runs", storage_filesystem=failing)
    with pytest.raises(train.TrainingFailedError, match="writing custom://.*manifest.json: PermissionError: no more room"):
        fit(lambda: train.report({"n": 1}, Checkpoint.from_dict({"a": 1})), settings, workers=1)


def test_uris_of_other_kinds_are_file_systems_of_pyarrows(tmp_path, run_config, monkeypatch):
    monkeypatch.setenv("PACELINE_STATE_DIR", str(tmp_path / "state"))
    # mock:// is in this process's memory; hdfs:// and viewfs:// go the same way.
    settings = run_config(name="run", storage_path="mock:///runs")

    def loop():
        train.report({"n": 1}, Checkpoint.from_dict({"a": 1}))
        return train.get_context().get_storage().custom_fs_provided

    result = fit(loop, settings, workers=0)
    assert result.return_value is False, "the script gave none"
    assert (result.path, result.filesystem.type_name, result.uri) == ("runs/run", "mock", "custom://mock/runs/run")
    assert result.checkpoint.to_dict()["a"] == 1
    with pytest.raises(TypeError, match="MockFileSystem.* cannot be sent to the workers"):
        fit(lambda: None, RunConfig(storage_path="mock:///runs"), workers=1)
    with pytest.raises(ValueError, match="the scheme of \"ftp://host/x\" is not supported; use a local path"):
        fit(lambda: None, RunConfig(storage_path="ftp://host/x", quiet=True), workers=0)
    os.mkdir(tmp_path / "a b")
    assert Checkpoint(f"file://{tmp_path}/a%20b").path == str(tmp_path / "a b")


# What train loops and callbacks are told of it.


def told(config):
    storage = train.get_context().get_storage()
    path = storage.build_checkpoint_path_from_name("mine")
    persisted = storage.persist_current_checkpoint(checkpoint_of_rank(config["scratch"], "own"), "mine")
    return {
        "text": [json.dumps(storage), os.path.join(storage, "a"), isinstance(storage, str), storage.uri],
        "paths": [storage.storage_fs_path, storage.experiment_fs_path, storage.experiment_dir_name],
        "filesystem": [storage.storage_filesystem.type_name, storage.custom_fs_provided, storage.read_only],
        "checkpoint": [path, storage.extract_checkpoint_dir_name_from_path(path), persisted.path],
        "name": storage.make_default_checkpoint_dir_name()[:13],
    }


def test_get_storage_is_the_path_and_knows_its_file_system(tmp_path, run_config):
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    base = str(tmp_path / "plain")
    for given, place, uri in ((None, base, base), (filesystem, "runs", str(tmp_path / "runs"))):
        settings = run_config(name="run", storage_path=place, storage_filesystem=given)
        scratch = str(tmp_path / os.path.basename(place) / "s")
        assert fit(told, settings, workers=1, config={"scratch": scratch}).return_value == {
            "text": [f'"{place}/run"', f"{place}/run/a", True, f"{uri}/run"],
            "paths": [place, f"{place}/run", "run"],
            "filesystem": ["subtree" if given else "local", given is not None, False],
            "checkpoint": [f"{place}/run/mine", "mine", f"{place}/run/mine"],
            "name": "checkpoint_20",
        }
        assert os.listdir(f"{uri}/run/mine") == ["rank_0.txt"]


def test_callbacks_are_told_of_the_run_as_ray_tells_them(run_config):
    contexts = []

    class Collect(UserCallback):
        def after_start(self, run_context):
            contexts.append(run_context)

        def after_report(self, run_context, metrics, checkpoint):
            contexts.append(run_context)

    settings = run_config(callbacks=[Collect()], name="run")
    scaling = ScalingConfig(num_workers=2)
    trainer = TorchTrainer(
        lambda config: train.report({}), train_loop_config={"lr": 0.1}, scaling_config=scaling, run_config=settings
    )
    result = trainer.fit()
    first, second = contexts
    assert first.run_config is settings and first.get_run_config() is settings
    assert first.scaling_config is scaling and first.backend_config is trainer.backend_config
    assert (first.train_loop_config, first.datasets) == ({"lr": 0.1}, {})
    assert isinstance(first.dataset_config, train.DataConfig)
    assert first.run_id == second.run_id and len(first.run_id) == 32
    assert (first.name, first.path, first.uri) == ("run", result.path, result.uri)
    assert (first.attempt, first.world_size) == (1, 2)
    with pytest.raises(AttributeError):
        first.run_id = "another"
