"""Training with Hugging Face Transformers: what its ``Trainer`` needs in a train loop. Ray Train's names are aliases.

Example:
    >>> def train_loop():
    ...     trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows,
    ...                                    callbacks=[TrainReportCallback()])
    ...     prepare_trainer(trainer).train()
    >>> TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=4)).fit()
"""

from paceline.train.huggingface.transformers.report_callback import TrainReportCallback
from paceline.train.huggingface.transformers.trainer import prepare_trainer

RayTrainReportCallback = TrainReportCallback

__all__ = ["RayTrainReportCallback", "TrainReportCallback", "prepare_trainer"]
