"""prepare_trainer: checks that a Lightning Trainer will train with the other ranks."""

from paceline.train.lightning._package import pl
from paceline.train.lightning.environment import LightningEnvironment
from paceline.train.lightning.strategies import DDPStrategy, DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy

_STRATEGIES = (DDPStrategy, FSDPStrategy, DeepSpeedStrategy, ModelParallelStrategy)


def prepare_trainer(trainer: "pl.Trainer") -> "pl.Trainer":
    """Checks that the trainer will train with the other ranks, and returns it.

    Raises:
        RuntimeError: If its strategy or its cluster environment is not one of this module's.

    Example:
        >>> trainer = prepare_trainer(pl.Trainer(strategy=DDPStrategy(), plugins=[LightningEnvironment()]))
    """
    if not isinstance(trainer.strategy, _STRATEGIES):
        raise RuntimeError(
            f"the trainer's strategy is a {_name(trainer.strategy)}; wanted: one of paceline.train.lightning's "
            f"{', '.join(one.__name__ for one in _STRATEGIES)}, as Trainer(strategy=DDPStrategy())"
        )
    environment = getattr(trainer.strategy, "cluster_environment", None)
    if environment is not None and not isinstance(environment, LightningEnvironment):
        raise RuntimeError(
            f"the trainer's cluster environment is a {_name(environment)}; wanted: paceline.train.lightning's, as "
            "Trainer(plugins=[LightningEnvironment()])"
        )
    return trainer


def _name(value):
    return f"{type(value).__module__}.{type(value).__qualname__}"
