"""Lightning in a train loop: strategies that train as one process does, reports, and runs that resume."""

import contextlib
import os
import signal

import lightning.pytorch as pl
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import paceline.train as train
import paceline.train.lightning as with_lightning
from paceline.train import CheckpointConsistencyMode, CheckpointUploadMode, FailureConfig, ScalingConfig, ValidationConfig
from paceline.train.lightning import (
    DDPStrategy,
    FSDPStrategy,
    LightningEnvironment,
    ModelParallelStrategy,
    TrainReportCallback,
    prepare_trainer,
)
from paceline.train.torch import TorchTrainer

QUIET = {"enable_checkpointing": False, "logger": False, "enable_progress_bar": False, "enable_model_summary": False}


class Regression(pl.LightningModule):
    def __init__(self, shards=False):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.shards = shards

    def configure_model(self):
        if self.shards:
            torch.distributed.fsdp.fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.net(inputs), targets)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def rows():
    inputs = torch.sin(torch.arange(128.0)).reshape(32, 4)
    return TensorDataset(inputs, inputs.sum(1, keepdim=True))


class Losses(pl.Callback):
    """The loss of each epoch, and a worker that is killed in the third of the first attempt."""

    def __init__(self, kills=False):
        self.losses = []
        self.kills = kills

    def on_train_epoch_end(self, trainer, module):
        self.losses.append(trainer.callback_metrics["loss"].item())

    def on_train_epoch_start(self, trainer, module):
        context = train.get_context() if self.kills else None
        if self.kills and trainer.current_epoch == 2 and context.get_attempt() == 1 and context.get_world_rank() == 1:
            train.get_all_reported_checkpoints(CheckpointConsistencyMode.COMMITTED)  # waits for the second
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def losses_of_one_process():
    losses = Losses()
    loader = DataLoader(rows(), 8, sampler=DistributedSampler(rows(), 1, 0))  # in the order that two ranks share
    pl.Trainer(max_epochs=4, accelerator="cpu", devices=1, callbacks=[losses], **QUIET).fit(Regression(), loader)
    return losses.losses


def loop(config):
    torch.set_num_threads(1)
    losses = Losses(config.get("kills", False))
    report = TrainReportCallback(**config.get("report", {}))
    strategy = config.get("strategy", DDPStrategy)(**config.get("arguments", {}))
    trainer = pl.Trainer(
        max_epochs=config.get("epochs", 4),
        accelerator="auto",
        devices="auto",
        strategy=strategy,
        plugins=[LightningEnvironment()],
        callbacks=[losses, report],
        **QUIET,
    )
    checkpoint = train.get_checkpoint()
    with checkpoint.as_directory() if checkpoint else contextlib.nullcontext() as folder:
        file = folder and os.path.join(folder, report.CHECKPOINT_NAME)
        module = Regression(shards=isinstance(strategy, ModelParallelStrategy))
        prepare_trainer(trainer).fit(module, DataLoader(rows(), 4), ckpt_path=file)
    return losses.losses


def fit(settings, config, **arguments):
    return TorchTrainer(
        loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2), run_config=settings, **arguments
    ).fit()


STRATEGIES = {
    "ddp": {"strategy": DDPStrategy, "arguments": {"find_unused_parameters": False}},
    "fsdp": {
        "strategy": FSDPStrategy,
        "arguments": {"state_dict_type": "sharded", "auto_wrap_policy": {torch.nn.Linear}},
    },
    "fsdp2": {"strategy": ModelParallelStrategy},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_whose_worker_is_killed_has_the_losses_of_one_process(run_config, losses_of_one_process, name):
    settings = run_config(failure_config=FailureConfig(max_failures=1))
    result = fit(settings, {**STRATEGIES[name], "kills": True})
    frame = result.metrics_dataframe
    assert [row["attempt"] for row in result.metrics_history.to_pylist() if row["rank"] == 0] == [1, 1, 2, 2]
    assert list(frame["epoch"]) == [0, 1, 2, 3]
    assert list(frame["step"]) == [4, 8, 12, 16]
    assert list(frame["loss"]) == pytest.approx(losses_of_one_process, rel=1e-4)
    assert result.return_value == pytest.approx(losses_of_one_process[2:], rel=1e-4)
    assert os.path.isdir(f"{result.checkpoint.path}/checkpoint.ckpt") == (name != "ddp")


def test_reports_may_come_every_so_many_steps_or_epochs(run_config):
    steps = fit(run_config(), {"report": {"every_n_train_steps": 3}, "epochs": 2})
    assert list(steps.metrics_dataframe["step"]) == [3, 6, 8] and list(steps.metrics_dataframe["epoch"]) == [0, 1, 1]
    assert len(steps.best_checkpoints) == 3
    epochs = fit(run_config(), {"report": {"every_n_epochs": 2}, "epochs": 3})
    assert list(epochs.metrics_dataframe["step"]) == [8, 12]


def look_at(checkpoint):
    with checkpoint.as_directory() as folder:
        return {"epochs_seen": torch.load(os.path.join(folder, "checkpoint.ckpt"), weights_only=True)["epoch"]}


def test_checkpoints_are_brought_away_and_validated_while_training_goes_on(run_config, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    report = {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "validation": True}
    result = fit(run_config(), {"report": report, "epochs": 2}, validation_config=ValidationConfig(look_at))
    assert [metrics["epochs_seen"] for _, metrics in result.best_checkpoints] == [0, 1]
    assert list((tmp_path / "scratch").glob("lightning_checkpoint_*")) == []


def test_a_trainer_that_would_train_alone_is_refused(run_config):
    def loop():
        said = []
        for arguments in ({}, {"strategy": DDPStrategy()}):
            with pytest.raises(RuntimeError) as caught:
                prepare_trainer(pl.Trainer(accelerator="cpu", **arguments, **QUIET))
            said.append(str(caught.value))
        return said

    said = TorchTrainer(loop, run_config=run_config()).fit().return_value
    assert "the trainer's strategy is a lightning.pytorch.strategies.single_device.SingleDeviceStrategy" in said[0]
    assert "cluster environment is a lightning" in said[1] and "plugins=[LightningEnvironment()]" in said[1]


def test_whole_states_of_fsdp_are_refused_on_cpus(run_config):
    with pytest.raises(train.WorkerGroupError, match="use state_dict_type='sharded', or ModelParallelStrategy"):
        fit(run_config(), {"strategy": FSDPStrategy})


def test_frequencies_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="exclude each other"):
        TrainReportCallback(every_n_epochs=1, every_n_train_steps=1)
    with pytest.raises(ValueError, match=r"every_n_train_steps=0\); allowed: 1 or more"):
        TrainReportCallback(every_n_train_steps=0)


def test_ray_trains_names_are_the_same_classes():
    for name in ("DDPStrategy", "DeepSpeedStrategy", "FSDPStrategy", "LightningEnvironment", "TrainReportCallback"):
        assert getattr(with_lightning, f"Ray{name}") is getattr(with_lightning, name)
