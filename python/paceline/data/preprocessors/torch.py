"""Transforms of images."""

from typing import Any, Callable, List, Optional

import numpy

from paceline.data import _blocks, _functions
from paceline.data.preprocessor import _block
from paceline.data.preprocessors._columns import OfColumns


class TorchVisionPreprocessor(OfColumns):
    """What a transform, such as one of torchvision's, makes of each image.

    Args:
        columns: Of images.
        transform: From a tensor to a tensor or array; from an array where it raises a TypeError for a tensor.
        output_columns: Where they go; None: into the same columns.
        batched: Whether the transform gets all images of a batch at once.
    """

    _is_fittable = False

    def __init__(self, columns: List[str], transform: Callable[[Any], Any], output_columns: Optional[List[str]] = None,
                 batched: bool = False):
        super().__init__(columns, output_columns)
        self.torchvision_transform, self.batched = transform, batched

    @classmethod
    def preferred_batch_format(cls) -> str:
        return "pyarrow" if cls._transform_numpy is TorchVisionPreprocessor._transform_numpy else "numpy"

    def _outputs_of_table(self, table):
        batch = _blocks.to_numpy(_blocks.joined(table.select(self.columns)))
        return self._outputs({name: _functions._copied(images) for name, images in batch.items()})

    def _transform_numpy(self, batch):
        return {**batch, **self._outputs(batch)}

    def _transform_batch(self, data):
        if self.preferred_batch_format() == "numpy":
            return super()._transform_batch(data)
        return self._transform_numpy(_block(data).to_numpy())

    def _column(self, images):
        return self._applied(images) if self.batched else [self._applied(image) for image in images]

    def _applied(self, images):
        import torch

        try:
            made = self.torchvision_transform(torch.as_tensor(images))
        except TypeError:
            made = self.torchvision_transform(images)
        made = made.numpy() if isinstance(made, torch.Tensor) else made
        if not isinstance(made, numpy.ndarray):
            raise ValueError(f"the transform gave a {type(made).__name__}; wanted: a torch.Tensor or numpy.ndarray")
        return made
