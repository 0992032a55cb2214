"""Lightning with Ray's strategy, environment and callback: what is reported, and what a checkpoint holds."""

import os
import tempfile

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import ray.train.lightning
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

outcome = {}


class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(inputs), targets), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def rows(seed):
    inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(seed))
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)


def train_func(config):
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        devices="auto",
        accelerator="cpu",
        strategy=ray.train.lightning.RayDDPStrategy(),
        plugins=[ray.train.lightning.RayLightningEnvironment()],
        callbacks=[ray.train.lightning.RayTrainReportCallback()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    )
    trainer = ray.train.lightning.prepare_trainer(trainer)
    model = Line()
    checkpoint = ray.train.get_checkpoint()
    path = None
    if checkpoint:
        folder = checkpoint.to_directory(tempfile.mkdtemp())
        path = os.path.join(folder, "checkpoint.ckpt")
    trainer.fit(model, rows(1), rows(2), ckpt_path=path)
    return {
        "world": trainer.world_size,
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "strategy": isinstance(trainer.strategy, ray.train.lightning.RayDDPStrategy),
        "resumed": path is not None,
    }


def fit(epochs):
    return TorchTrainer(
        train_func,
        train_loop_config={"epochs": epochs},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="lightning",
            storage_path=os.path.abspath("results"),
            checkpoint_config=CheckpointConfig(checkpoint_score_attribute="val_loss", checkpoint_score_order="min"),
        ),
    ).fit()


for title, epochs in {"first": 3, "resumed": 4}.items():
    result = fit(epochs)
    with result.checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, "checkpoint.ckpt"), weights_only=False)
        files = sorted(os.listdir(folder))
    outcome[title] = {
        "metrics": {name: round(float(value), 6) for name, value in result.metrics.items()},
        "returned": result.return_value,
        "checkpoints": len(result.best_checkpoints),
        "best": round(float(result.best_checkpoints[-1][1]["val_loss"]), 6),
        "epoch": state["epoch"],
        "weights": [round(value, 6) for value in state["state_dict"]["layer.weight"].flatten().tolist()],
        "file": "checkpoint.ckpt" in files,
    }
