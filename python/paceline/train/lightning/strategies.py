"""Lightning's strategies on the workers of a run."""

from typing import Any, Dict

import torch
from torch.distributed.fsdp import FullyShardedDataParallel

from paceline import _options
from paceline.train.lightning._package import pl
from paceline.train.torch.device import get_device


class _OnWorker:
    """To Lightning each worker has one device, its own; how many there are, the environment knows."""

    def __init__(self, *args: Any, **kwargs: Any):
        _options.note("Lightning's strategy", kwargs)
        super().__init__(*args, **kwargs)

    world_size: int  # Lightning's
    global_rank: int

    @property
    def root_device(self) -> torch.device:
        return get_device()

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}


class DDPStrategy(_OnWorker, pl.strategies.DDPStrategy):
    """Lightning's DDPStrategy, with its arguments, on this worker's device.

    The process group exists already. So ``process_group_backend``, ``timeout`` and ``start_method`` have no effect,
    here and in the other strategies; :class:`paceline.train.torch.TorchConfig` sets backend and timeout.

    Example:
        >>> trainer = prepare_trainer(pl.Trainer(strategy=DDPStrategy(), plugins=[LightningEnvironment()]))
    """


class FSDPStrategy(_OnWorker, pl.strategies.FSDPStrategy):
    """Lightning's FSDPStrategy, with its arguments, on this worker's device: PyTorch's first FSDP.

    With ``state_dict_type="sharded"`` every rank writes its part of a checkpoint. That is the only way on CPUs.

    Raises:
        RuntimeError: On CPUs without ``state_dict_type="sharded"``.
    """

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        if self.root_device.type != "cpu" or any(isinstance(part, FullyShardedDataParallel) for part in model.modules()):
            return super()._setup_model(model)
        if self._state_dict_type != "sharded":
            # What FSDP has gathered and moves to the CPU, where it is already, shares memory with what it gathers next.
            raise RuntimeError(
                f"FSDPStrategy(state_dict_type={self._state_dict_type!r}) on a CPU: PyTorch's FSDP gathers whole states "
                "rightly on GPUs only; use state_dict_type='sharded', or ModelParallelStrategy"
            )
        # Lightning gives FSDP the device's index; without one FSDP looks for a GPU. What is wrapped it leaves alone.
        policy = {name: self.kwargs.pop(name) for name in ("auto_wrap_policy",) if name in self.kwargs}
        model = FullyShardedDataParallel(
            model,
            device_id=self.root_device,
            cpu_offload=self.cpu_offload,
            mixed_precision=self.mixed_precision_config,
            sharding_strategy=self.sharding_strategy,
            **policy,
            **self.kwargs,
        )
        model = super()._setup_model(model)
        self.kwargs.update(policy)
        return model


class ModelParallelStrategy(_OnWorker, pl.strategies.ModelParallelStrategy):
    """Lightning's ModelParallelStrategy on this worker's device: FSDP2 and tensor parallelism, as ``configure_model`` of the
    LightningModule applies them to ``self.device_mesh``.

    Args:
        data_parallel_size: Number of workers that share the batches; by default world size / ``tensor_parallel_size``.
        tensor_parallel_size: Number of workers that share each layer. By default 1.
    """

    _data_parallel_size: Any  # Lightning's
    _tensor_parallel_size: Any

    distributed_sampler_kwargs = pl.strategies.ModelParallelStrategy.distributed_sampler_kwargs

    def setup_environment(self) -> None:
        if self._tensor_parallel_size == "auto":
            self._tensor_parallel_size = 1
        if self._data_parallel_size == "auto":
            self._data_parallel_size = self.world_size // self._tensor_parallel_size
        super().setup_environment()


class DeepSpeedStrategy(_OnWorker, pl.strategies.DeepSpeedStrategy):
    """Lightning's DeepSpeedStrategy, with its arguments, on this worker's device, which may be a CPU. On a machine with
    GPUs, training on CPUs needs ``DS_ACCELERATOR=cpu`` in the environment before DeepSpeed is imported.

    All ranks write their part of a checkpoint.
    """

    @property
    def root_device(self) -> torch.device:
        device = get_device()
        # Lightning gives DeepSpeed the device's index, which it wants on CPUs too.
        return torch.device("cpu", 0) if device.type == "cpu" else device

    def setup_environment(self) -> None:
        if self.root_device.type != "cpu":
            return super().setup_environment()
        self.parallel_devices = [self.root_device]
        return super(pl.strategies.DeepSpeedStrategy, self).setup_environment()  # Lightning's own refuses CPUs
