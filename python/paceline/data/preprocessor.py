"""Preprocessor: what is learnt from one dataset and done to the rows of others."""

import enum
import warnings
from typing import Any, Dict, List, Mapping, Optional, Union

import cloudpickle

from paceline import _absent

_MARK = b"CPKL:"


class PreprocessorNotFittedException(RuntimeError):
    """A preprocessor was to transform rows before fit() was called."""


class Preprocessor:
    """Learns from a dataset with fit(), and does to rows what it has learnt with transform().

    Derived classes have _fit(), which sets stats_ and returns the preprocessor, or ``_is_fittable = False``; and one of
    _transform_pandas(), _transform_numpy() and _transform_arrow(), from a batch to a batch.

        scaler = StandardScaler(columns=["x"]).fit(train_ds)
        batches = scaler.transform(test_ds).iter_torch_batches()
    """

    class FitStatus(str, enum.Enum):
        """Whether it has learnt."""

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        PARTIALLY_FITTED = "PARTIALLY_FITTED"  # a chain of which some have
        FITTED = "FITTED"

    _is_fittable = True
    _fitted = False

    def __init__(self) -> None:
        self.stats_: Dict[str, Any] = {}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if name.strip("_") == name)
        return f"{type(self).__name__}({given})"

    # What it has learnt

    def fit_status(self) -> "Preprocessor.FitStatus":
        """Whether fit() was called."""
        if not self._is_fittable:
            return Preprocessor.FitStatus.NOT_FITTABLE
        learnt = any(name.endswith("_") and value for name, value in vars(self).items())
        return Preprocessor.FitStatus.FITTED if self._fitted or learnt else Preprocessor.FitStatus.NOT_FITTED

    def fit(self, ds: Any) -> "Preprocessor":
        """Learns from a dataset; what it had learnt before is forgotten."""
        status = self.fit_status()
        if status is Preprocessor.FitStatus.NOT_FITTABLE:
            return self
        if status is not Preprocessor.FitStatus.NOT_FITTED:
            warnings.warn("fit() was called before; what the preprocessor had learnt is forgotten")
        self.stats_ = {}
        fitted = self._fit(ds)
        self._fitted = True
        return fitted

    def has_stats(self) -> bool:
        """Whether there is anything in stats_."""
        return bool(getattr(self, "stats_", None))

    def _fit(self, ds: Any) -> "Preprocessor":
        raise NotImplementedError(f"{type(self).__name__} has no _fit(); set _is_fittable = False where there is nothing to learn")

    def _check_fitted(self) -> None:
        if self.fit_status() in (Preprocessor.FitStatus.NOT_FITTED, Preprocessor.FitStatus.PARTIALLY_FITTED):
            raise PreprocessorNotFittedException(f"{type(self).__name__} has not learnt yet; call fit() or fit_transform() first")

    # What it does

    def fit_transform(
        self,
        ds: Any,
        *,
        transform_num_cpus: Optional[float] = None,
        transform_memory: Optional[float] = None,
        transform_batch_size: Optional[int] = None,
        transform_concurrency: Optional[int] = None,
    ) -> Any:
        """transform() of what it learns from."""
        self.fit(ds)
        return self.transform(ds, batch_size=transform_batch_size, num_cpus=transform_num_cpus, memory=transform_memory,
                              concurrency=transform_concurrency)  # fmt: skip

    def transform(
        self,
        ds: Any,
        *,
        batch_size: Optional[int] = None,
        num_cpus: Optional[float] = None,
        memory: Optional[float] = None,
        concurrency: Optional[int] = None,
    ) -> Any:
        """A dataset as it makes it; the arguments are those of map_batches().

        Raises:
            PreprocessorNotFittedException: Before fit().
        """
        self._check_fitted()
        resources = {"num_cpus": num_cpus, "memory": memory, "concurrency": concurrency}
        given = {name: value for name, value in resources.items() if value is not None}
        return self._transform(ds, batch_size, given)

    def _transform(self, ds, batch_size, resources):
        step = _Step(self)
        return ds.map_batches(step, batch_size=batch_size, batch_format=step.format, udf_modifying_row_count=False,
                              zero_copy_batch=False, **resources)

    def transform_batch(self, data: Any) -> Any:
        """A batch as it makes it: of a DataFrame, a pyarrow.Table or a dict of arrays, in the form that it works with.

        Raises:
            PreprocessorNotFittedException: Before fit().
        """
        self._check_fitted()
        return self._transform_batch(data)

    def _transform_batch(self, data):
        import pandas

        step = _Step(self)
        if step.format == "pandas":
            return step(data.copy() if isinstance(data, pandas.DataFrame) else _block(data).to_pandas())
        block = _block(data)
        return step(block.to_numpy() if step.format == "numpy" else block.to_arrow())

    @classmethod
    def preferred_batch_format(cls) -> str:
        """Where it has several _transform functions: "pandas", "numpy" or "pyarrow"."""
        return "pandas"

    def get_input_columns(self) -> List[str]:
        """The columns that it reads."""
        return list(getattr(self, "columns", []))

    def get_output_columns(self) -> List[str]:
        """The columns that it makes."""
        return list(getattr(self, "output_columns", []))

    # Elsewhere

    def serialize(self) -> bytes:
        """As bytes, for deserialize()."""
        return _MARK + cloudpickle.dumps(self)

    @staticmethod
    def deserialize(serialized: Union[str, bytes]) -> "Preprocessor":
        """What serialize() has made bytes of. It runs code that is in them: only of those whom you trust.

        Raises:
            ValueError: For other bytes.
        """
        if not isinstance(serialized, bytes) or not serialized.startswith(_MARK):
            raise ValueError(f"these are no bytes of a preprocessor's serialize(): {serialized[:20]!r}…")
        return cloudpickle.loads(serialized[len(_MARK) :])


def _block(batch):
    import pandas
    import pyarrow

    from paceline.data.block import BlockAccessor

    if not isinstance(batch, (pandas.DataFrame, pyarrow.Table, Mapping)):
        raise ValueError(f"the batch is a {type(batch).__name__}; wanted: a DataFrame, a pyarrow.Table or a dict of arrays")
    return BlockAccessor.for_block(batch)


class _Step:
    """Its transform as the function of a step, which travels."""

    def __init__(self, preprocessor: Preprocessor):
        self.preprocessor, self.__name__ = preprocessor, type(preprocessor).__name__
        there = [kind for kind in ("pandas", "numpy", "arrow") if hasattr(preprocessor, f"_transform_{kind}")]
        if not there:
            raise NotImplementedError(f"{self.__name__} has none of _transform_pandas(), _transform_numpy(), _transform_arrow()")
        preferred = preprocessor.preferred_batch_format().replace("pyarrow", "arrow")
        self.kind = preferred if preferred in there else there[0]
        self.format = "pyarrow" if self.kind == "arrow" else self.kind

    def __call__(self, batch: Any) -> Any:
        return getattr(self.preprocessor, f"_transform_{self.kind}")(batch)


_absent.explain(__name__)
