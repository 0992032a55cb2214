"""setup_mlflow: an MLflow run that a train loop logs to."""

import os
from types import ModuleType
from typing import Any, Dict, Optional, Union

from paceline import _absent
from paceline.air.integrations import _place


class _Noop:
    """What ranks without a run get: every attribute is one, every call gives one, and it is false."""

    def __getattr__(self, name: str) -> "_Noop":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "_Noop":
        return self

    def __enter__(self) -> "_Noop":
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def __bool__(self) -> bool:
        return False


def setup_mlflow(
    config: Optional[Dict] = None,
    tracking_uri: Optional[str] = None,
    registry_uri: Optional[str] = None,
    experiment_id: Optional[str] = None,
    experiment_name: Optional[str] = None,
    tracking_token: Optional[str] = None,
    artifact_location: Optional[str] = None,
    run_name: Optional[str] = None,
    create_experiment_if_not_exists: bool = False,
    tags: Optional[Dict] = None,
    rank_zero_only: bool = True,
) -> Union[ModuleType, _Noop]:
    """Starts an MLflow run in this worker and makes it the active one.

    Args:
        config: Logged as the run's parameters; nested names are joined with ``/``.
        tracking_uri, registry_uri: Where MLflow keeps its records; by default what the environment says.
        experiment_id: Id of an existing experiment; takes precedence over its name. By default
            ``MLFLOW_EXPERIMENT_ID``.
        experiment_name: Name of the experiment. By default ``MLFLOW_EXPERIMENT_NAME``, else the name of Paceline's run.
        tracking_token: Token for a server that requires one (``MLFLOW_TRACKING_TOKEN``).
        artifact_location: Where an experiment that this call creates keeps its artifacts.
        run_name: Name of the run. By default that of the experiment.
        create_experiment_if_not_exists: Whether to create an experiment of that name if there is none.
        tags: Tags of the run.
        rank_zero_only: Whether only rank 0 has a run; the other ranks get an object on which all calls do nothing.

    Returns:
        The module ``mlflow``.

    Raises:
        RuntimeError: When mlflow is not installed.
        ValueError: When there is no such experiment.

    Example:
        >>> mlflow = setup_mlflow(config, experiment_name="mnist", create_experiment_if_not_exists=True)
        >>> mlflow.log_metric("loss", loss, step=epoch)
    """
    rank, run = _place()
    if rank_zero_only and rank != 0:
        return _Noop()
    try:
        import mlflow
    except ImportError:
        raise RuntimeError("setup_mlflow() needs mlflow: pip install mlflow") from None
    if tracking_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = tracking_token
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri is not None:
        mlflow.set_registry_uri(registry_uri)
    experiment_id = experiment_id or os.environ.get("MLFLOW_EXPERIMENT_ID")
    name = experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME") or run
    experiment_id = _experiment(mlflow, experiment_id, name, artifact_location if create_experiment_if_not_exists else False)
    mlflow.set_experiment(experiment_id=experiment_id)
    if mlflow.active_run() is None:
        mlflow.start_run(run_name=run_name or name, tags=tags or {})
    for key, value in _flat(config or {}):
        mlflow.log_param(key, value)
    return mlflow


def _experiment(mlflow, experiment_id, name, create_at):
    """The id of the experiment; `create_at` is where one that is made keeps its artifacts, False: none is made."""
    if experiment_id is not None:
        try:
            return mlflow.get_experiment(experiment_id).experiment_id
        except mlflow.exceptions.MlflowException:
            pass  # perhaps by its name
    if name and (found := mlflow.get_experiment_by_name(name)):
        return found.experiment_id
    if name and create_at is not False:
        return mlflow.create_experiment(name, artifact_location=create_at)
    raise ValueError(
        f"setup_mlflow(): {mlflow.get_tracking_uri()} has no experiment with the id {experiment_id!r} or the name {name!r}; "
        "give one that it has, or create_experiment_if_not_exists=True with a name"
    )


def _flat(config, prefix=""):
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


_absent.explain(__name__)
