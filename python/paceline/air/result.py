"""Where scripts of Ray AIR import Result from."""

from paceline.train import Result

__all__ = ["Result"]
