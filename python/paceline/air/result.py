"""The module from which scripts of Ray AIR import Result."""

from paceline.train import Result

__all__ = ["Result"]
