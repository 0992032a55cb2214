"""Where scripts of Ray AIR import Checkpoint from."""

from paceline.train import Checkpoint

__all__ = ["Checkpoint"]
