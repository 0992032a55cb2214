"""What workers learn about machines that will be taken away."""

import dataclasses
from typing import Dict, List, Optional

from paceline.train.context import inside


@dataclasses.dataclass(frozen=True)
class PreemptionInfo:
    """Machines that will be taken away.

    Attributes:
        deadline_ms: When the first of them will be gone, in milliseconds since the Unix epoch; None if unknown.
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
    """Returns what has been announced, the same on every rank; None if nothing was. On one machine nothing is ever
    announced.

    Raises:
        RuntimeError: Outside a train loop.
    """
    inside("get_preemption_info")
    return None
