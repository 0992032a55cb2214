"""The module from which scripts of Ray AIR import Checkpoint."""

from paceline.train import Checkpoint

__all__ = ["Checkpoint"]
