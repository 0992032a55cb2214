"""Settings from environment variables: those that Ray Train reads as RAY_TRAIN_… are called PACELINE_TRAIN_… here.

Each is declared once, in SETTINGS. Ray's own spelling has no effect and gets one notice, and so does a setting that
Paceline does not have.
"""

import importlib
import os
from typing import Any, List

from paceline import _notices

_PREFIX, _RAY_PREFIX = "PACELINE_TRAIN_", "RAY_TRAIN_"

# By what follows the prefix: what it sets.
SETTINGS = {
    "WORKER_GROUP_START_TIMEOUT_S": "the default of FailureConfig.start_timeout_s",
    "WORKER_HEALTH_CHECK_TIMEOUT_S": "the default of FailureConfig.heartbeat_timeout_s",
    "COLLECTIVE_TIMEOUT_S": "the default of TorchConfig.timeout_s, which limits report() and barriers too",
    "CALLBACKS": "further RunConfig.callbacks: 'module.Class', separated by commas",
    "CHDIR_TO_TRIAL_DIR": "with 1, workers run in the folder artifacts/ of their run's folder",
}
# What Ray Train has settings for and Paceline does by itself.
_NEEDLESS = {
    "V2_ENABLED": "there is one version",
    "HEALTH_CHECK_INTERVAL_S": "nothing is polled",
    "COLLECTIVE_WARN_INTERVAL_S": "hangs are watched (DebugConfig)",
    "CHECKPOINT_UPLOAD_WARN_INTERVAL_S": "the status line shows uploads",
    "ENABLE_PRINT_PATCH": "all output of workers arrives, marked by rank",
    "ENABLE_CONTROLLER_STRUCTURED_LOGGING": "the run folder's logs/ has all logs",
    "ENABLE_WORKER_STRUCTURED_LOGGING": "the run folder's logs/ has all logs",
    "ENABLE_STATE_TRACKING": "`paceline list` shows all runs",
    "METRICS_ENABLED": "the run folder has all metrics",
    "ENABLE_NCCL_HANG_DETECTOR": "hangs are watched (DebugConfig)",
}
# Ray's name where the prefix is another.
_RAY_NAMES = {"RAY_CHDIR_TO_TRIAL_DIR": "CHDIR_TO_TRIAL_DIR"}


def variable(name: str) -> str:
    """The environment variable that holds a setting."""
    return _PREFIX + name


def _value(name: str) -> str:
    assert name in SETTINGS, name
    return os.environ.get(_PREFIX + name, "")


def number(name: str, otherwise: float) -> float:
    """The setting's value; ValueError when it is none."""
    text = _value(name)
    try:
        return float(text) if text else otherwise
    except ValueError:
        raise ValueError(f"the environment variable {_PREFIX}{name} is {text!r}; allowed: a number of seconds") from None


def is_set(name: str) -> bool:
    """Whether a switch is on."""
    return _value(name) not in ("", "0")


def callbacks() -> List[Any]:
    """New objects of the classes that CALLBACKS names."""
    found = []
    for path in filter(None, (part.strip() for part in _value("CALLBACKS").split(","))):
        module, _, name = path.rpartition(".")
        try:
            found.append(getattr(importlib.import_module(module), name)())
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"the environment variable {_PREFIX}CALLBACKS names {path!r}, which is not there: {error}") from error
    return found


def note_others() -> None:
    """Says which variables are set and mean nothing."""
    for line in _notes(os.environ):
        _notices.give_once(line)


def _notes(environment) -> List[str]:
    lines = []
    for variable in sorted(environment):
        name = _RAY_NAMES.get(variable) or (variable.removeprefix(_RAY_PREFIX) if variable.startswith(_RAY_PREFIX) else "")
        if name in SETTINGS:
            lines.append(f"{variable} is Ray Train's; Paceline reads {_PREFIX}{name}")
        elif name in _NEEDLESS:
            lines.append(f"{variable} is Ray Train's; Paceline does without: {_NEEDLESS[name]}")
        elif name:
            lines.append(f"{variable} is Ray Train's, and Paceline has nothing like it")
        elif variable.startswith(_PREFIX) and (own := variable.removeprefix(_PREFIX)) not in SETTINGS:
            why = _NEEDLESS.get(own) or f"those that do are {', '.join(_PREFIX + one for one in SETTINGS)}"
            lines.append(f"{variable} has no effect: {why}")
    return lines
