"""TorchConfig: how the workers' process group is made."""

import dataclasses
from typing import Optional

from paceline import _environment
from paceline.train.backend import BackendConfig


@dataclasses.dataclass
class TorchConfig(BackendConfig):
    """How the workers' process group is made. It meets over Paceline's own store: nothing listens for it.

    Args:
        backend: torch.distributed's: ``"gloo"``, ``"nccl"``, ``"cpu:gloo,cuda:nccl"``, or one that is registered; by
            default nccl with GPUs, gloo without.
        init_method: ``"env"`` or ``"tcp"``; both are accepted for scripts that give one, and mean the same.
        timeout_s: Seconds after which a collective has failed.

    Raises:
        ValueError: For another init_method.
    """

    backend: Optional[str] = None
    init_method: str = "env"
    timeout_s: float = dataclasses.field(default_factory=lambda: _environment.number("COLLECTIVE_TIMEOUT_S", 1800))

    def __post_init__(self):
        if self.init_method not in ("env", "tcp"):
            raise ValueError(f"TorchConfig.init_method is {self.init_method!r}; allowed: 'env' or 'tcp'")
        if not 0 < self.timeout_s < 1e9:
            raise ValueError(f"TorchConfig.timeout_s is {self.timeout_s}; allowed: more than 0 seconds")
