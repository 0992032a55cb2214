"""Transforms of images."""

from typing import Any, Callable, List, Optional

import numpy

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
        return "numpy"

    def _transform_numpy(self, batch):
        made = [self._of_column(batch[column]) for column in self.columns]
        return {**batch, **dict(zip(self.output_columns, made))}

    def _of_column(self, images):
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
