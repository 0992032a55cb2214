"""Collectives of a run's ranks that do not use torch.distributed."""

from paceline.train.collective.collectives import barrier, broadcast_from_rank_zero

__all__ = ["barrier", "broadcast_from_rank_zero"]
