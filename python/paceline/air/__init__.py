"""The names of Ray AIR, which scripts still import: those of paceline.train."""

from paceline import _absent
from paceline.air import session
from paceline.train import Checkpoint, CheckpointConfig, FailureConfig, Result, RunConfig, ScalingConfig

__all__ = ["Checkpoint", "CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig", "session"]

_absent.explain(__name__)
