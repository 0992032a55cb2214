"""Training with PyTorch Lightning: strategies, an environment and a callback for a ``Trainer`` in a train loop.

They work with the package that is already imported, ``lightning`` or ``pytorch_lightning``; if both or neither are,
with ``lightning``. Ray Train's names are aliases.

Example:
    >>> def train_loop():
    ...     trainer = pl.Trainer(max_epochs=10, accelerator="auto", devices="auto", strategy=DDPStrategy(),
    ...                          plugins=[LightningEnvironment()], callbacks=[TrainReportCallback()],
    ...                          enable_checkpointing=False)
    ...     prepare_trainer(trainer).fit(MyLightningModule(), MyDataModule())
    >>> TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=4)).fit()
"""

from paceline import _absent
from paceline.train.lightning.environment import LightningEnvironment
from paceline.train.lightning.report_callback import TrainReportCallback
from paceline.train.lightning.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
from paceline.train.lightning.trainer import prepare_trainer

RayDDPStrategy = DDPStrategy
RayDeepSpeedStrategy = DeepSpeedStrategy
RayFSDPStrategy = FSDPStrategy
RayLightningEnvironment = LightningEnvironment
RayTrainReportCallback = TrainReportCallback

__all__ = [
    "DDPStrategy",
    "DeepSpeedStrategy",
    "FSDPStrategy",
    "LightningEnvironment",
    "ModelParallelStrategy",
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "prepare_trainer",
]

_absent.explain(__name__)
