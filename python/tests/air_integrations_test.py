"""paceline.air.integrations: MLflow and Weights & Biases, set up by a train loop; and a user's own calls of both."""

import json
import struct

import pytest

from paceline.air import ScalingConfig, session
from paceline.air.integrations.mlflow import setup_mlflow
from paceline.air.integrations.wandb import setup_wandb
from paceline.train.torch import TorchTrainer

mlflow = pytest.importorskip("mlflow")
wandb = pytest.importorskip("wandb")


def fit(loop, settings, workers=2, **arguments):
    return TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=workers), run_config=settings, **arguments).fit()


@pytest.fixture(scope="module")
def mlflow_records(tmp_path_factory):
    """Where MLflow has its records: making them takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")  # for the workers
        patch.chdir(folder)
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        yield
        mlflow.set_tracking_uri("")


def runs(experiment):
    return mlflow.search_runs(experiment_names=[experiment], output_format="list")


def test_rank_zero_alone_has_an_mlflow_run(run_config, mlflow_records):
    def loop(config):
        mlflow = setup_mlflow(
            config, experiment_name="ours", run_name="first", create_experiment_if_not_exists=True, tags={"team": "a"}
        )
        with mlflow.start_run(nested=True) as child:
            mlflow.log_metric("loss", 0.5, step=3)
        mlflow.log_metric("rank", session.get_world_rank())
        return [bool(mlflow), child.info.run_id]

    config = {"lr": 0.1, "model": {"layers": 2, "empty": {}}}
    result = fit(loop, run_config(), train_loop_config=config)
    child, parent = runs("ours")
    assert result.return_value == [True, child.info.run_id] and child.data.metrics == {"loss": 0.5}
    assert parent.info.run_name == "first" and parent.data.tags["team"] == "a"
    assert parent.data.params == {"lr": "0.1", "model/layers": "2", "model/empty": "{}"}
    assert parent.data.metrics == {"rank": 0}
    assert parent.info.status == "FINISHED"


def test_every_rank_has_an_mlflow_run_when_asked_to(run_config, mlflow_records):
    mlflow.create_experiment("there")

    def loop():
        setup_mlflow(experiment_name="there", rank_zero_only=False).log_metric("rank", session.get_world_rank())

    fit(loop, run_config())
    assert sorted(run.data.metrics["rank"] for run in runs("there")) == [0, 1]


def test_an_experiment_that_does_not_exist_is_named(mlflow_records):
    with pytest.raises(ValueError, match="'nowhere'.*create_experiment_if_not_exists=True"):
        setup_mlflow(experiment_name="nowhere")
    existing = mlflow.create_experiment("by id")
    setup_mlflow(experiment_id=existing)
    assert mlflow.active_run().info.experiment_id == existing
    mlflow.end_run()


def test_a_users_own_mlflow_calls_on_rank_zero(run_config, mlflow_records):
    def loop():
        if session.get_world_rank() == 0:
            import mlflow

            mlflow.set_experiment("own")
            mlflow.start_run()
            mlflow.log_params({"lr": 0.1})
            for step in range(3):
                mlflow.log_metric("loss", 1 / (step + 1), step=step)

    fit(loop, run_config())
    (run,) = runs("own")
    assert run.data.params == {"lr": "0.1"} and run.info.status == "FINISHED"
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    assert [(one.step, one.value) for one in history] == [(0, 1.0), (1, 0.5), (2, 1 / 3)]


@pytest.fixture
def wandb_folder(tmp_path, monkeypatch):
    """Where wandb writes; nothing is sent."""
    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "wandb"


def records(folder):
    """What wandb's files of offline runs have: a dict of what was logged for each."""
    return [_run(file.read_bytes()) for file in sorted(folder.glob("offline-run-*/*.wandb"))]


def _run(content):
    from wandb.proto.wandb_internal_pb2 import Record

    run = {"config": {}, "history": [], "exit": None}
    for data in _leveldb_records(content):
        record = Record.FromString(data)
        if record.HasField("run"):
            run |= {"project": record.run.project, "group": record.run.run_group, "name": record.run.display_name}
            run["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.HasField("history"):
            items = record.history.item
            run["history"].append({item.key or item.nested_key[0]: json.loads(item.value_json) for item in items})
        if record.HasField("exit"):
            run["exit"] = record.exit.exit_code
    return run


def _leveldb_records(content):
    """Of LevelDB's log format, after a header of wandb's: blocks of 32 KiB of fragments (checksum, size, kind)."""
    place, data = 7, b""
    while place + 7 <= len(content):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        data += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or the last fragment
            yield data
            data = b""


def test_rank_zero_alone_has_a_wandb_run(run_config, wandb_folder):
    def loop(config):
        run = setup_wandb(config, project="ours", rank_zero_only=True)
        for step in range(2):
            run.log({"loss": 1 / (step + 1), "rank": session.get_world_rank()})
        return run.disabled

    config = {"lr": 0.1, "model": {"layers": (1, 2), "dtype": len}}
    result = fit(loop, run_config(name="on_wandb"), train_loop_config=config)
    assert result.return_value is False
    (run,) = records(wandb_folder)
    assert run["project"] == "ours" and run["group"] == run["name"] == "on_wandb"
    assert run["config"]["lr"] == 0.1 and run["config"]["model"] == {"layers": [1, 2], "dtype": "<built-in function len>"}
    assert [(line["loss"], line["rank"]) for line in run["history"]] == [(1, 0), (0.5, 0)]
    assert run["exit"] == 0


def test_every_rank_has_a_wandb_run_when_asked_to(run_config, wandb_folder):
    def loop():
        setup_wandb(project="ours", rank_zero_only=False).log({"rank": session.get_world_rank()})

    fit(loop, run_config(name="on_wandb"))
    both = sorted(records(wandb_folder), key=lambda run: run["name"])
    assert [run["name"] for run in both] == ["on_wandb-rank-0", "on_wandb-rank-1"]
    assert [run["history"][0]["rank"] for run in both] == [0, 1] and {run["group"] for run in both} == {"on_wandb"}


def test_a_users_own_wandb_calls_on_rank_zero(run_config, wandb_folder):
    def loop():
        if session.get_world_rank() == 0:
            import wandb

            wandb.init(project="own", config={"lr": 0.1})
            wandb.log({"loss": 0.5})

    fit(loop, run_config())
    (run,) = records(wandb_folder)
    assert run["history"][0]["loss"] == 0.5 and run["exit"] == 0


def test_keys_of_wandb_are_given_once(wandb_folder, tmp_path):
    with pytest.raises(ValueError, match="both"):
        setup_wandb(api_key="a", api_key_file=str(tmp_path))


def test_callbacks_of_ray_tune_say_what_to_use():
    with pytest.raises(ImportError, match="TrackerConfig"):
        from paceline.air.integrations.mlflow import MLflowLoggerCallback  # noqa: F401
    with pytest.raises(ImportError, match="TrackerConfig"):
        from paceline.air.integrations.wandb import WandbLoggerCallback  # noqa: F401
