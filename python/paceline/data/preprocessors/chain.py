"""Preprocessors one after the other."""

from typing import Any

from paceline.data.preprocessor import Preprocessor


class Chain(Preprocessor):
    """Each learns from what those before it make."""

    def __init__(self, *preprocessors: Preprocessor):
        super().__init__()
        self.preprocessors = preprocessors

    def fit_status(self) -> Preprocessor.FitStatus:
        states = {one.fit_status() for one in self.preprocessors} - {Preprocessor.FitStatus.NOT_FITTABLE}
        if not states:
            return Preprocessor.FitStatus.NOT_FITTABLE
        return states.pop() if len(states) == 1 else Preprocessor.FitStatus.PARTIALLY_FITTED

    def _fit(self, ds):
        for one in self.preprocessors[:-1]:
            ds = one.fit_transform(ds)
        self.preprocessors[-1].fit(ds)
        return self

    def fit_transform(self, ds: Any, **resources: Any) -> Any:
        for one in self.preprocessors:
            ds = one.fit_transform(ds, **resources)
        return ds

    def _transform(self, ds, batch_size, resources):
        for one in self.preprocessors:
            ds = one.transform(ds, batch_size=batch_size, **resources)
        return ds

    def _transform_batch(self, data):
        for one in self.preprocessors:
            data = one.transform_batch(data)
        return data
