"""TorchConfig: how the workers' process group is made."""

import dataclasses
from typing import Optional

from paceline import _absent
from paceline._native import native
from paceline.train._settings import Settings, declared, refusal, suggesting
from paceline.train.backend import BackendConfig


@suggesting
@dataclasses.dataclass
class TorchConfig(BackendConfig, Settings, declared_by=native.torch_config):
    """How the workers' process group is made. The ranks meet over Paceline's own store, which does not listen on the
    network.
    """

    backend: Optional[str] = declared()
    init_method: str = "env"
    timeout_s: float = declared(environment="COLLECTIVE_TIMEOUT_S")

    def __post_init__(self) -> None:
        if self.init_method not in ("env", "tcp"):
            raise refusal("TorchConfig.init_method", self.init_method, 'one of "env", "tcp"')
        super().__post_init__()


_absent.explain(__name__)
