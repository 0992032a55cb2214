"""A Lightning callback of one's own that reports what it likes, as Ray's guide on Lightning shows."""

import os
import tempfile

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import ray.train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.lightning import RayDDPStrategy, RayLightningEnvironment, prepare_trainer
from ray.train.torch import TorchTrainer

outcome = {}


class Reports(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        context = ray.train.get_context()
        metrics = {"epoch": trainer.current_epoch, "step": trainer.global_step, "rank": context.get_world_rank()}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "epoch.ckpt")
            trainer.save_checkpoint(path, weights_only=True)
            checkpoint = Checkpoint.from_directory(folder) if trainer.current_epoch % 2 == 1 else None
            ray.train.report(metrics, checkpoint=checkpoint)


class Model(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, width)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def train_func(config):
    trainer = pl.Trainer(
        max_epochs=4,
        accelerator="cpu",
        strategy=RayDDPStrategy(find_unused_parameters=True),
        plugins=[RayLightningEnvironment()],
        callbacks=[Reports()],
        enable_progress_bar=False,
        enable_checkpointing=False,
        logger=False,
        num_sanity_val_steps=0,
    )
    trainer = prepare_trainer(trainer)
    trainer.fit(Model(config["width"]), DataLoader(TensorDataset(torch.ones(24, 2)), batch_size=4))
    environment = trainer.strategy.cluster_environment
    return [
        environment.world_size(),
        environment.global_rank(),
        environment.local_rank(),
        environment.node_rank(),
        environment.creates_processes_externally,
        trainer.strategy.root_device.type,
        trainer.strategy.distributed_sampler_kwargs,
    ]


result = TorchTrainer(
    train_func,
    train_loop_config={"width": 3},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="own", storage_path=os.path.abspath("results")),
).fit()
outcome["metrics"] = result.metrics
outcome["returned"] = result.return_value
outcome["checkpoints"] = [metrics for _, metrics in result.best_checkpoints]
with result.checkpoint.as_directory() as folder:
    model = Model.load_from_checkpoint(os.path.join(folder, "epoch.ckpt"))
outcome["width"] = [model.hparams.width, list(model.layer.weight.shape)]
