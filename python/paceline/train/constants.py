"""Keys and names that scripts of Ray Train import from its modules of constants."""

import os

from paceline import _absent, _environment
from paceline.train.config import RunConfig

# Datasets of a trainer, parts of a checkpoint of from_dict(): Ray's own values.
TRAIN_DATASET_KEY = "train"
EVALUATION_DATASET_KEY = "evaluation"
MODEL_KEY = "model"
PREPROCESSOR_KEY = "_preprocessor"
CHECKPOINT_ID_ATTR = TUNE_CHECKPOINT_ID = "_current_checkpoint_id"

DEFAULT_STORAGE_PATH = os.path.expanduser(str(RunConfig.storage_path))
# The variable that a script sets, under Paceline's name.
RAY_CHDIR_TO_TRIAL_DIR = _environment.variable("CHDIR_TO_TRIAL_DIR")

_absent.explain(__name__)
