"""Functions that set up experiment trackers inside a train loop. RunConfig(trackers=…) needs none of them
(docs/tracking.md).
"""

from typing import Optional, Tuple

from paceline import _absent
from paceline.train.context import get_context


def _place() -> Tuple[int, Optional[str]]:
    """This worker's rank and its run's name; outside a train loop rank 0 of no run."""
    try:
        context = get_context()
    except RuntimeError:
        return 0, None
    return context.get_world_rank(), context.get_experiment_name()


_absent.explain(__name__)
