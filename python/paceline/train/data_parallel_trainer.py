"""Where scripts written for Ray Train import DataParallelTrainer from."""

from paceline.train.trainer import DataParallelTrainer

__all__ = ["DataParallelTrainer"]
