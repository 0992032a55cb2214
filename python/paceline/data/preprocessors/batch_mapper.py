"""A function as a preprocessor."""

from typing import Any, Callable, Optional, Union

from paceline.data.preprocessor import Preprocessor


class BatchMapper(Preprocessor):
    """What a function makes of batches. Of Ray's older versions; today they have Dataset.map_batches().

    Args:
        fn: From a batch to a batch.
        batch_format: "pandas" or "numpy".
        batch_size: Rows of a batch; "default" and None: a block.
    """

    _is_fittable = False

    def __init__(self, fn: Callable[[Any], Any], batch_format: str = "pandas",
                 batch_size: Union[None, int, str] = "default"):
        super().__init__()
        if batch_format not in ("pandas", "numpy"):
            raise ValueError(f"batch_format is {batch_format!r}; allowed: 'pandas', 'numpy'")
        self.fn, self.batch_format = fn, batch_format
        self.batch_size: Optional[int] = batch_size if isinstance(batch_size, int) else None
        setattr(self, f"_transform_{batch_format}", fn)

    def _transform(self, ds, batch_size, resources):
        return super()._transform(ds, batch_size or self.batch_size, resources)
