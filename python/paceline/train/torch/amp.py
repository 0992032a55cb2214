"""Mixed precision by three calls, as Ray Train once had it: accelerate(), prepare_optimizer(), backward()."""

import contextlib
from typing import Iterator, Optional

import torch

from paceline.train.context import inside
from paceline.train.torch.device import get_device

_scaler: Optional["torch.amp.GradScaler"] = None
_dtype: Optional[torch.dtype] = None


def accelerate(amp: bool = False) -> None:
    """With ``amp``, models that prepare_model() returns afterwards compute in lower precision: bfloat16 on the CPU,
    float16 with a gradient scaler on GPUs. Call it first in the train loop.

    Raises:
        RuntimeError: Outside a train loop, and if it is called a second time.
    """
    global _scaler, _dtype
    inside("accelerate")
    if _dtype is not None:
        raise RuntimeError("accelerate() was called before; call it once, first in the train loop")
    if not amp:
        return
    on_gpu = get_device().type == "cuda"
    _dtype = torch.float16 if on_gpu else torch.bfloat16
    _scaler = torch.amp.GradScaler(enabled=on_gpu)


@contextlib.contextmanager
def own_state() -> Iterator[None]:
    """Around a train loop whose process goes on after it."""
    global _scaler, _dtype
    before = _scaler, _dtype
    _scaler = _dtype = None
    try:
        yield
    finally:
        _scaler, _dtype = before


def autocast(model: torch.nn.Module) -> torch.nn.Module:
    """`model`, whose forward computes in lower precision where accelerate(amp=True) says so."""
    if _dtype is not None:
        model.forward = torch.autocast(get_device().type, dtype=_dtype)(model.forward)
    return model


def prepare_optimizer(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Returns the optimizer. Its step() now unscales the gradients that backward() has scaled, and is skipped if they
    are not finite. Without accelerate(amp=True) nothing changes.

    Raises:
        RuntimeError: Outside a train loop.
    """
    inside("prepare_optimizer")
    return optimizer if _scaler is None else _ScaledOptimizer(optimizer, _scaler)


def backward(tensor: torch.Tensor) -> None:
    """Calls ``tensor.backward()``, scaled after accelerate(amp=True).

    Raises:
        RuntimeError: Outside a train loop.
    """
    inside("backward")
    (tensor if _scaler is None else _scaler.scale(tensor)).backward()


class _ScaledOptimizer(torch.optim.Optimizer):
    """The optimizer to all that look at it, but for step()."""

    def __init__(self, optimizer, scaler):
        self._optimizer = optimizer
        self._scaler = scaler

    def __getattr__(self, name):
        return getattr(self.__dict__["_optimizer"], name)

    @property
    def state(self):
        return self._optimizer.state

    @property
    def param_groups(self):
        return self._optimizer.param_groups

    @property
    def defaults(self):
        return self._optimizer.defaults

    def add_param_group(self, param_group):
        self._optimizer.add_param_group(param_group)

    def state_dict(self):
        return self._optimizer.state_dict()

    def load_state_dict(self, state_dict):
        self._optimizer.load_state_dict(state_dict)

    def zero_grad(self, set_to_none: bool = True):
        self._optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        result = self._scaler.step(self._optimizer, closure) if closure else self._scaler.step(self._optimizer)
        self._scaler.update()
        return result

    def __repr__(self):
        return f"scaled {self._optimizer!r}"
