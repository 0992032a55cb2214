"""Datasets for training, with Ray Data's names: see Dataset."""

from paceline import _absent
from paceline.data import expressions
from paceline.data._plans import RandomSeedConfig
from paceline.data._schema import Schema
from paceline.data.compute import ActorPoolStrategy, TaskPoolStrategy
from paceline.data.context import DataContext, DatasetContext, ExecutionOptions, ExecutionResources
from paceline.data.dataset import Dataset, MaterializedDataset, MixStoppingCondition
from paceline.data.datasource import (
    BlockBasedFileDatasink,
    Datasink,
    Datasource,
    FileShuffleConfig,
    ReadTask,
    RowBasedFileDatasink,
    SaveMode,
)
from paceline.data.iterator import DataIterator, DatasetIterator
from paceline.data.preprocessor import Preprocessor
from paceline.data.read_api import (
    from_arrow,
    from_arrow_refs,
    from_blocks,
    from_items,
    from_numpy,
    from_numpy_refs,
    from_pandas,
    from_pandas_refs,
    from_torch,
    range,
    range_tensor,
    read_binary_files,
    read_csv,
    read_datasource,
    read_feather,
    read_json,
    read_numpy,
    read_orc,
    read_parquet,
    read_text,
)

__all__ = [
    "ActorPoolStrategy",
    "BlockBasedFileDatasink",
    "DataContext",
    "DataIterator",
    "Dataset",
    "DatasetContext",
    "DatasetIterator",
    "Datasink",
    "Datasource",
    "ExecutionOptions",
    "ExecutionResources",
    "FileShuffleConfig",
    "MaterializedDataset",
    "MixStoppingCondition",
    "Preprocessor",
    "RandomSeedConfig",
    "ReadTask",
    "RowBasedFileDatasink",
    "SaveMode",
    "Schema",
    "TaskPoolStrategy",
    "expressions",
    "from_arrow",
    "from_arrow_refs",
    "from_blocks",
    "from_items",
    "from_numpy",
    "from_numpy_refs",
    "from_pandas",
    "from_pandas_refs",
    "from_torch",
    "range",
    "range_tensor",
    "read_binary_files",
    "read_csv",
    "read_datasource",
    "read_feather",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_text",
]

_absent.explain(__name__)
