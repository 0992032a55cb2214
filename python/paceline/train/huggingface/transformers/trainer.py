"""prepare_trainer: lets a Transformers Trainer take data that comes in batches."""

from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset


def prepare_trainer(trainer: Any) -> Any:
    """Returns the same trainer. Its ``train_dataset`` and ``eval_dataset`` may now also be plain iterables of ready
    batches: each worker's own share, which the trainer neither splits nor batches again. Other datasets stay as they
    are.

    Args:
        trainer: A ``transformers.Trainer``.

    If such a dataset has no ``len``, it needs ``TrainingArguments(max_steps=…)``.

    Example:
        >>> trainer = prepare_trainer(transformers.Trainer(model=model, args=arguments, train_dataset=my_batches))
        >>> trainer.train()
    """
    base: Any = type(trainer)

    class PreparedTrainer(base):
        def get_train_dataloader(self) -> DataLoader:
            if _gives_batches(self.train_dataset):
                return _loader(self.train_dataset)
            return super().get_train_dataloader()

        def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
            dataset = self.eval_dataset if eval_dataset is None else eval_dataset
            if isinstance(dataset, str):
                dataset = self.eval_dataset[dataset]
            return _loader(dataset) if _gives_batches(dataset) else super().get_eval_dataloader(eval_dataset)

    PreparedTrainer.__name__ = base.__name__
    trainer.__class__ = PreparedTrainer
    return trainer


def _gives_batches(dataset):
    """Whether it is none of those that give rows: torch's, those of the package datasets, lists."""
    gives_rows = isinstance(dataset, Dataset) or hasattr(dataset, "__getitem__")
    return isinstance(dataset, Iterable) and not gives_rows and type(dataset).__module__.split(".")[0] != "datasets"


def _loader(dataset):
    return DataLoader(_Batches(dataset), batch_size=1, collate_fn=_only)


class _Batches(IterableDataset):
    def __init__(self, batches):
        self._batches = batches

    def __iter__(self):
        return iter(self._batches)


def _only(batches):
    return batches[0]
