"""Datasets for training, with Ray Data's names: see Dataset."""

from paceline.data import expressions
from paceline.data.context import DataContext, ExecutionOptions, ExecutionResources
from paceline.data.dataset import Dataset, MaterializedDataset, MixStoppingCondition
from paceline.data.iterator import DataIterator
from paceline.data.read_api import (
    from_arrow,
    from_items,
    from_numpy,
    from_pandas,
    from_torch,
    range,
    range_tensor,
    read_binary_files,
    read_csv,
    read_feather,
    read_json,
    read_numpy,
    read_orc,
    read_parquet,
    read_text,
)

__all__ = [
    "DataContext",
    "DataIterator",
    "Dataset",
    "ExecutionOptions",
    "ExecutionResources",
    "MaterializedDataset", "MixStoppingCondition",
    "expressions",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "from_torch",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_feather",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_text",
]
