"""Training with PyTorch: TorchTrainer, and functions that prepare models and data in a train loop."""

from paceline import _absent
from paceline.train.torch.amp import accelerate, backward, prepare_optimizer
from paceline.train.torch.config import TorchConfig
from paceline.train.torch.data_loader import prepare_data_loader
from paceline.train.torch.device import get_device, get_devices
from paceline.train.torch.model import prepare_model
from paceline.train.torch.reproducibility import enable_reproducibility
from paceline.train.torch.torch_checkpoint import TorchCheckpoint
from paceline.train.torch.trainer import TorchTrainer

__all__ = [
    "TorchCheckpoint",
    "TorchConfig",
    "TorchTrainer",
    "accelerate",
    "backward",
    "enable_reproducibility",
    "get_device",
    "get_devices",
    "prepare_data_loader",
    "prepare_model",
    "prepare_optimizer",
]

_absent.explain(__name__)
