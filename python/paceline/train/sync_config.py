"""SyncConfig: kept so that scripts can make one; RunConfig(sync_config=…) is refused, as in Ray Train."""

import dataclasses

from paceline.train._settings import check_options


@dataclasses.dataclass
class SyncConfig:
    """The fields of Ray Train's SyncConfig. Here report() copies files to storage_path."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True

    def __post_init__(self) -> None:
        check_options("SyncConfig", SyncConfig, vars(self))
