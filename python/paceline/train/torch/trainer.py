"""TorchTrainer: runs a PyTorch train loop on a group of worker processes."""

from typing import Any, Callable, Dict, Optional, Union

from paceline.train._settings import check_type, suggesting
from paceline.train.checkpoint import Checkpoint
from paceline.train.config import RunConfig, ScalingConfig
from paceline.train.torch.config import TorchConfig
from paceline.train.trainer import DataParallelTrainer
from paceline.train.validation_config import ValidationConfig


@suggesting
class TorchTrainer(DataParallelTrainer):
    """A :class:`DataParallelTrainer` whose workers have a torch.distributed process group.

    Args:
        torch_config: How the process group is made; ``torch_backend`` is another name for it.

    Example:
        >>> def train_loop(config):
        ...     model = paceline.train.torch.prepare_model(torch.nn.Linear(8, 1))
        ...     ...
        ...     paceline.train.report({"loss": loss.item()})
        >>> TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=2)).fit()
    """

    def __init__(
        self,
        train_loop_per_worker: Union[Callable[[], Any], Callable[[Dict], Any]],
        *,
        train_loop_config: Optional[Dict] = None,
        torch_config: Optional[TorchConfig] = None,
        torch_backend: Optional[TorchConfig] = None,
        scaling_config: Optional[ScalingConfig] = None,
        run_config: Optional[RunConfig] = None,
        datasets: Optional[Dict[str, Any]] = None,
        dataset_config: Optional[Any] = None,
        validation_config: Optional[ValidationConfig] = None,
        metadata: Optional[Dict[str, Any]] = None,
        resume_from_checkpoint: Optional[Checkpoint] = None,
    ):
        if torch_config is not None and torch_backend is not None:
            raise ValueError("torch_config and torch_backend are the same argument; give one of them")
        check_type("torch_config", torch_config or torch_backend, TorchConfig)
        self.torch_config = torch_config or torch_backend or TorchConfig()
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=self.torch_config,
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
