"""MLflow in the loop: a run of rank zero with parameters, metrics and an artifact."""

import os

import mlflow

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


def train_func(config):
    import mlflow

    if ray.train.get_context().get_world_rank() == 0:
        mlflow.set_tracking_uri(config["uri"])
        mlflow.set_experiment("parity")
        mlflow.start_run(run_name=ray.train.get_context().get_experiment_name())
        mlflow.log_params({"lr": config["lr"]})
    for step in range(3):
        metrics = {"loss": 1.0 / (step + 1)}
        ray.train.report(metrics)
        if ray.train.get_context().get_world_rank() == 0:
            mlflow.log_metrics(metrics, step=step)
    if ray.train.get_context().get_world_rank() == 0:
        mlflow.end_run()


uri = f"sqlite:///{os.path.abspath('mlflow.db')}"
TorchTrainer(
    train_func,
    train_loop_config={"uri": uri, "lr": 0.1},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="to mlflow", storage_path=os.path.abspath("results")),
).fit()
mlflow.set_tracking_uri(uri)
(run,) = mlflow.search_runs(experiment_names=["parity"], output_format="list")
outcome["run"] = [run.info.run_name, run.info.status, run.data.params, run.data.metrics]
history = mlflow.tracking.MlflowClient(uri).get_metric_history(run.info.run_id, "loss")
outcome["history"] = [[metric.step, metric.value] for metric in history]
