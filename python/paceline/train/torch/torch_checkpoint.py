"""TorchCheckpoint: a checkpoint of one model, in the file model.pt."""

import os
from typing import Any, Dict, Optional

import torch

from paceline import _absent
from paceline.train.checkpoint import Checkpoint
from paceline.train.dict_checkpoint import without_module


class TorchCheckpoint(Checkpoint):
    """A checkpoint of one model, as in Ray Train; new programs can use :class:`Checkpoint` instead.

    Example:
        >>> report({"loss": loss}, checkpoint=TorchCheckpoint.from_state_dict(model.state_dict()))
        >>> model = TorchCheckpoint(result.checkpoint.path).get_model(Net())
    """

    MODEL_FILENAME = "model.pt"

    @classmethod
    def from_state_dict(cls, state_dict: Dict[str, Any], *, preprocessor: Optional[Any] = None) -> "TorchCheckpoint":
        """Makes a checkpoint of a model's state_dict(), without the prefix ``module.`` of DistributedDataParallel."""
        return cls._saved(without_module(state_dict), preprocessor)

    @classmethod
    def from_model(cls, model: torch.nn.Module, *, preprocessor: Optional[Any] = None) -> "TorchCheckpoint":
        """Makes a checkpoint of the model itself, which is pickled. Unlike that of from_state_dict(), reading it runs
        code from the file.
        """
        return cls._saved(model, preprocessor)

    @classmethod
    def _saved(cls, value, preprocessor):
        if preprocessor is not None:
            raise ValueError("preprocessor=… is not supported; apply it to the data in the train loop")
        return cls._made_by(lambda folder: torch.save(value, os.path.join(folder, cls.MODEL_FILENAME)))

    def get_model(self, model: Optional[torch.nn.Module] = None, *, allow_pickle: bool = False) -> torch.nn.Module:
        """Returns the model of from_model(), or ``model`` with the state of from_state_dict(), on the CPU.

        Args:
            model: The model that takes the state; not used for a checkpoint of from_model().
            allow_pickle: Whether to unpickle a model of from_model(), which runs code from the file. Use it only for
                checkpoints whose writer you trust.

        Raises:
            ValueError: For a pickled model without ``allow_pickle``, or a state without ``model``.
            RuntimeError: If the checkpoint has no model.pt.
        """
        with self.as_directory() as folder:
            path = os.path.join(folder, self.MODEL_FILENAME)
            if not os.path.exists(path):
                raise RuntimeError(f"{self.path} has no {self.MODEL_FILENAME}: from_state_dict() or from_model() make it")
            try:
                saved = torch.load(path, map_location="cpu", weights_only=not allow_pickle)
            except Exception as error:
                if allow_pickle:
                    raise
                raise ValueError(
                    f"{path} has more than weights ({type(error).__name__}), and unpickling runs whatever code is in the "
                    "file. If you trust who wrote it, call get_model(allow_pickle=True); better, write "
                    "TorchCheckpoint.from_state_dict(model.state_dict())"
                ) from None
        if isinstance(saved, torch.nn.Module):
            return saved
        if model is None:
            raise ValueError("this checkpoint has a state_dict; call get_model(model) with a model that takes it")
        model.load_state_dict(saved)
        return model


_absent.explain(__name__)
