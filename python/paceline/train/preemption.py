"""What workers are told of machines that will be taken away."""

import dataclasses
from typing import Dict, List, Optional

from paceline.train.context import inside


@dataclasses.dataclass(frozen=True)
class PreemptionInfo:
    """Machines that will be taken away.

    Attributes:
        deadline_ms: The earliest of them is gone at this time: milliseconds since the Unix epoch; None: unknown.
        preempted_node_to_ranks: The ranks on each of them.
    """

    deadline_ms: Optional[int]
    preempted_node_to_ranks: Dict[str, List[int]]

    @property
    def preempted_node_ids(self) -> List[str]:
        """The machines, sorted."""
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> List[int]:
        """All ranks on them, ascending."""
        return sorted({rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks})


def get_preemption_info() -> Optional[PreemptionInfo]:
    """What is announced, the same on every rank; None when nothing is. On one machine nothing is ever announced.

    Raises:
        RuntimeError: Outside a train loop.
    """
    inside("get_preemption_info")
    return None
