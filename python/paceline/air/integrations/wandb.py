"""setup_wandb: a run of Weights & Biases that a train loop logs to."""

import os
from typing import Any, Dict, Optional

from paceline import _absent
from paceline.air.integrations import _place


def setup_wandb(
    config: Optional[Dict] = None,
    api_key: Optional[str] = None,
    api_key_file: Optional[str] = None,
    rank_zero_only: bool = True,
    **kwargs: Any,
) -> Any:
    """Starts a run of Weights & Biases in this worker.

    Args:
        config: The run's configuration; values that cannot be written as JSON become text.
        api_key: By default ``WANDB_API_KEY``, or the key that ``wandb login`` has stored.
        api_key_file: A file whose first line is the key.
        rank_zero_only: Whether only rank 0 has a run; the other ranks get one on which all calls do nothing.
        **kwargs: Arguments of ``wandb.init()``. The default of ``project`` is ``WANDB_PROJECT_NAME``, that of ``group``
            is ``WANDB_GROUP_NAME`` or the name of Paceline's run. ``name`` is that name, with the rank if all ranks
            have runs.

    Returns:
        wandb's run.

    Raises:
        RuntimeError: When wandb is not installed.
        ValueError: For both a key and a key file.

    Example:
        >>> wandb = setup_wandb(config, project="mnist")
        >>> wandb.log({"loss": loss})
    """
    try:
        import wandb
    except ImportError:
        raise RuntimeError("setup_wandb() needs wandb: pip install wandb") from None
    rank, run = _place()
    if rank_zero_only and rank != 0:
        return wandb.init(mode="disabled")
    if api_key and api_key_file:
        raise ValueError("setup_wandb() was given both api_key and api_key_file; give one of them")
    if api_key_file:
        with open(os.path.expanduser(api_key_file)) as file:
            api_key = file.readline().strip()
    if api_key:
        os.environ["WANDB_API_KEY"] = api_key
    # Their names in Ray Train.
    kwargs = {"trial_id": None, "trial_name": None, **kwargs}
    trial_id, trial_name = kwargs.pop("trial_id"), kwargs.pop("trial_name")
    name = run if rank_zero_only or run is None else f"{run}-rank-{rank}"
    settings = {
        "id": trial_id,
        "name": trial_name or name,
        "project": os.environ.get("WANDB_PROJECT_NAME"),
        "group": os.environ.get("WANDB_GROUP_NAME") or run,
        "resume": "allow" if trial_id else None,
        "reinit": "finish_previous",
        "allow_val_change": True,
        "config": _writable(config or {}),
    }
    return wandb.init(**{**{key: value for key, value in settings.items() if value is not None}, **kwargs})


def _writable(value):
    if isinstance(value, dict):
        return {str(key): _writable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_writable(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


_absent.explain(__name__)
