"""SyncConfig: kept so that scripts can make one; RunConfig(sync_config=…) is refused, as in Ray Train."""

import dataclasses

from paceline.train._settings import check_options


@dataclasses.dataclass
class SyncConfig:
    """What Ray Train's SyncConfig had. Files are brought to storage_path by report()."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True

    def __post_init__(self) -> None:
        check_options("SyncConfig", SyncConfig, vars(self))
